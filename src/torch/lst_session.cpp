// A timeline: the committed tokens, the rows of the last forward, and the checks of every call's arguments.
#include "torch/lst_internal.h"

#include <algorithm>
#include <chrono>

struct lst_session {
    lst_model *m;
    int32_t n_context, length = 0;
    std::unique_ptr<lst::Engine> engine;
    int32_t n_rows = 0; // of the last forward_tree
    std::vector<int32_t> parents, depth;
    bool last_known = false; // row -1
    double total_us = NAN;   // of the last forward_tree
};

lst::Error lst::bad_logit(int32_t stage) {
    std::string where = "the output head";
    if (stage != INT32_MAX)
        where = "layer " + std::to_string(stage / 2) + (stage % 2 ? ", feed-forward" : ", attention");
    return Error(LST_E_NAN, "the model produced a logit that is not a finite number; the first bad value is in " +
                                where + ": its weights are damaged or too large");
}

lst::Error lst::cancelled() {
    return Error(LST_E_CANCELLED, "interrupted");
}

namespace {

void check_tokens(const lst_session &s, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s.m->hp.n_vocab)
            throw lst::Error(LST_E_ARG, "token id " + std::to_string(tokens[i]) + " is outside the vocabulary");
}

void forget(lst_session &s, int32_t n) {
    if (n < s.length) s.last_known = false;
    s.engine->rewind(n);
    s.length = n;
    s.n_rows = 0;
}

void prefill(lst_session &s, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last,
             lst_progress progress, void *ud) {
    if (n < 1) throw lst::Error(LST_E_ARG, "prefill needs at least one token");
    if (n > s.n_context - s.length)
        throw lst::Error(LST_E_ARG, std::to_string(n) + " more tokens do not fit: the context holds " +
                                        std::to_string(s.n_context) + " and has " + std::to_string(s.length));
    check_tokens(s, tokens, n);
    const int32_t start = s.length;
    s.n_rows = 0;
    try {
        for (int32_t done = 0; done < n;) {
            if (progress && progress(ud, "prefill", (double)done / n))
                throw lst::Error(LST_E_CANCELLED, "prefill was cancelled");
            if (s.engine->is_stopped()) throw lst::cancelled();
            const int32_t rows = std::min(s.engine->prefill_rows(s.length), n - done);
            lst_row row;
            const bool all = done + rows == n;
            s.engine->prefill(s.length, tokens + done, rows, all ? sampling : nullptr, all ? &row : nullptr);
            s.length += rows;
            done += rows;
            if (!all) continue;
            s.last_known = true;
            if (last) *last = row;
        }
    } catch (...) {
        s.last_known = false;
        forget(s, start);
        throw;
    }
}

void forward_tree(lst_session &s, const int32_t *tokens, const int32_t *parents, int32_t n,
                  const lst_sampling *sampling, lst_row *rows) {
    if (n < 1 || n > LST_MAX_ROWS) throw lst::Error(LST_E_ARG, "a tree has 1 to 256 rows");
    check_tokens(s, tokens, n);
    s.n_rows = 0;
    s.parents.assign(parents, parents + n);
    s.depth.assign((size_t)n, 0);
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 ? parents[0] != -1 : parents[i] < 0 || parents[i] >= i)
            throw lst::Error(LST_E_ARG, "row " + std::to_string(i) + " has an impossible parent");
        if (i) s.depth[(size_t)i] = s.depth[(size_t)parents[i]] + 1;
        if (s.length + s.depth[(size_t)i] >= s.n_context)
            throw lst::Error(LST_E_ARG,
                             "a tree node lies beyond the context of " + std::to_string(s.n_context) + " tokens");
    }
    if (s.engine->is_stopped()) throw lst::cancelled();
    const auto start = std::chrono::steady_clock::now();
    s.engine->forward(s.length, tokens, parents, s.depth.data(), n, sampling, s.last_known, rows);
    s.total_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    s.n_rows = n;
}

void check_row(const lst_session &s, int32_t row) {
    if (row == -1 && !s.last_known) throw lst::Error(LST_E_ARG, "the last committed row is not known (after a rewind)");
    if (row < -1 || row >= s.n_rows) throw lst::Error(LST_E_ARG, "no such row in the last forward");
}

void keep_path(lst_session &s, const int32_t *rows, int32_t n) {
    if (n < 1 || n > s.n_rows) throw lst::Error(LST_E_ARG, "a kept path has 1 to n rows of the last forward");
    for (int32_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= s.n_rows || s.parents[(size_t)rows[i]] != (i ? rows[i - 1] : -1))
            throw lst::Error(LST_E_ARG, "kept rows are not a path from the root");
    s.engine->keep(s.length, rows, n);
    s.last_known = true;
    s.length += n;
    s.n_rows = 0;
}

} // namespace

extern "C" {

LST_API int lst_session_new(lst_session **out, lst_model *m, int32_t n_context) {
    if (out) *out = nullptr;
    return lst::guard([&] {
        if (!out || !m || n_context < 1 || n_context > 1 << 22)
            throw lst::Error(LST_E_ARG, "lst_session_new: bad arguments");
        auto s = std::make_unique<lst_session>();
        s->m = m;
        s->n_context = n_context;
        s->engine = m->engine(n_context);
        *out = s.release();
    });
}

LST_API void lst_session_free(lst_session *s) {
    delete s;
}
LST_API int32_t lst_length(const lst_session *s) {
    return s->length;
}

LST_API int lst_prefill(lst_session *s, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last,
                        lst_progress progress, void *ud) {
    return lst::guard([&] { prefill(*s, tokens, n, sampling, last, progress, ud); });
}

LST_API int lst_forward_tree(lst_session *s, const int32_t *tokens, const int32_t *parents, int32_t n,
                             const lst_sampling *sampling, lst_row *rows) {
    return lst::guard([&] { forward_tree(*s, tokens, parents, n, sampling, rows); });
}

LST_API int lst_row_top(lst_session *s, int32_t row, int32_t k, int32_t *ids, float *logits) {
    return lst::guard([&] {
        if (k < 1 || k > 256 || k > s->m->hp.n_vocab) throw lst::Error(LST_E_ARG, "lst_row_top: k is out of range");
        check_row(*s, row);
        s->engine->top(row, k, ids, logits);
    });
}

LST_API int lst_row_logits(lst_session *s, int32_t row, float *logits) {
    return lst::guard([&] {
        check_row(*s, row);
        s->engine->logits(row, logits);
    });
}

LST_API int lst_keep_path(lst_session *s, const int32_t *rows, int32_t n) {
    return lst::guard([&] { keep_path(*s, rows, n); });
}

LST_API int lst_parts(lst_session *s, double *us) {
    return lst::guard([&] { s->engine->time_parts(us); });
}

LST_API int lst_probe(lst_session *s, float *layers) {
    return lst::guard([&] { s->engine->probe(layers); });
}

LST_API int lst_watch(lst_session *s, int (*stop)(void *ud), void *ud) {
    return lst::guard([&] {
        s->engine->stop = stop;
        s->engine->stop_ud = ud;
    });
}

LST_API int lst_timings(const lst_session *s, lst_timing *out) {
    return lst::guard([&] {
        if (!s || !out || out->size < sizeof *out) throw lst::Error(LST_E_ARG, "lst_timings: bad arguments");
        out->total_us = s->total_us;
        out->device_us = s->engine->device_us();
    });
}

LST_API int lst_copy(lst_session *s, lst_session *from, int32_t n) {
    return lst::guard([&] {
        if (s == from || s->m != from->m || n < 0 || n > from->length || n > s->n_context)
            throw lst::Error(LST_E_ARG, "lst_copy: bad arguments");
        forget(*s, 0);
        s->last_known = false;
        s->engine->copy(*from->engine, n);
        s->length = n;
    });
}

LST_API int lst_rewind(lst_session *s, int32_t n) {
    return lst::guard([&] {
        if (n < 0 || n > s->length) throw lst::Error(LST_E_ARG, "lst_rewind: more tokens than are committed");
        forget(*s, n);
    });
}
}
