// The pages of the manual, generated from the tables that the program uses.
#include "cli/commands.h"
#include "cli/manual.h"
#include "spec/accept.h"
#include "spec/from.h"
#include "spec/sizing.h"
#include "ui/actions.h"
#include "ui/command.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// "--model NAME|PATH, -m"
static void flag_term(const ls_flag_info *f, ls_buf *out) {
    ls_buf_fmt(out, "--%s%s%s", f->name, f->arg ? " " : "", f->arg ? f->arg : "");
    if (f->letter) ls_buf_fmt(out, ", -%c", f->letter);
}

void ls_help(const char *command, ls_buf *out) {
    const ls_command_info *c = command && *command ? ls_command_find(command) : NULL;
    const int columns = ls_columns(STDOUT_FILENO);
    size_t at = 0; // offset of the lines that are not wrapped yet
    if (!c) {
        ls_buf_str(out, "logitspec: watch speculative decoding with LogitSpec, step by step\n\n");
        at = ls_wrap(out, at, columns, 0);
        ls_buf_str(out,
                   "  logitspec                                   open the screen with the default model\n"
                   "  logitspec generate --prompt \"Why is the sky blue?\"\n"
                   "  echo \"Summarise: ...\" | logitspec generate --prompt-file - --json\n"
                   "  logitspec --model script                    try the screen with a fake model\n\nCommands:\n");
        at = ls_wrap(out, at, columns, LS_COMMANDS);
        for (c = ls_commands; c->name; c++) ls_buf_fmt(out, "  %-10s %s\n", c->name, c->summary);
        at = ls_wrap(out, at, columns, 13);
        ls_buf_str(out, "\n'logitspec help COMMAND' lists the flags of a command. 'logitspec help PAGE' prints one of "
                        "these pages:\n");
        at = ls_wrap(out, at, columns, 0);
        for (const ls_manual_page *p = ls_manual_pages; p->name; p++)
            if (*p->name) ls_buf_fmt(out, "  %-14s %s\n", p->name, p->summary);
        at = ls_wrap(out, at, columns, 17);
        ls_buf_str(out, "\nExit codes:");
#define EXIT(name, code, meaning) ls_buf_fmt(out, "%s %d " meaning, code ? "," : "", code);
#include "cli/exits.def"
#undef EXIT
        ls_buf_str(out, ".\n");
        ls_wrap(out, at, columns, 0);
        return;
    }
    ls_buf_fmt(out, "logitspec %s %s\n%s\n\n", c->name, c->usage, c->summary);
    at = ls_wrap(out, at, columns, 2);
    if (*c->examples) ls_buf_fmt(out, "%s\n", c->examples);
    at = ls_wrap(out, at, columns, LS_COMMANDS);
    for (int i = 0; i < ls_flag_count; i++) {
        const ls_flag_info *f = &ls_flags[i];
        char left[64];
        if (!ls_command_takes(c, f)) continue;
        snprintf(left, sizeof left, "--%s %s", f->name, f->arg ? f->arg : "");
        ls_buf_fmt(out, "  %-24s %s", left, f->help);
        if (f->letter) ls_buf_fmt(out, " (-%c)", f->letter);
        ls_buf_char(out, '\n');
    }
    ls_wrap(out, at, columns, 27);
}

static ls_code program(ls_manual *m, ls_err *err) {
    (void)err;
    ls_buf text = {0};
    ls_manual_head(m, "synopsis");
    ls_manual_lines(m, "  logitspec [COMMAND] [ARGUMENTS] [FLAGS]\n");
    ls_manual_head(m, "description");
    ls_manual_text(
        m, "logitspec runs a language model with retrieval-based speculative decoding. It shows each step: the last "
           "logits, the drafts and their sources, the tree that one forward verified, and the accepted tokens. It "
           "measures the speedup over plain decoding on this machine. The text is that of plain decoding, bit for "
           "bit, unless a LOSSY acceptance rule is set.");
    ls_manual_text(m, "Without a command, logitspec opens the screen with the default model.");
    ls_manual_head(m, "commands");
    for (const ls_command_info *c = ls_commands; c->name; c++) {
        ls_buf_clear(&text);
        ls_buf_fmt(&text, "logitspec %s %s", c->name, c->usage);
        ls_manual_item(m, text.p, NULL, c->summary);
    }
    ls_manual_head(m, "flags");
    ls_manual_text(m, "'logitspec help COMMAND' lists the flags of a command.");
    for (int i = 0; i < ls_flag_count; i++) {
        if (!ls_flags[i].name) continue;
        ls_buf_clear(&text);
        flag_term(&ls_flags[i], &text);
        ls_manual_item(m, text.p, NULL, ls_flags[i].help);
    }
    ls_manual_head(m, "examples");
    ls_buf_clear(&text);
    for (const ls_command_info *c = ls_commands; c->name; c++) ls_buf_str(&text, c->examples);
    ls_manual_lines(m, text.p);
    ls_buf_free(&text);
    ls_manual_head(m, "files");
    ls_manual_item(m, "~/.config/logitspec/config.yaml", NULL, "your settings ($XDG_CONFIG_HOME)");
    ls_manual_item(m, "~/.config/logitspec/models.yaml", NULL, "your own models by name");
    ls_manual_item(m, "~/.local/share/logitspec/models", NULL, "fetched models ($XDG_DATA_HOME, $LOGITSPEC_MODELS)");
    ls_manual_item(m, "~/.local/state/logitspec/history", NULL, "prompts of earlier sessions ($XDG_STATE_HOME)");
    ls_manual_item(
        m, "~/.local/state/logitspec/conversation-*.jsonl.zst", NULL,
        "conversations that ^C, a signal or a crash interrupted, for the next start; at most 8, for 30 days");
    ls_manual_item(m, "~/.cache/logitspec", NULL,
                   "cache: the fastest number of threads, the cost of forwards, hashes of models ($XDG_CACHE_HOME)");
    ls_manual_head(m, "environment");
#define VARIABLE(name, sentence) ls_manual_item(m, name, NULL, sentence);
#include "cli/environment.def"
#undef VARIABLE
    ls_manual_head(m, "exit status");
#define EXIT(name, code, meaning) ls_manual_item(m, #code, NULL, meaning);
#include "cli/exits.def"
#undef EXIT
    return LS_OK;
}

static ls_code configuration(ls_manual *m, ls_err *err) {
    (void)err;
    ls_options o;
    ls_buf kind = {0};
    char section[32] = "";
    ls_manual_head(m, "where values come from");
    ls_manual_text(
        m, "Values come from these layers; a later layer overrides an earlier one: built-in values, "
           "configs/default.yaml, ~/.config/logitspec/config.yaml, --config FILE, "
           "LOGITSPEC_SET_SECTION__KEY=VALUE, flags. 'logitspec config show' prints the effective values and their "
           "origins. Files are YAML:");
    ls_manual_lines(m, "  decode:\n    method: logitspec\n    budget: 16\n");
    ls_options_init(&o);
    for (int i = 0; i < ls_options_count(); i++) {
        const char *key = ls_options_key(i);
        const size_t n = strcspn(key, ".");
        if (strncmp(section, key, n) || section[n]) {
            snprintf(section, sizeof section, "%.*s", (int)n, key);
            ls_manual_head(m, section);
        }
        ls_buf_clear(&kind);
        ls_options_domain(i, &kind);
        ls_buf_str(&kind, "; default: ");
        ls_options_value(&o, i, &kind);
        ls_manual_item(m, key, kind.p, ls_options_help(i));
    }
    ls_buf_free(&kind);
    ls_options_free(&o);
    return LS_OK;
}

static ls_code keys(ls_manual *m, ls_err *err) {
    (void)err;
    ls_manual_head(m, "keys");
    ls_manual_text(
        m, "Letter keys work when a panel has the focus (Esc leaves the prompt line). Function and control keys "
           "always work. To change a key, use ui.keys in the configuration with the name in parentheses.");
    for (int a = 0; a < UI_ACTIONS; a++) ls_manual_item(m, ui_actions[a].keys, ui_actions[a].name, ui_actions[a].help);
    ls_manual_head(m, "typed commands");
    ls_manual_text(m, "After ':', type a name from the list above or one of these commands:");
    for (const ui_verb *v = ui_verbs; v->name; v++) {
        char term[64];
        snprintf(term, sizeof term, ":%s%s", v->name, v->argument);
        ls_manual_item(m, term, NULL, v->help);
    }
    return LS_OK;
}

static void rule_items(ls_manual *m, ls_rule_list list) {
    const ls_rule *r;
    for (int i = 0; (r = list(i)); i++) {
        ls_buf term = {0}, text = {0};
        ls_buf_str(&term, r->name);
        for (int k = 0; k < LS_RULE_NUMBERS && r->number[k].name; k++) ls_buf_fmt(&term, "[:%s", r->number[k].name);
        for (int k = 0; k < LS_RULE_NUMBERS && r->number[k].name; k++) ls_buf_char(&term, ']');
        ls_buf_str(&text, r->summary);
        for (int k = 0; k < LS_RULE_NUMBERS && r->number[k].name; k++)
            ls_buf_fmt(&text, "; %s: %g to %g, default %g", r->number[k].name, r->number[k].lo, r->number[k].hi,
                       r->number[k].fallback);
        ls_manual_item(m, term.p, r->source ? r->source : "this program's own", text.p);
        ls_buf_free(&term);
        ls_buf_free(&text);
    }
}

static ls_code methods(ls_manual *m, ls_err *err) {
    (void)err;
    ls_manual_head(m, "how drafts are made (--method)");
    for (const ls_method *const *p = ls_methods; *p; p++)
        ls_manual_item(m, (*p)->name, (*p)->source ? (*p)->source : "no drafts", (*p)->summary);
    ls_manual_head(m, "how many rows are verified (--sizing)");
    rule_items(m, ls_sizing_at);
    ls_manual_head(m, "which drafts are accepted (--acceptance)");
    rule_items(m, ls_accept_at);
    ls_manual_head(m, "where a draft token comes from");
#define SOURCE(id, name, label, letter, kind, sentence) ls_manual_item(m, label, NULL, sentence);
#include "spec/sources.def"
    ls_manual_head(m, "method specifications");
    ls_manual_text(
        m,
        "compare, lab, simulate and ':compare' take NAME[:ROWS][/SIZING][@ACCEPTANCE][+KEY=VALUE], such as "
        "suffix:16, pld/auto or logitspec@typical. KEY is a setting of the method ('logitspec help configuration').");
    return LS_OK;
}

const ls_manual_page ls_manual_pages[] = {
    {"", 1, "watch speculative decoding with LogitSpec, step by step", program},
    {"configuration", 5, "every setting with its values, default and meaning", configuration},
    {"keys", 7, "every key of the screen, and the commands after ':'", keys},
    {"methods", 7, "drafters, sizing rules and acceptance rules, with their publications", methods},
    {"trace", 5, "every field of a recording", ls_manual_trace},
    {0},
};
