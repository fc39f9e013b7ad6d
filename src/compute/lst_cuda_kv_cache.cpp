// A step on a GPU: the kernels of kernels/gpu.h as one graph, with one copy in and one copy out.
//
// KV cache: pages of LSG_PAGE columns, allocated as the context grows. An index holds the column of each position: rows
// of a tree take free columns, a kept path enters its columns into the index, and the others become free again. Nothing
// moves.
#include "compute/lst_cuda_kv_cache.h"
#include "compute/lst_ranks_calls.h"

extern "C" {
#include "base/rng.h"
}

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>

using namespace lst::device;

// LOGITSPEC_CUDA_LARGE_TILES as lsg_cut's `large`: off unless it is set, since no GPU has been measured with it.
static lsg_large large_tiles() {
    const char *set = getenv("LOGITSPEC_CUDA_LARGE_TILES");
    return !set || !*set || !strcmp(set, "0") ? LSG_LARGE_OFF
           : !strcmp(set, "all")              ? LSG_LARGE_ALWAYS
                                              : LSG_LARGE_FILLING;
}

CudaKvCache::CudaKvCache(CudaModel *model, int32_t n_context, int32_t layers_of)
    : PartKvCache(model), m(model), n_layers(layers_of), shape(model->shape(layers_of)),
      room(lsg_room_of(&shape, n_context)), large(large_tiles()) {
    // what is downloaded of rows that a graph has room for is written, though nobody reads it
    check(lsg_clear(result_at.get(), sizeof(lsg_result), stream.s), "a KV cache");
    chosen = lst::Chosen(m->layers, n_layers, m->hp.n_experts_used);
}

CudaKvCache::~CudaKvCache() {
    lsg_use(m->index);
    lsg_sync(stream.s); // memory goes before the stream does
    drop_graphs();
}

void CudaKvCache::drop_graphs() {
    for (auto &[key, recorded] : graphs) lsg_graph_free(recorded.graph);
    graphs.clear();
}

// Recorded steps write the values that were asked for when they were recorded.
void CudaKvCache::hidden_changed() {
    check(lsg_use(m->index), "choosing the GPU");
    check(lsg_sync(stream.s), "a KV cache");
    drop_graphs();
    taken = {};
    const size_t values = hidden.layers.size() * (size_t)m->hp.n_embd;
    if (values) taken = Memory<float>(LST_MAX_ROWS * values, "hidden states");
}

const float *CudaKvCache::hidden_rows(int32_t first, int32_t n) {
    const size_t values = hidden.layers.size() * (size_t)m->hp.n_embd;
    const float *at = taken.get() + (size_t)first * values;
    if (hidden.on_device) return at;
    hidden.rows.resize((size_t)n * values);
    check(lsg_download(hidden.rows.data(), at, hidden.rows.size() * sizeof(float), stream.s), "hidden states");
    check(lsg_sync(stream.s), "hidden states");
    return hidden.rows.data();
}

// Ranks may have different environments, and must agree.
int32_t CudaKvCache::prefill_rows(int32_t) const {
    return large && !m->ranks ? LSG_LARGE_PREFILL : LSG_PREFILL_ROWS;
}

void CudaKvCache::put_matmul(const lst::Linear &l, const uint16_t *in, float *out, int32_t rows, const int32_t *n_rows,
                             const char *what) {
    lsg_matrix matrix = l.device;
    matrix.cut.large = large;
    check(lsg_matmul(&matrix, in, out, rows, rows, n_rows, stream.s), what);
}

void CudaKvCache::add_page() {
    const int32_t at = (int32_t)pages.size();
    pages.emplace_back(lsg_page_values(&shape), "more context");
    page_table.get()[at] = pages.back().get();
    check(lsg_upload(pages_at.get(), page_table.get(), pages.size() * sizeof(uint16_t *), stream.s), "the KV cache");
    std::vector<int32_t> fresh((size_t)LSG_PAGE);
    for (int32_t i = 0; i < LSG_PAGE; i++) fresh[(size_t)i] = (at + 1) * LSG_PAGE - 1 - i; // the lowest one comes first
    free_columns.insert(free_columns.begin(), fresh.begin(), fresh.end());
}

void CudaKvCache::take_columns(int32_t n) {
    while (free_columns.size() < (size_t)n) add_page();
    for (int32_t i = 0; i < n; i++) {
        row_columns.push_back(free_columns.back());
        free_columns.pop_back();
    }
}

// Pages are copied as they are, so the columns of the positions stay the same.
void CudaKvCache::copy(lst::KvCache &other, int32_t n) {
    const CudaKvCache &from = static_cast<const CudaKvCache &>(other);
    check(lsg_use(m->index), "choosing the GPU");
    columns.assign(from.columns.begin(), from.columns.begin() + n);
    row_columns.clear();
    keep_row = list_row = -1;
    list.clear();
    n_new = 0;
    new_from = n;
    const int32_t end = n ? *std::max_element(columns.begin(), columns.end()) + 1 : 0;
    while (pages.size() * LSG_PAGE < (size_t)end) add_page();
    for (size_t i = 0; i * LSG_PAGE < (size_t)end; i++)
        check(lsg_copy(pages[i].get(), from.pages[i].get(), lsg_page_values(&shape) * sizeof(uint16_t), stream.s),
              "copying the KV cache");
    std::vector<bool> taken(pages.size() * LSG_PAGE);
    for (int32_t column : columns) taken[(size_t)column] = true;
    free_columns.clear();
    for (size_t i = taken.size(); i-- > 0;)
        if (!taken[i]) free_columns.push_back((int32_t)i); // the lowest one comes last: it is taken first
    if (n) check(lsg_upload(columns_at.get(), columns.data(), (size_t)n * sizeof(int32_t), stream.s), "the KV cache");
    check(lsg_sync(stream.s), "copying the KV cache");
}

lsg_buffers CudaKvCache::buffers(int32_t rows) const {
    const ls_hparams &hp = m->hp;
    lsg_buffers b{};
    b.step = step_at.get();
    b.result = result_at.get();
    b.rows = rows;
    b.n_embd = hp.n_embd;
    b.n_ff = ls_range_size(held.ff);
    b.n_heads = ls_range_size(held.heads);
    b.n_kv_heads = ls_range_size(held.kv_heads);
    b.head_dim = hp.head_dim;
    b.n_vocab = vocab();
    b.vocab_from = held.vocab.from;
    b.n_layers = n_layers;
    b.columns = columns_at.get();
    b.ancestors = ancestors.get();
    b.pages = pages_at.get();
    b.x = x.get();
    b.xn = xn.get();
    b.q = q.get();
    b.y = y.get();
    b.part_o = part_o.get();
    b.part_ml = part_ml.get();
    b.gpu = shape.gpu;
    b.large = large;
    b.parts = room.parts;
    b.turns = turns.get();
    b.logits = logits_at.get();
    b.last = last.get();
    b.keys = keys.get();
    b.slices = slices.get();
    return b;
}

void CudaKvCache::put_head(const lsg_buffers &b, bool sampled) {
    const bool one = step->head_row >= 0; // of a prompt only the last row's logits are wanted
    const int32_t rows = one ? 1 : b.rows;
    const uint16_t *in = b.xn + (one ? (size_t)step->head_row * (size_t)m->hp.n_embd : 0);
    // logits stand where the matmul writes its first chunk of inputs; others follow it
    put_matmul(m->head, in, b.logits, rows, one ? nullptr : &b.step->n_rows, "the output head");
    const lsg_head head{
        rows, m->head.device.cut.chunks, b.logits, m->head_bias, m->hp.logit_scale, m->hp.logit_softcap, sampled};
    check(lsg_head_rows(&b, &head, stream.s), "the output head");
}

template <class F> void CudaKvCache::put(int32_t rows, int32_t chunks, bool head, bool sampled, F &&watch) {
    const ls_hparams &hp = m->hp;
    const lsg_buffers b = buffers(rows);
    const lsg_stream s = stream.s;
    auto matmul = [&](const lst::Linear &l) { put_matmul(l, b.xn, b.y, rows, &b.step->n_rows, "a matmul"); };
    // Adds what l, whose sums are in y, computed; nullptr: nothing yet.
    auto add_norm = [&](const lst::Linear *l, const float *bias, const float *post, const float *norm) {
        int32_t n = l ? l->device.cut.chunks : 0;
        if (l && m->ranks) {
            check(lsg_sum(&b, n, l->n_out, sums.get(), s), "a sum");
            put_gather(of_embd, sums.get(), y.get(), rows);
            n = 1;
        }
        const lsg_add a{n, bias, post, norm, hp.residual_scale, hp.rms_eps, hp.arch->layer_norm};
        check(lsg_add_norm(&b, &a, s), "a norm");
    };
    // What the feed-forward part of a layer computed, and the norm after it.
    const auto add_layer = [&](int32_t i, const float *norm) {
        const lst::Layer &l = m->layers[(size_t)i];
        const Vectors &v = m->vectors[(size_t)i];
        if (!l.mixture) return add_norm(&l.down, v.down_bias, v.ffn_post_norm, norm);
        lsg_buffers of_experts = b;
        of_experts.y = expert_rows.get();
        const lsg_add a{1, nullptr, v.ffn_post_norm, norm, hp.residual_scale, hp.rms_eps, hp.arch->layer_norm};
        check(lsg_add_norm(&of_experts, &a, s), "a norm");
    };
    // The rows' values where they are asked for; layer: as in lst_hidden.
    const auto take = [&](int32_t layer) {
        const auto asked = (int64_t)hidden.layers.size(), d = (int64_t)hp.n_embd;
        for (int64_t i = 0; i < asked && taken.get(); i++)
            if (hidden.layers[(size_t)i] == layer)
                check(lsg_take_rows(&b, layer > n_layers, taken.get() + i * d, asked * d, s), "hidden states");
    };
    check(lsg_upload(step_at.get(), step.get(), sizeof *step.get(), s), "a step");
    const lsg_rotation turn{hp.rope_dims,
                            {m->rope_freq_at[0], m->any_local ? m->rope_freq_at[1] : nullptr},
                            {hp.rope_magnitude[0], hp.rope_magnitude[1]}};
    check(lsg_begin(&b, &turn, s), "a step");
    check(lsg_embed(&b, &m->embedding_rows(), hp.embd_scale, s), "the embedding");
    if (m->ranks) put_gather(of_tokens, x.get(), x.get(), rows);
    for (int32_t i = 0; i < n_layers; i++) {
        const lst::Layer &l = m->layers[(size_t)i];
        const Vectors &v = m->vectors[(size_t)i];
        if (!i) add_norm(nullptr, nullptr, nullptr, v.attn_norm);
        else add_layer(i - 1, v.attn_norm);
        take(i);
        watch(2 * i - 1);
        matmul(l.qkv);
        const int kind = hp.local[i] ? 1 : 0;
        const lsg_rope rope{i,
                            l.qkv.device.cut.chunks,
                            hp.qk_norm,
                            v.qkv_bias,
                            v.q_norm,
                            v.k_norm,
                            hp.rms_eps,
                            hp.attn_scale,
                            hp.rope_dims,
                            hp.rope_interleaved,
                            kind,
                            hp.unrotated[i],
                            hp.attn_temperature,
                            hp.attn_temperature_length};
        check(lsg_rope_kv(&b, &rope, s), "rotary embedding");
        const lsg_attend attend{i, chunks, kind ? hp.window : 0, hp.attn_softcap, v.sinks};
        check(lsg_attention(&b, &attend, s), "attention");
        // a norm of all heads has made every rank compute them all (lsg_held); else one may, and the others not
        if (m->ranks && hp.qk_norm != LS_QK_NORM_WHOLE) put_gather(of_heads, b.xn, b.xn, rows);
        matmul(l.out);
        add_norm(&l.out, v.out_bias, v.attn_post_norm, v.ffn_norm);
        watch(2 * i);
        if (l.mixture) {
            put_mixture(b, *l.mixture);
            continue;
        }
        matmul(l.gate_up);
        lsg_gating gating{l.gate_up.device.cut.chunks, hp.arch->activation, hp.arch->ungated, v.gate_up_bias, {}};
        std::copy_n(hp.xielu[i], 4, gating.xielu);
        check(lsg_gate(&b, &gating, s), "the feed-forward part");
        if (m->ranks) put_gather(of_ff, b.xn, b.xn, rows);
        matmul(l.down);
    }
    add_layer(n_layers - 1, m->output_norm_at);
    take(n_layers);
    take(n_layers + 1);
    watch(2 * n_layers - 1);
    if (!head) return;
    put_head(b, sampled);
    const size_t bytes = offsetof(lsg_result, row) + (size_t)(step->head_row >= 0 ? 1 : rows) * sizeof(lst_row);
    check(lsg_download(result.get(), result_at.get(), bytes, s), "a step's results");
}

lsg_graph CudaKvCache::graph_of(int32_t rows, int32_t chunks, bool sampled) {
    const std::tuple<int32_t, int32_t, bool> key(rows, chunks, sampled);
    if (const auto at = graphs.find(key); at != graphs.end()) {
        at->second.used = ++n_used;
        return at->second.graph;
    }
    if (graphs.size() >= LSG_GRAPHS) {
        const auto oldest = std::min_element(
            graphs.begin(), graphs.end(), [](const auto &a, const auto &b) { return a.second.used < b.second.used; });
        lsg_graph_free(oldest->second.graph);
        graphs.erase(oldest);
    }
    lsg_graph graph = nullptr;
    check(lsg_capture_begin(stream.s), "recording a step");
    try {
        put(rows, chunks, true, sampled, [](int32_t) {});
    } catch (...) {
        lsg_capture_end(stream.s, &graph);
        lsg_graph_free(graph);
        throw;
    }
    check(lsg_capture_end(stream.s, &graph), "recording a step");
    graphs[key] = {graph, ++n_used};
    return graph;
}

// A forward of n rows, whose columns are taken; with head, result is there afterwards.
void CudaKvCache::run(int32_t length, const int32_t *tokens, const int32_t *parents, const int32_t *depth, int32_t n,
                      const lst_sampling *sampling, bool last_known, int32_t head_row, bool head) {
    check(lsg_use(m->index), "choosing the GPU");
    const int32_t rows = lsg_bucket_rows(n), chunks = lsg_bucket_chunks(length);
    free_columns.insert(free_columns.end(), row_columns.rbegin(), row_columns.rend()); // of the forward before
    free_columns.erase(std::remove(free_columns.begin(), free_columns.end(), -1), free_columns.end());
    row_columns.clear();
    take_columns(n);
    lsg_step &s = *step.get();
    s.n_rows = n;
    s.length = length;
    s.keep_row = keep_row;
    s.last_known = last_known;
    s.last_lse = last_lse;
    s.n_new = n_new;
    s.new_from = new_from;
    std::copy_n(columns.begin() + new_from, n_new, s.new_column);
    s.head_row = head_row;
    s.sampled = !m->ranks && sampling && sampling->temperature > 0;
    s.temperature = s.sampled ? std::max(sampling->temperature, LS_LEAST_TEMPERATURE) : 1;
    s.top_k = s.sampled ? sampling->top_k : 0;
    s.top_p = s.sampled ? sampling->top_p : 1;
    for (int32_t i = 0; i < n; i++) {
        s.token[i] = tokens[i];
        s.parent[i] = parents ? parents[i] : i - 1;
        s.depth[i] = depth ? depth[i] : i;
        s.column[i] = row_columns[(size_t)i];
        s.uniform[i] = s.sampled ? ls_uniform_at(sampling->seed, (uint64_t)(length + s.depth[i] + 1)) : 0;
    }
    lsg_graph graph = nullptr;
    const bool plain = head && head_row < 0;
    if (plain) graph = graph_of(rows, chunks, s.sampled);
    const Range range(plain ? "forward" : "prefill");
    try {
        check(lsg_event_record(watch.from, stream.s), "a step");
        if (plain) check(lsg_graph_launch(graph, stream.s), "a step");
        else put(rows, chunks, head, s.sampled, [](int32_t) {});
        check(lsg_event_record(watch.to, stream.s), "a step");
    } catch (...) {
        lsg_sync(stream.s); // the copy still reads the step
        throw;
    }
    check(lsg_sync(stream.s), "a step");
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
    check(lsg_event_ms(watch.from, watch.to, &ms), "a step");
    n_new = 0;
    not_fetched = n;
    keep_row = -1;
    list_row = head && !m->ranks ? result->last_row : -1;
    if (head && m->ranks) merge(head_row < 0 ? n : 1, sampling);
    else if (head && result->bad) find_bad(rows, chunks);
}

void CudaKvCache::find_bad(int32_t rows, int32_t chunks) {
    const size_t d = (size_t)m->hp.n_embd, n = (size_t)step->n_rows * d;
    std::vector<std::vector<float>> seen((size_t)n_layers * 2 + 1, std::vector<float>(n));
    step->keep_row = -1; // done by the run that failed
    step->n_new = 0;
    put(rows, chunks, false, false, [&](int32_t stage) {
        check(lsg_download(seen[(size_t)(stage + 1)].data(), x.get(), n * sizeof(float), stream.s), "a layer's values");
    });
    check(lsg_sync(stream.s), "a step");
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
    for (size_t i = 0; i < seen.size(); i++)
        for (float value : seen[i])
            if (!std::isfinite(value)) throw lst::bad_logit(std::max(0, (int32_t)i - 1));
    throw lst::bad_logit(INT32_MAX);
}

void CudaKvCache::save_list(int32_t row) {
    list.clear();
    if (row != list_row) return; // asked for by itself when it is wanted
    for (int32_t i = 0; i < LSG_TOP; i++) list.push_back({result->top_id[i], result->top_logit[i]});
}

void CudaKvCache::prefill(int32_t length, const int32_t *tokens, int32_t n, const lst_sampling *sampling,
                          lst_row *out) {
    run(length, tokens, nullptr, nullptr, n, sampling, false, n - 1, out != nullptr);
    columns.resize((size_t)length);
    new_from = length;
    n_new = n;
    for (int32_t i = 0; i < n; i++) columns.push_back(std::exchange(row_columns[(size_t)i], -1));
    if (!out) return;
    *out = result->row[0];
    out->parent_logit = out->parent_lse = NAN;
    keep_row = 0;
    last_lse = out->lse;
    save_list(0);
    // Decoding begins: steps that it is likely to take are recorded now, not while somebody times a step.
    step->head_row = -1; // a recorded step has the logits of all rows
    try {
        for (const int32_t rows : {1, 8, 16, 32, 64}) graph_of(rows, lsg_bucket_chunks(length + n), step->sampled);
    } catch (const lst::Error &) { // the prompt was read; a step that cannot be recorded says so when it is asked for
    }
}

// A tree that grows is computed again: on a GPU its rows cost almost nothing, and its columns are taken anew.
void CudaKvCache::forward(int32_t length, const int32_t *tokens, const int32_t *parents, const int32_t *depth,
                          int32_t n, int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) {
    run(length, tokens, parents, depth, n, sampling, last_known, -1, true);
    std::copy_n(result->row + first, n - first, rows);
}

void CudaKvCache::keep(int32_t length, const int32_t *rows, int32_t n) {
    columns.resize((size_t)length);
    new_from = length;
    n_new = n;
    for (int32_t i = 0; i < n; i++) columns.push_back(std::exchange(row_columns[(size_t)rows[i]], -1));
    keep_row = rows[n - 1];
    last_lse = result->row[keep_row].lse;
    save_list(keep_row);
}

void CudaKvCache::rewind(int32_t n) {
    for (size_t i = columns.size(); i > (size_t)n; i--) free_columns.push_back(columns[i - 1]);
    if (columns.size() > (size_t)n) columns.resize((size_t)n);
    n_new = std::clamp(n - new_from, 0, n_new);
    keep_row = -1;
    list.clear();
}

void CudaKvCache::part_top(int32_t row, int32_t k, int32_t *ids, float *values) {
    if (row < 0 && !list.empty()) {
        for (int32_t i = 0; i < k; i++) ids[i] = list[(size_t)i].first, values[i] = list[(size_t)i].second;
        return;
    }
    check(lsg_use(m->index), "choosing the GPU");
    check(lsg_top(row_at(row), vocab(), nullptr, keys.get(), top_at.get(), (float *)top_at.get() + LSG_TOP, stream.s),
          "the best tokens");
    check(lsg_download(ids, top_at.get(), (size_t)k * sizeof *ids, stream.s), "the best tokens");
    check(lsg_download(values, top_at.get() + LSG_TOP, (size_t)k * sizeof *values, stream.s), "the best tokens");
    check(lsg_sync(stream.s), "the best tokens");
}

void CudaKvCache::part_logits(int32_t first, int32_t n, float *out) {
    check(lsg_use(m->index), "choosing the GPU");
    check(lsg_download(out, row_at(first), (size_t)n * (size_t)vocab() * sizeof *out, stream.s), "logits");
    check(lsg_sync(stream.s), "logits");
}

std::unique_ptr<lst::KvCache> CudaModel::kv_cache(int32_t n_context, int32_t n_layers, bool leads) {
    check(lsg_use(index), "choosing the GPU");
    if (leads) return std::make_unique<lst::Leading<CudaKvCache>>(this, n_context, n_layers);
    return std::make_unique<CudaKvCache>(this, n_context, n_layers);
}
