#include "engine/trained.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_code status(const ls_trained *t, int code, ls_err *err) {
    return code ? ls_call_failed(t->lib->last_error(), code, err) : LS_OK;
}

float *ls_trained_memory(ls_trained *t, size_t n) {
    float *p;
    if (!t->on_device) return ls_calloc(n ? n : 1, sizeof *p);
    return t->lib->head_memory(t->head, (int64_t)n, &p) ? NULL : p;
}

void ls_trained_memory_free(ls_trained *t, float *p) {
    if (t->on_device) t->lib->head_memory_free(t->head, p);
    else free(p);
}

bool ls_trained_copy(ls_trained *t, float *to, const float *from, size_t n) {
    if (t->on_device) return !t->lib->head_copy(t->head, to, from, (int64_t)n);
    if (n) memcpy(to, from, n * sizeof *to);
    return true;
}

ls_code ls_trained_begin(ls_trained *t, int32_t keep, int32_t at, const int32_t *tokens, const float *values, int32_t n,
                         const lst_sampling *s, lst_row *row, ls_err *err) {
    return status(t, t->lib->draft_begin(t->draft, keep, at, tokens, values, n, s, row), err);
}

ls_code ls_trained_grow(ls_trained *t, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *s,
                        lst_row *rows, ls_err *err) {
    return status(t, t->lib->draft_grow(t->draft, tokens, parents, n, s, rows), err);
}

ls_code ls_trained_row_top(ls_trained *t, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err) {
    return status(t, t->lib->draft_top(t->draft, row, k, ids, logits), err);
}

ls_code ls_trained_row_logits(ls_trained *t, int32_t row, float *logits, ls_err *err) {
    return status(t, t->lib->draft_logits(t->draft, row, logits), err);
}

ls_code ls_trained_guess(ls_trained *t, const float *values, int32_t k, int32_t *ids, float *p, ls_err *err) {
    return status(t, t->lib->head_guess(t->head, values, k, ids, p), err);
}

void ls_trained_free(ls_trained *t) {
    if (t->draft) t->lib->draft_free(t->draft);
    if (t->head) t->lib->head_close(t->head);
    free(t);
}

typedef struct {
    const ls_checkpoint *head, *target;
    int borrowed[2]; // indices of the target's tensors, which follow the head's own tensors
    ls_err err;      // of the last read
} head_loading;

static int read_head_tensor(void *ud, int32_t i, uint64_t at, uint64_t n, void *dst) {
    head_loading *l = ud;
    const int own = l->head->n_tensors;
    return (i < own ? ls_checkpoint_read(l->head, i, at, n, dst, &l->err)
                    : ls_checkpoint_read(l->target, l->borrowed[i - own], at, n, dst, &l->err)) != LS_OK;
}

static lst_tensor table_row(const ls_tensor *t, const char *name) {
    return (lst_tensor){name, t->type, (int64_t)t->n_in, (int64_t)t->n_out, NULL, t->n_bytes, NULL};
}

static void stay_on_cpu(ls_trained *t) {
    t->on_device = false;
    snprintf(t->note, sizeof t->note, "%s runs on the CPU, beside the GPU: %.300s", t->name, t->lib->last_error());
}

// The tensors of the head, then those of the target that the head does not have. device: the engine's.
static ls_code open_head(ls_trained *t, const ls_head *h, const ls_checkpoint *target, const char *device,
                         const ls_engine_options *opt, ls_err *err) {
    head_loading l = {h->weights, target, {0}, {0}};
    lst_tensor *tensors = ls_calloc((size_t)h->weights->n_tensors + 2, sizeof *tensors);
    int n = 0, borrowed = 0;
    for (; n < h->weights->n_tensors; n++) tensors[n] = table_row(&h->weights->tensors[n], h->weights->tensors[n].name);
    for (int which = 0; which < 2 && h->kind != LS_HEAD_MEDUSA; which++) {
        const char *name = which ? "output.weight" : "token_embd.weight",
                   *there = which && target->hparams.tied ? "token_embd.weight" : name;
        if (which ? h->own_output : h->own_embedding) continue;
        const ls_tensor *of_target = ls_checkpoint_find(target, there);
        tensors[n++] = table_row(of_target, name);
        l.borrowed[borrowed++] = (int)(of_target - target->tensors);
    }
    lst_open_options o = {.device = t->on_device ? device : "cpu",
                          .threads = t->threads,
                          .progress = opt->progress,
                          .progress_ud = opt->ud,
                          .read = read_head_tensor,
                          .ud = &l};
    int code = t->lib->head_open(&t->head, h, tensors, n, &o);
    if (code == LST_E_MEMORY && t->on_device) {
        stay_on_cpu(t);
        o.device = "cpu";
        code = t->lib->head_open(&t->head, h, tensors, n, &o);
    }
    free(tensors);
    if (code == LST_E_READ) {
        *err = l.err;
        return LS_E_IO;
    }
    ls_code failed = status(t, code, err);
    if (!failed && h->kind != LS_HEAD_MEDUSA)
        failed = status(t, t->lib->draft_new(&t->draft, t->head, t->n_context), err);
    return failed ? failed : ls_checkpoint_unchanged(h->weights, err);
}

ls_code ls_trained_open(ls_trained **out, ls_engine *e, const ls_checkpoint *target, const char *folder,
                        const ls_engine_options *opt, ls_err *err) {
    ls_head *h;
    *out = NULL;
    ls_code code = ls_head_open(&h, folder, err);
    if (code) return code;
    ls_trained *t = ls_calloc(1, sizeof *t);
    const char *slash = strrchr(folder, '/');
    *t = (ls_trained){.n_vocab = h->hparams.n_vocab, .n_context = e->n_context, .threads = e->threads};
    snprintf(t->name, sizeof t->name, "%s head %.48s", h->name, slash && slash[1] ? slash + 1 : folder);
    snprintf(t->base, sizeof t->base, "%s", h->base);
    code = ls_torch_load(&t->lib, "a trained head", err);
    if (!code) code = ls_head_fits(h, &target->hparams, t->takes, &t->n_takes, err);
    t->n_values = ls_head_values(h);
    if (h->kind == LS_HEAD_MEDUSA) t->n_guesses = h->n_heads;
    t->on_device = strcmp(e->device, "cpu") && (!opt->device || strcmp(opt->device, "cpu"));
    if (!code && t->on_device && t->lib->head_device(e->device)) stay_on_cpu(t);
    if (!code) code = open_head(t, h, target, e->device, opt, err);
    ls_head_close(h);
    if (code) {
        ls_trained_free(t);
        return code;
    }
    t->weight_bytes = t->lib->head_bytes(t->head);
    *out = t;
    return LS_OK;
}
