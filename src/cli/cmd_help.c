// `help [COMMAND|PAGE]`: what --help prints, and the pages of the manual, generated from the program's tables, in three
// forms.
#include "base/json.h"
#include "cli/commands.h"
#include "spec/accept.h"
#include "spec/drafter.h"
#include "spec/sizing.h"
#include "trace/trace.h"
#include "ui/actions.h"
#include "ui/modes.h"
#include "ui/script.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef enum { TEXT, MAN, MD, FORMS } form;

typedef struct {
    ls_buf *out; // borrowed
    form form;
    int columns;   // width of the terminal for text; 0: no terminal
    bool in_items; // the last element was an item
} manual;

// ---- the elements of a page

enum { WIDTH = 79, TERM_COLUMN = 2, TEXT_COLUMN = 26 };

// Wraps prose, also for files and pipes.
static void wrap(const manual *m, size_t from, int left) {
    ls_wrap(m->out, from, m->columns ? m->columns : WIDTH, left);
}

static void capitals(ls_buf *out, const char *s) {
    for (; *s; s++) ls_buf_char(out, (char)toupper((unsigned char)*s));
}

// Escapes text for a man page: no character acts as a roff command, and a minus stays an ASCII minus.
static void roff(ls_buf *out, const char *s) {
    static const char special[] = "\\-^~`'";
    static const char *const written[] = {"\\e", "\\-", "\\(ha", "\\(ti", "\\(ga", "\\(aq"};
    if (*s == '.' || *s == '\'') ls_buf_str(out, "\\&");
    for (; *s; s++) {
        const char *at = strchr(special, *s);
        if (at) ls_buf_str(out, written[at - special]);
        else ls_buf_char(out, *s);
        if (*s == '\n' && (s[1] == '.' || s[1] == '\'')) ls_buf_str(out, "\\&");
    }
}

static void cell(ls_buf *out, const char *s) { // of a table in Markdown
    for (; *s; s++) {
        if (strchr("|<>", *s)) ls_buf_char(out, '\\');
        ls_buf_char(out, *s == '\n' ? ' ' : *s);
    }
}

static void title(manual *m, const char *name, int section, const char *summary) {
    if (m->form == MAN) {
        ls_buf_str(m->out, ".TH \"");
        capitals(m->out, name);
        ls_buf_fmt(m->out, "\" \"%d\" \"\" \"logitspec " LS_VERSION "\"\n.nh\n.ad l\n.SH NAME\n", section);
        roff(m->out, name);
        ls_buf_str(m->out, " \\- ");
        roff(m->out, summary);
        ls_buf_char(m->out, '\n');
    } else if (m->form == MD) ls_buf_fmt(m->out, "# %s\n\n%s\n", name, summary);
    else {
        ls_buf_fmt(m->out, "%s: %s\n", name, summary);
        ls_wrap(m->out, 0, m->columns, TERM_COLUMN);
    }
}

static void head(manual *m, const char *title) {
    m->in_items = false;
    if (m->form == MAN) {
        ls_buf_str(m->out, ".SH \"");
        capitals(m->out, title);
        ls_buf_str(m->out, "\"\n");
    } else if (m->form == MD) ls_buf_fmt(m->out, "\n## %c%s\n", toupper((unsigned char)*title), title + 1);
    else ls_buf_fmt(m->out, "\n%c%s\n", toupper((unsigned char)*title), title + 1);
}

static void paragraph(manual *m, const char *text) {
    m->in_items = false;
    if (m->form == MAN) {
        ls_buf_str(m->out, ".PP\n");
        roff(m->out, text);
        ls_buf_char(m->out, '\n');
    } else if (m->form == MD) ls_buf_fmt(m->out, "\n%s\n", text);
    else {
        const size_t from = m->out->n;
        ls_buf_fmt(m->out, "%*s%s\n", TERM_COLUMN, "", text);
        wrap(m, from, TERM_COLUMN);
    }
}

static void verbatim(manual *m, const char *text) {
    m->in_items = false;
    const size_t n = strlen(text);
    const char *end = n && text[n - 1] == '\n' ? "" : "\n";
    if (m->form == MAN) {
        ls_buf_str(m->out, ".PP\n.nf\n");
        roff(m->out, text);
        ls_buf_fmt(m->out, "%s.fi\n", end);
    } else if (m->form == MD) ls_buf_fmt(m->out, "\n```\n%s%s```\n", text, end);
    else {
        const size_t from = m->out->n;
        ls_buf_fmt(m->out, "%s%s", text, end);
        ls_wrap(m->out, from, m->columns, LS_COMMANDS);
    }
}

// kind: its values, or NULL. Between two heads, either all items have a kind or none has.
static void item(manual *m, const char *term, const char *kind, const char *text) {
    if (m->form == MAN) {
        ls_buf_str(m->out, ".TP\n\\fB");
        roff(m->out, term);
        ls_buf_str(m->out, "\\fR\n");
        roff(m->out, text);
        if (kind && *kind) ls_buf_str(m->out, "\n("), roff(m->out, kind), ls_buf_char(m->out, ')');
        ls_buf_char(m->out, '\n');
    } else if (m->form == MD) {
        if (!m->in_items) ls_buf_str(m->out, kind ? "\n| | | |\n|---|---|---|\n" : "\n| | |\n|---|---|\n");
        ls_buf_str(m->out, "| `");
        for (const char *c = term; *c; c++) ls_buf_fmt(m->out, *c == '|' ? "\\%c" : "%c", *c);
        ls_buf_str(m->out, "` | ");
        if (kind) cell(m->out, kind), ls_buf_str(m->out, " | ");
        cell(m->out, text);
        ls_buf_str(m->out, " |\n");
    } else {
        size_t from = m->out->n;
        const int at = TERM_COLUMN + ls_cells(term, strlen(term));
        ls_buf_fmt(m->out, "%*s%s", TERM_COLUMN, "", term);
        if (at + 2 > TEXT_COLUMN) {
            ls_buf_char(m->out, '\n');
            from = ls_wrap(m->out, from, m->columns, TERM_COLUMN);
        }
        ls_buf_fmt(m->out, "%*s%s", at + 2 > TEXT_COLUMN ? TEXT_COLUMN : TEXT_COLUMN - at, "", text);
        if (kind && *kind) ls_buf_fmt(m->out, " (%s)", kind);
        ls_buf_char(m->out, '\n');
        wrap(m, from, TEXT_COLUMN);
    }
    m->in_items = true;
}

// ---- the pages

// "--model NAME|PATH, -m"
static void flag_term(const ls_flag_info *f, ls_buf *out) {
    ls_buf_fmt(out, "--%s%s%s", f->name, f->arg ? " " : "", f->arg ? f->arg : "");
    if (f->letter) ls_buf_fmt(out, ", -%c", f->letter);
}

static void program(manual *m) {
    ls_buf text = {0};
    head(m, "synopsis");
    verbatim(m, "  logitspec [COMMAND] [ARGUMENTS] [FLAGS]\n");
    head(m, "description");
    paragraph(m,
              "logitspec runs a language model with retrieval-based speculative decoding. It shows each step: the last "
              "logits, the drafts and their sources, the tree that one forward verified, and the accepted tokens. It "
              "measures the speedup over plain decoding on this machine. The text is that of plain decoding, bit for "
              "bit, unless a LOSSY acceptance rule is set.");
    paragraph(m, "Without a command, logitspec opens the screen with the default model.");
    head(m, "commands");
    for (const ls_command_info *c = ls_commands; c->name; c++) {
        ls_buf_clear(&text);
        ls_buf_fmt(&text, "logitspec %s %s", c->name, c->usage);
        item(m, text.p, NULL, c->summary);
    }
    head(m, "flags");
    paragraph(m, "'logitspec help COMMAND' lists the flags of a command.");
    for (int i = 0; i < ls_flag_count; i++) {
        if (!ls_flags[i].name) continue;
        ls_buf_clear(&text);
        flag_term(&ls_flags[i], &text);
        item(m, text.p, NULL, ls_flags[i].help);
    }
    head(m, "examples");
    ls_buf_clear(&text);
    for (const ls_command_info *c = ls_commands; c->name; c++) ls_buf_str(&text, c->examples);
    verbatim(m, text.p);
    ls_buf_free(&text);
    head(m, "files");
    item(m, "~/.config/logitspec/config.yaml", NULL, "your settings ($XDG_CONFIG_HOME)");
    item(m, "~/.config/logitspec/models.yaml", NULL, "your own models by name");
    item(m, "~/.local/share/logitspec/models", NULL, "fetched models ($XDG_DATA_HOME, $LOGITSPEC_MODELS)");
    item(m, "~/.local/state/logitspec/history", NULL, "prompts of earlier sessions ($XDG_STATE_HOME)");
    item(m, "~/.local/state/logitspec/conversation-*.jsonl.zst", NULL,
         "conversations that ^C, a signal or a crash interrupted, for the next start; at most 8, for 30 days");
    item(m, "~/.cache/logitspec", NULL,
         "cache: the fastest number of threads, the cost of forwards, hashes of models ($XDG_CACHE_HOME)");
    head(m, "environment");
#define VARIABLE(name, sentence) item(m, name, NULL, sentence);
#include "cli/environment.def"
#undef VARIABLE
    head(m, "exit status");
#define EXIT(name, code, meaning) item(m, #code, NULL, meaning);
#include "cli/exits.def"
#undef EXIT
}

static void configuration(manual *m) {
    ls_options o;
    ls_buf kind = {0};
    char section[32] = "";
    head(m, "where values come from");
    paragraph(m,
              "Values come from these layers; a later layer overrides an earlier one: built-in values, "
              "configs/default.yaml, ~/.config/logitspec/config.yaml, --config FILE, "
              "LOGITSPEC_SET_SECTION__KEY=VALUE, flags. 'logitspec config show' prints the effective values and their "
              "origins. Files are YAML:");
    verbatim(m, "  decode:\n    method: logitspec\n    max_rows: 16\n");
    ls_options_init(&o);
    for (int i = 0; i < ls_options_count(); i++) {
        const char *key = ls_options_key(i);
        const size_t n = strcspn(key, ".");
        if (strncmp(section, key, n) || section[n]) {
            snprintf(section, sizeof section, "%.*s", (int)n, key);
            head(m, section);
        }
        ls_buf_clear(&kind);
        ls_options_domain(i, &kind);
        ls_buf_str(&kind, "; default: ");
        ls_options_value(&o, i, &kind);
        item(m, key, kind.p, ls_options_help(i));
    }
    ls_buf_free(&kind);
    ls_options_free(&o);
}

static void keys(manual *m) {
    head(m, "keys");
    paragraph(m, "Letter keys work when a panel has the focus (Esc leaves the prompt line). Function and control keys "
                 "always work. To change a key, use ui.keys in the configuration with the name in parentheses.");
    for (int a = 0; a < UI_ACTIONS; a++) item(m, ui_actions[a].keys, ui_actions[a].name, ui_actions[a].help);
    head(m, "typed commands");
    paragraph(m, "After ':', type a name from the list above or one of these commands:");
    for (const ui_verb *v = ui_verbs; v->name; v++) {
        char term[64];
        snprintf(term, sizeof term, ":%s%s", v->name, v->argument);
        item(m, term, NULL, v->help);
    }
}

static void rule_items(manual *m, ls_rule_list list) {
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
        item(m, term.p, r->source ? r->source : "this program's own", text.p);
        ls_buf_free(&term);
        ls_buf_free(&text);
    }
}

static void methods(manual *m) {
    head(m, "how drafts are made (--method)");
    for (const ls_method *const *p = ls_methods; *p; p++)
        item(m, (*p)->name, (*p)->source ? (*p)->source : "no drafts", (*p)->summary);
    head(m, "how many rows are verified (--sizing)");
    rule_items(m, ls_sizing_at);
    head(m, "which drafts are accepted (--acceptance)");
    rule_items(m, ls_accept_at);
    head(m, "where a draft token comes from");
#define SOURCE(id, name, label, letter, kind, sentence) item(m, label, NULL, sentence);
#include "spec/sources.def"
    head(m, "method specifications");
    paragraph(
        m,
        "compare, lab, simulate and ':compare' take NAME[:ROWS][/SIZING][@ACCEPTANCE][+KEY=VALUE], such as "
        "suffix:16, pld/auto or logitspec@typical. KEY is a setting of the method ('logitspec help configuration').");
}

// The fields of each kind of line, from the JSON Schema of `export --schema`.

static void quoted(const ls_json *v, ls_buf *out) {
    int64_t number;
    if (ls_json_str(v, NULL)) ls_buf_fmt(out, "\"%s\"", ls_json_str(v, NULL));
    else if (ls_json_int(v, &number)) ls_buf_fmt(out, "%d", (int)number);
}

static void type_name(const ls_json *s, ls_buf *out) {
    const ls_json *type = ls_json_get(s, "type"), *items = ls_json_get(s, "items"), *words = ls_json_get(s, "enum");
    if (ls_json_get(s, "const")) quoted(ls_json_get(s, "const"), out);
    else if (words)
        for (size_t i = 0; i < ls_json_size(words); i++) {
            if (i) ls_buf_str(out, ", ");
            quoted(ls_json_at(words, i), out);
        }
    else if (ls_json_is(type, "array")) {
        ls_buf_str(out, ls_json_get(items, "minItems") ? "list of pairs"
                        : ls_json_get(items, "$ref")   ? "list"
                                                       : "list of ");
        if (ls_json_get(items, "minItems") || ls_json_get(items, "$ref")) return;
        type_name(items, out);
        ls_buf_char(out, 's');
    } else if (ls_json_get(s, "additionalProperties")) ls_buf_str(out, "object of strings");
    else if (ls_json_is_array(type))
        for (size_t i = 0; i < ls_json_size(type); i++)
            ls_buf_fmt(out, "%s%s", i ? " or " : "", ls_json_str(ls_json_at(type, i), NULL));
    else ls_buf_str(out, ls_json_str(type, NULL));
}

static void object(manual *m, const ls_json *definitions, const ls_json *reference, const char *before);

// before: of the names of fields, such as "nodes[]."
static void field(manual *m, const ls_json *definitions, const char *before, const char *name, const ls_json *s) {
    const bool is_list = ls_json_is(ls_json_get(s, "type"), "array");
    const ls_json *reference = ls_json_get(is_list ? ls_json_get(s, "items") : s, "$ref");
    ls_buf term = {0}, kind = {0};
    ls_buf_fmt(&term, "%s%s", before, name);
    type_name(s, &kind);
    item(m, term.p, kind.p, ls_json_str(ls_json_get(s, "description"), NULL));
    if (reference) {
        ls_buf_str(&term, is_list ? "[]." : ".");
        object(m, definitions, reference, term.p);
    }
    ls_buf_free(&term);
    ls_buf_free(&kind);
}

static void object(manual *m, const ls_json *definitions, const ls_json *reference, const char *before) {
    const char *name = strrchr(ls_json_str(reference, NULL), '/') + 1;
    const ls_json *properties = ls_json_get(ls_json_get(definitions, name), "properties");
    for (ls_json_member f = {0}; ls_json_next(properties, &f);) field(m, definitions, before, f.key, f.value);
}

static void trace(manual *m) {
    ls_buf schema = {0};
    ls_json *doc = NULL;
    ls_trace_schema(&schema);
    ls_json_parse(&doc, schema.p, schema.n, "schema", NULL); // the program's own: always valid
    const ls_json *kinds = ls_json_get(doc, "oneOf");
    for (size_t i = 0; i < ls_json_size(kinds); i++) {
        const ls_json *reference = ls_json_get(ls_json_at(kinds, i), "$ref");
        head(m, strrchr(ls_json_str(reference, NULL), '/') + 1);
        object(m, ls_json_get(doc, "$defs"), reference, "");
    }
    ls_json_free(doc);
    ls_buf_free(&schema);
}

static void scripts(manual *m) {
    paragraph(
        m, "With --script FILE the screen runs without a terminal and follows the lines of the file, in order. A line "
           "that begins with # is a comment. If a line fails, the command prints its place and the screen, and the "
           "exit code is not 0.");
    for (int i = 0; i < UI_SCRIPT_LINES; i++) {
        const ui_script_line *line = &ui_script_lines[i];
        char term[40];
        snprintf(term, sizeof term, "%s %s", line->word, line->argument);
        item(m, term, NULL, line->help);
    }
    head(m, "example");
    verbatim(m, "  type def fib(n):\n  key Enter\n  wait READY\n  save screen.svg\n");
}

static const struct {
    const char *name; // as in `logitspec help NAME`; "": the program
    int section;      // of the man page, logitspec-NAME(section)
    const char *summary;
    void (*write)(manual *m);
} pages[] = {
    {"", 1, "watch speculative decoding with LogitSpec, step by step", program},
    {"configuration", 5, "every setting with its values, default and meaning", configuration},
    {"keys", 7, "every key of the screen, and the commands after ':'", keys},
    {"methods", 7, "drafters, sizing rules and acceptance rules, with their publications", methods},
    {"scripts", 5, "the lines of a script for the screen (--script)", scripts},
    {"trace", 5, "every field of a recording", trace},
};
enum { PAGES = sizeof pages / sizeof *pages };

const char *ls_manual_page(int i) {
    return i < PAGES ? pages[i].name : NULL;
}

static void write_page(int page, form as, ls_buf *out) {
    manual m = {.out = out, .form = as, .columns = ls_columns(STDOUT_FILENO)};
    char name[40];
    snprintf(name, sizeof name, "logitspec%s%s", *pages[page].name ? "-" : "", pages[page].name);
    title(&m, name, pages[page].section, pages[page].summary);
    pages[page].write(&m);
    if (as != MAN) return;
    ls_buf_str(out, ".SH \"SEE ALSO\"\n");
    for (int i = 0, n = 0; i < PAGES; i++)
        if (i != page)
            ls_buf_fmt(out, "%s\\fBlogitspec%s%s\\fR(%d)", n++ ? ",\n" : "", *pages[i].name ? "\\-" : "", pages[i].name,
                       pages[i].section);
    ls_buf_char(out, '\n');
}

// ---- the command

static void help_on_program(ls_buf *out) {
    const int columns = ls_columns(STDOUT_FILENO);
    size_t at = 0; // offset of the lines that are not wrapped yet
    ls_buf_str(out, "logitspec: watch speculative decoding with LogitSpec, step by step\n\n");
    at = ls_wrap(out, at, columns, 0);
    ls_buf_str(out, "  logitspec                                   open the screen with the default model\n"
                    "  logitspec generate --prompt \"Why is the sky blue?\"\n"
                    "  echo \"Summarise: ...\" | logitspec generate --prompt-file - --json\n"
                    "  logitspec --model script                    try the screen with a fake model\n\nCommands:\n");
    at = ls_wrap(out, at, columns, LS_COMMANDS);
    for (const ls_command_info *c = ls_commands; c->name; c++) ls_buf_fmt(out, "  %-10s %s\n", c->name, c->summary);
    at = ls_wrap(out, at, columns, 13);
    ls_buf_str(out, "\n'logitspec help COMMAND' lists the flags of a command. 'logitspec help PAGE' prints one of "
                    "these pages:\n");
    at = ls_wrap(out, at, columns, 0);
    for (int i = 1; i < PAGES; i++) ls_buf_fmt(out, "  %-14s %s\n", pages[i].name, pages[i].summary);
    at = ls_wrap(out, at, columns, 17);
    ls_buf_str(out, "\nExit codes:");
#define EXIT(name, code, meaning) ls_buf_fmt(out, "%s %d " meaning, code ? "," : "", code);
#include "cli/exits.def"
#undef EXIT
    ls_buf_str(out, ".\n");
    ls_wrap(out, at, columns, 0);
}

static void help_on_command(const ls_command_info *c, ls_buf *out) {
    const int columns = ls_columns(STDOUT_FILENO);
    ls_buf_fmt(out, "logitspec %s %s\n%s\n\n", c->name, c->usage, c->summary);
    size_t at = ls_wrap(out, 0, columns, 2);
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

void ls_help(const ls_command_info *c, ls_buf *out) {
    if (c) help_on_command(c, out);
    else help_on_program(out);
}

static ls_code unknown(const char *name, ls_err *err) {
    ls_near near = {.word = name};
    for (const ls_command_info *c = ls_commands; c->name; c++) ls_near_try(&near, c->name, strlen(c->name));
    for (int i = 1; i < PAGES; i++) ls_near_try(&near, pages[i].name, strlen(pages[i].name));
    return ls_fail(err, LS_E_USAGE, "no help on '%.80s'%s", name,
                   ls_near_hint(&near, "", "'logitspec help' lists all"));
}

ls_code ls_cmd_help(const ls_command_line *c, ls_console *to, ls_err *err) {
    static const char *const forms[FORMS] = {"text", "man", "md"};
    const char *name = c->n_args ? c->args[0] : "";
    int page = 0;
    form as = TEXT;
    while (page < PAGES && strcmp(pages[page].name, name)) page++;
    while (c->as && as < FORMS && strcmp(c->as, forms[as])) as++;
    if (as == FORMS) return ls_fail(err, LS_E_USAGE, "--as %.40s: expected one of text, man, md", c->as);
    if (c->n_args > 1) return ls_fail(err, LS_E_USAGE, "'logitspec help' takes one command or page");
    if (page < PAGES && (*name || c->as)) write_page(page, as, &to->out);
    else if (*name && !ls_command_find(name)) return unknown(name, err);
    else if (as != TEXT)
        return ls_fail(err, LS_E_USAGE,
                       "'%s' is a command, and --as is for pages only; 'logitspec help --as %s' describes all commands",
                       name, c->as);
    else ls_help(ls_command_find(name), &to->out);
    return LS_OK;
}
