// `completion SHELL`: a script that completes commands, flags and their values, from the tables of both.
#include "base/mem.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/demo_file.h"
#include "gpu/plan.h"
#include "model/registry.h"
#include "spec/accept.h"
#include "spec/drafter.h"
#include "spec/sizing.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_buf words; // separated by blanks
    bool files;   // ... and names of files
    bool open;    // a word is not complete: KEY= needs a value
} offer;

typedef struct {
    offer *of_flag, *of_command; // values of each row of ls_flags, arguments of each command
    ls_buf *out;
} script;

static void add(offer *o, ls_str word) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-=:";
    if (strspn(word.p, safe) < word.n) return; // a user's name with characters that a shell interprets
    if (o->words.n && ls_str_among(word, o->words.p) >= 0) return;
    ls_buf_fmt(&o->words, "%s%.*s", o->words.n ? " " : "", (int)word.n, word.p);
}

static void add_word(offer *o, const char *word) {
    add(o, (ls_str){word, strlen(word)});
}

static void add_choices(offer *o, const char *choices) { // "a|b|c"
    for (ls_str w; (w.p = ls_next_word(&choices, "|", &w.n));) add(o, w);
}

static void add_rules(offer *o, ls_rule_list list) {
    for (int i = 0; list(i); i++) add_word(o, list(i)->name);
}

static ls_code add_models(offer *o, ls_err *err) {
    ls_registry r = {0};
    const ls_code code = ls_registry_read(&r, err);
    for (size_t i = 0; i < r.n && !code; i++) add_word(o, r.entries[i]->name);
    ls_registry_free(&r);
    add_word(o, "script");
    return code;
}

static void add_demos(offer *o) {
    ls_demo *all;
    size_t n;
    ls_demos_read(&all, &n, NULL); // skips demos that cannot be read
    for (size_t i = 0; i < n; i++) add_word(o, all[i].name);
    ls_demos_free(all, n);
}

static ls_code add_templates(offer *o, ls_err *err) {
    char *folder = ls_data_path("configs/chat");
    struct dirent **files;
    const int n = scandir(folder, &files, NULL, alphasort);
    ls_code code = n >= 0 || ls_is_missing(errno) ? LS_OK : ls_fail(err, LS_E_IO, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        const char *end = strstr(files[i]->d_name, ".jinja");
        if (end) add(o, (ls_str){files[i]->d_name, (size_t)(end - files[i]->d_name)});
        free(files[i]);
    }
    if (n >= 0) free(files);
    free(folder);
    return code;
}

static void add_keys(offer *o) {
    o->open = true;
    for (int i = 0; i < ls_options_count(); i++) {
        char *word = ls_format("%s=", ls_options_key(i));
        add_word(o, word);
        free(word);
    }
}

// Adds what a word of a usage stands for. of: the name of the flag or command.
static ls_code add_meant(offer *o, ls_str w, const char *of, bool command, ls_err *err) {
    if (ls_str_is(w, "NAME") && !strcmp(of, "template")) return add_templates(o, err);
    if (ls_str_is(w, "NAME") && !strcmp(of, "demo")) add_demos(o);
    else if (ls_str_is(w, "NAME") || ls_str_is(w, "NAME...")) return add_models(o, err);
    else if (ls_str_is(w, "ROWS:MS,...")) add_choices(o, LS_COST_CHOICES);
    else if (ls_str_is(w, "METHODS") || ls_str_is(w, "METHOD")) add_choices(o, ls_method_names);
    else if (ls_str_is(w, "SIZING") || (ls_str_is(w, "RULE") && !strcmp(of, "sizing"))) add_rules(o, ls_sizing_at);
    else if (ls_str_is(w, "RULE")) add_rules(o, ls_accept_at);
    else if (ls_str_is(w, "KEY=VALUE")) add_keys(o);
    else if (ls_str_is(w, "CARD"))
        for (const lsg_card *c = lsg_cards; c->name; c++) add_word(o, c->name);
    else if (ls_str_is(w, "COMMAND"))
        for (const ls_command_info *c = ls_commands; c->name; c++) add_word(o, c->name);
    else if (ls_str_is(w, "PAGE"))
        for (int i = 1; ls_manual_page(i); i++) add_word(o, ls_manual_page(i));
    else if (ls_str_is(w, "FILE") || ls_str_is(w, "FOLDER") || ls_str_is(w, "PATH")) o->files = true;
    else if (*w.p >= 'a' && *w.p <= 'z' && !memchr(w.p, ':', w.n)) add(o, w);
    else if (command && !ls_str_is(w, "FLAGS") && (*w.p == '.' || (*w.p >= 'A' && *w.p <= 'Z'))) o->files = true;
    return LS_OK;
}

static ls_code offer_of_flag(offer *o, const ls_flag_info *f, ls_err *err) {
    ls_code code = LS_OK;
    for (int i = 0; f->key && i < LS_OPT_COUNT; i++)
        if (!strcmp(ls_options_key(i), f->key) && ls_options_choices(i))
            return add_choices(o, ls_options_choices(i)), LS_OK;
    ls_str w;
    for (const char *list = f->arg; !code && (w.p = ls_next_word(&list, "|", &w.n));)
        code = add_meant(o, w, f->name, false, err);
    return code;
}

static ls_code offer_of_command(offer *o, const ls_command_info *c, ls_err *err) { // arguments, not flags
    ls_code code = LS_OK;
    ls_str w;
    bool of_flag = false; // the word before is a flag, so this word is its value
    for (const char *list = c->usage; !code && (w.p = ls_next_word(&list, " |[]", &w.n));) {
        const bool flag = w.n > 1 && !strncmp(w.p, "--", 2);
        if (!flag && !of_flag) code = add_meant(o, w, c->name, true, err);
        of_flag = flag && strcmp(w.p, "--schema"); // the only flag without a value in a usage
    }
    return code;
}

static void flags_of(const ls_command_info *c, ls_buf *out) {
    const char *between = "";
    for (int i = 0; i < ls_flag_count; i++) {
        if (!ls_command_takes(c, &ls_flags[i])) continue;
        ls_buf_fmt(out, "%s--%s", between, ls_flags[i].name);
        between = " ";
    }
}

static bool has_value(const ls_flag_info *f) {
    return f->name && f->arg;
}

// The flags that take a value, separated by `between`.
static void flags_with_values(const char *between, ls_buf *out) {
    const char *put = "";
    for (int i = 0; i < ls_flag_count; i++) {
        if (!has_value(&ls_flags[i])) continue;
        ls_buf_fmt(out, "%s--%s", put, ls_flags[i].name);
        put = between;
        if (ls_flags[i].letter) ls_buf_fmt(out, "%s-%c", between, ls_flags[i].letter);
    }
}

static const char *words(const offer *o) {
    return o->words.n ? o->words.p : "";
}

static void all_commands(ls_buf *out) {
    for (const ls_command_info *c = ls_commands; c->name; c++)
        ls_buf_fmt(out, "%s%s", c == ls_commands ? "" : " ", c->name);
}

// Text with a backslash before each character of `special`; "'" becomes `quote`, unless that is NULL.
static void escaped(const char *s, const char *special, const char *quote, ls_buf *out) {
    for (; *s; s++)
        if (*s == '\'' && quote) ls_buf_str(out, quote);
        else ls_buf_fmt(out, strchr(special, *s) ? "\\%c" : "%c", *s);
}

// ---- bash

static void bash_offer(const offer *o, ls_buf *out) {
    ls_buf_fmt(out, "words='%s'%s%s ;;\n", words(o), o->files ? " files=1" : "", o->open ? " open=1" : "");
}

static void bash(const script *s) {
    ls_buf *out = s->out;
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
    for (int i = 0; i < ls_flag_count; i++) {
        const ls_flag_info *f = &ls_flags[i];
        if (!has_value(f)) continue;
        ls_buf_fmt(out, "    --%s", f->name);
        if (f->letter) ls_buf_fmt(out, "|-%c", f->letter);
        ls_buf_str(out, ") ");
        bash_offer(&s->of_flag[i], out);
    }
    ls_buf_str(out, "    *) case $cur,$command in\n");
    for (const ls_command_info *c = ls_commands; c->name; c++) {
        ls_buf_fmt(out, "        -*,%s%s) words='", c->name, strcmp(c->name, "chat") ? "" : "|-*,");
        flags_of(c, out);
        ls_buf_fmt(out, "' ;;\n        *,%s) ", c->name);
        bash_offer(&s->of_command[c - ls_commands], out);
    }
    ls_buf_str(out, "        *,) words='");
    all_commands(out);
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
}

// ---- zsh

static void zsh_action(const offer *o, ls_buf *out) {
    const char *left = o->files || o->open ? "{compadd " : "(", *right = o->files ? "; _files}" : o->open ? "}" : ")";
    if (!o->words.n) ls_buf_str(out, o->files ? "_files" : " ");
    else
        ls_buf_fmt(out, "%s%s%s%s%s", left, o->open ? "-S \"\" " : "", o->files || o->open ? "-- " : "", o->words.p,
                   right);
}

static void zsh_flag(const ls_flag_info *f, const offer *o, ls_buf *out) {
    const bool repeats = f->key && strstr(f->help, "may be repeated");
    for (int letter = 0; letter < (f->letter ? 2 : 1); letter++) {
        ls_buf_str(out, " \\\n            '");
        if (letter) ls_buf_fmt(out, "-%c[", f->letter);
        else ls_buf_fmt(out, "%s--%s%s[", repeats ? "*" : "", f->name, f->arg ? "=" : "");
        escaped(f->help, "[]:\\", "'\\''", out);
        ls_buf_char(out, ']');
        if (f->arg) {
            ls_buf_char(out, ':');
            escaped(f->arg, ":\\", "'\\''", out);
            ls_buf_char(out, ':');
            zsh_action(o, out);
        }
        ls_buf_char(out, '\'');
    }
}

static void zsh_flags(const script *s, const ls_command_info *c) {
    for (int i = 0; i < ls_flag_count; i++)
        if (ls_command_takes(c, &ls_flags[i])) zsh_flag(&ls_flags[i], &s->of_flag[i], s->out);
}

static void zsh(const script *s) {
    ls_buf *out = s->out;
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
    zsh_flags(s, &ls_commands[0]);
    ls_buf_str(out, " \\\n            '1:command:((");
    for (const ls_command_info *c = ls_commands; c->name; c++) {
        ls_buf_fmt(out, "%s%s\\:\"", c == ls_commands ? "" : " ", c->name);
        escaped(c->summary, "\\\":", "'\\''", out);
        ls_buf_char(out, '"');
    }
    ls_buf_str(out, "))' ;;\n");
    for (const ls_command_info *c = ls_commands; c->name; c++) {
        const offer *o = &s->of_command[c - ls_commands];
        ls_buf_fmt(out, "    %s) _arguments :", c->name);
        zsh_flags(s, c);
        ls_buf_fmt(out, " \\\n            '1:command:(%s)'", c->name);
        if (o->words.n || o->files) {
            ls_buf_str(out, " '*:argument:");
            zsh_action(o, out);
            ls_buf_char(out, '\'');
        }
        ls_buf_str(out, " ;;\n");
    }
    ls_buf_str(out, "    esac\n}\nif [[ $funcstack[1] == _logitspec ]]; then _logitspec \"$@\"; else compdef "
                    "_logitspec logitspec; fi\n");
}

// ---- fish

static void fish_offer(const offer *o, ls_buf *out) {
    if (o->files) ls_buf_str(out, " -F");
    if (o->words.n) ls_buf_fmt(out, " -a '%s'", o->words.p);
}

static void fish_about(const char *text, ls_buf *out) {
    ls_buf_str(out, " -d '");
    escaped(text, "'\\", NULL, out);
    ls_buf_str(out, "'\n");
}

static void fish(const script *s) {
    ls_buf *out = s->out;
    ls_buf_str(out, "# Completion of logitspec " LS_VERSION " for fish, by 'logitspec completion fish'.\n"
                    "function __logitspec_before_command\n    not __fish_seen_subcommand_from ");
    all_commands(out);
    ls_buf_str(out, "\nend\ncomplete -c logitspec -f\n");
    for (const ls_command_info *c = ls_commands; c->name; c++) {
        const offer *o = &s->of_command[c - ls_commands];
        ls_buf_fmt(out, "complete -c logitspec -n __logitspec_before_command -a %s", c->name);
        fish_about(c->summary, out);
        if (!o->words.n && !o->files) continue;
        ls_buf_fmt(out, "complete -c logitspec -n '__fish_seen_subcommand_from %s'", c->name);
        fish_offer(o, out);
        ls_buf_char(out, '\n');
    }
    for (int i = 0; i < ls_flag_count; i++) {
        const ls_flag_info *f = &ls_flags[i];
        if (!f->name) continue;
        ls_buf_fmt(out, "complete -c logitspec -n '%s__fish_seen_subcommand_from",
                   ls_command_takes(&ls_commands[0], f) ? "__logitspec_before_command; or " : "");
        for (const ls_command_info *c = ls_commands; c->name; c++)
            if (ls_command_takes(c, f)) ls_buf_fmt(out, " %s", c->name);
        ls_buf_fmt(out, "' -l %s", f->name);
        if (f->letter) ls_buf_fmt(out, " -s %c", f->letter);
        if (f->arg) ls_buf_str(out, s->of_flag[i].files ? " -r" : " -x"); // -x: no file names
        fish_offer(&s->of_flag[i], out);
        fish_about(f->help, out);
    }
}

ls_code ls_cmd_completion(const ls_command_line *c, ls_console *to, ls_err *err) {
    static const struct {
        const char *name;
        void (*write)(const script *s);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    enum { SHELLS = sizeof shells / sizeof *shells };
    int shell = 0, n_commands = 0;
    while (shell < SHELLS && (c->n_args != 1 || strcmp(c->args[0], shells[shell].name))) shell++;
    ls_code code = shell < SHELLS ? LS_OK : ls_fail(err, LS_E_USAGE, "usage: logitspec completion bash|zsh|fish");
    while (ls_commands[n_commands].name) n_commands++;
    offer *offers = ls_calloc((size_t)(ls_flag_count + n_commands), sizeof *offers);
    const script s = {offers, offers + ls_flag_count, &to->out};
    for (int i = 0; i < ls_flag_count && !code; i++)
        if (has_value(&ls_flags[i])) code = offer_of_flag(&s.of_flag[i], &ls_flags[i], err);
    for (int i = 0; i < n_commands && !code; i++) code = offer_of_command(&s.of_command[i], &ls_commands[i], err);
    if (!code) shells[shell].write(&s);
    for (int i = 0; i < ls_flag_count + n_commands; i++) ls_buf_free(&offers[i].words);
    free(offers);
    return code;
}
