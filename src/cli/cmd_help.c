// `help [COMMAND|PAGE]`: what --help prints, and the pages of the manual in three forms.
#include "cli/commands.h"
#include "cli/manual.h"

#include <string.h>

static ls_code form_of(const char *text, ls_manual_form *out, ls_err *err) {
    static const char *const names[] = {"text", "man", "md"};
    for (*out = LS_MANUAL_TEXT; text && *out <= LS_MANUAL_MD; ++*out)
        if (!strcmp(text, names[*out])) return LS_OK;
    *out = LS_MANUAL_TEXT;
    return text ? ls_fail(err, LS_E_USAGE, "--as %.40s: expected text, man or md", text) : LS_OK;
}

static ls_code unknown(const char *name, ls_err *err) {
    ls_near near = {.word = name};
    for (const ls_command_info *c = ls_commands; c->name; c++) ls_near_try(&near, c->name, strlen(c->name));
    for (const ls_manual_page *p = ls_manual_pages; p->name; p++) ls_near_try(&near, p->name, strlen(p->name));
    return ls_fail(err, LS_E_USAGE, "no help on '%.80s'%s", name,
                   ls_near_hint(&near, "", "'logitspec help' lists all"));
}

int ls_cmd_help(const ls_command_line *c) {
    const char *name = c->n_args ? c->args[0] : "";
    const ls_manual_page *page = ls_manual_find(name);
    ls_manual_form form;
    ls_err err;
    ls_buf out = {0};
    ls_code code = form_of(c->as, &form, &err);
    if (!code && c->n_args > 1) code = ls_fail(&err, LS_E_USAGE, "'logitspec help' takes one command or page");
    if (code) {
    } else if (page && (*name || c->as)) code = ls_manual_write(page, form, &out, &err);
    else if (*name && !ls_command_find(name)) code = unknown(name, &err);
    else if (c->as && form != LS_MANUAL_TEXT)
        code = ls_fail(&err, LS_E_USAGE,
                       "'%s' is a command, and --as is for pages only; 'logitspec help --as %s' describes all commands",
                       name, c->as);
    else ls_help(name, &out);
    if (!code) return ls_print(&out) ? LS_EXIT_OK : LS_EXIT_FAILED;
    ls_buf_free(&out);
    return ls_complain(&err);
}
