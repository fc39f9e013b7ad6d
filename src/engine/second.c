#include "engine/second.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

struct ls_second_model {
    ls_model model;
    char *name, *weights, *device; // as requested
    int32_t threads;
    int32_t differs;
    int users;
    ls_second_model *next;
};

static bool same_token(const ls_vocab *a, const ls_vocab *b, int32_t id) {
    size_t n, m;
    const char *p = ls_vocab_bytes(a, id, &n), *q = ls_vocab_bytes(b, id, &m);
    return n == m && !memcmp(p, q, n) && ls_vocab_is_special(a, id) == ls_vocab_is_special(b, id);
}

// Whether all tokens of a vocabulary from id on are special.
static bool special_from(const ls_vocab *v, int32_t id) {
    for (; id < ls_vocab_size(v); id++)
        if (!ls_vocab_is_special(v, id)) return false;
    return true;
}

static void add_token(ls_buf *out, const ls_vocab *v, int32_t id) {
    size_t n;
    const char *bytes = ls_vocab_bytes(v, id, &n);
    ls_buf_str(out, "'");
    ls_sanitize_line(out, bytes, n < 40 ? n : 40);
    ls_buf_str(out, "'");
}

static ls_code agree(const ls_model *target, const ls_model *second, int32_t *differs, ls_err *err) {
    const ls_vocab *a = target->vocab, *b = second->vocab;
    const int32_t n = ls_vocab_size(a), m = ls_vocab_size(b), both = n < m ? n : m;
    int32_t id = 0;
    *differs = -1;
    if (ls_vocab_id(a) == ls_vocab_id(b)) return LS_OK;
    while (id < both && same_token(a, b, id)) id++;
    *differs = id;
    if (special_from(a, id) && special_from(b, id)) return LS_OK;
    ls_buf x = {0}, y = {0};
    add_token(&x, a, id);
    add_token(&y, b, id);
    ls_fail(err, LS_E_UNSUPPORTED,
            "%.60s (%d tokens) cannot draft for %.60s (%d tokens): token %d is %s in the draft model and %s in the "
            "target; use a model with the target's tokenizer",
            second->name, m, target->name, n, id, y.p, x.p);
    ls_buf_free(&x);
    ls_buf_free(&y);
    return LS_E_UNSUPPORTED;
}

static void drop(ls_second_model *s) {
    ls_model_free(&s->model);
    free(s->name);
    free(s->weights);
    free(s->device);
    free(s);
}

static void drop_unused(ls_model *target) {
    for (ls_second_model **at = &target->seconds; *at;) {
        ls_second_model *s = *at;
        if (s->users) at = &s->next;
        else {
            *at = s->next;
            drop(s);
        }
    }
}

ls_code ls_second_model_get(ls_model *target, const ls_second_want *want, ls_model **out, int32_t *differs,
                            ls_err *err) {
    const char *file = want->name && *want->name ? want->name : *target->file ? target->file : target->name;
    const char *device = want->device && strcmp(want->device, "auto") ? want->device : target->engine->device;
    ls_second_model *s = target->seconds;
    *out = NULL;
    while (s && (strcmp(s->name, file) || strcmp(s->weights, want->weights) || strcmp(s->device, device) ||
                 s->threads != want->threads))
        s = s->next;
    if (!s) {
        const ls_model_options o = {.name = file,
                                    .engine = {.device = device,
                                               .alone = true,
                                               .dtype = "auto",
                                               .weights = want->weights,
                                               .threads = want->threads ? want->threads
                                                          : strcmp(device, target->engine->device)
                                                              ? 0
                                                              : target->engine->threads,
                                               .stop = target->stop,
                                               .ud = target->stop_ud}};
        s = ls_calloc(1, sizeof *s);
        s->name = ls_strdup(file);
        s->weights = ls_strdup(want->weights);
        s->device = ls_strdup(device);
        s->threads = want->threads;
        ls_code code = ls_model_load(&s->model, &o, err);
        if (!code) code = agree(target, &s->model, &s->differs, err);
        if (code) {
            drop(s);
            return ls_err_prefix(err, "the draft model");
        }
        s->next = target->seconds;
        target->seconds = s;
    }
    s->users++;
    drop_unused(target);
    *out = &s->model;
    *differs = s->differs;
    return LS_OK;
}

void ls_second_model_done(ls_model *target, ls_model *second) {
    for (ls_second_model *s = target->seconds; s; s = s->next)
        if (&s->model == second) s->users--;
}

void ls_second_models_free(ls_model *target) {
    for (ls_second_model *s = target->seconds; s; s = s->next) s->users = 0;
    drop_unused(target);
}
