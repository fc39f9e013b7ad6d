#include "cli/manual.h"
#include "base/utf8.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 79, TERM_COLUMN = 2, TEXT_COLUMN = 26 };

// Wraps prose, also for files and pipes.
static void wrap(const ls_manual *m, size_t from, int left) {
    ls_wrap(m->out, from, m->columns ? m->columns : WIDTH, left);
}

static void capitals(ls_buf *out, const char *s) {
    for (; *s; s++) ls_buf_char(out, (char)toupper((unsigned char)*s));
}

// Escapes text for a man page: no character acts as a roff command, and a minus stays an ASCII minus.
static void roff(ls_buf *out, const char *s) {
    if (*s == '.' || *s == '\'') ls_buf_str(out, "\\&");
    for (; *s; s++) {
        if (*s == '\\') ls_buf_str(out, "\\e");
        else if (*s == '-') ls_buf_str(out, "\\-");
        else if (*s == '^') ls_buf_str(out, "\\(ha");
        else if (*s == '~') ls_buf_str(out, "\\(ti");
        else if (*s == '`') ls_buf_str(out, "\\(ga");
        else if (*s == '\'') ls_buf_str(out, "\\(aq");
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

void ls_manual_title(ls_manual *m, const char *name, int section, const char *summary) {
    if (m->form == LS_MANUAL_MAN) {
        ls_buf_str(m->out, ".TH \"");
        capitals(m->out, name);
        ls_buf_fmt(m->out, "\" \"%d\" \"\" \"logitspec " LS_VERSION "\"\n.nh\n.ad l\n.SH NAME\n", section);
        roff(m->out, name);
        ls_buf_str(m->out, " \\- ");
        roff(m->out, summary);
        ls_buf_char(m->out, '\n');
    } else if (m->form == LS_MANUAL_MD) ls_buf_fmt(m->out, "# %s\n\n%s\n", name, summary);
    else {
        ls_buf_fmt(m->out, "%s: %s\n", name, summary);
        ls_wrap(m->out, 0, m->columns, TERM_COLUMN);
    }
}

void ls_manual_head(ls_manual *m, const char *title) {
    m->in_items = false;
    if (m->form == LS_MANUAL_MAN) {
        ls_buf_str(m->out, ".SH \"");
        capitals(m->out, title);
        ls_buf_str(m->out, "\"\n");
    } else if (m->form == LS_MANUAL_MD) ls_buf_fmt(m->out, "\n## %c%s\n", toupper((unsigned char)*title), title + 1);
    else ls_buf_fmt(m->out, "\n%c%s\n", toupper((unsigned char)*title), title + 1);
}

void ls_manual_text(ls_manual *m, const char *text) {
    m->in_items = false;
    if (m->form == LS_MANUAL_MAN) {
        ls_buf_str(m->out, ".PP\n");
        roff(m->out, text);
        ls_buf_char(m->out, '\n');
    } else if (m->form == LS_MANUAL_MD) ls_buf_fmt(m->out, "\n%s\n", text);
    else {
        const size_t from = m->out->n;
        ls_buf_fmt(m->out, "%*s%s\n", TERM_COLUMN, "", text);
        wrap(m, from, TERM_COLUMN);
    }
}

void ls_manual_lines(ls_manual *m, const char *text) {
    m->in_items = false;
    const size_t n = strlen(text);
    const char *end = n && text[n - 1] == '\n' ? "" : "\n";
    if (m->form == LS_MANUAL_MAN) {
        ls_buf_str(m->out, ".PP\n.nf\n");
        roff(m->out, text);
        ls_buf_fmt(m->out, "%s.fi\n", end);
    } else if (m->form == LS_MANUAL_MD) ls_buf_fmt(m->out, "\n```\n%s%s```\n", text, end);
    else {
        const size_t from = m->out->n;
        ls_buf_fmt(m->out, "%s%s", text, end);
        ls_wrap(m->out, from, m->columns, LS_COMMANDS);
    }
}

void ls_manual_item(ls_manual *m, const char *term, const char *kind, const char *text) {
    if (m->form == LS_MANUAL_MAN) {
        ls_buf_str(m->out, ".TP\n\\fB");
        roff(m->out, term);
        ls_buf_str(m->out, "\\fR\n");
        roff(m->out, text);
        if (kind && *kind) ls_buf_str(m->out, "\n("), roff(m->out, kind), ls_buf_char(m->out, ')');
        ls_buf_char(m->out, '\n');
    } else if (m->form == LS_MANUAL_MD) {
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

const ls_manual_page *ls_manual_find(const char *name) {
    for (const ls_manual_page *p = ls_manual_pages; p->name; p++)
        if (!strcmp(p->name, name)) return p;
    return NULL;
}

ls_code ls_manual_write(const ls_manual_page *p, ls_manual_form form, ls_buf *out, ls_err *err) {
    ls_manual m = {.out = out, .form = form, .columns = ls_columns(STDOUT_FILENO)};
    ls_buf name = {0};
    ls_buf_fmt(&name, *p->name ? "logitspec-%s" : "logitspec", p->name);
    ls_manual_title(&m, name.p, p->section, p->summary);
    ls_buf_free(&name);
    const ls_code code = p->write(&m, err);
    if (code || form != LS_MANUAL_MAN) return code;
    ls_buf_str(out, ".SH \"SEE ALSO\"\n");
    for (const ls_manual_page *o = ls_manual_pages, *first = o == p ? o + 1 : o; o->name; o++)
        if (o != p)
            ls_buf_fmt(out, "%s\\fBlogitspec%s%s\\fR(%d)", o == first ? "" : ",\n", *o->name ? "\\-" : "", o->name,
                       o->section);
    ls_buf_char(out, '\n');
    return LS_OK;
}
