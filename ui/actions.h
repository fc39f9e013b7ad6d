// The table of actions (actions.def) and which key means which.
#pragma once

typedef enum {
#define ACTION(id, name, keys, label, help) UI_ACT_##id,
#include "ui/actions.def"
#undef ACTION
    UI_ACTIONS,
    UI_ACT_NONE = UI_ACTIONS,
} ui_action;

typedef struct {
    const char *name, *keys, *label, *help;
} ui_action_info;
extern const ui_action_info ui_actions[UI_ACTIONS];

// The action of a key; while typing only keys that are no text count.
ui_action ui_action_of(int key, int typing);
ui_action ui_action_named(const char *name); // UI_ACT_NONE: unknown
