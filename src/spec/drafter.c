#include "spec/drafter.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define METHOD(name, method) extern const ls_method method;
#include "spec/methods.def"
#undef METHOD

static const ls_method plain = {
    .name = "ar", .summary = "plain decoding, one token per step", .source = "the baseline", .rows = 1, .scored = true};

const ls_method *const ls_methods[] = {
    &plain,
#define METHOD(name, method) &method,
#include "spec/methods.def"
#undef METHOD
    NULL,
};

const char ls_method_names[] = "ar"
#define METHOD(name, method) "|" name
#include "spec/methods.def"
#undef METHOD
    ;

const ls_method *ls_method_find(const char *name) {
    for (const ls_method *const *m = ls_methods; *m; m++)
        if (!strcmp((*m)->name, name)) return *m;
    return NULL;
}

int32_t ls_draft_tail(const ls_draft_state *s, const ls_tree *t, int32_t row, int32_t *tail, int32_t most) {
    int32_t n = 0;
    for (; row >= 0 && n < most; row = t->nodes[row].parent) tail[most - ++n] = t->nodes[row].token;
    for (size_t i = s->n_context; i > 0 && n < most; i--) tail[most - ++n] = s->context[i - 1];
    memmove(tail, tail + most - n, (size_t)n * sizeof *tail);
    return n;
}

ls_code ls_method_make(ls_drafter **out, const ls_method *m, ls_err *err) {
    ls_knob_value *knobs = ls_calloc(ls_knob_count() + 1, sizeof *knobs);
    ls_knob_defaults(knobs);
    *out = NULL;
    const ls_code code =
        m->make ? m->make(out, &(ls_draft_setup){.knobs = knobs + ls_knob_offset(m), .tokenizer = ""}, err) : LS_OK;
    free(knobs);
    return code;
}

static bool before(double path, int32_t item, double than_path, int32_t than_item) {
    return path > than_path || (path == than_path && item < than_item);
}

void ls_frontier_push(ls_frontier *q, int32_t item, double path) {
    if (q->n == LS_FRONTIER_MAX) return;
    int32_t i = q->n++;
    while (i > 0) {
        const int32_t up = (i - 1) / 2;
        if (!before(path, item, q->path[up], q->item[up])) break;
        q->path[i] = q->path[up], q->item[i] = q->item[up];
        i = up;
    }
    q->path[i] = path;
    q->item[i] = item;
}

int32_t ls_frontier_pop(ls_frontier *q, double *path) {
    if (!q->n) return -1;
    const int32_t top = q->item[0], last = --q->n;
    if (path) *path = q->path[0];
    int32_t i = 0;
    for (int32_t k; (k = 2 * i + 1) < last; i = k) {
        if (k + 1 < last && before(q->path[k + 1], q->item[k + 1], q->path[k], q->item[k])) k++;
        if (!before(q->path[k], q->item[k], q->path[last], q->item[last])) break;
        q->path[i] = q->path[k], q->item[i] = q->item[k];
    }
    q->path[i] = q->path[last], q->item[i] = q->item[last];
    return top;
}
