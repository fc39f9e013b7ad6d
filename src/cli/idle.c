// Flags that change nothing beside the others of their command line. A value of a file or of the environment is for
// other runs, too, so only flags are told.
#include "base/system.h"
#include "cli/commands.h"

#include <string.h>

static bool is_raw(const ls_command_line *c) {
    return !strcmp(c->options.format, "raw");
}

static bool lists_methods(const ls_command_line *c) {
    return c->methods != NULL;
}

// The screen and a server may get another method later.
static const ls_method *only_method(const ls_command_line *c) {
    return c->command && c->command->run == ls_cmd_generate ? ls_method_find(c->options.method) : NULL;
}

static bool asks_no_model(const ls_command_line *c) {
    const ls_method *m = only_method(c);
    return m && !m->asks_model;
}

static bool asks_no_head(const ls_command_line *c) {
    const ls_method *m = only_method(c);
    return m && !m->asks_head;
}

static const struct {
    int option;
    bool (*is_idle)(const ls_command_line *c);
    const char *why;
} idle[] = {
    {LS_OPT_system, is_raw, "a raw prompt has no system message"},
    {LS_OPT_method, lists_methods, "--methods names the methods"},
    {LS_OPT_draft_model, asks_no_model, "the method uses no draft model"},
    {LS_OPT_draft_head, asks_no_head, "the method uses no trained head"},
};

void ls_warn_of_idle_flags(const ls_command_line *c) {
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
        const char *flag = c->options.origin[idle[i].option];
        if (!strncmp(flag, "--", 2) && strcmp(flag, "--config") && idle[i].is_idle(c))
            ls_warn("warning: %s changes nothing: %s", flag, idle[i].why);
    }
    const char *threads = c->options.origin[LS_OPT_threads];
    const int32_t most = ls_processors(); // the engine starts no more
    if (!strncmp(threads, "--", 2) && c->options.threads > most)
        ls_warn("warning: %s %d: there are %d processors, and not more threads", threads, c->options.threads, most);
}
