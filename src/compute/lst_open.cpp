// Opens a model: checks and converts its tensors and hands them to the device's model, with progress.
#include "compute/lst_ranks.h"
#include "compute/lst_tensors.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace {

struct Loader : lst::Tensors {
    lst_model &m;
    int keep = -1;
    bool ordered = false; // the matrix may have its inputs in an order of its own
    uint64_t next_told = 0;
    std::atomic<uint64_t> done{0};

    Loader(lst_model &model, const lst_tensor *t, int32_t n, const lst_open_options &o)
        : Tensors("model", t, n, o), m(model) {}

    // In the thread that loads. LST_OK, or LST_E_CANCELLED. Some 200 times: each may be an event of the screen.
    int progress() {
        const uint64_t mb = 1000000, so_far = std::min<uint64_t>(done, total);
        if (!opt.progress || so_far < next_told) return LST_OK;
        next_told = so_far + total / 200;
        char stage[64];
        snprintf(stage, sizeof stage, "loading weights, %llu of %llu MB", (unsigned long long)(so_far / mb),
                 (unsigned long long)(total / mb));
        return opt.progress(opt.progress_ud, stage, total ? (double)so_far / (double)total : 1) ? LST_OK
                                                                                                : LST_E_CANCELLED;
    }

    // Reads rows [rows.from, rows.to) of a tensor and calls take(raw, row, n) for each tile of them; row counts from
    // rows.from. All threads read and take pieces of several tiles at once, so that reading costs no time of its own,
    // and a piece is still in the thread's cache when it is taken.
    template <class F> void each_tile(const lst_tensor &t, ls_range rows, F &&take) {
        enum { PIECE = 256 << 10 };
        const int64_t n = ls_range_size(rows), row_bytes = (int64_t)(t.n_bytes / (uint64_t)t.n_out),
                      step = std::max<int64_t>(PIECE / row_bytes / LSK_TILE, 1) * LSK_TILE,
                      pieces = (n + step - 1) / step;
        const auto room = (int64_t)std::min<int64_t>(step, n) * row_bytes;
        std::vector<lst::Array<uint8_t>> piece;
        for (int i = 0; i < m.threads; i++) piece.emplace_back(room);
        std::atomic<int64_t> next{0};
        std::atomic<int> failed{LST_OK};
        lst::parallel(m.threads, [&](int thread, int) {
            uint8_t *raw = piece[(size_t)thread].data();
            for (int64_t i; !failed && (i = next++) < pieces;) {
                const int64_t row = i * step, rows_here = std::min(step, n - row);
                int code = read(t, rows.from + row, rows_here, raw);
                try {
                    for (int64_t at = 0; at < rows_here && !code; at += LSK_TILE)
                        take(raw + at * row_bytes, row + at, std::min<int64_t>(LSK_TILE, rows_here - at));
                } catch (const std::bad_alloc &) {
                    code = LST_E_MEMORY;
                }
                done += (uint64_t)(rows_here * row_bytes) * m.parts.size();
                if (!code && !thread) code = progress();
                if (code) failed = code;
            }
        });
        must(failed ? failed.load() : progress(), t);
    }

    lst::Floats vector(const std::string &name, int64_t n, float offset = 0) {
        const lst_tensor &t = find(name, n, 1);
        lst::Floats v(n);
        std::vector<uint8_t> raw(t.n_bytes);
        must(read(t, 0, 1, raw.data()), t);
        lsk_dequant_row(t.type, raw.data(), n, v.data());
        for (int64_t i = 0; i < n && offset != 0; i++) v.data()[i] += offset;
        return v;
    }

    lst::Floats norm(const std::string &name, int64_t n) {
        if (!has(name + ".weight")) return {};
        if (!m.hp.arch->layer_norm) return vector(name + ".weight", n, m.hp.norm_offset);
        lst::Floats both(2 * n);
        std::copy_n(vector(name + ".weight", n, m.hp.norm_offset).data(), n, both.data());
        if (has(name + ".bias")) std::copy_n(vector(name + ".bias", n).data(), n, both.data() + n);
        else std::fill_n(both.data() + n, n, 0.0f);
        return both;
    }

    // The type that a matrix of the file is kept in.
    int kept_type(int type) const { return keep < 0 ? type : keep; }
    int kept_type(const lst_tensor &t) const {
        return t.order && keep < 0 && m.type_in_order() >= 0 ? m.type_in_order() : kept_type(t.type);
    }

    // Q4_0 and Q4_1 share a packed form; other types do not mix.
    static bool packs_alike(int a, int b) {
        const auto form = [](int type) { return type == LS_GGML_Q4_0 ? (int)LS_GGML_Q4_1 : type; };
        return form(a) == form(b);
    }

    // Rows of a tensor of n.
    struct Rows {
        std::string name;
        int64_t n;
        ls_range of;
    };
    enum class Bias { of_rows, whole, apart }; // apart: whoever calls reads it

    // Rows of several tensors of one input stacked along their outputs, with their biases.
    void linear(lst::Linear &l, lst::Care care, std::initializer_list<Rows> parts, int64_t n_in, int64_t of_all,
                Bias bias = Bias::of_rows) {
        std::vector<std::pair<const lst_tensor *, ls_range>> ts;
        std::vector<lst::Stacked> stacked;
        int64_t n_out = 0, n_bias = 0;
        bool whole_tiles = true, biased = false;
        for (const Rows &part : parts) {
            const lst_tensor *t = &find(part.name + ".weight", n_in, part.n);
            const int64_t n = ls_range_size(part.of);
            ts.emplace_back(t, part.of);
            biased |= bias != Bias::apart && has(part.name + ".bias");
            n_bias += bias == Bias::whole ? part.n : n;
            if (!stacked.empty() && packs_alike(stacked.back().type, kept_type(*t))) stacked.back().n_out += n;
            else if (n) {
                whole_tiles &= n_out % LSK_TILE == 0;
                stacked.push_back({kept_type(*t), n});
            }
            n_out += n;
        }
        if (stacked.empty()) stacked.push_back({kept_type(*ts[0].first), 0}); // which cannot be kept
        bool all_as_they_are = false;
        if (care == lst::Care::exact) stacked = {{LS_GGML_F32, n_out}};
        else if (stacked.size() > 1 && !(m.mixes() && whole_tiles && !l.paired)) {
            const int common = m.common_type(stacked);
            all_as_they_are = common >= 0 && keep < 0;
            stacked = {{all_as_they_are ? common : LS_GGML_F32, n_out}};
        }
        l.n_in = (int32_t)n_in;
        l.n_out = (int32_t)n_out;
        l.of_all = (int32_t)of_all;
        const int32_t *order = ts[0].first->order;
        for (const auto &of : ts)
            if (!order != !of.first->order || (order && !std::equal(order, order + n_in, of.first->order)) ||
                (order && !ordered))
                throw lst::Error(LST_E_ARG, std::string("tensor '") + of.first->name +
                                                "' has its inputs in an order that is not supported here");
        if (order && m.type_in_order() < 0) l.order.assign(order, order + n_in);
        pack(l, care, ts, stacked, all_as_they_are);
        if (biased) {
            l.bias = lst::Floats(n_bias);
            float *to = l.bias.data();
            for (const Rows &part : parts) {
                const ls_range of = bias == Bias::whole ? ls_range{0, (int32_t)part.n} : part.of;
                std::fill_n(to, ls_range_size(of), 0.0f);
                if (has(part.name + ".bias"))
                    std::copy_n(vector(part.name + ".bias", part.n).data() + of.from, ls_range_size(of), to);
                to += ls_range_size(of);
            }
        }
    }

    // Expert e of E: its rows of the tensors of all of them, or its own tensors (older files, folders).
    void expert(lst::Expert &x, const std::string &p, int32_t e, const ls_shard &own) {
        const int64_t E = m.hp.n_experts, d = m.hp.n_embd, ff = m.hp.n_ff_expert;
        const ls_range wide = own.expert_ff;
        const bool stacked = has(p + "ffn_down_exps.weight");
        // Rows `of` from the first on of the expert's `each`.
        const auto rows = [&](const char *kind, int64_t each, int64_t first, ls_range of) {
            if (!stacked) return Rows{p + kind + "." + std::to_string(e), each, of};
            const auto from = (int32_t)(e * each + first);
            return Rows{p + kind + "_exps", E * each, {from + of.from, from + of.to}};
        };
        x.gate_up.paired = true;
        if (has(p + "ffn_gate_up_exps.weight"))
            linear(x.gate_up, lst::Care::usual,
                   {rows("ffn_gate_up", 2 * ff, 0, wide), rows("ffn_gate_up", 2 * ff, ff, wide)}, d, 2 * ff,
                   Bias::apart);
        else
            linear(x.gate_up, lst::Care::usual, {rows("ffn_gate", ff, 0, wide), rows("ffn_up", ff, 0, wide)}, d, 2 * ff,
                   stacked ? Bias::apart : Bias::of_rows);
        linear(x.down, lst::Care::more, {rows("ffn_down", d, 0, own.embd)}, ff, d, Bias::apart);
        if (!has(p + "ffn_down_exps.bias") && !has(p + "ffn_gate_exps.bias") && !has(p + "ffn_up_exps.bias")) return;
        std::vector<float> inner, outer;
        expert_bias(inner, p + "ffn_gate_exps.bias", e, ff, wide);
        expert_bias(inner, p + "ffn_up_exps.bias", e, ff, wide);
        expert_bias(outer, p + "ffn_down_exps.bias", e, d, own.embd);
        for (auto [l, bias] : {std::pair{&x.gate_up, &inner}, {&x.down, &outer}}) {
            l->bias = lst::Floats((int64_t)bias->size());
            std::copy(bias->begin(), bias->end(), l->bias.data());
        }
    }

    // Row e of the experts' biases: those of `of`, put behind what `to` has.
    void expert_bias(std::vector<float> &to, const std::string &name, int32_t e, int64_t width, ls_range of) {
        const lst_tensor &t = find(name, width, m.hp.n_experts);
        std::vector<uint8_t> raw(t.n_bytes / (size_t)t.n_out);
        std::vector<float> row((size_t)width);
        must(read(t, e, 1, raw.data()), t);
        lsk_dequant_row(t.type, raw.data(), width, row.data());
        to.insert(to.end(), row.begin() + of.from, row.begin() + of.to);
    }

    // Every rank has the whole router.
    void mixture(lst::Layer &l, const std::string &p, const ls_shard &own) {
        const ls_hparams &hp = m.hp;
        const int64_t d = hp.n_embd, E = hp.n_experts;
        l.mixture = std::make_unique<lst::Mixture>();
        lst::Mixture &x = *l.mixture;
        x.index = m.n_mixtures;
        const std::string inp = p + "ffn_gate_inp", of_shared = inp + "_shexp";
        if (hp.n_ff_shared && has(of_shared + ".weight"))
            linear(x.router, lst::Care::exact, {{inp, E, {0, (int32_t)E}}, {of_shared, 1, {0, 1}}}, d, E + 1);
        else linear(x.router, lst::Care::exact, {{inp, E, {0, (int32_t)E}}}, d, E);
        if (has(p + "exp_probs_b.bias")) x.choice_bias = vector(p + "exp_probs_b.bias", E);
        if (hp.n_ff_shared) {
            const auto ff = (int64_t)hp.n_ff_shared;
            x.shared.gate_up.paired = true;
            linear(x.shared.gate_up, lst::Care::usual,
                   {{p + "ffn_gate_shexp", ff, own.shared_ff}, {p + "ffn_up_shexp", ff, own.shared_ff}}, d, 2 * ff);
            linear(x.shared.down, lst::Care::more, {{p + "ffn_down_shexp", d, own.embd}}, ff, d);
        }
        x.experts.resize((size_t)E);
        const uint64_t before = m.weight_bytes;
        for (int32_t e = 0; e < E; e++) {
            m.expert_begin();
            expert(x.experts[(size_t)e], p, e, own);
            m.expert_end(x.experts[(size_t)e], (int32_t)E);
            if (x.experts[(size_t)e].gate_up.arith != x.experts[0].gate_up.arith ||
                x.experts[(size_t)e].down.arith != x.experts[0].down.arith) // inputs are prepared for all of them
                throw lst::Error(LST_E_ARG, "the experts of '" + p +
                                                "' have weights of 2 to 8 bits and others: use --weights q8 or bf16");
        }
        m.expert_bytes += m.weight_bytes - before;
        m.n_mixtures++;
    }

    void pack(lst::Linear &l, lst::Care care, const std::vector<std::pair<const lst_tensor *, ls_range>> &ts,
              const std::vector<lst::Stacked> &stacked, bool all_as_they_are) {
        if (!m.matrix_begin(l, stacked, care))
            throw lst::Error(LST_E_ARG, std::string("tensor '") + ts[0].first->name + "' cannot be packed");
        int64_t row = 0, end = 0; // end: of a stack
        size_t next = 0;
        int type = 0;
        for (auto [t, rows] : ts) {
            while (row >= end && next < stacked.size()) {
                type = stacked[next].type;
                end += stacked[next++].n_out;
            }
            const int64_t n_in = t->n_in, first = row;
            const int from_type = t->type, to_type = type;
            const size_t in_bytes = lsk_row_bytes(from_type, n_in), out_bytes = lsk_row_bytes(type, n_in);
            const int32_t *order = l.order.empty() ? t->order : nullptr;
            const bool as_is = !order && (all_as_they_are || packs_alike(from_type, type));
            each_tile(*t, rows, [&](const uint8_t *raw, int64_t at, int64_t n) {
                if (as_is) return m.matrix_rows(l, first + at, from_type, raw, n);
                std::vector<float> plain((size_t)n_in), columns(order ? (size_t)n_in : 0);
                std::vector<uint8_t> other(out_bytes);
                for (int64_t r = 0; r < n; r++) {
                    lsk_dequant_row(from_type, raw + (size_t)r * in_bytes, n_in, plain.data());
                    for (int64_t k = 0; k < n_in && order; k++) columns[(size_t)order[k]] = plain[(size_t)k];
                    if (order) plain.swap(columns);
                    lsk_quantize_row(to_type, plain.data(), n_in, other.data());
                    m.matrix_rows(l, first + at + r, to_type, other.data(), 1);
                }
            });
            row += ls_range_size(rows);
        }
        m.matrix_end(l);
    }
};

int choose_keeping(lst_model &m, const char *weights) {
    const int type = ls_ggml_kept(weights);
    if (type == -2)
        throw lst::Error(LST_E_ARG,
                         std::string("weights '") + weights + "' are unknown (auto, f32, f16, bf16, q8, q4)");
    m.weights = weights;
    return type;
}

void open_model(lst_model &m, const ls_hparams &hp, const lst_tensor *tensors, int32_t n, const lst_open_options &opt) {
    m.hp = hp;
    m.ranks = opt.ranks;
    const int ranks = m.ranks ? m.ranks->n : 1;
    const ls_sizes sizes = ls_hparams_sizes(&hp);
    const int32_t most = ls_most_ranks(&sizes);
    if (ranks > 1 && ranks > most)
        throw lst::Error(LST_E_ARG, std::to_string(ranks) + " ranks cannot share this model, which has " +
                                        std::to_string(hp.n_heads) + " attention heads: at most " +
                                        std::to_string(most) + " can");
    for (int i = 0; i < ranks; i++) m.parts.push_back(ls_shard_of(&sizes, i, ranks));
    const ls_shard own = m.loaded_part();
    m.threads = lst::threads_of(opt.threads);
    if (opt.threads < 1 && opt.beside > 1) m.threads = std::max(1, m.threads / opt.beside);
    m.most_threads = opt.threads < 1 && opt.beside < 2 ? std::max(m.threads, (int)ls_processors()) : m.threads;
    lst::start_threads(m.threads);
    Loader load(m, tensors, n, opt);
    load.keep = choose_keeping(m, opt.weights);
    const int64_t d = hp.n_embd, q = (int64_t)hp.n_heads * hp.head_dim, kv = (int64_t)hp.n_kv_heads * hp.head_dim;
    const bool whole = hp.qk_norm == LS_QK_NORM_WHOLE;
    const lst_tensor &embd = load.find("token_embd.weight", d, hp.n_vocab);
    lst_tensor of_rank = embd;
    of_rank.n_out = ls_range_size(own.vocab);
    of_rank.n_bytes = embd.n_bytes / (uint64_t)embd.n_out * (uint64_t)of_rank.n_out;
    if (m.embedding_begin(of_rank, load.kept_type(embd.type))) {
        load.each_tile(embd, own.vocab, [&](const uint8_t *raw, int64_t row, int64_t n_rows) {
            m.embedding_rows(row, embd.type, raw, n_rows);
        });
        m.embedding_end();
    }
    const auto moved = [](ls_range r, int64_t scale, int64_t by) {
        return ls_range{(int32_t)(r.from * scale + by), (int32_t)(r.to * scale + by)};
    };
    const ls_range heads = moved(own.heads, hp.head_dim, 0), kv_heads = moved(own.kv_heads, hp.head_dim, 0);
    m.layers.resize((size_t)hp.n_layers);
    for (int i = 0; i < hp.n_layers; i++) {
        const std::string p = "blk." + std::to_string(i) + ".";
        lst::Layer &l = m.layers[(size_t)i];
        load.ordered = true;
        l.attn_norm = load.norm(p + "attn_norm", d);
        l.attn_post_norm = load.norm(p + "post_attention_norm", d);
        l.ffn_norm = load.norm(p + "ffn_norm", d);
        l.ffn_post_norm = load.norm(p + "post_ffw_norm", d);
        if (hp.qk_norm != LS_QK_NORM_NONE) {
            l.q_norm = load.vector(p + "attn_q_norm.weight", whole ? q : hp.head_dim, hp.norm_offset);
            l.k_norm = load.vector(p + "attn_k_norm.weight", whole ? kv : hp.head_dim, hp.norm_offset);
        }
        if (const std::string all = p + "attn_qkv"; load.has(all + ".weight"))
            load.linear(l.qkv, lst::Care::more,
                        {{all, q + 2 * kv, heads},
                         {all, q + 2 * kv, moved(kv_heads, 1, q)},
                         {all, q + 2 * kv, moved(kv_heads, 1, q + kv)}},
                        d, q + 2 * kv);
        else
            load.linear(l.qkv, lst::Care::more,
                        {{p + "attn_q", q, heads}, {p + "attn_k", kv, kv_heads}, {p + "attn_v", kv, kv_heads}}, d,
                        q + 2 * kv);
        load.linear(l.out, lst::Care::usual, {{p + "attn_output", d, own.embd}}, q, d, Loader::Bias::whole);
        if (hp.arch->sinks) {
            const lst::Floats all = load.vector(p + "attn_sinks.weight", hp.n_heads);
            l.sinks = lst::Floats(ls_range_size(own.heads));
            std::copy_n(all.data() + own.heads.from, ls_range_size(own.heads), l.sinks.data());
        }
        if (hp.n_experts && !hp.dense[i]) {
            load.ordered = false;
            load.mixture(l, p, own);
            continue;
        }
        l.gate_up.paired = !hp.arch->ungated;
        if (hp.arch->ungated) load.linear(l.gate_up, lst::Care::usual, {{p + "ffn_up", hp.n_ff, own.ff}}, d, hp.n_ff);
        else if (load.has(p + "ffn_gate.weight"))
            load.linear(l.gate_up, lst::Care::usual,
                        {{p + "ffn_gate", hp.n_ff, own.ff}, {p + "ffn_up", hp.n_ff, own.ff}}, d, 2 * (int64_t)hp.n_ff);
        else // the gate first
            load.linear(l.gate_up, lst::Care::usual,
                        {{p + "ffn_up", 2 * (int64_t)hp.n_ff, own.ff},
                         {p + "ffn_up", 2 * (int64_t)hp.n_ff, moved(own.ff, 1, hp.n_ff)}},
                        d, 2 * (int64_t)hp.n_ff);
        load.linear(l.down, lst::Care::more, {{p + "ffn_down", d, own.embd}}, hp.n_ff, d, Loader::Bias::whole);
    }
    load.find("output_norm.weight", d, 1); // unlike the others it must be there
    m.output_norm = load.norm("output_norm", d);
    load.ordered = false;
    load.linear(m.head, lst::Care::usual, {{hp.tied ? "token_embd" : "output", hp.n_vocab, own.vocab}}, d, hp.n_vocab);
    m.loaded();
}

} // namespace

float lst::temperature(const ls_hparams &hp, int32_t position) {
    if (hp.attn_temperature == 0) return 1;
    const int32_t times = position / hp.attn_temperature_length;
    return (float)(1 + (double)hp.attn_temperature * std::log1p((double)times));
}

const ls_shard &lst_model::part() const {
    return parts[(size_t)(ranks ? ranks->rank : 0)];
}

int64_t lst_model::widest(ls_range ls_shard::*of) const {
    int32_t n = 0;
    for (const ls_shard &part : parts) n = std::max(n, ls_range_size(part.*of));
    return n;
}

int lst::threads_of(int asked) {
    return asked > 0 ? std::min(asked, (int)ls_processors()) : (int)ls_cores();
}

extern "C" {

const lst_decoder lst_decoder_table = {LST_DECODER(LST_ENTRY)};

int lst_model_open(lst_model **out, const ls_hparams *hp, const lst_tensor *tensors, int32_t n_tensors,
                   const lst_open_options *opt) {
    *out = nullptr;
    return lst::guard([&] {
        if (hp->head_dim % LSK_TILE || hp->head_dim < LSK_TILE || hp->n_embd % 32 || hp->n_ff % 32 || !hp->arch ||
            hp->n_layers < 1 || hp->n_layers > LS_MAX_LAYERS || hp->n_heads < 1 || hp->n_kv_heads < 1 ||
            hp->n_heads % hp->n_kv_heads ||
            (hp->n_experts &&
             (hp->n_experts_used < 1 || hp->n_experts_used > hp->n_experts ||
              hp->n_experts_used > LS_MAX_EXPERTS_USED || hp->n_ff_expert < 32 || hp->n_ff_expert % 32 ||
              hp->n_ff_shared < 0 || hp->n_ff_shared % 32 || hp->n_expert_groups < 1 ||
              hp->n_experts % hp->n_expert_groups || hp->n_groups_used < 1 || hp->n_groups_used > hp->n_expert_groups ||
              hp->n_experts / hp->n_expert_groups * hp->n_groups_used < hp->n_experts_used)) ||
            hp->n_vocab < 1 || hp->rope_dims < 2 || hp->rope_dims > hp->head_dim || hp->rope_dims % 2 ||
            hp->rope_dims / 2 > LS_MAX_ROPE || hp->window < 0 ||
            (hp->attn_temperature != 0 && hp->attn_temperature_length < 1))
            throw lst::Error(LST_E_ARG, "lst_model_open: invalid model dimensions");
        lst_open_options o = *opt;
        if (!o.device) o.device = "auto";
        if (!o.dtype) o.dtype = "auto";
        if (!o.weights) o.weights = "auto";
        if (!o.kv) o.kv = "auto";
        auto m = lst::make_model(*hp, o);
        open_model(*m, *hp, tensors, n_tensors, o);
        *out = m.release();
    });
}

int lst_model_info(const lst_model *m, lst_model_info_t *info) {
    return lst::guard([&] {
        snprintf(info->weights, sizeof info->weights, "%s", m->weights.c_str());
        info->threads = m->threads;
        info->most_threads = m->most_threads;
        info->exact = 1;
        info->ranks = m->ranks ? m->ranks->n : 1;
        info->weight_bytes = m->weight_bytes;
        info->row_macs = info->head_macs = (uint64_t)m->head.n_in * (uint64_t)m->head.n_out;
        uint64_t of_experts = 0;
        const auto macs = [](const lst::Linear &l) { return (uint64_t)l.n_in * (uint64_t)l.n_out; };
        for (const lst::Layer &layer : m->layers)
            lst::each_linear(
                layer, [&](const lst::Linear &l) { info->row_macs += macs(l); },
                [&](const lst::Linear &l) { of_experts += macs(l); });
        info->expert_bytes = 0;
        info->n_mixtures = m->n_mixtures;
        if (m->n_mixtures) {
            const auto all = (uint64_t)m->hp.n_experts, used = (uint64_t)m->hp.n_experts_used;
            info->row_macs += of_experts / all * used;
            info->expert_bytes = m->expert_bytes / ((uint64_t)m->n_mixtures * all);
            info->weight_bytes -= info->expert_bytes * (all - used) * (uint64_t)m->n_mixtures;
        }
        *info->slow = 0;
        m->info(info);
    });
}

void lst_model_close(lst_model *m) {
    delete m;
}

int lst_use_threads(lst_model *m, int32_t threads) {
    return lst::guard([&] {
        if (threads < 1 || threads > m->most_threads)
            throw lst::Error(LST_E_ARG, "lst_use_threads: the number of threads is out of range for this model");
        lst::start_threads(threads);
        m->threads = threads;
    });
}
}
