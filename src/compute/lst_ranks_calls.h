// Sends rank 0's calls to the other ranks: each KV cache of rank 0 sends its calls, and the others repeat them.
#pragma once
#include "compute/lst_ranks.h"

#include <cstring>

namespace lst {

enum Call : int32_t { BEGIN, END, PREFILL, FORWARD, KEEP, REWIND, COPY, TOP, LOGITS, CLOSE };

// A list of calls as words, written by rank 0. A call without a result is queued until the next call with a result.
struct Words {
    std::vector<int32_t> &w;
    template <class T> void value(const T &v) {
        const size_t at = w.size();
        w.resize(at + (sizeof v + 3) / 4);
        std::memcpy(&w[at], &v, sizeof v);
    }
    void list(const int32_t *v, int32_t n) {
        w.push_back(n);
        w.insert(w.end(), v, v + n);
    }
    void sampling(const lst_sampling *s) { value(s ? *s : lst_sampling{}); }
};

// Sends the queued calls.
void send_calls(lst_model &m);

// A KV cache of rank 0 over a device's C, a PartKvCache.
template <class C> struct Leading final : C {
    const int32_t id;

    template <class Model>
    Leading(Model *m, int32_t n_context, int32_t layers) : C(m, n_context, layers), id(m->calls.caches++) {
        say(BEGIN, n_context, layers);
    }
    ~Leading() override { say(END); }
    template <class... T> Words say(Call call, T... arguments) {
        Words words{this->model->calls.words};
        words.value(call);
        words.value(id);
        (words.value(arguments), ...);
        return words;
    }
    // The others repeat it later. If it fails only here (out of memory), the ranks are permanently out of sync.
    template <class F> void in_step(F &&call) {
        try {
            call();
        } catch (const Error &e) {
            if (e.code != LST_E_NAN && this->model->ranks->lost < 0) this->model->ranks->lost = 0;
            throw;
        } catch (...) {
            this->model->ranks->lost = 0;
            throw;
        }
    }
    // The others repeat it immediately.
    template <class F> void together(F &&call) {
        in_step([&] {
            send_calls(*this->model);
            call();
        });
    }
    void prefill(int32_t at, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last) override {
        Words words = say(PREFILL, (int32_t)(last != nullptr));
        words.sampling(sampling);
        words.list(tokens, n);
        together([&] { C::prefill(at, tokens, n, sampling, last); });
    }
    void forward(int32_t at, const int32_t *tokens, const int32_t *parents, const int32_t *depths, int32_t n,
                 int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) override {
        Words words = say(FORWARD, first);
        words.sampling(sampling);
        words.list(tokens + first, n - first);
        words.list(parents + first, n - first);
        together([&] { C::forward(at, tokens, parents, depths, n, first, sampling, last_known, rows); });
    }
    void keep(int32_t at, const int32_t *rows, int32_t n) override {
        in_step([&] {
            say(KEEP).list(rows, n);
            C::keep(at, rows, n);
        });
    }
    void rewind(int32_t n) override {
        in_step([&] {
            say(REWIND, n);
            C::rewind(n);
        });
    }
    void copy(KvCache &from, int32_t n) override {
        in_step([&] {
            say(COPY, static_cast<Leading &>(from).id, n);
            C::copy(from, n);
        });
    }
    void top(int32_t row, int32_t k, int32_t *ids, float *values) override {
        say(TOP, row, k);
        together([&] { C::top(row, k, ids, values); });
    }
    void logits(int32_t row, float *out) override {
        say(LOGITS, row);
        together([&] { C::logits(row, out); });
    }
};

} // namespace lst
