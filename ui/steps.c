#include "ui/steps.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>

struct ui_step_slots {
    ls_step slot[UI_STEP_SLOTS], pinned;
    size_t holds[UI_STEP_SLOTS], pin; // indexes; SIZE_MAX: nothing
    size_t next;
};

static void forget_slots(ui_steps *s) {
    if (!s->slots) s->slots = ls_calloc(1, sizeof *s->slots);
    for (int i = 0; i < UI_STEP_SLOTS; i++) s->slots->holds[i] = SIZE_MAX;
    s->slots->pin = SIZE_MAX;
}

void ui_steps_put(ui_steps *s, ls_packed *step) {
    if (s->n == s->cap) {
        s->cap = s->cap * 2 + 256;
        s->packed = ls_realloc(s->packed, s->cap * sizeof *s->packed);
    }
    if (!s->slots) forget_slots(s);
    s->packed[s->n++] = step;
}

void ui_steps_cut(ui_steps *s, size_t n) {
    while (s->n > n) ls_packed_free(s->packed[--s->n]);
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
    ls_unpack(s->packed[i], &t->slot[k]);
    t->holds[k] = i;
    return &t->slot[k];
}

const ls_step *ui_steps_pin(const ui_steps *s, size_t i) {
    struct ui_step_slots *t = s->slots;
    if (t->pin != i) ls_unpack(s->packed[i], &t->pinned);
    t->pin = i;
    return &t->pinned;
}
