// A line of text that is being typed, with the lines typed before it.
#pragma once
#include "base/buf.h"
#include "base/err.h"

typedef struct {
    ls_buf text;   // UTF-8; may hold newlines (pasted, or Ctrl-J)
    size_t cursor; // byte, at the beginning of a character
    char **history;
    size_t n_history, at; // at == n_history: the new line
    size_t n_kept;        // of history: those that are in a file (ui_history_load)
    char *draft;          // the new line while an old one is shown
} ui_edit;

void ui_edit_free(ui_edit *e);
// Leaves out control characters and bytes that are not UTF-8, and returns how many; CR and CR LF end lines as LF does.
size_t ui_edit_insert(ui_edit *e, const char *p, size_t n);
void ui_edit_key(ui_edit *e, int key);
void ui_edit_set(ui_edit *e, const char *text); // replaces the text
// Takes the text (owned by the caller), remembers it, and empties the line.
char *ui_edit_take(ui_edit *e);
void ui_edit_clear(ui_edit *e);

// ---- What the user typed in earlier sessions, as a file: each line is a JSON list of one text, oldest first, in a
// file that only the user can read. A prompt is added when it is sent, so several screens can share the file, and a
// screen that is killed loses nothing.

// Reads what it can; a missing or damaged file is no error. Cuts a file that has grown to its last thousand prompts.
void ui_history_load(ui_edit *e, const char *path);
// Adds what was typed since the last call. LS_E_IO, LS_E_RANGE (a prompt is too long) with the reason.
ls_code ui_history_add(ui_edit *e, const char *path, ls_err *err);
