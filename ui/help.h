// A search in Help: for the text that was sought last, without regard to case.
#pragma once
#include "ui/state.h"

void ui_help_find(ui_state *s, int by); // the next line that holds it (1), or the one before (-1), around the end
