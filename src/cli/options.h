// Options in layers, each overriding the one before: built-in, configs/default.yaml, the user's file, --config,
// environment, flags. One table (options.def) gives the struct, the flags, --help, the keys and `config show`.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "spec/knobs.h"

#include <stdbool.h>

typedef char *ls_opt_STR;
typedef char *ls_opt_ENUM;
typedef char *ls_opt_SIZING;
typedef char *ls_opt_ACCEPT;
typedef char *ls_opt_COSTS;
typedef int32_t ls_opt_INT, ls_opt_AUTO;
typedef double ls_opt_NUM;
typedef bool ls_opt_BOOL;
typedef struct {
    bool set; // false: auto
    uint64_t value;
} ls_opt_SEED;
typedef struct {
    char **p; // n strings, then NULL
    size_t n;
} ls_opt_LIST;

enum {
#define OPTION(field, ...) LS_OPT_##field,
#include "cli/options.def"
#undef OPTION
    LS_OPT_COUNT
};

typedef struct {
#define OPTION(field, type, ...) ls_opt_##type field;
#include "cli/options.def"
#undef OPTION
    ls_knob_value *knobs; // values of all knobs; owns the texts
    char **origin;        // of each option, then of each knob: "default", "FILE:LINE:COL", "environment NAME", "--flag"
} ls_options;

int ls_options_count(void); // options and knobs

void ls_options_init(ls_options *o); // built-in values
void ls_options_free(ls_options *o);
void ls_options_copy(ls_options *to, const ls_options *from); // values and origins; to is overwritten
// Sets one key from text. On error nothing changes; the message starts with `where` and names the nearest key.
ls_code ls_options_set(ls_options *o, const char *key, const char *value, const char *where, ls_err *err);
// Reads a whole YAML file. A missing file is an error only if it must_exist.
ls_code ls_options_file(ls_options *o, const char *path, bool must_exist, ls_err *err);
// Leaves out the files that keep what drafters learn: those at their default place (`auto`), or all.
void ls_options_start_cold(ls_options *o, bool all);
ls_code ls_options_files(ls_options *o, ls_err *err); // configs/default.yaml, and the user's file
char *ls_options_user_file(void);                     // owned by the caller; NULL: HOME is not set
// Reads a mapping of a YAML document; file: its name, for messages and origins.
typedef struct ls_yaml ls_yaml;
ls_code ls_options_yaml(ls_options *o, const ls_yaml *y, const char *file, ls_err *err);
// Appends the value in the format of `config show` and traces.
void ls_options_value(const ls_options *o, int i, ls_buf *out);
void ls_options_quoted(const char *s, ls_buf *out); // ... a text as a YAML string in double quotes
bool ls_options_differ(const ls_options *a, const ls_options *b, int i);
const char *ls_options_key(int i);
const char *ls_options_help(int i);
const char *ls_options_choices(int i);                  // "a|b|c"; NULL: the values are no fixed words
void ls_options_domain(int i, ls_buf *out);             // appends a description of its values
void ls_options_show(const ls_options *o, ls_buf *out); // YAML with the origin of each value

// Changes single keys of a configuration file that a user wrote; comments, order and other keys stay.
typedef struct {
    const char *key, *value; // "decode.method", "pld"
} ls_config_change;
// Sets all keys in the file or none; creates a missing file. The new text is parsed before it replaces the old file: if
// anything but these keys would change, the result is LS_E_USAGE and the file stays.
ls_code ls_config_file_change(const char *path, const ls_config_change *changes, int n, ls_err *err);

// The command line.
typedef const char *ls_flag_TEXT;
typedef bool ls_flag_YES;
typedef struct ls_command_info ls_command_info;
typedef struct ls_console ls_console;
typedef struct {
    ls_options options;
    const ls_command_info *command; // NULL: none was given
    const char *const *args;        // positional arguments, borrowed from argv
    int n_args;
    // Texts are borrowed; NULL: not given.
#define FLAG(field, type, ...) ls_flag_##type field;
#define KEYED(...)
#include "cli/flags.def"
#undef FLAG
#undef KEYED
} ls_command_line;

struct ls_command_info {
    const char *name, *usage, *summary, *flags, *examples; // flags: see commands.def
    ls_code (*run)(const ls_command_line *c, ls_console *to, ls_err *err);
};
extern const ls_command_info ls_commands[];               // `chat` first; ends with a NULL name
const ls_command_info *ls_command_find(const char *name); // NULL: unknown name

typedef struct {
    const char *name, *arg, *help; // name NULL: a key without a flag; arg NULL: a flag without an argument
    const char *key, *value;       // of the configuration; value NULL: the argument. Both NULL: `at`, or --set
    size_t at;                     // offset of the field in ls_command_line; 0: none
    char letter;                   // the short form; 0: none
} ls_flag_info;
extern const ls_flag_info ls_flags[]; // flags of options.def first, in their order
extern const int ls_flag_count;
const ls_flag_info *ls_flag_find(const char *name);                     // NULL: unknown name
bool ls_command_takes(const ls_command_info *c, const ls_flag_info *f); // false if the flag has no name

// Parses flags and applies all layers. LS_E_USAGE with one line.
ls_code ls_command_line_read(ls_command_line *c, int argc, char **argv, char *const *environment, ls_err *err);
void ls_command_line_free(ls_command_line *c);

// The candidate that a user may have meant by a word: the first that begins with it, else the one with the smallest
// edit distance, if it is small.
typedef struct {
    const char *word;
    const char *best; // n bytes, borrowed from a candidate; NULL: none is close
    size_t n;
    int distance;
    char hint[120];
} ls_near;
void ls_near_try(ls_near *near, const char *candidate, size_t n);
// " (did you mean 'DASHESbest'?)", or " (otherwise)", or "" if that is empty. The text lies in `near`.
const char *ls_near_hint(ls_near *near, const char *dashes, const char *otherwise);
