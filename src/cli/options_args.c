// The command line: commands and flags.
#include "cli/options.h"
#include "base/mem.h"
#include "base/file.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ls_command_info ls_commands[] = {
#define COMMAND(name, usage, summary, flags, examples) {#name, usage, summary, flags, examples},
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
enum { N_FLAGS = sizeof ls_flags / sizeof *ls_flags, MAX_SETTINGS = 256 };
const int ls_flag_count = N_FLAGS;

const ls_command_info *ls_command_find(const char *name) {
    for (const ls_command_info *c = ls_commands; c->name; c++)
        if (!strcmp(c->name, name)) return c;
    return NULL;
}

bool ls_command_takes_arguments(const char *name) {
    return strcmp(ls_command_find(name)->usage, "[FLAGS]") != 0;
}

bool ls_command_takes(const ls_command_info *c, const char *flag) {
    const size_t n = strlen(flag);
    for (const char *p = c->flags; (p = strstr(p, flag)); p += n)
        if ((p == c->flags || p[-1] == ' ') && (p[n] == ' ' || !p[n])) return true;
    return false;
}

typedef struct {
    const char *key, *value;
    char *where;
} setting;

static ls_code unknown_flag(const char *arg, ls_err *err) {
    const char *names[N_FLAGS + 1] = {0};
    for (int i = 0, n = 0; i < N_FLAGS; i++)
        if (ls_flags[i].name) names[n++] = ls_flags[i].name;
    char word[64];
    const char *p = arg + strspn(arg, "-");
    snprintf(word, sizeof word, "%.*s", (int)strcspn(p, "="), p);
    const char *near = word[0] && word[1] ? ls_nearest(word, names) : NULL; // all are near to a single letter
    return near ? ls_fail(err, LS_E_USAGE, "unknown flag '%.80s' (did you mean '--%s'?)", arg, near)
                : ls_fail(err, LS_E_USAGE, "unknown flag '%.80s' ('logitspec --help' lists them)", arg);
}

static ls_code apply_layers(ls_options *o, const char *config, char *const *environment, setting *settings, int n,
                            ls_err *err) {
    char *shipped = ls_data_path("configs/default.yaml"),
         *user = ls_user_path("XDG_CONFIG_HOME", ".config", "config.yaml");
    ls_code code = ls_options_file(o, shipped, false, err);
    if (!code && user) code = ls_options_file(o, user, false, err);
    if (!code && config) code = ls_options_file(o, config, true, err);
    if (!code) code = ls_options_environment(o, environment, err);
    for (int i = 0; i < n && !code; i++) {
        if (settings[i].key) {
            code = ls_options_set(o, settings[i].key, settings[i].value, settings[i].where, err);
            continue;
        }
        const char *eq = strchr(settings[i].value, '='); // --set
        if (!eq) {
            code = ls_fail(err, LS_E_USAGE, "--set %.80s: KEY=VALUE is expected", settings[i].value);
            break;
        }
        char *key = ls_strndup(settings[i].value, (size_t)(eq - settings[i].value));
        code = ls_options_set(o, key, eq + 1, settings[i].where, err);
        free(key);
    }
    free(shipped);
    free(user);
    return code;
}

ls_code ls_command_line_read(ls_command_line *c, int argc, char **argv, char *const *environment, ls_err *err) {
    *c = (ls_command_line){.command = ""};
    ls_options_init(&c->options);
    c->args = ls_calloc((size_t)argc + 1, sizeof *c->args);
    struct option longs[N_FLAGS + 1] = {0};
    char letters[2 * N_FLAGS + 2] = ":"; // in the format of getopt
    int rows[N_FLAGS], n_longs = 0, n_letters = 1;
    for (int i = 0; i < N_FLAGS; i++) {
        if (!ls_flags[i].name) continue;
        rows[n_longs] = i;
        longs[n_longs++].name = ls_flags[i].name;
        longs[n_longs - 1].has_arg = ls_flags[i].arg != NULL;
        if (ls_flags[i].letter) letters[n_letters++] = ls_flags[i].letter;
        if (ls_flags[i].letter && ls_flags[i].arg) letters[n_letters++] = ':';
    }
    setting settings[MAX_SETTINGS];
    const char *used[MAX_SETTINGS];
    int n_settings = 0, n_used = 0, index = 0, got;
    ls_code code = LS_OK;
    optind = 0; // resets GNU getopt completely, so that tests can parse several lines
    opterr = 0;
    while (!code && (got = getopt_long(argc, argv, letters, longs, &index)) != -1) {
        int i = got ? N_FLAGS - 1 : rows[index]; // got 0: a long flag; else searched by its letter
        while (got && i >= 0 && ls_flags[i].letter != got) i--;
        if (got == ':') code = ls_fail(err, LS_E_USAGE, "flag '%.80s' needs a value", argv[optind - 1]);
        else if (i < 0) // unknown, ambiguous, or an argument for a flag that takes none
            code = unknown_flag(got == '?' && optopt ? (const char[]){'-', (char)optopt, 0} : argv[optind - 1], err);
        else if (n_used == MAX_SETTINGS - 1) code = ls_fail(err, LS_E_USAGE, "too many flags");
        else {
            used[n_used++] = ls_flags[i].name;
            void *to = (char *)c + ls_flags[i].at;
            if (!ls_flags[i].at)
                settings[n_settings++] = (setting){ls_flags[i].key, ls_flags[i].value ? ls_flags[i].value : optarg,
                                                   ls_format("--%s", ls_flags[i].name)};
            else if (ls_flags[i].arg) *(const char **)to = optarg;
            else *(bool *)to = true;
        }
    }
    if (!code && optind < argc) {
        const ls_command_info *info = ls_command_find(argv[optind]);
        if (info) c->command = info->name;
        else {
            const char *names[32] = {0};
            for (int i = 0; ls_commands[i].name; i++) names[i] = ls_commands[i].name;
            // "run" is the name in other programs
            const char *near = strcmp(argv[optind], "run") ? ls_nearest(argv[optind], names) : "chat";
            code =
                ls_fail(err, LS_E_USAGE, "unknown command '%.80s' (%s%s%s)", argv[optind],
                        near ? "did you mean '" : "'logitspec --help' lists them", near ? near : "", near ? "'?" : "");
        }
        for (int i = optind + 1; i < argc; i++) c->args[c->n_args++] = argv[i];
    }
    const ls_command_info *info = ls_command_find(*c->command ? c->command : "chat");
    for (int i = 0; i < n_used && !code; i++)
        if (!ls_command_takes(info, used[i]))
            code = ls_fail(err, LS_E_USAGE, "'logitspec %s' has no flag '--%s'", info->name, used[i]);
    if (!code && c->prompt && c->prompt_file)
        code = ls_fail(err, LS_E_USAGE, "--prompt and --prompt-file cannot be combined");
    // commands without --config must work even if the configuration is broken
    if (!code && !c->help && !c->version && ls_command_takes(info, "config"))
        code = apply_layers(&c->options, c->config, environment, settings, n_settings, err);
    for (int i = 0; i < n_settings; i++) free(settings[i].where);
    if (code) ls_command_line_free(c);
    return code;
}

void ls_command_line_free(ls_command_line *c) {
    ls_options_free(&c->options);
    free(c->args);
    *c = (ls_command_line){.command = ""};
}
