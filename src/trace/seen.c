#include "trace/seen.h"
#include "base/mem.h"

#include <stdlib.h>

void ls_seen_init(ls_seen *s, int32_t n_vocab) {
    free(s->known);
    s->known = ls_calloc((size_t)n_vocab, 1);
    s->n = n_vocab;
    s->order.n = 0;
}

void ls_seen_free(ls_seen *s) {
    free(s->known);
    ls_ids_free(&s->order);
    *s = (ls_seen){0};
}

void ls_seen_cut(ls_seen *s, size_t n) {
    while (s->order.n > n) s->known[s->order.p[--s->order.n]] = 0;
}

static void note(ls_seen *s, int32_t id, ls_ids *fresh) {
    if (id < 0 || id >= s->n || s->known[id]) return;
    s->known[id] = 1;
    ls_ids_push(&s->order, id);
    ls_ids_push(fresh, id);
}

void ls_seen_ids(ls_seen *s, const int32_t *ids, size_t n, ls_ids *fresh) {
    for (size_t i = 0; i < n; i++) note(s, ids[i], fresh);
}

void ls_seen_step(ls_seen *s, const ls_step *step, ls_ids *fresh) {
    for (int i = 0; i < step->n_top; i++) note(s, step->top[i].id, fresh);
    for (int i = 0; i < step->tree.n; i++) {
        note(s, step->tree.nodes[i].token, fresh);
        note(s, step->tree.nodes[i].target, fresh);
        note(s, step->tree.nodes[i].own, fresh);
        for (int j = 0; j < LS_ROW_TOP; j++) note(s, step->tree.nodes[i].top[j].id, fresh);
    }
}
