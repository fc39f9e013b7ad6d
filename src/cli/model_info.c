// Describes a model: architecture, parameters, memory of weights and context, tokenizer, chat template, and whether it
// fits this machine.
#include "base/json.h"
#include "base/system.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/shared.h"
#include "engine/device.h"
#include "engine/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    uint64_t parameters, weights[KEPT], context_bytes, free;
    int n_of[LS_GGML_END]; // tensors by ggml type
    int context;           // tokens of context that a run would get
} facts;

uint64_t ls_model_weight_bytes(const ls_checkpoint *c, const char *weights) {
    uint64_t sum = 0;
    int as = -1;
    for (int k = 0; k < KEPT; k++)
        if (!strcmp(kept[k].name, weights)) as = kept[k].type;
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const bool embedding = !strcmp(t->name, "token_embd.weight"), matrix = t->n_out > 1;
        if (embedding) sum += t->n_bytes; // the embedding stays in the type of the file
        if (embedding && !c->hparams.tied) continue;
        const ls_ggml_layout *l = ls_ggml_layout_of(!matrix ? LS_GGML_F32 : as < 0 ? t->type : as);
        sum += t->n_in * t->n_out * (uint64_t)l->kept / 32;
    }
    return sum;
}

static void collect(facts *f, const ls_checkpoint *c) {
    f->parameters = ls_checkpoint_parameters(c);
    f->context_bytes = ls_hparams_kv_bytes(&c->hparams, sizeof(float));
    f->free = ls_memory_free();
    f->context = ls_context_for(&c->hparams, f->context_bytes, f->free);
    for (int i = 0; i < c->n_tensors; i++) f->n_of[c->tensors[i].type]++;
    for (int k = 0; k < KEPT; k++) f->weights[k] = ls_model_weight_bytes(c, kept[k].name);
}

static void write_json(const ls_model *m, const facts *f, const ls_shared *s, ls_buf *out) {
    const ls_hparams *h = &m->checkpoint->hparams;
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '{');
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
    ls_shared_json(s, &w);
    ls_jw_field_bool(&w, "fits", !f->free || f->weights[0] < f->free);
    ls_jw_close(&w, '}');
}

static void write_text(const ls_model *m, const facts *f, const ls_shared *s, ls_buf *out) {
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
    ls_buf_fmt(out, "tokens        %d, %s\n", h->n_vocab, ls_vocab_kind(m->vocab));
    ls_sanitize_row(out, "chat          %s", m->chat ? ls_chat_name(m->chat) : m->chat_problem);
    ls_buf_fmt(out, "context       %d tokens, %.0f KB each (%.0f in f32)", h->n_context, (double)f->context_bytes / 2e3,
               (double)f->context_bytes / 1e3);
    if (h->window) ls_buf_fmt(out, "; some layers attend to the last %d only", h->window);
    ls_buf_fmt(out, "; a run would now get %d\n", f->context);
    ls_buf_str(out, "file          ");
    ls_bytes_text(out, (double)c->n_bytes);
    for (int i = 0, n = 0; i < LS_GGML_END; i++)
        if (f->n_of[i]) ls_buf_fmt(out, "%s %d tensors in %s", n++ ? "," : ":", f->n_of[i], ls_ggml_type_name(i));
    ls_buf_str(out, "\nmemory        weights about");
    for (int k = 0; k < KEPT; k++) {
        ls_buf_str(out, k ? ", " : " ");
        ls_bytes_text(out, (double)f->weights[k]);
        ls_buf_fmt(out, " %s%s", k ? "as " : "(as in the file)", k ? kept[k].name : "");
    }
    ls_shared_text(s, out);
    ls_buf_str(out, "\nhere          ");
    if (f->free && f->weights[0] >= f->free) {
        ls_buf_str(out, "the weights do not fit: ");
        ls_bytes_text(out, (double)f->free);
        ls_buf_str(out, f->weights[KEPT - 1] < f->free ? " of memory are free (with --weights q4 they fit)\n"
                                                       : " of memory are free\n");
    } else {
        ls_buf_str(out, "it can run");
        if (f->free) {
            ls_buf_str(out, " (");
            ls_bytes_text(out, (double)f->free);
            ls_buf_str(out, " of memory are free)");
        }
        ls_buf_char(out, '\n');
    }
}

ls_code ls_model_describe(const char *path, const char *devices, const char *card, ls_buf *out, bool json,
                          ls_err *err) {
    ls_model m;
    facts f = {0};
    const ls_code code = ls_model_load_text(&m, &(ls_model_options){.name = path}, err);
    if (code) return code;
    ls_shared s;
    const ls_code shares = ls_share_out(&s, m.checkpoint, devices, card, err);
    collect(&f, m.checkpoint);
    if (shares) {
    } else if (json) write_json(&m, &f, &s, out);
    else write_text(&m, &f, &s, out);
    ls_model_free(&m);
    return shares;
}
