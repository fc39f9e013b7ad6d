// What a model is: architecture, parameters, the memory of its weights and its context, tokenizer, chat template, and
// whether it can run here.
#include "base/jsonw.h"
#include "base/split.h"
#include "base/sysmem.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "engine/device.h"
#include "engine/load.h"
#include "engine/ranks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int type; // -1: as the file has them
} kept[] = {
#define ROW(name, type) {name, type},
    LS_GGML_KEPT(ROW)
#undef ROW
};
enum { KEPT = sizeof kept / sizeof *kept };

typedef struct {
    uint64_t parameters, weights[KEPT], context_bytes, free;
    int n_of[LS_GGML_END]; // tensors by ggml type
    int context;           // that a run would get
} facts;

uint64_t ls_model_weight_bytes(const ls_checkpoint *c, const char *weights) {
    uint64_t sum = 0;
    int as = -1;
    for (int k = 0; k < KEPT; k++)
        if (!strcmp(kept[k].name, weights)) as = kept[k].type;
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const bool embedding = !strcmp(t->name, "token_embd.weight"), matrix = t->n_out > 1;
        if (embedding) sum += t->n_bytes; // its rows are read as the file has them
        if (embedding && !c->hparams.tied) continue;
        const ls_ggml_layout *l = ls_ggml_layout_of(!matrix ? LS_GGML_F32 : as < 0 ? t->type : as);
        sum += t->n_in * t->n_out * (uint64_t)l->kept / 32;
    }
    return sum;
}

static void collect(facts *f, const ls_checkpoint *c) {
    f->parameters = ls_checkpoint_parameters(c);
    f->context_bytes = ls_hparams_kv_bytes(&c->hparams);
    f->free = ls_memory_free();
    f->context = ls_context_for(&c->hparams, f->free);
    for (int i = 0; i < c->n_tensors; i++) f->n_of[c->tensors[i].type]++;
    for (int k = 0; k < KEPT; k++) f->weights[k] = ls_model_weight_bytes(c, kept[k].name);
}

// Ranks that share the model, on paper: what one of them holds at most, and what a step exchanges.
typedef struct {
    int32_t n;
    uint64_t weights, token; // bytes of the largest part, and of a token's keys and values there
    int32_t rounds;          // messages that wait for each other
    double bytes_of_row;     // that a rank gets from the others
} shared;

// Networks with what a message of each takes, on paper: assumed, and no more than a first idea.
static const struct {
    const char *name;
    double us, gb_per_s;
} links[] = {{"loopback", 30, 3}, {"100 Gbit/s", 25, 12.5}, {"PCIe 5", 12, 50}, {"NVLink", 8, 450}};
enum { LINKS = sizeof links / sizeof *links };

static double share_of(ls_range part, int32_t whole) {
    return (double)ls_range_size(part) / whole;
}

// What part of a tensor a rank holds.
static double part_of(const ls_tensor *t, const ls_hparams *h, const ls_part *p) {
    const char *name = t->name;
    if (t->n_out == 1) return 1;
    if (!strncmp(name, "token_embd", 10) || !strncmp(name, "output.", 7)) return share_of(p->vocab, h->n_vocab);
    if (strstr(name, "attn_qkv"))
        return (double)(ls_range_size(p->heads) + 2 * ls_range_size(p->kv_heads)) / (h->n_heads + 2 * h->n_kv_heads);
    if (strstr(name, "attn_q")) return share_of(p->heads, h->n_heads);
    if (strstr(name, "attn_k") || strstr(name, "attn_v")) return share_of(p->kv_heads, h->n_kv_heads);
    if (strstr(name, "ffn_gate") || strstr(name, "ffn_up")) return share_of(p->ff, h->n_ff);
    return share_of(p->embd, h->n_embd);
}

static ls_code share_out(shared *s, const ls_checkpoint *c, const char *devices, ls_err *err) {
    const ls_hparams *h = &c->hparams;
    *s = (shared){0};
    ls_devices d;
    const ls_code code = ls_devices_read(&d, devices, NULL, err);
    s->n = d.n;
    const int32_t most = ls_most_ranks(h->n_heads, h->n_ff, h->n_embd, h->n_vocab);
    if (code || s->n < 2) return code;
    if (s->n > most)
        return ls_fail(err, LS_E_RANGE,
                       "%d ranks cannot share this model, which has %d attention heads: at most %d can", s->n,
                       h->n_heads, most);
    for (int32_t rank = 0; rank < s->n; rank++) {
        const ls_part p = ls_rank_holds(h, rank, s->n, d.gpu[0] >= 0);
        double weights = 0;
        for (int i = 0; i < c->n_tensors; i++) {
            const ls_tensor *t = &c->tensors[i];
            const ls_ggml_layout *l = ls_ggml_layout_of(t->n_out > 1 ? t->type : LS_GGML_F32);
            weights += (double)(t->n_in * t->n_out) * l->kept / 32 * part_of(t, h, &p);
            if (h->tied && !strncmp(t->name, "token_embd", 10)) // its rows as they are, beside those of the output head
                weights += (double)t->n_bytes * part_of(t, h, &p);
        }
        if (weights > (double)s->weights) s->weights = (uint64_t)weights;
        const uint64_t token = ls_hparams_kv_bytes(h) / (uint64_t)h->n_kv_heads * (uint64_t)ls_range_size(p.kv_heads);
        if (token > s->token) s->token = token;
    }
    const double others = s->n - 1, all = s->n;
    s->rounds = 4 * h->n_layers + 5;
    s->bytes_of_row =
        4 * ((double)h->n_layers * (2.0 * h->n_embd + h->n_ff + (double)h->n_heads * h->head_dim) * others / all +
             h->n_embd * others);
    return LS_OK;
}

static void write_json(const ls_model *m, const facts *f, const shared *s, ls_buf *out) {
    const ls_hparams *h = &m->checkpoint->hparams;
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '{');
    ls_jw_field_str(&w, "architecture", h->arch->hf);
    ls_jw_field_u64(&w, "parameters", f->parameters);
    ls_jw_field_int(&w, "layers", h->n_layers);
    ls_jw_field_int(&w, "width", h->n_embd);
    ls_jw_field_int(&w, "feed_forward", h->n_ff);
    ls_jw_field_int(&w, "heads", h->n_heads);
    ls_jw_field_int(&w, "kv_heads", h->n_kv_heads);
    ls_jw_field_int(&w, "head_dim", h->head_dim);
    ls_jw_field_int(&w, "vocab", h->n_vocab);
    ls_jw_field_int(&w, "context", h->n_context);
    ls_jw_field_int(&w, "window", h->window);
    ls_jw_field_u64(&w, "file_bytes", m->checkpoint->n_bytes);
    ls_jw_field_open(&w, "tensors", '{');
    for (int i = 0; i < LS_GGML_END; i++)
        if (f->n_of[i]) ls_jw_field_int(&w, ls_ggml_type_name(i), f->n_of[i]);
    ls_jw_close(&w, '}');
    ls_jw_field_open(&w, "weight_bytes", '{');
    for (int k = 0; k < KEPT; k++) ls_jw_field_u64(&w, kept[k].name, f->weights[k]);
    ls_jw_close(&w, '}');
    ls_jw_field_u64(&w, "context_token_bytes", f->context_bytes);
    ls_jw_field_u64(&w, "memory_free", f->free);
    ls_jw_field_int(&w, "context_here", f->context);
    ls_jw_field_str(&w, "tokenizer", ls_vocab_kind(m->vocab));
    ls_jw_key(&w, "chat");
    if (m->chat) ls_jw_str(&w, ls_chat_name(m->chat));
    else ls_jw_null(&w);
    if (s->n > 1) {
        ls_jw_field_open(&w, "shared", '{');
        ls_jw_field_int(&w, "ranks", s->n);
        ls_jw_field_u64(&w, "weight_bytes", s->weights);
        ls_jw_field_u64(&w, "context_token_bytes", s->token);
        ls_jw_field_int(&w, "rounds", s->rounds);
        ls_jw_field_num(&w, "bytes_of_row", s->bytes_of_row, 9);
        ls_jw_close(&w, '}');
    }
    ls_jw_field_bool(&w, "fits", !f->free || f->weights[0] < f->free);
    ls_jw_close(&w, '}');
}

static void size(ls_buf *out, double bytes) {
    if (bytes >= 1e9) ls_buf_fmt(out, "%.2f GB", bytes / 1e9);
    else ls_buf_fmt(out, "%.0f MB", ceil(bytes / 1e6));
}

static void write_text(const ls_model *m, const facts *f, const shared *s, ls_buf *out) {
    const ls_checkpoint *c = m->checkpoint;
    const ls_hparams *h = &c->hparams;
    ls_buf_fmt(out, "architecture  %s, %.3g %s parameters in %d layers\n", h->arch->hf,
               (double)f->parameters / (f->parameters >= 1000000000 ? 1e9 : 1e6),
               f->parameters >= 1000000000 ? "billion" : "million", h->n_layers);
    ls_buf_fmt(out, "shape         width %d, feed-forward %d, %d heads of %d (%d for keys and values)\n", h->n_embd,
               h->n_ff, h->n_heads, h->head_dim, h->n_kv_heads);
    ls_buf_fmt(out, "tokens        %d, %s\n", h->n_vocab, ls_vocab_kind(m->vocab));
    ls_visible_row(out, "chat          %s", m->chat ? ls_chat_name(m->chat) : m->chat_problem);
    ls_buf_fmt(out, "context       %d tokens, %.0f KB each", h->n_context, (double)f->context_bytes / 1e3);
    if (h->window) ls_buf_fmt(out, "; some layers see the last %d only", h->window);
    ls_buf_fmt(out, "; %d would be used now\n", f->context);
    ls_buf_str(out, "file          ");
    size(out, (double)c->n_bytes);
    for (int i = 0, n = 0; i < LS_GGML_END; i++)
        if (f->n_of[i]) ls_buf_fmt(out, "%s %d tensors in %s", n++ ? "," : ":", f->n_of[i], ls_ggml_type_name(i));
    ls_buf_str(out, "\nmemory        weights about");
    for (int k = 0; k < KEPT; k++) {
        ls_buf_str(out, k ? ", " : " ");
        size(out, (double)f->weights[k]);
        ls_buf_fmt(out, " %s%s", k ? "as " : "(as they are)", k ? kept[k].name : "");
    }
    if (s->n > 1) {
        ls_buf_fmt(out, "\nshared by %-3d ", s->n);
        size(out, (double)s->weights);
        ls_buf_fmt(out, " of weights (as they are) and %.0f KB a token on the largest rank\n", (double)s->token / 1e3);
        ls_buf_fmt(out, "exchanges     %d messages a step, one after the other; ", s->rounds);
        size(out, s->bytes_of_row * 64);
        ls_buf_str(out, " to each rank for 64 rows\non paper      ");
        for (int i = 0; i < LINKS; i++)
            ls_buf_fmt(out, "%s%s %.2f to %.2f ms", i ? ", " : "", links[i].name,
                       (s->rounds * links[i].us + s->bytes_of_row / links[i].gb_per_s / 1e3) / 1e3,
                       (s->rounds * links[i].us + 64 * s->bytes_of_row / links[i].gb_per_s / 1e3) / 1e3);
        ls_buf_str(out, " for 1 to 64 rows (latencies and bandwidths are assumed)");
    }
    ls_buf_str(out, "\nhere          ");
    if (f->free && f->weights[0] >= f->free) {
        ls_buf_str(out, "it does not fit: ");
        size(out, (double)f->free);
        ls_buf_str(out, f->weights[KEPT - 1] < f->free ? " are free; --weights q4 would\n" : " are free\n");
    } else {
        ls_buf_str(out, "it can run");
        if (f->free) {
            ls_buf_str(out, " (");
            size(out, (double)f->free);
            ls_buf_str(out, " of memory are free)");
        }
        ls_buf_char(out, '\n');
    }
}

ls_code ls_model_describe(const char *path, const char *devices, ls_buf *out, bool json, ls_err *err) {
    ls_model m;
    facts f = {0};
    const ls_code code = ls_model_load_text(&m, &(ls_model_options){.name = path}, err);
    if (code) return code;
    shared s;
    const ls_code shares = share_out(&s, m.checkpoint, devices, err);
    collect(&f, m.checkpoint);
    if (shares) {
    } else if (json) write_json(&m, &f, &s, out);
    else write_text(&m, &f, &s, out);
    ls_model_free(&m);
    return shares;
}
