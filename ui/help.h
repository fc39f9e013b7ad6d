// A search in Help: for the text that was sought last, without regard to case.
#pragma once
#include "ui/state.h"

void ui_help_find(ui_state *s, int by); // the next line (1) or the previous one (-1) with s->sought, wrapping around
