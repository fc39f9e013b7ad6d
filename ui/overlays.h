// What lies over the panels: Help, Log, Setup. They are a stack: the one that was opened last is drawn, and keys and
// the mouse go to it alone.
#pragma once
#include "ui/state.h"

ui_overlay ui_overlay_top(const ui_state *s);           // UI_NO_OVERLAY: the panels are seen
void ui_overlay_toggle(ui_state *s, ui_overlay o);      // closes it where it is on top, else puts it there
void ui_overlay_close(ui_state *s);                     // the topmost
void ui_overlays_clear(ui_state *s);                    // all of them
bool ui_overlay_scroll(ui_state *s, int by);            // the topmost, by lines; false: there is none
bool ui_overlay_key(ui_state *s, int key, ui_action a); // false: the key is for what lies below
void ui_overlay_mouse(ui_state *s, ui_key k);           // on the topmost
