// The commands, one file each, and their shared functions.
#pragma once
#include "base/utf8.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "source/sources.h"
#include "trace/feed.h"
#include "trace/trace_read.h"
#include "ui/app.h"

#include <signal.h>

enum {
#define EXIT(name, code, meaning) LS_EXIT_##name = code,
#include "cli/exits.def"
#undef EXIT
};

// ---- the signals that end a command

extern volatile sig_atomic_t ls_interrupted; // the signal that was received; 0: none
// The first SIGINT, SIGTERM or SIGHUP sets ls_interrupted, a second one ends the process. Ignores SIGPIPE.
void ls_catch_signals(void);
void ls_leave_signals(void); // their default actions again, for whoever handles them next

// ---- the progress line of the process on standard error. The functions that print clear it first.

void ls_gauge_begin(bool quiet); // quiet, and before this call: no line and no note is shown
// An ls_progress function (ud is not read): shows the progress of long work (fraction below zero: unknown). False:
// interrupted.
bool ls_gauge_show(void *ud, const char *stage, double fraction);
void ls_gauge_hurry(void); // the next line is shown at once, not after some time
// Shows the loading of a model and the notes of its engine; an interrupt ends its forwards.
void ls_gauge_watch(ls_engine_options *b);
// Catches signals. From now on, the line shows the progress of reading a file, and an interrupt ends the reading
// (LS_E_CANCELLED).
void ls_gauge_reads(void);
void ls_gauge_clear(void);

// ---- the commands

// What a command gives the shell, beside its error and what it has printed itself.
struct ls_console {
    ls_buf out;  // printed at the end if there is no error, as by ls_print
    int status;  // the exit code if there is no error
    bool failed; // live decoding could not begin or go on: as LS_EXIT_FAILED, if status is 0
    int signal;  // the signal that ends the process in the end, as its default action would; 0: none
};

// LS_E_IO or LS_E_CANCELLED with an empty message: another program has printed it.
#define COMMAND(name, ...) ls_code ls_cmd_##name(const ls_command_line *c, ls_console *to, ls_err *err);
#include "cli/commands.def"
#undef COMMAND

void ls_help(const ls_command_info *c, ls_buf *out); // what --help prints; NULL: the program
const char *ls_manual_page(int i);                   // as in `help NAME`; "": the program; NULL: no more

// Writes text to standard output and frees it. Unsafe characters become signs (base/utf8.h), newlines and tabs stay;
// JSON of base/json.h passes unchanged. False, with one line on standard error: this or an earlier write failed.
bool ls_print(ls_buf *text);
bool ls_write_out(const char *p, size_t n);                     // the same of bytes, as they are
void ls_warn_of_gaps(const ls_trace_gaps *g, const char *file); // nothing, or a line; file: NULL: of any
// Writes one line to standard output, wrapped as by ls_wrap. The end of the program reports a failed write.
void ls_say(int left, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// The options, converted for the decoding modules. Borrows from the options.
typedef struct {
    ls_setup s;       // with a random seed if none was given
    char **config;    // key, value (owned), ..., NULL
    ls_buf variables; // of the chat template, JSON; empty: none
} ls_run_setup;
void ls_run_setup_init(ls_run_setup *r, const ls_options *o);
void ls_run_setup_free(ls_run_setup *r);
void ls_settle_seed(ls_options *o); // draws a missing seed once, so that several runs share it

// The prompt of --prompt or --prompt-file ("-": standard input), owned by the caller. LS_E_USAGE: `required`, but
// missing.
ls_code ls_read_prompt(const ls_command_line *c, bool required, ls_buf *out, ls_err *err);
// The value of a flag, a whole number from least to most; 0 if text is NULL (the flag was not given).
ls_code ls_count_read(const char *flag, const char *text, int32_t least, int32_t most, int32_t *out, ls_err *err);
// Lists of step numbers of --step, such as 5 or 5,17,20-22. LS_E_USAGE: the list is malformed, or a number is not from
// least to most (SIZE_MAX: no limit). The next range of a checked list moves *list; false: there is none.
ls_code ls_steps_check(const char *list, size_t least, size_t most, ls_err *err);
bool ls_steps_next(const char **list, size_t *first, size_t *last);
bool ls_steps_has(const char *list, size_t step);
// The factor of --speed; 1 if it was not given. If max is true, "max" is allowed and gives 0.
ls_code ls_speed_read(const char *text, bool max, double *out, ls_err *err);
// The colours of the screen, with the user's changes (ui.theme, ui.colors). light: the variant of "auto" for a light
// background. *out points to static storage.
ls_code ls_theme(const ls_options *o, bool light, const ui_theme **out, ls_err *err);
// Fills in what the options decide, and applies the user's keys and colours. LS_E_USAGE: one of them is invalid.
ls_code ls_screen_options(const ls_options *o, ui_options *out, ls_err *err);
ls_code ls_size_read(const char *text, int *cols, int *rows, ls_err *err); // COLSxROWS; NULL: 120x36
// Standard input is data: the screen reads keys from /dev/tty instead. path: where the data are now.
ls_code ls_keys_from_terminal(char *path, size_t size, ls_err *err);
bool ls_is_scripted(const ls_command_line *c); // --script or --cast: runs without a terminal
// Live decoding for the screen. Starts loading, with a copy of the options. autosave, no_autosave, failed: see
// ls_live_options.
ls_source *ls_live_open(const ls_options *o, const char *autosave, const char *no_autosave, bool *failed, ls_err *err);
// Runs the screen, on the terminal or from a script. Takes ownership of the source; NULL: there is none, as err says.
// screen: with what the options do not decide; changed.
ls_code ls_show(ls_source *source, ui_options *screen, const ls_command_line *c, ls_console *to, ls_err *err);
// The screen on the requests of a server: its URL or, if another process serves, what the user calls it.
ls_code ls_show_feed(ls_feed *feed, const char *server, bool serves, const ls_command_line *c, ls_console *to,
                     ls_err *err);
ls_code ls_no_thread(ls_err *err); // LS_E_IO: the system cannot start a thread
// Whether to use colours on this descriptor, by --color, NO_COLOR and isatty().
bool ls_wants_color(const ls_options *o, int fd);
// Runs another program on this terminal. arguments: the program, searched in PATH, and its arguments; ends with NULL.
// needed: who needs it and how to install it, for the message if it is missing. If the program fails, it has printed
// the reason, and err stays empty (LS_E_IO). SIGINT, SIGTERM and SIGHUP end it (LS_E_CANCELLED), also if only this
// process gets them. It ends with this process. Not thread-safe.
ls_code ls_run_program(char *const *arguments, const char *needed, ls_err *err);
