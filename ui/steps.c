#include "ui/steps.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct ui_step_slots {
    ls_step slot[UI_STEP_SLOTS], pinned;
    size_t holds[UI_STEP_SLOTS], pin; // indexes; SIZE_MAX: nothing
    size_t next;
};

// The arrays of a record and how much of each is in use. What lies between them is copied whole.
typedef struct {
    size_t at, size, used;
} part;

enum { PARTS = 4 };

static void parts_of(const ls_step *s, part out[PARTS]) {
    out[0] = (part){offsetof(ls_step, top), sizeof s->top, (size_t)s->n_top * sizeof *s->top};
    out[1] = (part){offsetof(ls_step, path), sizeof s->path, (size_t)s->n_path * sizeof *s->path};
    out[2] = (part){offsetof(ls_step, tree.branches), sizeof s->tree.branches,
                    (size_t)s->tree.n_branches * sizeof *s->tree.branches};
    out[3] = (part){offsetof(ls_step, tree.nodes), sizeof s->tree.nodes, (size_t)s->tree.n * sizeof *s->tree.nodes};
}

// A packed step begins with the counts that unpacking needs.
typedef struct {
    int32_t n_top, n_path, n_branches, n_nodes;
} counts;

static unsigned char *pack(const ls_step *s) {
    part p[PARTS];
    const counts c = {s->n_top, s->n_path, s->tree.n_branches, s->tree.n};
    parts_of(s, p);
    size_t n = sizeof c, at = 0;
    for (int i = 0; i < PARTS; i++) n += p[i].used + (p[i].at - at), at = p[i].at + p[i].size;
    unsigned char *out = ls_malloc(n), *to = out;
    memcpy(to, &c, sizeof c);
    to += sizeof c;
    at = 0;
    for (int i = 0; i < PARTS; i++) {
        memcpy(to, (const char *)s + at, p[i].at - at);
        to += p[i].at - at;
        memcpy(to, (const char *)s + p[i].at, p[i].used);
        to += p[i].used;
        at = p[i].at + p[i].size;
    }
    return out;
}

static void unpack(const unsigned char *from, ls_step *s) {
    part p[PARTS];
    counts c;
    memcpy(&c, from, sizeof c);
    from += sizeof c;
    s->n_top = (int16_t)c.n_top, s->n_path = (int16_t)c.n_path, s->tree.n_branches = c.n_branches,
    s->tree.n = c.n_nodes;
    parts_of(s, p);
    size_t at = 0;
    for (int i = 0; i < PARTS; i++) {
        memcpy((char *)s + at, from, p[i].at - at);
        from += p[i].at - at;
        memcpy((char *)s + p[i].at, from, p[i].used);
        from += p[i].used;
        at = p[i].at + p[i].size;
    }
}

static void forget_slots(ui_steps *s) {
    if (!s->slots) s->slots = ls_calloc(1, sizeof *s->slots);
    for (int i = 0; i < UI_STEP_SLOTS; i++) s->slots->holds[i] = SIZE_MAX;
    s->slots->pin = SIZE_MAX;
}

void ui_steps_add(ui_steps *s, const ls_step *step) {
    if (s->n == s->cap) {
        s->cap = s->cap * 2 + 256;
        s->packed = ls_realloc(s->packed, s->cap * sizeof *s->packed);
    }
    if (!s->slots) forget_slots(s);
    s->packed[s->n++] = pack(step);
}

void ui_steps_cut(ui_steps *s, size_t n) {
    while (s->n > n) free(s->packed[--s->n]);
    forget_slots(s);
}

void ui_steps_free(ui_steps *s) {
    ui_steps_cut(s, 0);
    free(s->packed);
    free(s->slots);
    *s = (ui_steps){0};
}

const ls_step *ui_steps_at(const ui_steps *s, size_t i) {
    struct ui_step_slots *t = s->slots;
    for (int k = 0; k < UI_STEP_SLOTS; k++)
        if (t->holds[k] == i) return &t->slot[k];
    const size_t k = t->next++ % UI_STEP_SLOTS;
    unpack(s->packed[i], &t->slot[k]);
    t->holds[k] = i;
    return &t->slot[k];
}

const ls_step *ui_steps_pin(const ui_steps *s, size_t i) {
    struct ui_step_slots *t = s->slots;
    if (t->pin != i) unpack(s->packed[i], &t->pinned);
    t->pin = i;
    return &t->pinned;
}
