// A forward runs inside one parallel region: every thread walks the same code, and all meet after each phase.
#include "compute/lst_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

using namespace lst::cpu;

namespace {

// A row's key and value of head h go into the cache.
void write_kv(const CpuKvCache &s, int layer, int h, int32_t row, int32_t column) {
    const int64_t hd = s.m->hp.head_dim;
    const int32_t n_heads = ls_range_size(s.m->part().heads), n_kv = ls_range_size(s.m->part().kv_heads);
    float *key = s.qkv.data() + (int64_t)row * s.m->layers[0].qkv.n_out + (n_heads + h) * hd, *value = key + n_kv * hd;
    const lsk_cache cache = s.cache(layer, h);
    for (float *x : {key, value})
        if (cache.bf16) s.m->kernels->to_bf16(x, (int32_t)hd, nullptr);
    lsk_cache_write(&cache, column, key, value);
}

// How many queries attend() takes at once: scores of long contexts take memory.
int32_t queries_at_once(int64_t columns) {
    return (int32_t)std::clamp(((int64_t)1 << 21) / columns, (int64_t)8, (int64_t)LSK_QUERIES);
}

// Queries [from, to) of the key/value head, which `heads` read; they are numbered row by row. Heads are counted from
// this rank's first on.
void attend(CpuKvCache &s, const Block &b, int layer, int32_t kv_head, ls_range heads, int32_t from, int32_t to,
            int thread) {
    const ls_hparams &hp = s.m->hp;
    const ls_shard &part = s.m->part();
    const int64_t hd = hp.head_dim;
    const int32_t group = ls_range_size(heads), first_row = from / group;
    const int32_t *depth = s.depth + b.first, *tail_begin = s.tail_begin.data() + b.first; // of a tree's rows
    lsk_query queries[LSK_QUERIES];
    lsk_attention a;
    a.cache = s.cache(layer, kv_head);
    a.queries = queries;
    a.n_queries = to - from;
    a.n_context = s.length + (b.tree ? 0 : first_row); // of consecutive positions, what all of them see
    a.softcap = hp.attn_softcap;
    a.scratch = s.scratch.data() + (int64_t)thread * s.scratch_floats;
    const float *qkv = s.qkv.data();
    float *out = (s.m->ranks ? s.mine : s.att).data();
    for (int32_t i = from; i < to; i++) {
        const int32_t row = i / group, head = heads.from + i % group;
        const int32_t position = s.length + (b.tree ? depth[row] : row);
        lsk_query &q = queries[i - from];
        q.q = qkv + (int64_t)row * s.m->layers[0].qkv.n_out + head * hd;
        q.out = out + ((int64_t)row * ls_range_size(part.heads) + head) * hd;
        q.tail = s.tail.data() + (b.tree ? tail_begin[row] : first_row);
        q.n_tail = b.tree ? depth[row] + 1 : row + 1 - first_row;
        const lst::Floats &sinks = s.m->layers[(size_t)layer].sinks;
        q.sink = sinks ? sinks.data() + head : nullptr;
        q.first = hp.window && s.m->hp.local[layer] ? std::max(0, position + 1 - hp.window) : 0;
    }
    s.m->kernels->attention(&a);
    for (int32_t i = from; i < to && !s.m->ranks && s.m->layers[(size_t)layer].out.order.empty(); i++) {
        const int32_t row = i / group, at = (heads.from + i % group) * hp.head_dim;
        prepare(s, s.m->layers[(size_t)layer].out.arith, s.att_in, b.n, row, queries[i - from].out, at, hp.head_dim);
    }
}

// The inputs of l, x, as the columns of its rows have them.
void put_in_order(const lst::Linear &l, const float *x, float *out) {
    for (int32_t k = 0; k < l.n_in; k++) out[k] = x[l.order[(size_t)k]];
}

// Stages come in order, one after the other in all threads: the first that is noted stays.
void note_bad(CpuKvCache &s, int32_t stage, const float *x, int64_t n) {
    int32_t none = INT32_MAX;
    if (!std::all_of(x, x + n, [](float v) { return std::isfinite(v); }))
        s.first_bad.compare_exchange_strong(none, stage);
}

void add_bias(float *x, const float *bias, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += bias[i];
}

void finish_logits(const CpuModel &m, float *logits) {
    const int32_t n = ls_range_size(m.part().vocab), whole = n / LSK_TILE * LSK_TILE;
    if (m.head.bias) add_bias(logits, m.head.bias.data(), n);
    if (m.hp.logit_scale != 1)
        for (int32_t i = 0; i < n; i++) logits[i] *= m.hp.logit_scale;
    if (m.hp.logit_softcap <= 0) return;
    m.kernels->softcap(logits, whole, m.hp.logit_softcap);
    float rest[LSK_TILE] = {0};
    std::memcpy(rest, logits + whole, (size_t)(n - whole) * sizeof(float));
    m.kernels->softcap(rest, LSK_TILE, m.hp.logit_softcap);
    std::memcpy(logits + whole, rest, (size_t)(n - whole) * sizeof(float));
}

// Copies the rows' values at a layer to where somebody asked for them. They change after the next barrier at the
// earliest.
void show(const Team &team, int32_t rows, int32_t layer, const float *values) {
    CpuKvCache &s = team.s;
    const int64_t d = s.m->hp.n_embd, n = (int64_t)s.hidden.layers.size();
    for (int64_t k = 0; k < n; k++)
        if (s.hidden.layers[(size_t)k] == layer)
            team.each_of_share(
                rows, [&](int32_t i) { std::copy_n(values + i * d, d, s.hidden.rows.data() + (i * n + k) * d); });
}

void forward(const Block &b, Team team) {
    CpuKvCache &s = team.s;
    const CpuModel &m = *s.m;
    const ls_hparams &hp = m.hp;
    const ls_shard &part = m.part();
    const lsk_table &k = *m.kernels;
    const int64_t d = hp.n_embd, hd = hp.head_dim, nqkv = m.layers[0].qkv.n_out;
    const int32_t n_heads = ls_range_size(part.heads), n_kv = ls_range_size(part.kv_heads);
    const bool one = b.n == 1 && !m.ranks; // its x and xn are each thread's own
    float *own = s.own.data() + team.t * 3 * d, *x = one ? own : s.x.data(), *xn = one ? own + d : s.xn.data();
    Prepared &xn_in = one ? s.own_in[(size_t)team.t] : s.xn_in;
    float *qkv = s.qkv.data(), *tmp = s.tmp.data(), *mine = m.ranks ? s.mine.data() : nullptr;
    auto each_row = [&](auto &&body) {
        if (!one) return team.each_row(LST_PART_NORMS, b.n, body);
        body(0);
        team.clock.past(LST_PART_NORMS);
    };
    // The same of the inputs of l, which are then prepared: whole rows where l has another order of them, else `width`
    // values at a time. Without other ranks these already were where they were computed.
    auto gather_for = [&](const lst::Linear &l, ls_range ls_shard::*of, int64_t scale, float *whole, Prepared &in,
                          int32_t width, int part_of_time) {
        const bool ordered = !l.order.empty();
        auto prepare_row = [&](int32_t i) {
            float *row = whole + (int64_t)i * l.n_in, *to = ordered ? s.in_order.data() + (int64_t)i * l.n_in : row;
            if (ordered) put_in_order(l, row, to);
            for (int32_t at = 0, n = ordered ? l.n_in : width; at < l.n_in; at += n)
                prepare(s, l.arith, in, b.n, i, to + at, at, n);
        };
        if (!ordered || m.ranks) return team.gather(b.n, of, scale, whole, part_of_time, prepare_row);
        team.each_row(part_of_time, b.n, prepare_row);
        return true;
    };
    auto inputs_of = [&](const lst::Linear &l, const lst::Floats &whole) {
        return (l.order.empty() ? whole : s.in_order).data();
    };
    auto as_it_is = [](int32_t) {};
    const bool norms_all = hp.qk_norm == LS_QK_NORM_WHOLE;
    // The norm of all heads together, of which this rank has some: the columns of qkv from `at` on.
    auto norm_all = [&](const lst::Layer &l, ls_range ls_shard::*of, int64_t at, const lst::Floats &weights) {
        const ls_range own = part.*of;
        const int64_t all = (int64_t)weights.size(), here = ls_range_size(own) * hd;
        team.each_row(LST_PART_ROTATE, b.n, [&](int32_t i) {
            if (l.qkv.bias && !at) add_bias(qkv + i * nqkv, l.qkv.bias.data(), nqkv);
            std::copy_n(qkv + i * nqkv + at, here, mine + i * here);
        });
        return team.gather(b.n, of, hd, s.att.data(), LST_PART_ROTATE, [&](int32_t i) {
            float *whole = s.att.data() + i * all;
            k.rmsnorm(whole, weights.data(), (int32_t)all, hp.rms_eps, whole);
            std::copy_n(whole + own.from * hd, here, qkv + i * nqkv + at);
        });
    };
    auto position = [&](int32_t row) { return s.length + (b.tree ? s.depth[b.first + row] : row); };
    // x += tmp (not the first time), after tmp's own norm if the layer has one; then the next matmul's input: x after
    // its norm, or x itself
    int32_t stage = -1;
    const auto norm = hp.arch->layer_norm ? k.layernorm : k.rmsnorm;
    auto add_norm = [&](const lst::Linear *added, const lst::Floats &post, const lst::Floats &pre,
                        const lst::Linear &next) {
        each_row([&](int32_t i) {
            float *xi = x + i * d, *ti = tmp + i * d, *to = xn + i * d;
            if (added && one) { // all threads read it, and what follows may change it
                std::copy_n(ti, d, own + 2 * d);
                ti = own + 2 * d;
            }
            if (added) {
                if (added->bias) add_bias(ti, added->bias.data(), d);
                if (post) norm(ti, post.data(), (int32_t)d, hp.rms_eps, ti);
                if (hp.residual_scale != 1)
                    for (int64_t j = 0; j < d; j++) ti[j] *= hp.residual_scale;
                for (int64_t j = 0; j < d; j++) xi[j] += ti[j];
            }
            if (b.searches) note_bad(s, stage, xi, d);
            if (pre) norm(xi, pre.data(), (int32_t)d, hp.rms_eps, to);
            else std::copy_n(xi, d, to);
            if (!next.order.empty()) {
                float *as_it_was = s.scratch.data() + team.t * s.scratch_floats;
                std::copy_n(to, d, as_it_was);
                put_in_order(next, as_it_was, to);
            }
            prepare(s, next.arith, xn_in, b.n, i, to, 0, (int32_t)d);
        });
    };
    each_row([&](int32_t i) {
        const int32_t token = b.tokens[i];
        float *to = (mine ? mine : x) + i * d;
        const bool here = token >= part.vocab.from && token < part.vocab.to; // else another rank has it
        if (here) m.embedding_row(token - part.vocab.from, to);
        else std::fill_n(to, d, 0.0f);
        if (hp.embd_scale != 1)
            for (int64_t j = 0; j < d; j++) to[j] *= hp.embd_scale;
    });
    if (mine) {
        if (!team.exchange(b.n * d)) return;
        team.each_row(LST_PART_NORMS, b.n, [&](int32_t i) {
            size_t rank = 0;
            while (b.tokens[i] >= m.parts[rank].vocab.to) rank++;
            std::copy_n(s.theirs.data() + ((int64_t)rank * b.n + i) * d, d, x + i * d);
        });
    }
    const lst::Floats none;
    for (int layer = 0; layer < s.n_layers; layer++) {
        const lst::Layer &l = m.layers[(size_t)layer];
        if (s.stopped >= 0) return; // every thread sees what was written before the last barrier
        // moves of kept rows run beside the norm, which leaves threads idle when rows are few
        const ls_range heads_to_move = ls_share(n_kv, team.n - 1 - team.t, team.n);
        move_kv(s, layer, heads_to_move.from, heads_to_move.to);
        const lst::Layer *before = layer ? &m.layers[(size_t)layer - 1] : nullptr;
        add_norm(before ? &before->down : nullptr, before ? before->ffn_post_norm : none, l.attn_norm, l.qkv);
        if (s.hidden.take) show(team, b.n, layer, x); // after the barrier that follows x's last change
        stage++;
        team.linear(l.qkv, xn, xn_in, qkv, b.n);
        // not before this barrier: until then another thread may still look whether to begin the layer
        if (team.t == 0 && !b.searches && !m.ranks && s.stop()) s.stopped = layer + 1;
        if (norms_all && m.ranks &&
            !(norm_all(l, &ls_shard::heads, 0, l.q_norm) && norm_all(l, &ls_shard::kv_heads, n_heads * hd, l.k_norm)))
            return;
        if (norms_all && !m.ranks)
            team.each_row(LST_PART_ROTATE, b.n, [&](int32_t i) {
                float *row = qkv + i * nqkv, *keys = row + n_heads * hd;
                if (l.qkv.bias) add_bias(row, l.qkv.bias.data(), nqkv);
                k.rmsnorm(row, l.q_norm.data(), (int32_t)(n_heads * hd), hp.rms_eps, row);
                k.rmsnorm(keys, l.k_norm.data(), (int32_t)(n_kv * hd), hp.rms_eps, keys);
            });
        const float *bias = l.qkv.bias && !norms_all ? l.qkv.bias.data() : nullptr;
        const std::vector<float> &rope = s.rope[hp.local[layer] ? 1 : 0];
        const int32_t dims = hp.unrotated[layer] ? 0 : hp.rope_dims;
        const bool norm_last = hp.qk_norm == LS_QK_NORM_ROTATED;
        const auto rotate = [&](int32_t i, int32_t head, const lst::Floats &norm, float scale) {
            float *x = qkv + i * nqkv + head * hd;
            if (bias) add_bias(x, bias + head * hd, hd);
            if (hp.qk_norm == LS_QK_NORM_HEAD) k.rmsnorm(x, norm.data(), (int32_t)hd, hp.rms_eps, x);
            k.rope(x, dims, hp.rope_interleaved, rope.data() + (int64_t)position(i) * hp.rope_dims,
                   norm_last ? 1 : scale);
            if (norm_last) k.rmsnorm(x, norm.data(), (int32_t)hd, hp.rms_eps, x);
            for (int64_t j = norm_last ? 0 : dims; j < hd; j++) x[j] *= scale;
        };
        // A thread has all rows of a head, as far as it goes: keys of a tile of columns share lines of the cache.
        const int64_t key_cost = 12; // queries that take the time of a key and its value
        const ls_range turns = ls_share(b.n * (n_kv * key_cost + n_heads), team.t, team.n);
        const auto is_own = [&](int64_t at) { return at >= turns.from && at < turns.to; };
        for (int32_t i = 0; i < b.n; i++) {
            for (int32_t h = 0; h < n_kv; h++) {
                if (!is_own((h * b.n + i) * key_cost)) continue;
                rotate(i, n_heads + h, l.k_norm, 1);
                if (bias) add_bias(qkv + i * nqkv + (n_heads + n_kv + h) * hd, bias + (n_heads + n_kv + h) * hd, hd);
                write_kv(s, layer, h, i, s.length + b.first + i);
            }
            for (int32_t h = 0; h < n_heads; h++)
                if (is_own(b.n * (n_kv * key_cost + h) + i))
                    rotate(i, h, l.q_norm, hp.attn_scale * lst::temperature(hp, position(i)));
        }
        team.meet(LST_PART_ROTATE);
        const ls_range queries = ls_share((int64_t)b.n * n_heads, team.t, team.n);
        const int32_t group = hp.n_heads / hp.n_kv_heads;
        for (int32_t kv = 0, begin = 0, end; kv < n_kv; kv++, begin = end) { // queries of a key/value head
            const int32_t first = (part.kv_heads.from + kv) * group - part.heads.from;
            const ls_range heads = {std::max(first, 0), std::min(first + group, n_heads)};
            end = begin + b.n * ls_range_size(heads);
            for (int32_t i = std::max(queries.from, begin), to; i < std::min(queries.to, end); i = to) {
                to = std::min({i + s.queries, end, queries.to});
                attend(s, b, layer, kv, heads, i - begin, to - begin, team.t);
            }
        }
        team.meet(LST_PART_ATTENTION);
        if (!gather_for(l.out, &ls_shard::heads, hd, s.att.data(), s.att_in, (int32_t)hd, LST_PART_ATTENTION)) return;
        team.linear(l.out, inputs_of(l.out, s.att), s.att_in, mine ? mine : tmp, b.n);
        if (!team.gather(b.n, &ls_shard::embd, 1, tmp, LST_PART_NORMS, as_it_is)) return;
        add_norm(&l.out, l.attn_post_norm, l.ffn_norm, prepared_for(l));
        stage++;
        if (l.mixture) {
            if (run_mixture(team, *l.mixture, b.first, b.n, xn, xn_in, tmp)) continue;
            if (team.t == 0 && !m.ranks) s.stopped = layer + 1; // as if it had been cancelled
            return;
        }
        const ls_range tiles = team.multiply(l.gate_up, xn, xn_in, s.gate_up.data(), b.n, 0, b.n);
        team.clock.past(LST_PART_LINEAR);
        float *act = mine ? mine : s.act.data();
        activate_tiles(s, l.gate_up, s.gate_up.data(), m.hp.xielu[layer], b.n, tiles, act, l.down, s.act_in, b.n, 0);
        team.meet(LST_PART_ACTIVATION);
        if (!gather_for(l.down, &ls_shard::ff, 1, s.act.data(), s.act_in, 32, LST_PART_ACTIVATION)) return;
        team.linear(l.down, inputs_of(l.down, s.act), s.act_in, mine ? mine : tmp, b.n);
        if (!team.gather(b.n, &ls_shard::embd, 1, tmp, LST_PART_NORMS, as_it_is)) return;
    }
    if (s.stopped >= 0) return;
    const lst::Layer &last = m.layers[(size_t)s.n_layers - 1];
    add_norm(&last.down, last.ffn_post_norm, m.output_norm, m.head);
    if (s.hidden.take) {
        show(team, b.n, s.n_layers, x);
        show(team, b.n, s.n_layers + 1, xn);
    }
    const int32_t from = b.head_row < 0 ? 0 : b.head_row, count = b.head_row < 0 ? b.n : 1;
    float *logits = s.logits_of.data() + (int64_t)(s.first_slot + b.first) * ls_range_size(part.vocab);
    team.multiply(m.head, xn, xn_in, logits, b.n, from, count);
    team.meet(LST_PART_HEAD);
    if (hp.logit_scale == 1 && hp.logit_softcap <= 0 && !m.head.bias) return;
    team.each_row(LST_PART_HEAD, count,
                  [&](int32_t i) { finish_logits(m, logits + (int64_t)i * ls_range_size(part.vocab)); });
}

// Makes room for the logits of a block's rows behind those that stay: of the tree's earlier rows, and of the last
// committed row.
void make_logit_rows(CpuKvCache &s, const Block &b) {
    const int32_t end = s.first_slot + b.first + (b.head_row < 0 ? b.n : 1);
    const bool in_the_way = s.last_slot >= s.first_slot + b.first && s.last_slot < end; // of a tree that grows
    const int32_t there = end + 3 * b.n; // where the next rows of a growing tree do not reach it at once
    const int32_t slots = in_the_way ? there + 1 : end, had = (int32_t)(s.logits_of.size() / (size_t)s.vocab());
    if (slots > had) {
        lst::Floats logits((int64_t)slots * s.vocab());
        std::copy_n(s.logits_of.data(), (int64_t)had * s.vocab(), logits.data());
        s.logits_of = std::move(logits);
    }
    if (!in_the_way) return;
    float *first = s.logits_of.data();
    std::copy_n(first + (int64_t)s.last_slot * s.vocab(), s.vocab(), first + (int64_t)there * s.vocab());
    s.last_slot = there;
}

} // namespace

bool Team::exchange(int64_t floats) {
    if (t == 0) try {
            s.m->ranks->gather(s.mine.data(), floats * (int64_t)sizeof(float), s.theirs.data());
        } catch (...) {
            s.failure = std::current_exception();
        }
    meet(LST_PART_RANKS);
    return !s.failure;
}

void Team::multiply_tiles(const lst::Linear &l, const float *x, const Prepared &p, float *y, int32_t rows,
                          int32_t first, int32_t count, ls_range share) const {
    const lsk_table &k = *s.m->kernels;
    float *scratch = s.scratch.data() + (int64_t)t * s.scratch_floats;
    x += (int64_t)first * l.n_in;
    for (const lst::Linear::Section &section : l.sections) {
        const lsk_matrix *m = &section.packed;
        const int32_t before = section.first / LSK_TILE, n_tiles = (m->n_out + LSK_TILE - 1) / LSK_TILE;
        const int32_t from = std::max(share.from - before, 0), to = std::min(share.to - before, n_tiles);
        float *out = y + section.first;
        if (from >= to) continue;
        if (lsk_takes_integers(m->format))
            k.matmul_int(m, l.arith, p.groups.data() + first, rows, out, l.n_out, count, from, to, scratch);
        else if (takes_bf16(k, l.arith))
            k.matmul_bf16(m, p.bf16.data() + (int64_t)first * l.n_in, l.n_in, out, l.n_out, count, from, to, scratch);
        else k.matmul(m, x, l.n_in, out, l.n_out, count, from, to, scratch);
    }
}

void lst::cpu::prepare(const CpuKvCache &s, lsk_arith arith, Prepared &p, int32_t rows, int32_t row, float *x,
                       int32_t at, int32_t n) {
    if (arith == LSK_ARITH_I16 || arith == LSK_ARITH_I8 || arith == LSK_ARITH_MIXED)
        s.m->kernels->quantize(x, n, arith, p.groups.data() + (int64_t)at / 32 * rows + row, rows);
    else if (arith == LSK_ARITH_BF16) s.m->kernels->to_bf16(x, n, p.bf16.data() + (int64_t)row * p.n_in + at);
}

void lst::cpu::activate_tiles(const CpuKvCache &s, const lst::Linear &l, float *out, const float *xielu, int32_t rows,
                              ls_range tiles, float *act, const lst::Linear &down, Prepared &in, int32_t in_rows,
                              int32_t first) {
    const int32_t width = LS_SHARD_FF; // of the blocks of gate and up, and of a group
    const int32_t halves = l.paired ? 2 : 1, n_ff = l.n_out / halves;
    const ls_range columns = {tiles.from * LSK_TILE / halves, tiles.to * LSK_TILE / halves};
    for (int32_t i = 0; i < rows; i++) {
        float *row = act + (int64_t)i * n_ff;
        for (int32_t at = columns.from; at < columns.to; at += width) {
            float *gate = out + ((int64_t)i * n_ff + at) * halves, *up = l.paired ? gate + width : nullptr;
            if (l.bias) {
                add_bias(gate, l.bias.data() + at, width);
                if (up) add_bias(up, l.bias.data() + n_ff + at, width);
            }
            s.m->kernels->activate(s.m->hp.arch->activation, xielu, gate, up, width, row + at);
        }
        if (!s.m->ranks && down.order.empty())
            prepare(s, down.arith, in, in_rows, first + i, row + columns.from, columns.from, ls_range_size(columns));
    }
}

void lst::cpu::move_kv(const CpuKvCache &s, int layer, int32_t first_head, int32_t end_head) {
    for (int32_t h = first_head; h < end_head; h++) {
        const lsk_cache cache = s.cache(layer, h);
        for (const Move &m : s.moves) lsk_cache_move(&cache, m.from, m.to);
    }
}

void lst::cpu::run_block(CpuKvCache &s, const Block &b) {
    const ls_hparams &hp = s.m->hp;
    if (b.n > s.rows_cap) {
        auto rows = [&](int64_t width) { return lst::Floats(b.n * width); };
        s.x = rows(hp.n_embd), s.xn = rows(hp.n_embd), s.tmp = rows(hp.n_embd);
        s.qkv = rows(s.m->layers[0].qkv.n_out);
        s.att = rows((int64_t)hp.n_heads * hp.head_dim);
        s.gate_up = rows(2 * (int64_t)ls_range_size(s.m->part().ff)), s.act = rows(hp.n_ff);
        int64_t ordered = 0; // values of a row
        for (const lst::Layer &l : s.m->layers)
            for (const lst::Linear *of : {&l.out, &l.down})
                if (!of->order.empty()) ordered = std::max(ordered, (int64_t)of->n_in);
        if (ordered) s.in_order = rows(ordered);
        s.xn_in.resize(b.n, hp.n_embd);
        s.att_in.resize(b.n, (int64_t)hp.n_heads * hp.head_dim);
        s.act_in.resize(b.n, hp.n_ff);
        if (s.m->ranks) {
            const int64_t width =
                std::max({(int64_t)hp.n_embd, s.m->widest(&ls_shard::heads) * hp.head_dim, s.m->widest(&ls_shard::ff),
                          s.m->widest(&ls_shard::shared_ff), s.m->widest(&ls_shard::expert_ff) * hp.n_experts_used});
            s.mine = rows(width);
            s.theirs = lst::Floats(s.m->ranks->n * b.n * width);
        }
        if (hp.n_experts) resize_experts(s, b.n);
        s.rows_cap = b.n;
    }
    make_logit_rows(s, b);
    s.chosen.resize((size_t)(b.first + b.n));
    s.hidden.rows.resize((size_t)b.n * s.hidden.layers.size() * (size_t)hp.n_embd);
    const int64_t columns = (s.length + b.first + b.n + 2 * LSK_TILE) / LSK_TILE * LSK_TILE;
    s.queries = queries_at_once(columns);
    const int64_t floats =
        std::max({(int64_t)64 * std::max({hp.n_ff, hp.n_embd, hp.n_ff_expert, hp.n_ff_shared}),
                  64 * (int64_t)hp.n_heads * hp.head_dim, lsk_attention_scratch(s.queries, columns, hp.head_dim)});
    if (floats > s.scratch_floats) {
        s.scratch_floats = floats * 3 / 2 / 16 * 16;
        s.scratch = lst::Floats(s.m->most_threads * s.scratch_floats);
    }
    lst::parallel(s.m->threads, [&](int thread, int n) {
        forward(b, Team{s, thread, n, Clock(thread ? nullptr : s.parts)});
    });
    // A cancelled forward wrote only beyond the committed columns, and the next one overwrites those. But it moved kept
    // rows only in the layers that it reached: move them in the others too.
    const bool ended_early = s.stopped >= 0;
    for (int32_t layer = s.stopped; ended_early && layer < s.n_layers; layer++)
        move_kv(s, layer, 0, ls_range_size(s.m->part().kv_heads));
    s.stopped = -1;
    s.moves.clear();
    if (s.failure) std::rethrow_exception(std::exchange(s.failure, nullptr));
    if (ended_early) throw lst::cancelled();
}
