// `completion SHELL`: a script that completes commands, flags and their values.
#include "cli/commands.h"
#include "cli/completion.h"

#include <string.h>

static void words(const ls_offer *o, ls_buf *out) {
    for (size_t i = 0; i < o->n; i++) ls_buf_fmt(out, "%s%s", i ? " " : "", o->words[i]);
}

static void flags_of(const ls_command_info *c, ls_buf *out) {
    const char *between = "";
    for (int i = 0; i < ls_flag_count; i++) {
        if (!ls_command_takes(c, &ls_flags[i])) continue;
        ls_buf_fmt(out, "%s--%s", between, ls_flags[i].name);
        between = " ";
    }
}

// The flags that take a value, separated by `between`.
static void flags_with_values(const char *between, ls_buf *out) {
    const char *put = "";
    for (int i = 0; i < ls_flag_count; i++) {
        if (!ls_flags[i].name || !ls_flags[i].arg) continue;
        ls_buf_fmt(out, "%s--%s", put, ls_flags[i].name);
        put = between;
        if (ls_flags[i].letter) ls_buf_fmt(out, "%s-%c", between, ls_flags[i].letter);
    }
}

// ---- bash

static void bash_offer(const ls_offer *o, ls_buf *out) {
    ls_buf_str(out, "words='");
    words(o, out);
    ls_buf_fmt(out, "'%s%s", o->files ? " files=1" : "", o->open ? " open=1" : "");
}

static ls_code bash(ls_buf *out, ls_err *err) {
    ls_offer o;
    ls_code code = LS_OK;
    ls_buf_str(
        out,
        "# Completion of logitspec " LS_VERSION " for bash, by 'logitspec completion bash'.\n"
        "_logitspec() {\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= words= files= open= i\n"
        "    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
        "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "        case ${COMP_WORDS[i]} in\n        ");
    flags_with_values("|", out);
    ls_buf_str(out, ") ((i++)); [[ ${COMP_WORDS[i]} == = ]] && ((i++)) ;;\n"
                    "        -*) ;;\n"
                    "        *) command=${COMP_WORDS[i]}; break ;;\n"
                    "        esac\n"
                    "    done\n"
                    "    case $prev in\n");
    for (int i = 0; i < ls_flag_count && !code; i++) {
        const ls_flag_info *f = &ls_flags[i];
        if (!f->name || !f->arg) continue;
        code = ls_offer_of_flag(&o, f, err);
        ls_buf_fmt(out, "    --%s", f->name);
        if (f->letter) ls_buf_fmt(out, "|-%c", f->letter);
        ls_buf_str(out, ") ");
        bash_offer(&o, out);
        ls_buf_str(out, " ;;\n");
        ls_offer_free(&o);
    }
    ls_buf_str(out, "    *) case $cur,$command in\n");
    for (const ls_command_info *c = ls_commands; c->name && !code; c++) {
        ls_buf_fmt(out, "        -*,%s%s) words='", c->name, strcmp(c->name, "chat") ? "" : "|-*,");
        flags_of(c, out);
        ls_buf_fmt(out, "' ;;\n");
        code = ls_offer_of_command(&o, c, err);
        ls_buf_fmt(out, "        *,%s) ", c->name);
        bash_offer(&o, out);
        ls_buf_str(out, " ;;\n");
        ls_offer_free(&o);
    }
    ls_buf_str(out, "        *,) words='");
    for (const ls_command_info *c = ls_commands; c->name; c++)
        ls_buf_fmt(out, "%s%s", c == ls_commands ? "" : " ", c->name);
    ls_buf_str(out, "' ;;\n"
                    "        esac ;;\n"
                    "    esac\n"
                    "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                    "    if [[ $files ]]; then\n"
                    "        compopt -o filenames 2>/dev/null\n"
                    "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n"
                    "    fi\n"
                    "    if [[ $open ]]; then compopt -o nospace 2>/dev/null; fi\n"
                    "}\n"
                    "complete -F _logitspec logitspec\n");
    return code;
}

// ---- zsh

// Text in single quotes; `special` gets a backslash.
static void quoted(const char *s, const char *special, ls_buf *out) {
    for (; *s; s++)
        if (*s == '\'') ls_buf_str(out, "'\\''");
        else ls_buf_fmt(out, strchr(special, *s) ? "\\%c" : "%c", *s);
}

static void zsh_action(const ls_offer *o, ls_buf *out) {
    if (!o->n) ls_buf_str(out, o->files ? "_files" : " ");
    else {
        ls_buf_str(out, o->files || o->open ? "{compadd " : "(");
        if (o->open) ls_buf_str(out, "-S \"\" ");
        if (o->files || o->open) ls_buf_str(out, "-- ");
        words(o, out);
        ls_buf_str(out, o->files ? "; _files}" : o->open ? "}" : ")");
    }
}

static ls_code zsh_flag(const ls_flag_info *f, ls_buf *out, ls_err *err) {
    ls_offer o;
    const ls_code code = ls_offer_of_flag(&o, f, err);
    for (int letter = 0; letter < (f->letter ? 2 : 1); letter++) {
        ls_buf_str(out, " \\\n            '");
        if (letter) ls_buf_fmt(out, "-%c[", f->letter);
        else
            ls_buf_fmt(out, "%s--%s%s[", f->key && strstr(f->help, "may be repeated") ? "*" : "", f->name,
                       f->arg ? "=" : "");
        quoted(f->help, "[]:\\", out);
        ls_buf_char(out, ']');
        if (f->arg) {
            ls_buf_char(out, ':');
            quoted(f->arg, ":\\", out);
            ls_buf_char(out, ':');
            zsh_action(&o, out);
        }
        ls_buf_char(out, '\'');
    }
    ls_offer_free(&o);
    return code;
}

static ls_code zsh_flags(const ls_command_info *c, ls_buf *out, ls_err *err) {
    ls_code code = LS_OK;
    for (int i = 0; i < ls_flag_count && !code; i++)
        if (ls_command_takes(c, &ls_flags[i])) code = zsh_flag(&ls_flags[i], out, err);
    return code;
}

static ls_code zsh(ls_buf *out, ls_err *err) {
    ls_code code;
    ls_buf_str(out, "#compdef logitspec\n"
                    "# Completion of logitspec " LS_VERSION " for zsh, by 'logitspec completion zsh'.\n"
                    "_logitspec() {\n"
                    "    local command=''\n"
                    "    local -a valued=(");
    flags_with_values(" ", out);
    ls_buf_str(out, ")\n"
                    "    integer i\n"
                    "    for ((i = 2; i < CURRENT; i++)); do\n"
                    "        if (( ${valued[(Ie)${words[i]}]} )); then (( i++ ))\n"
                    "        elif [[ ${words[i]} != -* ]]; then command=${words[i]}; break\n"
                    "        fi\n"
                    "    done\n"
                    "    case $command in\n"
                    "    '') _arguments :");
    code = zsh_flags(&ls_commands[0], out, err);
    ls_buf_str(out, " \\\n            '1:command:((");
    for (const ls_command_info *c = ls_commands; c->name; c++) {
        ls_buf_fmt(out, "%s%s\\:\"", c == ls_commands ? "" : " ", c->name);
        quoted(c->summary, "\\\":", out);
        ls_buf_char(out, '"');
    }
    ls_buf_str(out, "))' ;;\n");
    for (const ls_command_info *c = ls_commands; c->name && !code; c++) {
        ls_offer o = {0};
        ls_buf_fmt(out, "    %s) _arguments :", c->name);
        code = zsh_flags(c, out, err);
        if (!code) code = ls_offer_of_command(&o, c, err);
        ls_buf_fmt(out, " \\\n            '1:command:(%s)'", c->name);
        if (o.n || o.files) {
            ls_buf_str(out, " '*:argument:");
            zsh_action(&o, out);
            ls_buf_char(out, '\'');
        }
        ls_buf_str(out, " ;;\n");
        ls_offer_free(&o);
    }
    ls_buf_str(out, "    esac\n}\nif [[ $funcstack[1] == _logitspec ]]; then _logitspec \"$@\"; else compdef "
                    "_logitspec logitspec; fi\n");
    return code;
}

// ---- fish

static void fish_text(const char *s, ls_buf *out) {
    for (; *s; s++) ls_buf_fmt(out, strchr("'\\", *s) ? "\\%c" : "%c", *s);
}

static void fish_offer(const ls_offer *o, ls_buf *out) {
    if (o->files) ls_buf_str(out, " -F");
    if (!o->n) return;
    ls_buf_str(out, " -a '");
    words(o, out);
    ls_buf_char(out, '\'');
}

static ls_code fish(ls_buf *out, ls_err *err) {
    ls_offer o;
    ls_code code = LS_OK;
    ls_buf_str(out, "# Completion of logitspec " LS_VERSION " for fish, by 'logitspec completion fish'.\n"
                    "function __logitspec_before_command\n    not __fish_seen_subcommand_from");
    for (const ls_command_info *c = ls_commands; c->name; c++) ls_buf_fmt(out, " %s", c->name);
    ls_buf_str(out, "\nend\ncomplete -c logitspec -f\n");
    for (const ls_command_info *c = ls_commands; c->name && !code; c++) {
        ls_buf_fmt(out, "complete -c logitspec -n __logitspec_before_command -a %s -d '", c->name);
        fish_text(c->summary, out);
        ls_buf_str(out, "'\n");
        code = ls_offer_of_command(&o, c, err);
        if (o.n || o.files) {
            ls_buf_fmt(out, "complete -c logitspec -n '__fish_seen_subcommand_from %s'", c->name);
            fish_offer(&o, out);
            ls_buf_char(out, '\n');
        }
        ls_offer_free(&o);
    }
    for (int i = 0; i < ls_flag_count && !code; i++) {
        const ls_flag_info *f = &ls_flags[i];
        if (!f->name) continue;
        ls_buf_fmt(out, "complete -c logitspec -n '%s__fish_seen_subcommand_from",
                   ls_command_takes(&ls_commands[0], f) ? "__logitspec_before_command; or " : "");
        for (const ls_command_info *c = ls_commands; c->name; c++)
            if (ls_command_takes(c, f)) ls_buf_fmt(out, " %s", c->name);
        ls_buf_fmt(out, "' -l %s", f->name);
        if (f->letter) ls_buf_fmt(out, " -s %c", f->letter);
        code = ls_offer_of_flag(&o, f, err);
        if (f->arg) ls_buf_str(out, o.files ? " -r" : " -x"); // -x: no file names
        fish_offer(&o, out);
        ls_offer_free(&o);
        ls_buf_str(out, " -d '");
        fish_text(f->help, out);
        ls_buf_str(out, "'\n");
    }
    return code;
}

int ls_cmd_completion(const ls_command_line *c) {
    static const struct {
        const char *name;
        ls_code (*write)(ls_buf *out, ls_err *err);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    ls_err err;
    ls_buf out = {0};
    for (size_t i = 0; c->n_args == 1 && i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(c->args[0], shells[i].name)) {
            if (!shells[i].write(&out, &err)) return ls_print(&out) ? LS_EXIT_OK : LS_EXIT_FAILED;
            ls_buf_free(&out);
            return ls_complain(&err);
        }
    ls_fail(&err, LS_E_USAGE, "usage: logitspec completion bash|zsh|fish");
    return ls_complain(&err);
}
