// The steps of a conversation for the screen: a packed step is unpacked into one of a few slots, which are reused in
// turn.
#pragma once
#include "decode/packed.h"

enum { UI_STEP_SLOTS = 16 };

typedef struct {
    ls_packed **packed; // of each step
    size_t n, cap;
    struct ui_step_slots *slots; // NULL before the first step
} ui_steps;

void ui_steps_put(ui_steps *s, ls_packed *step); // behind the others; takes it
void ui_steps_cut(ui_steps *s, size_t n);        // keeps the first n
void ui_steps_free(ui_steps *s);
// Valid until UI_STEP_SLOTS - 1 other steps were unpacked, or the steps change.
const ls_step *ui_steps_at(const ui_steps *s, size_t i);
// Valid until another one is pinned, or the steps change.
const ls_step *ui_steps_pin(const ui_steps *s, size_t i);
