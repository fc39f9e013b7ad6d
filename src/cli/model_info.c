#include "cli/model_info.h"
#include "base/rng.h"
#include "base/split.h"
#include "base/system.h"
#include "base/utf8.h"
#include "decode/stats.h"
#include "engine/device.h"
#include "engine/ranks.h"
#include "model/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ONE, FEW, TREE, FORWARDS, PAPER_ROWS = 64 };
static const int32_t rows_of[FORWARDS] = {1, 8, PAPER_ROWS}; // of the forwards in estimates

static ls_short_text amount_of(double bytes) { // "43 MB"
    ls_short_text a;
    if (bytes >= 1e9) snprintf(a.s, sizeof a.s, "%.2f GB", bytes / 1e9);
    else snprintf(a.s, sizeof a.s, "%.0f MB", ceil(bytes / 1e6));
    return a;
}

// ---- a step on a GPU that need not be present

enum { LENGTH = 512 }; // tokens of context in the table

typedef struct {
    const lsg_card *card;
    ls_gpu_model model;
    lsg_cost costs[FORWARDS][LSG_KERNELS]; // of the n kernels, without exchanges between ranks
    int n;
    double us[FORWARDS]; // their sums
} paper;

// own: the part of the model that the card has; NULL: the whole model. After LS_OK, free p->model.
static ls_code compute(paper *p, const char *name, const ls_checkpoint *c, const char *weights, const ls_shard *own,
                       ls_err *err) {
    char known[200] = "";
    size_t n = 0;
    *p = (paper){.card = lsg_cards};
    for (; p->card->name && strcmp(p->card->name, name); p->card++)
        n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", p->card->name);
    if (!p->card->name)
        return ls_fail(err, LS_E_RANGE, "--device-model '%s' is unknown; expected one of %s", name, known);
    ls_gpu_model_of(&p->model, c, weights, p->card->gpu, own);
    for (int f = 0; f < FORWARDS; f++) {
        p->n = lsg_step_costs(p->card, &p->model.shape, p->model.formats, rows_of[f], LENGTH, p->costs[f]);
        for (int i = 0; i < p->n; i++) p->us[f] += p->costs[f][i].us;
    }
    return LS_OK;
}

static uint64_t kv_bytes(const lsg_shape *s, int32_t context) {
    return sizeof(uint16_t) * (uint64_t)lsg_page_values(s) * (uint64_t)((context + LSG_PAGE - 1) / LSG_PAGE);
}

static const char at_random[] =
    "Assumed: each row takes its k of E experts at random, so n rows take E (1 - (1 - k/E)^n). "
    "Trees of real text take fewer.";

static void kernel_json(ls_jsonw *w, const char *rows, const lsg_cost *c) {
    ls_jw_field_open(w, rows, '{');
    ls_jw_field_num(w, "us", c->us, 6);
    ls_jw_field_str(w, "bound", c->bound);
    ls_jw_field_num(w, "bytes", c->bytes, 15);
    ls_jw_field_num(w, "cache_bytes", c->again, 15);
    ls_jw_field_num(w, "sum_bytes", c->sums, 15);
    ls_jw_field_num(w, "instructions", c->instructions, 15);
    ls_jw_field_num(w, "blocks", (double)c->blocks, 15);
    ls_jw_field_num(w, "resident", (double)c->resident, 15);
    ls_jw_close(w, '}');
}

// Different experts of a layer that the rows of a forward take at random.
static double distinct_of(const paper *p, int f) {
    return ls_distinct_at_random(p->model.shape.n_experts, p->model.shape.n_experts_used, rows_of[f]);
}

// What a forward reads of all layers' experts.
static double expert_bytes(const paper *p, int f) {
    double bytes = 0;
    for (int i = 0; i < p->n; i++)
        if (!strncmp(p->costs[f][i].kernel, "experts'", 8)) bytes += p->costs[f][i].bytes;
    return bytes;
}

static void paper_json(ls_jsonw *w, const paper *p, int32_t context) {
    const lsg_shape *shape = &p->model.shape;
    ls_jw_open(w, '{');
    ls_jw_field_str(w, "check", "device-model");
    ls_jw_field_str(w, "card", p->card->spelled);
    ls_jw_field_bool(w, "estimate", true);
    ls_jw_field_u64(w, "weight_bytes", p->model.weight_bytes);
    ls_jw_field_int(w, "context", context);
    ls_jw_field_u64(w, "session_bytes", lsg_kv_cache_bytes(shape, context));
    ls_jw_field_u64(w, "kv_bytes", kv_bytes(shape, context));
    ls_jw_field_int(w, "length", LENGTH);
    ls_jw_field_open(w, "kernels", '[');
    for (int i = 0; i < p->n; i++) {
        ls_jw_open(w, '{');
        ls_jw_field_str(w, "kernel", p->costs[0][i].kernel);
        ls_jw_field_int(w, "launches", p->costs[0][i].launches);
        kernel_json(w, "rows_1", &p->costs[ONE][i]);
        kernel_json(w, "rows_64", &p->costs[TREE][i]);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
    if (shape->n_experts) {
        ls_jw_field_open(w, "experts", '[');
        for (int f = 0; f < FORWARDS; f++) {
            ls_jw_open(w, '{');
            ls_jw_field_int(w, "rows", rows_of[f]);
            ls_jw_field_num(w, "distinct_at_random", distinct_of(p, f), 6);
            ls_jw_field_num(w, "bytes", expert_bytes(p, f), 15);
            ls_jw_field_num(w, "us", p->us[f], 6);
            ls_jw_close(w, '}');
        }
        ls_jw_close(w, ']');
    }
    ls_jw_field_num(w, "us_1", p->us[ONE], 6);
    ls_jw_field_num(w, "us_64", p->us[TREE], 6);
    ls_jw_close(w, '}');
}

static void paper_text(ls_buf *text, const paper *p, int32_t context) {
    const lsg_shape *shape = &p->model.shape;
    ls_buf_fmt(text,
               "\nEstimate, not measured: a step on one %s after %d tokens, from its nominal %.0f GB/s of memory and "
               "the bytes and instructions of the kernels (src/gpu/cost.c)\n\n",
               p->card->spelled, LENGTH, p->card->gb_s);
    ls_buf_fmt(text, "%-22s%9s%12s%14s%12s%14s\n", "kernel", "launches", "1 row, us", "bound by", "64 rows, us",
               "bound by");
    for (int i = 0; i < p->n; i++) {
        const lsg_cost *one = &p->costs[ONE][i], *tree = &p->costs[TREE][i];
        ls_buf_fmt(text, "%-22s%9d%12.0f%14s%12.0f%14s\n", one->kernel, one->launches, one->us, one->bound, tree->us,
                   tree->bound);
    }
    ls_buf_fmt(text, "%-22s%9s%12.0f%14s%12.0f   x%.2f\n\n", "total", "", p->us[ONE], "", p->us[TREE],
               p->us[TREE] / p->us[ONE]);
    if (shape->n_experts) {
        ls_buf_fmt(text, "%6s%22s%16s%13s\n", "rows", "experts of a layer", "their MB", "a step, us");
        for (int f = 0; f < FORWARDS; f++)
            ls_buf_fmt(text, "%6d%15.1f of %3d%16.0f%13.0f   x%.2f\n", rows_of[f], distinct_of(p, f), shape->n_experts,
                       expert_bytes(p, f) / 1e6, p->us[f], p->us[f] / p->us[ONE]);
        ls_buf_fmt(text, "\n%s\n\n", at_random);
    }
    ls_buf_fmt(
        text,
        "plain decoding %.0f tokens/s; weights %.0f MiB, a session %.0f MiB, the KV cache of %d tokens %.0f MiB\n",
        1e6 / p->us[ONE], (double)p->model.weight_bytes / (1 << 20),
        (double)lsg_kv_cache_bytes(shape, context) / (1 << 20), context, (double)kv_bytes(shape, context) / (1 << 20));
}

ls_code ls_device_model(const char *name, const ls_checkpoint *c, const ls_engine_options *opt, ls_buf *text,
                        ls_jsonw *json, ls_err *err) {
    paper p;
    const ls_code code = compute(&p, name, c, opt->weights, NULL, err);
    if (code) return code;
    const int32_t context = opt->context ? opt->context : c->hparams.n_context;
    paper_text(text, &p, context);
    paper_json(json, &p, context);
    ls_gpu_model_free(&p.model);
    return LS_OK;
}

// ---- ranks that share the model

// Assumed latency of an exchange (us) and bandwidth of a link, for a rough estimate (`doctor --devices` measures them).
// If ranks are on GPUs, rows are copied to the host before each exchange and back to the device after it: HOST_US per
// exchange, at PCIE_GB_PER_S.
typedef struct {
    const char *name;
    double us, gb_per_s;
    bool gpus, unused; // gpus: directly between GPUs; unused: not supported by this program
} link;
static const link links[] = {
    {"one machine", 3, 3, false, false}, {"100 Gbit/s", 25, 12.5, false, false}, {"NVLink", 8, 450, true, true}};
static const double HOST_US = 15, PCIE_GB_PER_S = 20;
enum { LINKS = sizeof links / sizeof *links };

typedef struct {
    int32_t n; // ranks; below 2: not shared, and the other fields are not set
    bool on_gpus;
    uint64_t weights, token; // bytes of the largest part, and of its KV cache per token
    int32_t rounds;          // sequential exchanges of a step
    double bytes_of_row;     // bytes per row that a rank receives from the others
    const lsg_card *card;    // NULL: no --device-model
    double compute_ms[2];    // of the largest part on this card, for 1 and for PAPER_ROWS rows
    bool mixture;
} shared;

static double ms_of(const shared *s, const link *l, int32_t rows) {
    const double bytes = rows * s->bytes_of_row;
    double us = s->rounds * l->us + bytes / l->gb_per_s / 1e3;
    if (s->on_gpus && !l->gpus) us += s->rounds * HOST_US + bytes / PCIE_GB_PER_S / 1e3;
    return us / 1e3;
}

static double share_of(ls_range part, int32_t whole) {
    return (double)ls_range_size(part) / whole;
}

// The share of a tensor that a rank holds, 0 to 1.
static double part_of(const ls_tensor *t, const ls_hparams *h, const ls_shard *p) {
    const char *name = t->name;
    if (t->n_out == 1) return 1;
    switch (ls_matrix_of(t, h)) {
    case LSG_QKV:
        if (strstr(name, "attn_qkv"))
            return (double)(ls_range_size(p->heads) + 2 * ls_range_size(p->kv_heads)) /
                   (h->n_heads + 2 * h->n_kv_heads);
        return strstr(name, "attn_q") ? share_of(p->heads, h->n_heads) : share_of(p->kv_heads, h->n_kv_heads);
    case LSG_GATE_UP: return share_of(p->ff, h->n_ff);
    case LSG_EXPERT_GATE_UP: return share_of(p->expert_ff, h->n_ff_expert);
    case LSG_SHARED_GATE_UP: return share_of(p->shared_ff, h->n_ff_shared);
    case LSG_MATRICES: // every rank has whole routers
        return strncmp(name, "token_embd", 10) && strncmp(name, "output.", 7) ? 1 : share_of(p->vocab, h->n_vocab);
    default: return share_of(p->embd, h->n_embd);
    }
}

static uint64_t weights_of(const ls_checkpoint *c, const ls_shard *p) {
    const ls_hparams *h = &c->hparams;
    double weights = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const ls_ggml_layout *l = ls_ggml_layout_of(t->n_out > 1 ? t->type : LS_GGML_F32);
        weights += (double)(t->n_in * t->n_out) * l->kept_integers / 256 * part_of(t, h, p);
        // a tied embedding is kept twice: as the output head, and in the type of the file
        if (h->tied && !strncmp(t->name, "token_embd", 10)) weights += (double)t->n_bytes * part_of(t, h, p);
    }
    return (uint64_t)weights;
}

static ls_code share_out(shared *out, const ls_checkpoint *c, const char *devices, const char *card, ls_err *err) {
    const ls_hparams *h = &c->hparams;
    *out = (shared){0};
    ls_devices d;
    const ls_code code = ls_devices_read(&d, devices, NULL, err);
    const bool a_number = devices && !devices[strspn(devices, "0123456789")];
    const ls_sizes sizes = ls_hparams_sizes(h);
    const int32_t most = ls_most_ranks(&sizes);
    if (code) return code;
    if (card && d.n < 2)
        return ls_fail(err, LS_E_USAGE,
                       "--device-model needs --devices with several ranks here; for one GPU, use 'logitspec doctor "
                       "--device-model %s'",
                       card);
    if (d.n < 2) return LS_OK;
    if (d.n > most)
        return ls_fail(err, LS_E_RANGE, "%d ranks are too many for this model with %d attention heads: use at most %d",
                       d.n, h->n_heads, most);
    if (card && d.gpu[0] < 0 && !a_number)
        return ls_fail(err, LS_E_USAGE, "--device-model %s is a GPU, but --devices %.60s names CPUs", card, devices);
    out->n = d.n;
    out->on_gpus = card || d.gpu[0] >= 0;
    for (int32_t rank = 0; rank < d.n; rank++) {
        const ls_shard p = ls_rank_holds(h, rank, d.n, out->on_gpus);
        const uint64_t weights = weights_of(c, &p),
                       token = ls_hparams_kv_bytes(h, out->on_gpus ? sizeof(uint16_t) : sizeof(float)) /
                               (uint64_t)h->n_kv_heads * (uint64_t)ls_range_size(p.kv_heads);
        if (token > out->token) out->token = token;
        if (weights <= out->weights) continue;
        out->weights = weights;
        paper step;
        if (!card) continue;
        if (compute(&step, card, c, "auto", &p, err)) return err->code;
        out->card = step.card;
        for (int i = 0; i < 2; i++) out->compute_ms[i] = step.us[i ? TREE : ONE] / 1e3;
        ls_gpu_model_free(&step.model);
    }
    const double others = d.n - 1, all = d.n, values = out->on_gpus ? 2 : 4; // bytes of a matmul's input value
    out->mixture = h->n_experts > 0;
    out->rounds = 4 * h->n_layers + 5;
    double inner = 0; // of all layers, what their activations give to a row
    for (int32_t i = 0; i < h->n_layers; i++) {
        const bool dense = !h->n_experts || h->dense[i];
        inner += dense ? h->n_ff : (double)h->n_experts_used * h->n_ff_expert + h->n_ff_shared;
        out->rounds += !dense && h->n_ff_shared;
    }
    out->bytes_of_row =
        (h->n_layers * (4.0 * 2 * h->n_embd + values * (double)h->n_heads * h->head_dim) + values * inner) * others /
            all +
        4.0 * h->n_embd * others;
    return LS_OK;
}

static void shared_text(const shared *s, ls_buf *out) {
    if (s->n < 2) return;
    ls_buf_fmt(out,
               "\nshared by %-3d %s of weights (as in the file) and at most %.0f KB per token on the largest rank\n"
               "exchanges     %d per step, one after the other; %s to each rank for %d rows\nestimate      ",
               s->n, amount_of((double)s->weights).s, (double)s->token / 1e3, s->rounds,
               amount_of(s->bytes_of_row * PAPER_ROWS).s, PAPER_ROWS);
    if (s->card)
        ls_buf_fmt(out, "computing on %d of %s: %.2f to %.2f ms for 1 to %d rows; with exchanges\n              ", s->n,
                   s->card->spelled, s->compute_ms[0], s->compute_ms[1], PAPER_ROWS);
    else ls_buf_fmt(out, "exchanges of 1 to %d rows: ", PAPER_ROWS);
    for (int i = 0; i < LINKS; i++) {
        if (links[i].gpus && !s->on_gpus) continue;
        ls_buf_fmt(out, "%s%s%s %.2f to %.2f ms", i ? ", " : "", links[i].unused ? "by " : "", links[i].name,
                   s->compute_ms[0] + ms_of(s, &links[i], 1), s->compute_ms[1] + ms_of(s, &links[i], PAPER_ROWS));
        if (links[i].unused) ls_buf_str(out, " (not used: GPUs exchange through their hosts)");
    }
    ls_buf_str(out, "\n              latencies and bandwidths are assumed; 'doctor --devices' measures them");
    if (s->card && s->mixture) ls_buf_fmt(out, "\n              %s", at_random);
}

static void shared_json(const shared *s, ls_jsonw *w) {
    if (s->n < 2) return;
    ls_jw_field_open(w, "shared", '{');
    ls_jw_field_int(w, "ranks", s->n);
    ls_jw_field_u64(w, "weight_bytes", s->weights);
    ls_jw_field_u64(w, "context_token_bytes", s->token);
    ls_jw_field_int(w, "rounds", s->rounds);
    ls_jw_field_num(w, "bytes_of_row", s->bytes_of_row, 9);
    if (s->card) {
        ls_jw_field_str(w, "card", s->card->spelled);
        ls_jw_field_num(w, "compute_ms_1", s->compute_ms[0], 6);
        ls_jw_field_num(w, "compute_ms_64", s->compute_ms[1], 6);
    }
    ls_jw_field_open(w, "exchanges", '[');
    for (int i = 0; i < LINKS; i++) {
        if (links[i].gpus && !s->on_gpus) continue;
        ls_jw_open(w, '{');
        ls_jw_field_str(w, "over", links[i].name);
        ls_jw_field_bool(w, "used", !links[i].unused);
        ls_jw_field_num(w, "ms_1", ms_of(s, &links[i], 1), 6);
        ls_jw_field_num(w, "ms_64", ms_of(s, &links[i], PAPER_ROWS), 6);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
    ls_jw_close(w, '}');
}

// ---- the model

static const struct {
    const char *name;
    int type; // -1: as in the file
} kept[] = {
#define ROW(name, type) {name, type},
    LS_GGML_KEPT(ROW)
#undef ROW
};
enum { KEPT = sizeof kept / sizeof *kept };

typedef struct {
    uint64_t parameters, weights[KEPT], experts[KEPT], context_bytes, free;
    int n_of[LS_GGML_END]; // tensors by ggml type
    int context;           // tokens of context that a run would get
    ls_err no_room;        // msg "": it fits
    ls_buf mechanisms, quantized;
} facts;

static void collect(facts *f, const ls_checkpoint *c) {
    f->parameters = ls_checkpoint_parameters(c);
    f->context_bytes = ls_hparams_kv_bytes(&c->hparams, sizeof(float));
    f->free = ls_memory_free();
    const ls_engine_options usual = {.device = "cpu"};
    f->context = ls_cpu_context(c, &usual, f->free);
    ls_cpu_fits(c, &usual, f->free, &f->no_room);
    for (int i = 0; i < c->n_tensors; i++) f->n_of[c->tensors[i].type]++;
    ls_hparams_differs(&c->hparams, &f->mechanisms);
    ls_quantized_differs(c, &f->quantized);
    for (int k = 0; k < KEPT; k++) f->weights[k] = ls_cpu_weight_bytes(c, kept[k].name, "auto", &f->experts[k]);
}

static void write_json(const ls_model *m, const facts *f, const shared *s, ls_buf *out) {
    const ls_hparams *h = &m->checkpoint->hparams;
    ls_jsonw w = ls_jw_begin(out);
    ls_jw_field_str(&w, "architecture", h->arch->hf);
    ls_jw_field_u64(&w, "parameters", f->parameters);
    ls_jw_field_int(&w, "layers", h->n_layers);
    ls_jw_field_int(&w, "width", h->n_embd);
    ls_jw_field_int(&w, "feed_forward", h->stated_ff ? h->stated_ff : h->n_ff);
    ls_jw_field_int(&w, "heads", h->n_heads);
    ls_jw_field_int(&w, "kv_heads", h->n_kv_heads);
    ls_jw_field_int(&w, "head_dim", h->stated_head_dim ? h->stated_head_dim : h->head_dim);
    ls_jw_field_int(&w, "vocab", h->n_vocab);
    ls_jw_field_int(&w, "context", h->n_context);
    ls_jw_field_int(&w, "window", h->window);
    if (h->n_context_long) ls_jw_field_int(&w, "context_long", h->n_context_long);
    ls_jw_field_str(&w, "mechanisms", f->mechanisms.n ? f->mechanisms.p : NULL);
    if (h->n_skipped) ls_jw_field_int(&w, "skipped_tensors", h->n_skipped);
    if (f->quantized.n) ls_jw_field_str(&w, "quantized", f->quantized.p);
    ls_jw_field_u64(&w, "file_bytes", m->checkpoint->n_bytes);
    ls_jw_field_open(&w, "tensors", '{');
    for (int i = 0; i < LS_GGML_END; i++)
        if (f->n_of[i]) ls_jw_field_int(&w, ls_ggml_type_name(i), f->n_of[i]);
    ls_jw_close(&w, '}');
    ls_jw_field_open(&w, "weight_bytes", '{');
    for (int k = 0; k < KEPT; k++) ls_jw_field_u64(&w, kept[k].name, f->weights[k]);
    ls_jw_close(&w, '}');
    if (h->n_experts) ls_jw_field_u64(&w, "expert_bytes", f->experts[0]);
    ls_jw_field_u64(&w, "context_token_bytes", f->context_bytes);
    ls_jw_field_u64(&w, "memory_free", f->free);
    ls_jw_field_int(&w, "context_here", f->context);
    ls_jw_field_str(&w, "tokenizer", ls_vocab_kind(m->vocab));
    ls_jw_field_str(&w, "chat", m->chat ? ls_chat_name(m->chat) : NULL);
    shared_json(s, &w);
    ls_jw_field_bool(&w, "fits", !*f->no_room.msg);
    ls_jw_close(&w, '}');
}

static void write_text(const ls_model *m, const facts *f, const shared *s, ls_buf *out) {
    const ls_checkpoint *c = m->checkpoint;
    const ls_hparams *h = &c->hparams;
    ls_buf_fmt(out, "architecture  %s, %.3g %s parameters in %d layers\n", h->arch->hf,
               (double)f->parameters / (f->parameters >= 1000000000 ? 1e9 : 1e6),
               f->parameters >= 1000000000 ? "billion" : "million", h->n_layers);
    ls_buf_fmt(out, "shape         width %d, feed-forward %d, %d heads of %d (%d for keys and values)", h->n_embd,
               h->stated_ff ? h->stated_ff : h->n_ff, h->n_heads, h->stated_head_dim ? h->stated_head_dim : h->head_dim,
               h->n_kv_heads);
    if (h->stated_ff) ls_buf_fmt(out, "; padded with zeros to %d and %d", h->n_ff, h->head_dim);
    ls_buf_char(out, '\n');
    if (f->mechanisms.n) ls_buf_fmt(out, "mechanisms    %s\n", f->mechanisms.p);
    if (h->n_skipped && h->n_next)
        ls_buf_fmt(out, "skipped       %d tensors of layers that predict further tokens\n", h->n_skipped);
    else if (h->n_skipped)
        ls_buf_fmt(out, "pictures      not supported: %d vision tensors skipped (%s...)\n", h->n_skipped, h->skipped);
    ls_buf_fmt(out, "tokens        %d, %s\n", h->n_vocab, ls_vocab_kind(m->vocab));
    ls_sanitize_row(out, "chat          %s", m->chat ? ls_chat_name(m->chat) : m->chat_problem);
    ls_buf_fmt(out, "context       %d tokens, %.0f KB each (%.0f in f32)", h->n_context, (double)f->context_bytes / 2e3,
               (double)f->context_bytes / 1e3);
    if (h->window) ls_buf_fmt(out, "; some layers attend to the last %d only", h->window);
    if (h->n_context_long) ls_buf_fmt(out, "; --context up to %d with longer rotations", h->n_context_long);
    ls_buf_fmt(out, "; a run would now get %d\n", f->context);
    ls_buf_fmt(out, "file          %s", amount_of((double)c->n_bytes).s);
    for (int i = 0, n = 0; i < LS_GGML_END; i++)
        if (f->n_of[i]) ls_buf_fmt(out, "%s %d tensors in %s", n++ ? "," : ":", f->n_of[i], ls_ggml_type_name(i));
    if (f->quantized.n) ls_buf_fmt(out, "\nquantised     %s", f->quantized.p);
    ls_buf_str(out, "\nmemory        weights about");
    for (int k = 0; k < KEPT; k++)
        ls_buf_fmt(out, "%s%s %s%s", k ? ", " : " ", amount_of((double)f->weights[k]).s, k ? "as " : "(as in the file)",
                   k ? kept[k].name : "");
    if (h->n_experts)
        ls_buf_fmt(out, "\nexperts       %s of these weights (as in the file); a token takes %d of %d",
                   amount_of((double)f->experts[0]).s, h->n_experts_used, h->n_experts);
    shared_text(s, out);
    if (!f->free) ls_buf_str(out, "\nhere          it can run\n");
    else if (*f->no_room.msg) ls_buf_fmt(out, "\nhere          %s\n", f->no_room.msg);
    else ls_buf_fmt(out, "\nhere          it can run (%s of memory are free)\n", amount_of((double)f->free).s);
}

ls_code ls_model_describe(const char *path, const char *devices, const char *card, ls_buf *out, bool json,
                          ls_err *err) {
    ls_model m;
    facts f = {0};
    const ls_code code = ls_model_load_text(&m, &(ls_model_options){.name = path}, err);
    if (code) return code;
    shared s;
    const ls_code shares = share_out(&s, m.checkpoint, devices, card, err);
    collect(&f, m.checkpoint);
    if (shares) {
    } else if (json) write_json(&m, &f, &s, out);
    else write_text(&m, &f, &s, out);
    ls_buf_free(&f.mechanisms);
    ls_buf_free(&f.quantized);
    ls_model_free(&m);
    return shares;
}
