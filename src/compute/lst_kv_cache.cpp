// A KV cache: the committed tokens, the rows of the last forward, and the checks of every call's arguments.
#include "compute/lst_internal.h"

#include <algorithm>
#include <chrono>

struct lst_kv_cache {
    lst_model *m;
    int32_t n_context, n_layers, length = 0;
    std::unique_ptr<lst::KvCache> cache;
    int32_t n_rows = 0; // of the last forward_tree
    std::vector<int32_t> tokens, parents, depth;
    std::vector<float> lse;  // of the rows of the last forward_tree
    bool last_known = false; // row -1
    float last_lse = NAN;    // of it
    double total_us = NAN;   // of the last forward_tree
    double ranks_us = 0;     // of it
};

lst::Error lst::bad_logit(int32_t stage) {
    std::string where = "the output head";
    if (stage != INT32_MAX)
        where = "layer " + std::to_string(stage / 2) + (stage % 2 ? ", feed-forward" : ", attention");
    return Error(LST_E_NAN, "the model produced a logit that is not a finite number; the first bad value is in " +
                                where + ", whose weights are damaged or too large");
}

lst::Error lst::cancelled() {
    return Error(LST_E_CANCELLED, "interrupted");
}

namespace {

// Hands out the values of the forward's rows, if somebody asked for them.
void show_rows(const lst_kv_cache &s, lst_rows_seen rows) {
    if (!s.cache->hidden.take) return;
    rows.values = s.cache->hidden_rows(rows.first, rows.n_rows);
    s.cache->hidden.take(s.cache->hidden.ud, &rows);
}

void check_tokens(const lst_kv_cache &s, const int32_t *tokens, int32_t n) {
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= s.m->hp.n_vocab)
            throw lst::Error(LST_E_ARG, "token id " + std::to_string(tokens[i]) + " is outside the vocabulary");
}

void forget(lst_kv_cache &s, int32_t n) {
    if (n < s.length) s.last_known = false;
    s.cache->rewind(n);
    s.length = n;
    s.n_rows = 0;
}

void prefill(lst_kv_cache &s, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last,
             ls_progress progress, void *ud) {
    if (n < 1) throw lst::Error(LST_E_ARG, "prefill needs at least one token");
    if (n > s.n_context - s.length)
        throw lst::Error(LST_E_ARG, std::to_string(n) + " more tokens do not fit: the context is " +
                                        std::to_string(s.n_context) + " and has " + std::to_string(s.length));
    check_tokens(s, tokens, n);
    const int32_t start = s.length;
    s.n_rows = 0;
    try {
        for (int32_t done = 0; done < n;) {
            if (progress && !progress(ud, "prefill", (double)done / n))
                throw lst::Error(LST_E_CANCELLED, "prefill was cancelled");
            if (s.cache->is_stopped()) throw lst::cancelled();
            const int32_t rows = std::min(s.cache->prefill_rows(s.length), n - done);
            lst_row row;
            const bool all = done + rows == n;
            s.cache->prefill(s.length, tokens + done, rows, all ? sampling : nullptr, all ? &row : nullptr);
            show_rows(s, {0, s.length, 0, rows, tokens + done, nullptr, nullptr});
            s.length += rows;
            done += rows;
            if (!all) continue;
            s.last_known = true;
            s.last_lse = row.lse;
            if (last) *last = row;
        }
    } catch (...) {
        s.last_known = false;
        forget(s, start);
        throw;
    }
}

// Row i and its depth, checked.
void place_row(lst_kv_cache &s, int32_t i, int32_t token, int32_t parent) {
    if (i == 0 ? parent != -1 : parent < 0 || parent >= i)
        throw lst::Error(LST_E_ARG, "row " + std::to_string(i) + " has an invalid parent");
    const int32_t depth = i ? s.depth[(size_t)parent] + 1 : 0;
    if (s.length + depth >= s.n_context)
        throw lst::Error(LST_E_ARG, "a tree node is beyond the context of " + std::to_string(s.n_context) + " tokens");
    s.tokens.push_back(token);
    s.parents.push_back(parent);
    s.depth.push_back(depth);
}

// n rows behind the first `first` of the last forward.
void forward_tree(lst_kv_cache &s, int32_t first, const int32_t *tokens, const int32_t *parents, int32_t n,
                  const lst_sampling *sampling, lst_row *rows) {
    if (n < 1 || n > LST_MAX_ROWS - first) throw lst::Error(LST_E_ARG, "a tree has 1 to 256 rows");
    check_tokens(s, tokens, n);
    s.n_rows = first;
    for (auto *of : {&s.tokens, &s.parents, &s.depth}) of->resize((size_t)first);
    for (int32_t i = 0; i < n; i++) place_row(s, first + i, tokens[i], parents[i]);
    if (s.cache->is_stopped()) throw lst::cancelled();
    const auto start = std::chrono::steady_clock::now();
    const double before = s.cache->ranks_us();
    s.cache->experts_read = 0;
    if (!s.cache->keeps_rows()) s.n_rows = 0; // until it is done
    s.cache->forward(s.length, s.tokens.data(), s.parents.data(), s.depth.data(), first + n, first, sampling,
                     s.last_known, rows);
    s.lse.resize((size_t)first);
    for (int32_t i = 0; i < n; i++) {
        const int32_t p = parents[i];
        s.lse.push_back(rows[i].lse);
        rows[i].parent_lse = p >= 0 ? s.lse[(size_t)p] : s.last_known ? s.last_lse : NAN;
    }
    s.total_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    s.ranks_us = s.cache->ranks_us() - before;
    s.n_rows = first + n;
    show_rows(s, {1, s.length, first, n, tokens, parents, nullptr});
}

void check_row(const lst_kv_cache &s, int32_t row) {
    if (row == -1 && !s.last_known) throw lst::Error(LST_E_ARG, "the last committed row is not known (after a rewind)");
    if (row < -1 || row >= s.n_rows) throw lst::Error(LST_E_ARG, "no such row in the last forward");
}

void keep_path(lst_kv_cache &s, const int32_t *rows, int32_t n) {
    if (n < 1 || n > s.n_rows) throw lst::Error(LST_E_ARG, "a kept path has 1 to n rows of the last forward");
    for (int32_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= s.n_rows || s.parents[(size_t)rows[i]] != (i ? rows[i - 1] : -1))
            throw lst::Error(LST_E_ARG, "kept rows are not a path from the root");
    s.cache->keep(s.length, rows, n);
    s.last_known = true;
    s.last_lse = s.lse[(size_t)rows[n - 1]];
    s.length += n;
    s.n_rows = 0;
}

} // namespace

extern "C" {

int lst_kv_cache_new(lst_kv_cache **out, lst_model *m, int32_t n_context, int32_t n_layers) {
    *out = nullptr;
    return lst::guard([&] {
        if (n_context < 1 || n_context > 1 << 22 || n_layers < 0 || n_layers > m->hp.n_layers)
            throw lst::Error(LST_E_ARG, "lst_kv_cache_new: bad arguments");
        auto s = std::make_unique<lst_kv_cache>();
        s->m = m;
        s->n_context = n_context;
        s->n_layers = n_layers ? n_layers : m->hp.n_layers;
        s->cache = m->kv_cache(n_context, s->n_layers, m->ranks != nullptr);
        *out = s.release();
    });
}

void lst_kv_cache_free(lst_kv_cache *s) {
    delete s;
}
int32_t lst_length(const lst_kv_cache *s) {
    return s->length;
}

int lst_prefill(lst_kv_cache *s, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last,
                ls_progress progress, void *ud) {
    return lst::guard([&] { prefill(*s, tokens, n, sampling, last, progress, ud); });
}

int lst_forward_tree(lst_kv_cache *s, const int32_t *tokens, const int32_t *parents, int32_t n,
                     const lst_sampling *sampling, lst_row *rows) {
    return lst::guard([&] { forward_tree(*s, 0, tokens, parents, n, sampling, rows); });
}

int lst_grow_tree(lst_kv_cache *s, const int32_t *tokens, const int32_t *parents, int32_t n,
                  const lst_sampling *sampling, lst_row *rows) {
    return lst::guard([&] {
        if (!s->n_rows) throw lst::Error(LST_E_ARG, "there is no tree to extend");
        forward_tree(*s, s->n_rows, tokens, parents, n, sampling, rows);
    });
}

int lst_row_top(lst_kv_cache *s, int32_t row, int32_t k, int32_t *ids, float *logits) {
    return lst::guard([&] {
        if (k < 1 || k > 256 || k > s->m->hp.n_vocab) throw lst::Error(LST_E_ARG, "lst_row_top: k is out of range");
        check_row(*s, row);
        s->cache->top(row, k, ids, logits);
    });
}

int lst_row_logits(lst_kv_cache *s, int32_t row, float *logits) {
    return lst::guard([&] {
        check_row(*s, row);
        s->cache->logits(row, logits);
    });
}

int lst_keep_path(lst_kv_cache *s, const int32_t *rows, int32_t n) {
    return lst::guard([&] { keep_path(*s, rows, n); });
}

int lst_parts(lst_kv_cache *s, double *us) {
    return lst::guard([&] { s->cache->time_parts(us); });
}

int lst_hidden(lst_kv_cache *s, const int32_t *layers, int32_t n, int32_t on_device,
               void (*take)(void *ud, const lst_rows_seen *rows), void *ud) {
    return lst::guard([&] {
        if (take && (n < 1 || n > s->n_layers + 2))
            throw lst::Error(LST_E_ARG, "lst_hidden: the number of layers is out of range");
        for (int32_t i = 0; take && i < n; i++)
            if (layers[i] < 0 || layers[i] > s->n_layers + 1)
                throw lst::Error(LST_E_ARG, "lst_hidden: there is no layer " + std::to_string(layers[i]) + " of " +
                                                std::to_string(s->n_layers));
        auto &hidden = s->cache->hidden;
        hidden.take = nullptr;
        hidden.layers.assign(layers, layers + (take ? n : 0));
        hidden.on_device = on_device;
        hidden.rows = {};
        s->cache->hidden_changed();
        hidden.take = take;
        hidden.ud = ud;
    });
}

int lst_experts(lst_kv_cache *s, lst_experts_seen *out) {
    return lst::guard([&] {
        s->cache->fetch_chosen();
        const lst::Chosen &c = s->cache->chosen;
        const size_t of_row = (size_t)c.layers * (size_t)c.used;
        *out = {of_row ? (int32_t)(c.expert.size() / of_row) : 0, c.layers, c.used, c.expert.data(), c.weight.data()};
    });
}

int lst_watch(lst_kv_cache *s, bool (*stop)(void *ud), void *ud) {
    return lst::guard([&] {
        s->cache->stop = stop;
        s->cache->stop_ud = ud;
    });
}

int lst_timings(const lst_kv_cache *s, lst_timing *out) {
    return lst::guard([&] {
        out->total_us = s->total_us;
        out->device_us = s->cache->device_us();
        out->ranks_us = s->ranks_us;
        out->experts_read = s->cache->experts_read;
    });
}

int lst_copy(lst_kv_cache *s, lst_kv_cache *from, int32_t n) {
    return lst::guard([&] {
        if (s == from || s->m != from->m || s->n_layers != from->n_layers || n < 0 || n > from->length ||
            n > s->n_context)
            throw lst::Error(LST_E_ARG, "lst_copy: bad arguments");
        forget(*s, 0);
        s->last_known = false;
        s->cache->copy(*from->cache, n);
        s->length = n;
    });
}

int lst_rewind(lst_kv_cache *s, int32_t n) {
    return lst::guard([&] {
        if (n < 0 || n > s->length) throw lst::Error(LST_E_ARG, "lst_rewind: more tokens than are committed");
        forget(*s, n);
    });
}
}
