// `config`: the effective value of every option and where it came from; the files of the folder configs.
#include "cli/commands.h"
#include "spec/drafter.h"
#include "spec/sizing.h"

#include <string.h>
#include <unistd.h>

enum { WIDTH = 116 }; // of a comment

// Whether the method drafts with the option draft.NAME.
static bool drafts_with(const ls_method *m, const char *name) {
    const bool head = !strcmp(name, "head"), shape = !strcmp(name, "depth") || !strcmp(name, "width");
    return m->asks_model && (m->asks_head ? head || (shape && m->sized) : !head); // without `sized`: a fixed tree
}

// Whether an option is in the file of a method, or of a sizing rule if m is NULL.
static bool is_of(int i, const ls_method *m, const char *name) {
    const char *key = ls_options_key(i), *dot = strchr(key, '.');
    const size_t n = (size_t)(dot - key);
    if (i >= LS_OPT_COUNT) return strlen(name) == n && !strncmp(key, name, n);
    return i == LS_OPT_method || i == LS_OPT_sizing || (m && i == LS_OPT_acceptance) ||
           (m && !strncmp(key, "draft.", 6) && drafts_with(m, dot + 1));
}

static void comment(int i, bool domain, ls_buf *out) {
    ls_buf text = {0};
    ls_buf_str(&text, ls_options_help(i));
    if (domain) ls_buf_str(&text, " ("), ls_options_domain(i, &text), ls_buf_char(&text, ')');
    ls_buf_char(&text, '\n');
    ls_wrap(&text, 0, WIDTH, 0);
    for (char *line = text.p, *end; (end = strchr(line, '\n')); line = end + 1)
        ls_buf_fmt(out, "  # %.*s\n", (int)(end - line), line);
    ls_buf_free(&text);
}

// Appends the built-in values as a file: all options, or those of a method or a sizing rule. configs has these files.
static ls_code write_default(const char *name, ls_buf *out, ls_err *err) {
    const ls_method *m = name ? ls_method_find(name) : NULL;
    const char *section = "";
    char rule[64];
    ls_sizing z = {0};
    ls_options o;
    if (name && !m && (strchr(name, ':') || !strcmp(name, "default") || ls_sizing_read(&z, "", name, NULL)))
        return ls_fail(err, LS_E_USAGE,
                       "'%.60s' is neither a method nor a sizing rule ('logitspec help methods' lists them)", name);
    if (m) ls_sizing_settle(&z, m, 0);
    ls_sizing_write(&z, rule, sizeof rule);
    ls_options_init(&o);
    if (m) ls_options_set(&o, "decode.method", name, "", NULL);
    if (name) ls_options_set(&o, "decode.sizing", rule, "", NULL);
    if (m) {
        const ls_draft_options d = ls_draft_defaults(&(ls_draft_options){0}, m, z.rule->by_cost);
        o.draft_depth = d.depth;
        o.draft_width = d.width;
    }
    for (int i = 0; i < (name ? ls_options_count() : LS_OPT_COUNT); i++) {
        const char *key = ls_options_key(i), *dot = strchr(key, '.');
        if (name && !is_of(i, m, name)) continue;
        if (strncmp(section, key, (size_t)(dot + 1 - key)))
            ls_buf_fmt(out, "%s%.*s:\n", *section ? "\n" : "", (int)(dot - key), key);
        section = key;
        comment(i, !name || i >= LS_OPT_COUNT, out);
        ls_buf_fmt(out, "  %s: ", dot + 1);
        ls_options_value(&o, i, out);
        ls_buf_char(out, '\n');
    }
    ls_options_free(&o);
    return LS_OK;
}

ls_code ls_cmd_config(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_code code = LS_OK;
    if (c->n_args == 1 && !strcmp(c->args[0], "show")) ls_options_show(&c->options, &to->out);
    else if (c->n_args && c->n_args < 3 && !strcmp(c->args[0], "default"))
        code = write_default(c->n_args > 1 ? c->args[1] : NULL, &to->out, err);
    else code = ls_fail(err, LS_E_USAGE, "usage: logitspec config show, or config default [METHOD|SIZING]");
    ls_wrap(&to->out, 0, ls_columns(STDOUT_FILENO), LS_COMMANDS); // users copy it as YAML
    return code;
}
