#include "report/table.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "report/markup.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void ls_table_free(ls_table *t) {
    for (size_t i = 0; i < t->n_columns; i++) free(t->columns[i].head);
    for (size_t i = 0; i < t->n_cells; i++)
        if (t->cells[i].kind == LS_CELL_TEXT) free(t->cells[i].text);
    free(t->columns);
    free(t->cells);
    *t = (ls_table){0};
}

void ls_table_row(ls_table *t) {
    assert(t->at == t->n_columns); // the row before is whole
    t->at = 0;
}

size_t ls_table_rows(const ls_table *t) {
    return t->n_columns ? t->n_cells / t->n_columns : 0;
}

static ls_cell *put(ls_table *t, const char *head, const char *key, int width) {
    if (t->n_cells == t->n_columns && t->at == t->n_columns) { // in the first row
        t->columns = ls_realloc(t->columns, (t->n_columns + 1) * sizeof *t->columns);
        t->columns[t->n_columns++] = (ls_column){.key = key, .head = head ? ls_strdup(head) : NULL, .width = width};
    }
    assert(t->at < t->n_columns);
    t->at++;
    if (!(t->n_cells & (t->n_cells - 1))) t->cells = ls_realloc(t->cells, (2 * t->n_cells + 1) * sizeof *t->cells);
    t->cells[t->n_cells] = (ls_cell){.text = NULL};
    return &t->cells[t->n_cells++];
}

void ls_put(ls_table *t, const char *head, const char *key, int width, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    put(t, head, key, width)->text = ls_format_list(fmt, ap);
    va_end(ap);
}

void ls_put_whole(ls_table *t, const char *head, const char *key, int width, int64_t v) {
    ls_cell *c = put(t, head, key, width);
    c->kind = LS_CELL_WHOLE;
    c->whole = v;
}

void ls_put_number(ls_table *t, const char *head, const char *key, int width, int decimals, double v) {
    ls_cell *c = put(t, head, key, width);
    c->kind = LS_CELL_NUMBER;
    c->number = v;
    c->decimals = decimals;
}

void ls_put_flag(ls_table *t, const char *key, bool v) {
    ls_put_whole(t, NULL, key, 0, v);
    t->cells[t->n_cells - 1].kind = LS_CELL_FLAG;
}

// ---- for people

static bool is_shown(const ls_table *t, size_t column) {
    return t->columns[column].head != NULL;
}

static bool has_heads(const ls_table *t) {
    for (size_t c = 0; c < t->n_columns; c++)
        if (is_shown(t, c) && *t->columns[c].head) return true;
    return false;
}

// The text of a cell, owned by the caller. row -1: the heading.
static char *shown(const ls_table *t, long row, size_t column) {
    if (row < 0) return ls_strdup(t->columns[column].head);
    const ls_cell *c = &t->cells[(size_t)row * t->n_columns + column];
    if (c->kind == LS_CELL_WHOLE) return ls_format("%lld", (long long)c->whole);
    if (c->kind != LS_CELL_NUMBER) return ls_strdup(c->text);
    if (!isfinite(c->number)) return ls_strdup("");
    if (c->decimals >= LS_PERCENT) return ls_format("%.*f%%", c->decimals - LS_PERCENT, 100 * c->number);
    return ls_format("%.*f", c->decimals, c->number);
}

static size_t cells_of(const char *text) {
    return (size_t)ls_cells(text, strlen(text));
}

// The cells that the widest text of each shown column takes. all: also of columns that are not padded in text.
static size_t *widths(const ls_table *t, bool all) {
    size_t *width = ls_calloc(t->n_columns + 1, sizeof *width);
    for (size_t c = 0; c < t->n_columns; c++) {
        if (!is_shown(t, c) || (!all && !t->columns[c].width)) continue;
        width[c] = (size_t)abs(t->columns[c].width);
        for (long r = -1; r < (long)ls_table_rows(t); r++) {
            char *text = shown(t, r, c);
            if (cells_of(text) > width[c]) width[c] = cells_of(text);
            free(text);
        }
    }
    return width;
}

static void line(const ls_table *t, const size_t *width, long row, bool markdown, ls_buf *out) {
    const char *before = markdown ? "| " : "";
    for (size_t c = 0; c < t->n_columns; c++) {
        if (!is_shown(t, c)) continue;
        const bool right = t->columns[c].width > 0;
        char *text = shown(t, row, c);
        const size_t cells = cells_of(text);
        const int blanks = cells < width[c] ? (int)(width[c] - cells) : 0;
        ls_buf_str(out, markdown || !*before || t->columns[c].width ? before : "  ");
        if (right) ls_buf_fmt(out, "%*s", blanks, "");
        if (markdown) ls_markdown_str(out, text);
        else ls_sanitize_str(out, text);
        if (!right) ls_buf_fmt(out, "%*s", blanks, "");
        before = markdown ? " | " : " ";
        free(text);
    }
    ls_buf_str(out, markdown ? " |\n" : "\n");
}

void ls_table_text(const ls_table *t, ls_buf *out) {
    size_t *width = widths(t, false);
    for (long r = has_heads(t) ? -1 : 0; r < (long)ls_table_rows(t); r++) line(t, width, r, false, out);
    free(width);
}

void ls_table_markdown(const ls_table *t, bool padded, ls_buf *out) {
    if (!t->n_columns) return;
    size_t *width = padded ? widths(t, true) : ls_calloc(t->n_columns + 1, sizeof *width);
    for (long r = -1; r < (long)ls_table_rows(t); r++) {
        line(t, width, r, true, out);
        for (size_t c = 0; r < 0 && c < t->n_columns; c++) {
            if (!is_shown(t, c)) continue;
            const bool right = t->columns[c].width > 0;
            ls_buf_char(out, '|');
            for (size_t i = 0; i < (padded ? width[c] + 2 - right : 3); i++) ls_buf_char(out, '-');
            if (right) ls_buf_char(out, ':');
        }
        if (r < 0) ls_buf_str(out, "|\n");
    }
    free(width);
}

// Row -1 is the heading. The first cell names its row.
static void html_row(const ls_table *t, long row, ls_buf *out) {
    const char *tag = "th";
    ls_buf_str(out, "<tr>");
    for (size_t c = 0; c < t->n_columns; c++) {
        if (!is_shown(t, c)) continue;
        char *text = shown(t, row, c);
        if (t->last && row >= 0 && c + 1 == t->n_columns) ls_buf_fmt(out, "<%s class=\"%s\">", tag, t->last);
        else ls_buf_fmt(out, "<%s>", tag);
        if (row < 0 && t->columns[c].color)
            ls_buf_fmt(out, "<span class=\"key\" style=\"border-color:%s\"></span> ", t->columns[c].color);
        ls_markup_str(out, text);
        ls_buf_fmt(out, "</%s>", tag);
        if (row >= 0) tag = "td";
        free(text);
    }
    ls_buf_str(out, "</tr>\n");
}

void ls_table_html(const ls_table *t, ls_buf *out) {
    if (!t->n_columns) return;
    ls_buf_str(out, "<div class=\"scroll\"><table");
    if (t->id) ls_buf_fmt(out, " id=\"%s\"", t->id);
    ls_buf_str(out, ">\n");
    for (long r = has_heads(t) ? -1 : 0; r < (long)ls_table_rows(t); r++) html_row(t, r, out);
    ls_buf_str(out, "</table></div>\n");
}

ls_form ls_form_of(const char *path) {
    static const char *const endings[LS_FORMS] = {"", ".md", ".html", ".csv", ".json", ".jsonl", ".svg", ".cast"};
    const char *ending = strrchr(path, '.');
    ls_form f = LS_FORMS;
    while (ending && --f && strcmp(ending, endings[f])) {
    }
    return ending ? f : LS_FORM_TEXT;
}

void ls_table_show(ls_table *t, ls_form form, ls_buf *out) {
    if (form == LS_FORM_TEXT) ls_table_text(t, out);
    else if (form == LS_FORM_MARKDOWN) ls_table_markdown(t, false, out);
    else ls_table_html(t, out);
    ls_table_free(t);
}

// ---- for programs

void ls_table_csv(const ls_table *t, bool head, const char *line_end, ls_buf *out) {
    for (long r = head && t->n_columns ? -1 : 0; r < (long)ls_table_rows(t); r++) {
        const char *before = "";
        for (size_t i = 0; i < t->n_columns; i++) {
            const ls_cell *c = r < 0 ? NULL : &t->cells[(size_t)r * t->n_columns + i];
            if (!t->columns[i].key) continue;
            ls_buf_str(out, before);
            before = ",";
            if (!c) ls_buf_str(out, t->columns[i].key);
            else if (c->kind == LS_CELL_TEXT) ls_csv_str(out, c->text);
            else if (c->kind != LS_CELL_NUMBER) ls_buf_fmt(out, "%lld", (long long)c->whole);
            else if (isfinite(c->number)) ls_buf_fmt(out, "%.9g", c->number);
        }
        ls_buf_str(out, line_end);
    }
}

void ls_table_fields(const ls_table *t, size_t row, ls_jsonw *w) {
    enum { DIGITS = 6 };
    for (size_t i = 0; i < t->n_columns; i++) {
        const ls_cell *c = &t->cells[row * t->n_columns + i];
        const char *key = t->columns[i].key;
        if (!key) continue;
        switch (c->kind) {
        case LS_CELL_TEXT: ls_jw_field_str(w, key, c->text); break;
        case LS_CELL_WHOLE: ls_jw_field_int(w, key, c->whole); break;
        case LS_CELL_NUMBER: ls_jw_field_num(w, key, c->number, DIGITS); break;
        case LS_CELL_FLAG: ls_jw_field_bool(w, key, c->whole); break;
        }
    }
}

void ls_table_json(const ls_table *t, ls_jsonw *w) {
    ls_jw_open(w, '[');
    for (size_t r = 0; r < ls_table_rows(t); r++) {
        ls_jw_open(w, '{');
        ls_table_fields(t, r, w);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
}
