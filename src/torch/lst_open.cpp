// Opens a model: checks and converts its tensors and hands them to the device's model, with progress.
#include "torch/lst_ranks.h"

extern "C" {
#include "base/system.h"
}

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <latch>
#include <system_error>
#include <thread>
#include <unordered_map>

namespace {

thread_local std::string last_error;

using Table = std::unordered_map<std::string, const lst_tensor *>;

struct Loader {
    lst_model &m;
    const Table &table;
    const lst_tensor *tensors;
    const lst_open_options &opt;
    int keep = -1;
    uint64_t done = 0, total = 0;
    std::vector<uint8_t> bytes; // of one tensor

    bool has(const std::string &name) const { return table.count(name) > 0; }

    const lst_tensor &find(const std::string &name, int64_t n_in, int64_t n_out) const {
        auto it = table.find(name);
        if (it == table.end()) throw lst::Error(LST_E_ARG, "tensor '" + name + "' is missing");
        const lst_tensor &t = *it->second;
        if (t.n_in != n_in || t.n_out != n_out || lsk_row_bytes(t.type, n_in) * (size_t)n_out != t.n_bytes ||
            !t.n_bytes || (!t.data && !opt.read))
            throw lst::Error(LST_E_ARG, "tensor '" + name + "' has a shape or type that does not fit the model");
        return t;
    }

    // Some rows of a tensor, valid until the next call.
    const uint8_t *read(const lst_tensor &t, ls_range rows) {
        const size_t row_bytes = t.n_bytes / (size_t)t.n_out, at = (size_t)rows.from * row_bytes,
                     n = (size_t)ls_range_size(rows) * row_bytes;
        const uint8_t *p = (const uint8_t *)t.data;
        if (p) p += at;
        else {
            if (bytes.size() < n) bytes.resize(n);
            if (opt.read(opt.ud, (int32_t)(&t - tensors), at, n, bytes.data()))
                throw lst::Error(LST_E_READ, std::string("tensor '") + t.name + "' could not be read");
            p = bytes.data();
        }
        if (!lsk_finite(t.type, p, ls_range_size(rows), t.n_in))
            throw lst::Error(LST_E_NAN,
                             std::string("tensor '") + t.name + "' holds NaN, infinite or unusable scale values");
        return p;
    }

    void progress(uint64_t n) {
        done += n;
        if (opt.progress &&
            opt.progress(opt.ud, "loading weights", total ? std::min((double)done / (double)total, 1.0) : 1))
            throw lst::Error(LST_E_CANCELLED, "loading was cancelled");
    }

    at::Tensor vector(const std::string &name, int64_t n, float offset = 0) {
        const lst_tensor &t = find(name, n, 1);
        at::Tensor v = at::empty({n}, at::kFloat);
        lsk_dequant_row(t.type, read(t, {0, 1}), n, v.data_ptr<float>());
        if (offset != 0) v.add_(offset);
        return v;
    }

    at::Tensor norm(const std::string &name, int64_t n) {
        return has(name) ? vector(name, n, m.hp.norm_offset) : at::Tensor();
    }

    // The type that a matrix of the file is kept in.
    int kept_type(int type) const { return keep < 0 ? type : keep; }

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
    enum class Bias { of_rows, whole };

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
            biased |= has(part.name + ".bias");
            n_bias += bias == Bias::whole ? part.n : n;
            if (!stacked.empty() && packs_alike(stacked.back().type, kept_type(t->type))) stacked.back().n_out += n;
            else if (n) {
                whole_tiles &= n_out % LSK_TILE == 0;
                stacked.push_back({kept_type(t->type), n});
            }
            n_out += n;
        }
        if (stacked.empty()) stacked.push_back({kept_type(ts[0].first->type), 0}); // which cannot be kept
        bool all_as_they_are = false;
        if (stacked.size() > 1 && !(m.mixes() && whole_tiles && !l.paired)) {
            const int common = m.common_type(stacked);
            all_as_they_are = common >= 0 && keep < 0;
            stacked = {{all_as_they_are ? common : LS_GGML_F32, n_out}};
        }
        l.n_in = (int32_t)n_in;
        l.n_out = (int32_t)n_out;
        l.of_all = (int32_t)of_all;
        pack(l, care, ts, stacked, all_as_they_are);
        if (biased) {
            l.bias = at::zeros({n_bias}, at::kFloat);
            int64_t at = 0;
            for (const Rows &part : parts) {
                const ls_range of = bias == Bias::whole ? ls_range{0, (int32_t)part.n} : part.of;
                if (has(part.name + ".bias"))
                    l.bias.slice(0, at, at + ls_range_size(of))
                        .copy_(vector(part.name + ".bias", part.n).slice(0, of.from, of.to));
                at += ls_range_size(of);
            }
        }
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
            const uint8_t *raw = read(*t, rows);
            const int64_t n_in = t->n_in, n_rows = ls_range_size(rows), first = row;
            const int from_type = t->type;
            const size_t in_bytes = lsk_row_bytes(from_type, n_in), out_bytes = lsk_row_bytes(type, n_in);
            const bool as_is = all_as_they_are || packs_alike(from_type, type);
            const int64_t tiles = (n_rows + LSK_TILE - 1) / LSK_TILE;
#pragma omp parallel for num_threads(m.threads) schedule(static)
            for (int64_t tile = 0; tile < tiles; tile++) { // rows are apart in memory: any split gives the same bytes
                const int64_t from = tile * LSK_TILE, n = std::min<int64_t>(LSK_TILE, n_rows - from);
                if (as_is) {
                    m.matrix_rows(l, first + from, from_type, raw + (size_t)from * in_bytes, n);
                    continue;
                }
                std::vector<float> plain((size_t)n_in);
                std::vector<uint8_t> other(out_bytes);
                for (int64_t r = 0; r < n; r++) {
                    lsk_dequant_row(from_type, raw + (size_t)(from + r) * in_bytes, n_in, plain.data());
                    lsk_quantize_row(type, plain.data(), n_in, other.data());
                    m.matrix_rows(l, first + from + r, type, other.data(), 1);
                }
            }
            row += n_rows;
            progress(t->n_bytes / (uint64_t)t->n_out * (uint64_t)n_rows * m.parts.size());
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

void open_model(lst_model &m, const lst_hparams &hp, const lst_tensor *tensors, int32_t n,
                const lst_open_options &opt) {
    m.hp = hp;
    m.ranks = opt.ranks;
    const int ranks = m.ranks ? m.ranks->n : 1;
    const int32_t most = ls_most_ranks(hp.n_heads, hp.n_ff, hp.n_embd, hp.n_vocab);
    if (ranks > 1 && ranks > most)
        throw lst::Error(LST_E_ARG, std::to_string(ranks) + " ranks cannot share this model, which has " +
                                        std::to_string(hp.n_heads) + " attention heads: at most " +
                                        std::to_string(most) + " can");
    for (int i = 0; i < ranks; i++)
        m.parts.push_back(ls_shard_of(hp.n_heads, hp.n_kv_heads, hp.n_ff, hp.n_embd, hp.n_vocab, i, ranks));
    const ls_shard own = m.loaded_part();
    m.threads = lst::threads_of(opt.threads);
    if (opt.threads < 1 && opt.beside > 1) m.threads = std::max(1, m.threads / opt.beside);
    m.most_threads = opt.threads < 1 && opt.beside < 2 ? std::max(m.threads, (int)ls_processors()) : m.threads;
    lst::start_threads(m.threads);
    at::set_num_threads(m.threads);
    Table table;
    for (int32_t i = 0; i < n; i++) table[tensors[i].name] = &tensors[i];
    Loader load{m, table, tensors, opt, -1, 0, 0, {}};
    load.keep = choose_keeping(m, opt.weights);
    for (int32_t i = 0; i < n; i++) load.total += tensors[i].n_bytes;
    m.local.assign(hp.local, hp.local + hp.n_layers);
    for (int k = 0; k < 2; k++) m.rope_freq[k].assign(hp.rope_freq[k], hp.rope_freq[k] + hp.rope_dims / 2);
    const int64_t d = hp.n_embd, q = (int64_t)hp.n_heads * hp.head_dim, kv = (int64_t)hp.n_kv_heads * hp.head_dim;
    const bool whole = hp.qk_norm == LST_QK_NORM_WHOLE;
    const lst_tensor &embd = load.find("token_embd.weight", d, hp.n_vocab);
    lst_tensor of_rank = embd;
    of_rank.n_out = ls_range_size(own.vocab);
    of_rank.n_bytes = embd.n_bytes / (uint64_t)embd.n_out * (uint64_t)of_rank.n_out;
    m.embedding(of_rank, load.read(embd, own.vocab), load.kept_type(embd.type));
    const auto moved = [](ls_range r, int64_t scale, int64_t by) {
        return ls_range{(int32_t)(r.from * scale + by), (int32_t)(r.to * scale + by)};
    };
    const ls_range heads = moved(own.heads, hp.head_dim, 0), kv_heads = moved(own.kv_heads, hp.head_dim, 0);
    m.layers.resize((size_t)hp.n_layers);
    for (int i = 0; i < hp.n_layers; i++) {
        const std::string p = "blk." + std::to_string(i) + ".";
        lst::Layer &l = m.layers[(size_t)i];
        l.attn_norm = load.norm(p + "attn_norm.weight", d);
        l.attn_post_norm = load.norm(p + "post_attention_norm.weight", d);
        l.ffn_norm = load.norm(p + "ffn_norm.weight", d);
        l.ffn_post_norm = load.norm(p + "post_ffw_norm.weight", d);
        if (hp.qk_norm != LST_QK_NORM_NONE) {
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
        l.gate_up.paired = true;
        if (load.has(p + "ffn_gate.weight"))
            load.linear(l.gate_up, lst::Care::usual,
                        {{p + "ffn_gate", hp.n_ff, own.ff}, {p + "ffn_up", hp.n_ff, own.ff}}, d, 2 * (int64_t)hp.n_ff);
        else // the gate first
            load.linear(l.gate_up, lst::Care::usual,
                        {{p + "ffn_up", 2 * (int64_t)hp.n_ff, own.ff},
                         {p + "ffn_up", 2 * (int64_t)hp.n_ff, moved(own.ff, 1, hp.n_ff)}},
                        d, 2 * (int64_t)hp.n_ff);
        load.linear(l.down, lst::Care::more, {{p + "ffn_down", d, own.embd}}, hp.n_ff, d, Loader::Bias::whole);
    }
    m.output_norm = load.vector("output_norm.weight", d, hp.norm_offset);
    load.linear(m.head, lst::Care::usual, {{hp.tied ? "token_embd" : "output", hp.n_vocab, own.vocab}}, d, hp.n_vocab);
    m.loaded();
}

} // namespace

const ls_shard &lst_model::part() const {
    return parts[(size_t)(ranks ? ranks->rank : 0)];
}

void lst::set_error(const std::string &text) {
    last_error = text;
    for (char &c : last_error)
        if (c == '\n' || c == '\r') c = ' '; // one line
}

int lst::threads_of(int asked) {
    return asked > 0 ? std::min(asked, (int)ls_processors()) : (int)ls_cores();
}

// OpenMP's runtime ends the process where the system refuses it a thread. So as many threads as it will start are
// started here first; it keeps its own for the calling thread.
void lst::start_threads(int n) {
    static thread_local int started = 1;
    std::vector<std::thread> tried;
    std::latch all_tried{1};
    bool refused = false;
    for (int i = started; i < n && !refused; i++) try {
            tried.emplace_back([&] { all_tried.wait(); });
        } catch (const std::system_error &) {
            refused = true;
        }
    all_tried.count_down();
    for (std::thread &t : tried) t.join();
    if (refused)
        throw lst::Error(LST_E_BACKEND, "the system allows only " + std::to_string(started + (int)tried.size()) +
                                            " of " + std::to_string(n) +
                                            " threads (a limit on processes: 'ulimit -u', or the pids of a " +
                                            "container): raise the limit, or set a smaller number with --threads");
#pragma omp parallel num_threads(n)
    asm volatile(""); // else the compiler may leave the region out
    started = std::max(started, n);
}

extern "C" {

LST_API int32_t lst_abi_version(void) {
    return LST_ABI_VERSION;
}
LST_API const char *lst_last_error(void) {
    return last_error.c_str();
}

LST_API int lst_model_open(lst_model **out, const lst_hparams *hp, const lst_tensor *tensors, int32_t n_tensors,
                           const lst_open_options *opt) {
    if (out) *out = nullptr;
    return lst::guard([&] {
        if (!out || !hp || !tensors || !opt || hp->size < sizeof *hp || opt->size < sizeof *opt)
            throw lst::Error(LST_E_ARG, "lst_model_open: a required argument is missing or of an older version");
        if (hp->head_dim % LSK_TILE || hp->head_dim < LSK_TILE || hp->n_embd % 32 || hp->n_ff % 32 ||
            hp->n_layers < 1 || hp->n_heads < 1 || hp->n_kv_heads < 1 || hp->n_heads % hp->n_kv_heads ||
            hp->n_vocab < 1 || hp->rope_dims < 2 || hp->rope_dims > hp->head_dim || hp->rope_dims % 2 ||
            !hp->rope_freq[0] || !hp->rope_freq[1] || !hp->local || hp->window < 0)
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

LST_API int lst_model_info(const lst_model *m, lst_model_info_t *info) {
    return lst::guard([&] {
        if (!m || !info || info->size < sizeof *info) throw lst::Error(LST_E_ARG, "lst_model_info: bad arguments");
        snprintf(info->weights, sizeof info->weights, "%s", m->weights.c_str());
        info->threads = m->threads;
        info->most_threads = m->most_threads;
        info->exact = 1;
        info->ranks = m->ranks ? m->ranks->n : 1;
        info->weight_bytes = m->weight_bytes;
        info->row_macs = info->head_macs = (uint64_t)m->head.n_in * (uint64_t)m->head.n_out;
        for (const lst::Layer &layer : m->layers)
            for (const lst::Linear *l : {&layer.qkv, &layer.out, &layer.gate_up, &layer.down})
                info->row_macs += (uint64_t)l->n_in * (uint64_t)l->n_out;
        *info->slow = 0;
        m->info(info);
    });
}

LST_API void lst_model_close(lst_model *m) {
    delete m;
}

LST_API int lst_use_threads(lst_model *m, int32_t threads) {
    return lst::guard([&] {
        if (!m || threads < 1 || threads > m->most_threads)
            throw lst::Error(LST_E_ARG, "lst_use_threads: the number of threads is out of range for this model");
        lst::start_threads(threads);
        m->threads = threads;
        at::set_num_threads(threads); // trained heads compute between forwards, by the same threads
    });
}
}
