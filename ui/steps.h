// The steps of a conversation, packed: a record has room for 256 rows, most trees have a few. A step is
// unpacked into one of a few slots, which take turns.
#pragma once
#include "decode/step.h"

enum { UI_STEP_SLOTS = 16 };

typedef struct {
    unsigned char **packed; // of each step
    size_t n, cap;
    struct ui_step_slots *slots; // NULL before the first step
} ui_steps;

void ui_steps_add(ui_steps *s, const ls_step *step);
void ui_steps_cut(ui_steps *s, size_t n); // keeps the first n
void ui_steps_free(ui_steps *s);
// Valid until UI_STEP_SLOTS - 1 other steps were unpacked, or the steps change.
const ls_step *ui_steps_at(const ui_steps *s, size_t i);
// Valid until another one is pinned, or the steps change.
const ls_step *ui_steps_pin(const ui_steps *s, size_t i);
