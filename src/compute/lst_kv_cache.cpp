// A KV cache's calls, and the checks of their arguments.
#include "compute/lst_ranks.h"

#include <algorithm>

lst::Error lst::bad_logit(int32_t stage) {
    std::string where = "the output head";
    if (stage != INT32_MAX)
        where = "layer " + std::to_string(stage / 2) + (stage % 2 ? ", feed-forward" : ", attention");
    return Error(LST_E_NAN, "the model produced a logit that is not a finite number; the first bad value is in " +
                                where + ", whose weights are damaged or too large");
}

static std::unique_ptr<lst::KvCache> cache_of(lst_model *m, int32_t n_context, int32_t n_layers) {
    if (n_context < 1 || n_context > 1 << 22 || n_layers < 1 || n_layers > m->hp.n_layers)
        throw lst::Error(LST_E_ARG, "lst_kv_cache_new: bad arguments");
    return m->kv_cache(n_context, n_layers, m->ranks && !m->ranks->rank);
}

lst_kv_cache::lst_kv_cache(lst_model *of, int32_t context, int32_t layers)
    : m(of), n_context(context), n_layers(layers ? layers : m->hp.n_layers), cache(cache_of(m, n_context, n_layers)) {}

// Hands out the values of the forward's rows, if somebody asked for them.
void lst_kv_cache::show_rows(lst_rows_seen rows) const {
    if (!cache->hidden.take) return;
    rows.values = cache->hidden_rows(rows.first, rows.n_rows);
    cache->hidden.take(cache->hidden.ud, &rows);
}

void lst_kv_cache::check_prompt(const int32_t *ids, int32_t n) const {
    if (n < 1) throw lst::Error(LST_E_ARG, "prefill needs at least one token");
    if (n > n_context - length)
        throw lst::Error(LST_E_ARG, std::to_string(n) + " more tokens do not fit: the context is " +
                                        std::to_string(n_context) + " and has " + std::to_string(length));
    lst::check_tokens(ids, n, m->hp.n_vocab);
}

void lst_kv_cache::read(const int32_t *ids, int32_t n, const lst_sampling *sampling, lst_row *last) {
    n_rows = 0;
    last_known = false;
    cache->prefill(length, ids, n, sampling, last);
    length += n;
    show_rows({0, length - n, 0, n, ids, nullptr, nullptr});
    if (!last) return;
    last_known = true;
    last_lse = last->lse;
}

// Row i and its depth, checked.
void lst_kv_cache::place_row(int32_t i, int32_t token, int32_t parent) {
    if (i == 0 ? parent != -1 : parent < 0 || parent >= i)
        throw lst::Error(LST_E_ARG, "row " + std::to_string(i) + " has an invalid parent");
    const int32_t at = i ? depth[(size_t)parent] + 1 : 0;
    if (length + at >= n_context)
        throw lst::Error(LST_E_ARG, "a tree node is beyond the context of " + std::to_string(n_context) + " tokens");
    tokens.push_back(token);
    parents.push_back(parent);
    depth.push_back(at);
}

void lst_kv_cache::forward(int32_t first, const int32_t *ids, const int32_t *parents_of, int32_t n,
                           const lst_sampling *sampling, lst_row *rows) {
    if (n < 1 || n > LST_MAX_ROWS - first) throw lst::Error(LST_E_ARG, "a tree has 1 to 256 rows");
    lst::check_tokens(ids, n, m->hp.n_vocab);
    n_rows = first;
    for (auto *of : {&tokens, &parents, &depth}) of->resize((size_t)first);
    for (int32_t i = 0; i < n; i++) place_row(first + i, ids[i], parents_of[i]);
    if (cache->stop()) throw lst::cancelled();
    const uint64_t start = ls_now_ns();
    const double before = m->ranks ? m->ranks->us : 0;
    cache->experts_read = 0;
    if (!cache->keeps_rows()) n_rows = 0; // until it is done
    cache->forward(length, tokens.data(), parents.data(), depth.data(), first + n, first, sampling, last_known, rows);
    lse.resize((size_t)first);
    for (int32_t i = 0; i < n; i++) {
        const int32_t p = parents_of[i];
        lse.push_back(rows[i].lse);
        rows[i].parent_lse = p >= 0 ? lse[(size_t)p] : last_known ? last_lse : NAN;
    }
    total_us = (double)(ls_now_ns() - start) / 1e3;
    ranks_us = m->ranks ? m->ranks->us - before : 0;
    n_rows = first + n;
    show_rows({1, length, first, n, ids, parents_of, nullptr});
}

void lst_kv_cache::check_row(int32_t row) const {
    if (row == -1 && !last_known) throw lst::Error(LST_E_ARG, "the last committed row is not known (after a rewind)");
    if (row < -1 || row >= n_rows) throw lst::Error(LST_E_ARG, "no such row in the last forward");
}

void lst_kv_cache::keep(const int32_t *rows, int32_t n) {
    if (n < 1 || n > n_rows) throw lst::Error(LST_E_ARG, "a kept path has 1 to n rows of the last forward");
    for (int32_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= n_rows || parents[(size_t)rows[i]] != (i ? rows[i - 1] : -1))
            throw lst::Error(LST_E_ARG, "kept rows are not a path from the root");
    cache->keep(length, rows, n);
    last_known = true;
    last_lse = lse[(size_t)rows[n - 1]];
    length += n;
    n_rows = 0;
}

void lst_kv_cache::rewind(int32_t n) {
    if (n < 0 || n > length) throw lst::Error(LST_E_ARG, "lst_rewind: more tokens than are committed");
    n_rows = 0;
    if (n == length) return;
    last_known = false;
    cache->rewind(n);
    length = n;
}

void lst_kv_cache::copy(lst_kv_cache &from, int32_t n) {
    if (this == &from || m != from.m || n_layers != from.n_layers || n < 0 || n > from.length || n > n_context)
        throw lst::Error(LST_E_ARG, "lst_copy: bad arguments");
    rewind(0);
    last_known = false;
    cache->copy(*from.cache, n);
    length = n;
}

void lst_kv_cache::top(int32_t row, int32_t k, int32_t *ids, float *logits) {
    if (k < 1 || k > lst::MOST_TOP || k > m->hp.n_vocab) throw lst::Error(LST_E_ARG, "lst_row_top: k is out of range");
    check_row(row);
    cache->top(row, k, ids, logits);
}

void lst_kv_cache::logits(int32_t row, float *out) {
    check_row(row);
    cache->logits(row, out);
}

// On an error the pieces that were read are taken back.
static void prefill(lst_kv_cache &s, const int32_t *ids, int32_t n, const lst_sampling *sampling, lst_row *last,
                    ls_progress progress, void *ud) {
    s.check_prompt(ids, n);
    const int32_t start = s.length;
    try {
        for (int32_t done = 0, rows; done < n; done += rows) {
            if (progress && !progress(ud, "prefill", (double)done / n))
                throw lst::Error(LST_E_CANCELLED, "prefill was cancelled");
            if (s.cache->stop()) throw lst::cancelled();
            rows = std::min(s.cache->prefill_rows(s.length), n - done);
            lst_row row;
            const bool all = done + rows == n;
            s.read(ids + done, rows, all ? sampling : nullptr, all ? &row : nullptr);
            if (all && last) *last = row;
        }
    } catch (...) {
        s.rewind(start);
        throw;
    }
}

extern "C" {

int lst_kv_cache_new(lst_kv_cache **out, lst_model *m, int32_t n_context, int32_t n_layers) {
    *out = nullptr;
    return lst::guard([&] { *out = new lst_kv_cache(m, n_context, n_layers); });
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
    return lst::guard([&] { s->forward(0, tokens, parents, n, sampling, rows); });
}

int lst_grow_tree(lst_kv_cache *s, const int32_t *tokens, const int32_t *parents, int32_t n,
                  const lst_sampling *sampling, lst_row *rows) {
    return lst::guard([&] {
        if (!s->n_rows) throw lst::Error(LST_E_ARG, "there is no tree to extend");
        s->forward(s->n_rows, tokens, parents, n, sampling, rows);
    });
}

int lst_row_top(lst_kv_cache *s, int32_t row, int32_t k, int32_t *ids, float *logits) {
    return lst::guard([&] { s->top(row, k, ids, logits); });
}

int lst_row_logits(lst_kv_cache *s, int32_t row, float *logits) {
    return lst::guard([&] { s->logits(row, logits); });
}

int lst_keep_path(lst_kv_cache *s, const int32_t *rows, int32_t n) {
    return lst::guard([&] { s->keep(rows, n); });
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
    return lst::guard([&] { s->cache->stop = {stop, ud}; });
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
    return lst::guard([&] { s->copy(*from, n); });
}

int lst_rewind(lst_kv_cache *s, int32_t n) {
    return lst::guard([&] { s->rewind(n); });
}
}
