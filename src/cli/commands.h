// The commands, one file each, and what they share. Each takes the parsed command line and returns the exit code.
#pragma once
#include "base/wrap.h"
#include "cli/options.h"
#include "source/source_live.h"
#include "ui/app.h"

enum {
#define EXIT(name, code, meaning) LS_EXIT_##name = code,
#include "cli/exits.def"
#undef EXIT
};

#define COMMAND(name, ...) int ls_cmd_##name(const ls_command_line *c);
#include "cli/commands.def"
#undef COMMAND

// Writes "logitspec: MESSAGE" to standard error. Returns the exit code that goes with the error.
int ls_complain(const ls_err *err);

// Appends what a model file or folder says of itself, as lines of text or as one JSON object.
// devices, card: of the ranks that are to share it, as of --devices and --device-model; NULL: none are.
ls_code ls_model_describe(const char *path, const char *devices, const char *card, ls_buf *out, bool json, ls_err *err);

// Memory that a model's weights take on the CPU, kept as --weights says.
struct ls_checkpoint;
uint64_t ls_model_weight_bytes(const struct ls_checkpoint *c, const char *weights);

// "logitspec X.Y.Z", and behind it a line each of what it runs on: the compute library, other libraries, the compiler.
void ls_versions(ls_buf *out);

// Writes text to standard output and frees it: unsafe characters as base/visible.h shows them, newlines and tabs as
// they are; JSON of base/jsonw.h comes out byte by byte. False, with one line on standard error: this or an earlier
// write failed.
bool ls_print(ls_buf *text);
// Writes one line to standard output at once, wrapped as by ls_wrap; ls_print at the end tells whether it arrived.
void ls_say(int left, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// The options in the terms of the modules that decode. Borrows from the options.
typedef struct {
    ls_setup s;          // with a drawn seed where none was given
    ls_buf values;       // owns the values that s.config points to
    const char **config; // key, value, ..., NULL
    ls_buf variables;    // of the template, JSON; nothing where there are none
} ls_run_setup;
void ls_run_setup_init(ls_run_setup *r, const ls_options *o);
void ls_run_setup_free(ls_run_setup *r);
void ls_settle_seed(ls_options *o); // draws a missing seed, so that several runs share it

// The prompt of --prompt or --prompt-file ("-": standard input), owned by the caller. LS_E_USAGE: it is missing
// and `required`.
ls_code ls_read_prompt(const ls_command_line *c, bool required, ls_buf *out, ls_err *err);
// A whole number from least to most that a flag was given; 0: it was not (text NULL).
ls_code ls_count_read(const char *flag, const char *text, int32_t least, int32_t most, int32_t *out, ls_err *err);
// The factor of --speed, 1 where none was given; "max" is 0 where that is allowed.
ls_code ls_speed_read(const char *text, bool max, double *out, ls_err *err);
// The colours of the screen, with the user's own (ui.theme, ui.colors); light: those that "auto" has on a light
// background. Of the program.
ls_code ls_theme(const ls_options *o, bool light, const ui_theme **out, ls_err *err);
// Fills out with what the options say of the screen, and puts keys and colours into force. LS_E_USAGE says what is
// wrong.
ls_code ls_screen_options(const ls_options *o, ui_options *out, ls_err *err);
ls_code ls_size_read(const char *text, int *cols, int *rows, ls_err *err); // COLSxROWS; NULL: 120x36
bool ls_is_scripted(const ls_command_line *c);                             // --script or --cast: it needs no terminal
// The screen, on the terminal or by a script. Takes the source.
ls_code ls_show(ls_source *source, const ui_options *o, const ls_command_line *c, int *status, ls_err *err);
// Whether this stream gets colour: --color, NO_COLOR and the terminal decide.
bool ls_wants_color(const ls_options *o, int fd);
