// The command line: commands and flags.
#include "cli/commands.h"
#include "base/alias.h"
#include "base/mem.h"
#include "base/file.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ls_command_info ls_commands[] = {
#define COMMAND(name, usage, summary, flags, examples) {#name, usage, summary, flags, examples, ls_cmd_##name},
#include "cli/commands.def"
#undef COMMAND
    {0},
};

const ls_flag_info ls_flags[] = {
#define OPTION(field, type, key, flag, arg, def, lo, hi, choices, help) {flag, arg, help, key, NULL, 0, 0},
#include "cli/options.def"
#undef OPTION
#define FLAG(field, type, flag, letter, arg, help)                                                                     \
    {flag, arg, help, NULL, NULL, offsetof(ls_command_line, field), letter},
#define KEYED(flag, arg, key, value, help) {flag, arg, help, key, value, 0, 0},
#include "cli/flags.def"
#undef FLAG
#undef KEYED
};
enum { N_FLAGS = sizeof ls_flags / sizeof *ls_flags, MAX_ALIASES = 16, MAX_GIVEN = 255 };
const int ls_flag_count = N_FLAGS;

const ls_command_info *ls_command_find(const char *name) {
    for (const ls_command_info *c = ls_commands; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

const ls_flag_info *ls_flag_find(const char *name) {
    name = ls_name_now("flag", name);
    for (int i = 0; i < N_FLAGS; i++)
        if (ls_flags[i].name && !strcmp(ls_flags[i].name, name)) return &ls_flags[i];
    return NULL;
}

bool ls_command_takes(const ls_command_info *c, const ls_flag_info *f) {
    return f->name && (ls_str_among((ls_str){f->name, strlen(f->name)}, c->flags) >= 0 ||
                       (f->key && ls_str_among((ls_str){f->key, strcspn(f->key, ".") + 1}, c->flags) >= 0));
}

typedef struct {
    const ls_flag_info *flag;
    const char *value; // NULL: none
} given;

static ls_code unknown_flag(const char *arg, ls_err *err) {
    char word[64];
    const char *p = arg + strspn(arg, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p, "="), p);
    ls_near near = {.word = word[0] && word[1] ? word : ""}; // all are near to a single letter
    for (int i = 0; i < N_FLAGS; i++)
        if (ls_flags[i].name) ls_near_try(&near, ls_flags[i].name, strlen(ls_flags[i].name));
    return ls_fail(err, LS_E_USAGE, "unknown flag '%.80s'%s", arg,
                   ls_near_hint(&near, "--", "'logitspec --help' lists them"));
}

static ls_code unknown_command(const char *name, ls_err *err) {
    ls_near near = {.word = strcmp(name, "run") ? name : "chat"}; // "run" is the name in other programs
    for (const ls_command_info *c = ls_commands; c->name; c++) ls_near_try(&near, c->name, strlen(c->name));
    return ls_fail(err, LS_E_USAGE, "unknown command '%.80s'%s", name,
                   ls_near_hint(&near, "", "'logitspec --help' lists them"));
}

static ls_code apply_flag(ls_options *o, const given *g, ls_err *err) {
    const char *eq = g->flag->key ? NULL : strchr(g->value, '='); // no key: --set
    if (!g->flag->key && !eq) return ls_fail(err, LS_E_USAGE, "--set %.80s: KEY=VALUE is expected", g->value);
    char *key = eq ? ls_strndup(g->value, (size_t)(eq - g->value)) : ls_strdup(g->flag->key),
         *where = ls_format("--%s", g->flag->name);
    const char *value = eq ? eq + 1 : g->flag->value ? g->flag->value : g->value;
    const ls_code code = ls_options_set(o, key, value, where, err);
    free(key);
    free(where);
    return code;
}

ls_code ls_options_files(ls_options *o, ls_err *err) {
    char *shipped = ls_data_path("configs/default.yaml"), *user = ls_options_user_file();
    ls_code code = ls_options_file(o, shipped, false, err);
    if (!code && user) code = ls_options_file(o, user, false, err);
    free(shipped);
    free(user);
    return code;
}

char *ls_options_user_file(void) {
    return ls_user_path("XDG_CONFIG_HOME", ".config", "config.yaml");
}

// LOGITSPEC_SET_A__B=v sets a.b; ignores other variables.
static ls_code apply_environment(ls_options *o, char *const *environment, ls_err *err) {
    static const char prefix[] = "LOGITSPEC_SET_";
    for (; environment && *environment; environment++) {
        const char *eq = strchr(*environment, '=');
        if (!eq || strncmp(*environment, prefix, sizeof prefix - 1)) continue;
        char key[128], where[160];
        size_t n = 0;
        for (const char *p = *environment + sizeof prefix - 1; p < eq && n + 1 < sizeof key; p++) {
            if (p[0] == '_' && p[1] == '_') key[n++] = '.', p++;
            else key[n++] = (char)tolower((unsigned char)*p);
        }
        key[n] = 0;
        snprintf(where, sizeof where, "environment %.*s", (int)(eq - *environment < 120 ? eq - *environment : 120),
                 *environment);
        ls_code code = ls_options_set(o, key, eq + 1, where, err);
        if (code) return code;
    }
    return LS_OK;
}

static ls_code apply_layers(ls_command_line *c, char *const *environment, const given *flags, int n, ls_err *err) {
    ls_options *o = &c->options;
    ls_code code = ls_options_files(o, err);
    if (!code && c->config) code = ls_options_file(o, c->config, true, err);
    if (!code) code = apply_environment(o, environment, err);
    for (int i = 0; i < n && !code; i++)
        if (!flags[i].flag->at) code = apply_flag(o, &flags[i], err);
    if (!code && c->private_run) {
        code = ls_options_set(o, "ui.history", "no", "--private", err);
        ls_options_start_cold(o, true);
    }
    return code;
}

// Reads the flags into c and `out`; *n: how many. getopt's index of the first argument is in optind then.
static ls_code read_flags(ls_command_line *c, int argc, char **argv, given out[MAX_GIVEN], int *n, ls_err *err) {
    enum { LONG = 256 }; // getopt gives a letter, or LONG and the index of a flag
    struct option longs[N_FLAGS + MAX_ALIASES + 1] = {0};
    char letters[2 * N_FLAGS + 2] = ":"; // in the format of getopt
    int n_longs = 0, n_letters = 1, got;
    for (int i = 0; i < N_FLAGS; i++) {
        const ls_flag_info *f = &ls_flags[i];
        if (f->name) longs[n_longs++] = (struct option){f->name, f->arg != NULL, NULL, LONG + i};
        if (f->letter) letters[n_letters++] = f->letter;
        if (f->letter && f->arg) letters[n_letters++] = ':';
    }
    for (const ls_alias *a = ls_aliases; a->of; a++) {
        const ls_flag_info *f = strcmp(a->of, "flag") ? NULL : ls_flag_find(a->now);
        if (f && n_longs < N_FLAGS + MAX_ALIASES)
            longs[n_longs++] = (struct option){a->before, f->arg != NULL, NULL, LONG + (int)(f - ls_flags)};
    }
    optind = 0; // resets GNU getopt completely, so that tests can parse several lines
    opterr = 0;
    while ((got = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        int i = got >= LONG ? got - LONG : N_FLAGS - 1;
        while (got < LONG && i >= 0 && ls_flags[i].letter != got) i--;
        if (got == ':') return ls_fail(err, LS_E_USAGE, "flag '%.80s' needs a value", argv[optind - 1]);
        if (i < 0) // unknown, ambiguous, or an argument for a flag that takes none
            return unknown_flag(
                got == '?' && optopt && optopt < LONG ? (const char[]){'-', (char)optopt, 0} : argv[optind - 1], err);
        if (*n == MAX_GIVEN) return ls_fail(err, LS_E_USAGE, "too many flags");
        out[(*n)++] = (given){&ls_flags[i], optarg};
        void *to = (char *)c + ls_flags[i].at;
        if (ls_flags[i].at && ls_flags[i].arg) *(const char **)to = optarg;
        else if (ls_flags[i].at) *(bool *)to = true;
    }
    return LS_OK;
}

// Of most flags the last one counts, so that an alias of the shell can be overruled. Refused: different flags that set
// one key to different values, and a file to write that is named twice.
static ls_code check_pairs(const given *flags, int n, ls_err *err) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            const ls_flag_info *a = flags[k].flag, *b = flags[i].flag;
            if (a == b && ls_str_among((ls_str){a->name, strlen(a->name)}, "trace out cast log") >= 0)
                return ls_fail(err, LS_E_USAGE, "--%s is given twice: name one file", a->name);
            if (a != b && a->key && b->key && !strcmp(a->key, b->key) && a->value && b->value &&
                strcmp(a->value, b->value) != 0)
                return ls_fail(err, LS_E_USAGE, "--%s and --%s cannot be combined", a->name, b->name);
        }
    return LS_OK;
}

ls_code ls_command_line_read(ls_command_line *c, int argc, char **argv, char *const *environment, ls_err *err) {
    *c = (ls_command_line){0};
    ls_options_init(&c->options);
    given flags[MAX_GIVEN];
    int n = 0;
    ls_code code = read_flags(c, argc, argv, flags, &n, err);
    if (!code && optind < argc && !(c->command = ls_command_find(argv[optind])))
        code = unknown_command(argv[optind], err);
    const ls_command_info *info = c->command ? c->command : ls_commands;
    const int first = optind < argc ? optind + 1 : argc;
    c->args = (const char *const *)argv + first;
    c->n_args = argc - first;
    for (int i = 0; i < n && !code; i++)
        if (!ls_command_takes(info, flags[i].flag))
            code = ls_fail(err, LS_E_USAGE, "'logitspec %s' has no flag '--%s'", info->name, flags[i].flag->name);
    if (!code) code = check_pairs(flags, n, err);
    if (!code && c->prompt && c->prompt_file)
        code = ls_fail(err, LS_E_USAGE, "--prompt and --prompt-file cannot be combined");
    // commands without --config must work even if the configuration is broken
    if (!code && !c->help && !c->version && ls_command_takes(info, ls_flag_find("config")))
        code = apply_layers(c, environment, flags, n, err);
    if (code) ls_command_line_free(c);
    return code;
}

void ls_command_line_free(ls_command_line *c) {
    ls_options_free(&c->options);
    *c = (ls_command_line){0};
}
