// probe MODEL [WEIGHTS [DTYPE]]: reads token ids, writes one JSON object: the raw logits after the last one, and what
// the row was after the embedding and after each layer. For tests/tools/check_model.py.
#include "base/json.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "model/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void numbers(ls_jsonw *w, const char *key, const float *p, size_t n) {
    ls_jw_key(w, key);
    ls_jw_open(w, '[');
    for (size_t i = 0; i < n; i++) ls_jw_num(w, (double)p[i], 9);
    ls_jw_close(w, ']');
}

// What is asked for of the last row.
typedef struct {
    float *to;
    size_t n;
} wanted;

static void take(void *ud, const lst_rows_seen *rows) {
    const wanted *w = ud;
    memcpy(w->to, rows->values + (size_t)(rows->n_rows - 1) * w->n, w->n * sizeof *w->to);
}

int main(int argc, char **argv) {
    ls_err err = {0};
    ls_checkpoint *c = NULL;
    ls_engine *e = NULL;
    ls_kv_cache *b = NULL;
    ls_ids ids = {0};
    lst_row last;
    if (argc < 2) return fprintf(stderr, "usage: probe MODEL [WEIGHTS [DTYPE]] < IDS\n"), 2;
    for (int id; scanf("%d", &id) == 1;) ls_ids_push(&ids, id);
    const ls_engine_options o = {
        .device = "cpu", .weights = argc > 2 ? argv[2] : "auto", .dtype = argc > 3 ? argv[3] : "f32"};
    ls_code code = ls_checkpoint_open(&c, argv[1], &err);
    if (!code) code = ls_engine_open(&e, c, &o, &err);
    if (!code) code = e->kv_cache(e, 0, &b, &err);
    if (code) return fprintf(stderr, "%s\n", err.msg), 1;
    const size_t n_layers = (size_t)c->hparams.n_layers + 1, n_embd = (size_t)c->hparams.n_embd;
    float *layers = ls_calloc(n_layers * n_embd, sizeof *layers),
          *logits = ls_calloc((size_t)e->n_vocab, sizeof *logits);
    int32_t *stages = ls_calloc(n_layers, sizeof *stages);
    for (size_t i = 0; i < n_layers; i++) stages[i] = (int32_t)i;
    if ((code = b->hidden(b, stages, (int32_t)n_layers, false, take, &(wanted){layers, n_layers * n_embd}, &err)) ||
        (code = b->prefill(b, ids.p, (int32_t)ids.n, &(lst_sampling){0}, &last, NULL, NULL, &err)) ||
        (code = b->row_logits(b, -1, logits, &err)))
        return fprintf(stderr, "%s\n", err.msg), 1;
    ls_buf out = {0};
    ls_jsonw w = {.out = &out};
    ls_jw_open(&w, '{');
    numbers(&w, "logits", logits, (size_t)e->n_vocab);
    ls_jw_key(&w, "layers");
    ls_jw_open(&w, '[');
    for (size_t i = 0; i < n_layers; i++) {
        ls_jw_open(&w, '[');
        for (size_t j = 0; j < n_embd; j++) ls_jw_num(&w, (double)layers[i * n_embd + j], 9);
        ls_jw_close(&w, ']');
    }
    ls_jw_close(&w, ']');
    ls_jw_close(&w, '}');
    printf("%s\n", out.p);
    ls_buf_free(&out), ls_ids_free(&ids);
    free(layers), free(logits), free(stages);
    b->free(b);
    e->close(e);
    ls_checkpoint_close(c);
    return 0;
}
