// The terminal, by ncurses (its only user). While it is open, file descriptors 1 and 2 go to a hidden file, so that
// nothing a library prints can disturb the screen; what was caught goes to standard error when it closes.
// The terminal is restored on close, and on a crash.
#pragma once
#include "base/err.h"
#include "ui/canvas.h"
#include "ui/actions.h"

// mouse: except in GNU screen, which delays Esc while a program has the mouse. ask: the terminal for its background;
// the answer is a key, UI_KEY_BACKGROUND. LS_E_IO: standard input and output are no terminal, or curses cannot drive
// it.
ls_code ui_term_open(const ui_theme *theme, bool mouse, bool ask, ls_err *err);
void ui_term_close(void);
bool ui_term_is_utf8(void);
// Appends what was printed to standard output and error since the last call.
void ui_term_caught(ls_buf *out);
void ui_term_size(int *rows, int *cols);
void ui_term_show(const ui_canvas *c);      // copies it to the terminal; sends only what changed
void ui_term_colors(const ui_theme *theme); // from the next frame on
void ui_term_switch_mouse(void);            // on or off
void ui_term_copy(const char *text);        // to the terminal's clipboard (OSC 52); the terminal does not confirm it
// A note on the clipboard for the end of a message; NULL: a terminal of this name does not support OSC 52.
const char *ui_term_copies(void);
void ui_term_redraw(void);  // the next show sends everything again
void ui_term_suspend(void); // stops the process as Ctrl-Z does; returns when it goes on
// Suspends if a SIGTSTP came. True: since the last call the window has another size, or the process was stopped and
// goes on: draw everything.
bool ui_term_changed(void);
// Runs a shell command, whose $1 is the argument, on the real terminal, then comes back. Returns its exit status; -1:
// it could not be run, or a signal ended it.
int ui_term_run(const char *command, const char *argument);
ui_key ui_term_key(void);          // the next key, UI_KEY_NONE when none waits
const ls_buf *ui_term_paste(void); // after UI_KEY_PASTE, until the next key is read: the text, as it came
int ui_term_key_ms(void);          // ms until a key is complete without another byte; -1: no byte is pending
// Waits until a byte or a signal comes or fd is readable, at most `ms` (-1: no limit). False: the terminal was closed.
bool ui_term_wait(int fd, int ms);
int ui_term_signal(void);            // that ends the program; 0: none
const char *ui_curses_version(void); // "ncurses 6.4..."
