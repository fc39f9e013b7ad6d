// The bytes that a terminal sends, as keys. UTF-8 whatever the locale says, since most terminals send it even where
// the locale does not name it. Escape sequences are read whole (ECMA-48: CSI, SS3, OSC, DCS and their like), and those
// without a meaning here do nothing: none of their letters is taken for a key. Nothing within a paste is a key.
#pragma once
#include "base/buf.h"
#include "ui/actions.h"

#include <stdbool.h>
#include <stdint.h>

enum { UI_SEQUENCES = 40 };

// Zero-initialise; one thread.
typedef struct {
    ls_buf bytes;      // received
    size_t at;         // index of the first unread byte
    uint64_t since_ns; // when the last one came
    uint64_t began_ns; // when the string began
    bool stopping;     // in a paste: ^C came alone after a while, and nothing else since
    enum { UI_INPUT_KEYS, UI_INPUT_PASTE, UI_INPUT_STRING } mode;
    ls_buf text; // what was pasted; or a terminal's reply
    struct {
        const char *sequence;
        int key;
    } learnt[UI_SEQUENCES];
    int n_learnt;
    int escape_ms; // how long the rest of a sequence may take after its ESC before that is the key Esc; 0: 100
} ui_input;

void ui_input_free(ui_input *in);
// A sequence that this terminal's description names; it stays there.
void ui_input_learn(ui_input *in, const char *sequence, int key);
void ui_input_feed(ui_input *in, const char *bytes, size_t n, uint64_t now_ns);
// The next key; UI_KEY_NONE: it is incomplete. For UI_KEY_PASTE, in->text has the pasted bytes until the next call of
// any of these functions.
ui_key ui_input_next(ui_input *in, uint64_t now_ns);
// Milliseconds until incomplete bytes are accepted as they are; -1: all bytes were read.
int ui_input_wait_ms(const ui_input *in, uint64_t now_ns);
