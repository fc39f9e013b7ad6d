#include "cli/completion.h"
#include "base/mem.h"
#include "base/file.h"
#include "cli/demo_file.h"
#include "cli/manual.h"
#include "gpu/plan.h"
#include "model/registry.h"
#include "spec/cost_curve.h"
#include "spec/accept.h"
#include "spec/sizing.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void add(ls_offer *o, const char *word, size_t n) {
    for (size_t i = 0; i < o->n; i++)
        if (strlen(o->words[i]) == n && !strncmp(o->words[i], word, n)) return;
    for (size_t i = 0; i < n; i++) // skips a user's name with characters that a shell interprets
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-=:", word[i])) return;
    o->words = ls_realloc(o->words, (o->n + 1) * sizeof *o->words);
    o->words[o->n++] = ls_strndup(word, n);
}

static void add_word(ls_offer *o, const char *word) {
    add(o, word, strlen(word));
}

static void add_choices(ls_offer *o, const char *choices) { // "a|b|c"
    for (; *choices; choices += strspn(choices, "|")) {
        const size_t n = strcspn(choices, "|");
        add(o, choices, n);
        choices += n;
    }
}

static void add_rules(ls_offer *o, ls_rule_list list) {
    const ls_rule *r;
    for (int i = 0; (r = list(i)); i++) add_word(o, r->name);
}

static ls_code add_models(ls_offer *o, ls_err *err) {
    ls_registry r = {0};
    const ls_code code = ls_registry_read(&r, err);
    for (size_t i = 0; i < r.n && !code; i++) add_word(o, r.entries[i]->name);
    ls_registry_free(&r);
    add_word(o, "script");
    return code;
}

static void add_demos(ls_offer *o) {
    ls_demo *all;
    size_t n;
    ls_demos_read(&all, &n, NULL); // skips demos that cannot be read
    for (size_t i = 0; i < n; i++) add_word(o, all[i].name);
    ls_demos_free(all, n);
}

static ls_code add_templates(ls_offer *o, ls_err *err) {
    char *folder = ls_data_path("configs/chat");
    DIR *dir = opendir(folder);
    ls_code code = dir || ls_is_missing(errno) ? LS_OK : ls_fail(err, LS_E_IO, "%s: %s", folder, strerror(errno));
    errno = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *end = strstr(e->d_name, ".jinja");
        if (end) add(o, e->d_name, (size_t)(end - e->d_name));
    }
    if (dir && errno) code = ls_fail(err, LS_E_IO, "%s: %s", folder, strerror(errno));
    if (dir) closedir(dir);
    free(folder);
    return code;
}

static bool is(const char *p, size_t n, const char *word) {
    return strlen(word) == n && !strncmp(p, word, n);
}

ls_code ls_offer_of_flag(ls_offer *out, const ls_flag_info *f, ls_err *err) {
    ls_code code = LS_OK;
    *out = (ls_offer){0};
    if (!f->arg) return LS_OK;
    int option = -1;
    for (int i = 0; f->key && option < 0; i++)
        if (!strcmp(ls_options_key(i), f->key)) option = i;
    if (option >= 0 && ls_options_choices(option)) {
        add_choices(out, ls_options_choices(option));
        return LS_OK;
    }
    for (const char *p = f->arg; *p && !code; p += strspn(p, "|")) {
        const size_t n = strcspn(p, "|");
        if (is(p, n, "FILE") || is(p, n, "FOLDER") || is(p, n, "PATH")) out->files = true;
        else if (is(p, n, "NAME") && f->key && !strcmp(f->key, "prompt.template")) code = add_templates(out, err);
        else if (is(p, n, "NAME")) code = add_models(out, err);
        else if (is(p, n, "ROWS:MS,...")) add_choices(out, LS_COST_CHOICES);
        else if (is(p, n, "METHODS")) add_choices(out, ls_method_names);
        else if (is(p, n, "CARD"))
            for (const lsg_card *c = lsg_cards; c->name; c++) add_word(out, c->name);
        else if (is(p, n, "RULE")) add_rules(out, strcmp(f->name, "sizing") ? ls_accept_at : ls_sizing_at);
        else if (is(p, n, "KEY=VALUE")) {
            out->open = true;
            for (int i = 0; i < ls_options_count(); i++) {
                char *word = ls_format("%s=", ls_options_key(i));
                add_word(out, word);
                free(word);
            }
        } else if (*p >= 'a' && *p <= 'z') add(out, p, n);
        p += n;
    }
    return code;
}

ls_code ls_offer_of_command(ls_offer *out, const ls_command_info *c, ls_err *err) {
    static const char between[] = " |[]";
    ls_code code = LS_OK;
    *out = (ls_offer){0};
    bool of_flag = false; // the word before is a flag, so this word is its value
    for (const char *p = c->usage + strspn(c->usage, between); *p && !code; p += strspn(p, between)) {
        const size_t n = strcspn(p, between);
        const bool flag = n > 1 && !strncmp(p, "--", 2), value = of_flag;
        of_flag = flag && strcmp(p, "--schema"); // the only flag without a value in a usage
        if (flag || value) {
        } else if (is(p, n, "COMMAND"))
            for (const ls_command_info *o = ls_commands; o->name; o++) add_word(out, o->name);
        else if (is(p, n, "PAGE"))
            for (const ls_manual_page *m = ls_manual_pages; m->name; m++) {
                if (*m->name) add_word(out, m->name);
            }
        else if (!strncmp(p, "NAME", 4) && !strcmp(c->name, "demo")) add_demos(out);
        else if (!strncmp(p, "NAME", 4)) code = add_models(out, err);
        else if (strspn(p, "abcdefghijklmnopqrstuvwxyz") >= n) add(out, p, n);
        else if (strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.") >= 1 && !is(p, n, "FLAGS")) out->files = true;
        p += n;
    }
    return code;
}

void ls_offer_free(ls_offer *o) {
    for (size_t i = 0; i < o->n; i++) free(o->words[i]);
    free(o->words);
    *o = (ls_offer){0};
}
