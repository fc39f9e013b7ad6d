// A table: rows of typed cells under named columns, which the first row makes. It is written as text for a terminal, as
// Markdown or HTML, as CSV or as JSON.
//
// Every cell is put with the names of its column: `head`, the heading for people (NULL: only in data), and `key`, the
// name in CSV and JSON (NULL: only for people; it must outlive the table). width: the least number of cells in text,
// right-aligned; negative: left-aligned; 0: a column of text that is not padded. All rows have the same columns.
#pragma once
#include "base/buf.h"
#include "base/json.h"

typedef struct {
    const char *key;
    char *head; // owned
    int width;
    const char *color; // of a key beside the heading, in HTML; NULL: none
} ls_column;

typedef struct {
    enum { LS_CELL_TEXT, LS_CELL_WHOLE, LS_CELL_NUMBER, LS_CELL_FLAG } kind : 8;
    int decimals : 8; // of a number
    union {
        char *text; // owned
        int64_t whole;
        double number; // NAN: not known, an empty cell
    };
} ls_cell;

typedef struct {
    const char *id;   // of the HTML element; NULL: none
    const char *last; // class of the last column's cells in HTML; NULL: none
    ls_column *columns;
    ls_cell *cells;
    size_t n_columns, n_cells;
    size_t at; // column of the next cell
} ls_table;

enum { LS_PERCENT = 16 }; // added to the decimals: a share, shown in percent

void ls_table_free(ls_table *t); // leaves zeros
void ls_table_row(ls_table *t);  // begins a row
size_t ls_table_rows(const ls_table *t);
void ls_put(ls_table *t, const char *head, const char *key, int width, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void ls_put_whole(ls_table *t, const char *head, const char *key, int width, int64_t v);
void ls_put_number(ls_table *t, const char *head, const char *key, int width, int decimals, double v);
void ls_put_flag(ls_table *t, const char *key, bool v); // only in data

// ---- its forms; each appends to out, nothing if there is no row

typedef enum {
    LS_FORM_TEXT,
    LS_FORM_MARKDOWN,
    LS_FORM_HTML,
    LS_FORM_CSV,
    LS_FORM_JSON,
    LS_FORM_JSONL,
    LS_FORM_SVG,
    LS_FORM_CAST,
    LS_FORMS
} ls_form;
// The form that the ending of a file's name asks for: ".md", ".html" and so on; LS_FORM_TEXT: another ending.
ls_form ls_form_of(const char *path);

void ls_table_text(const ls_table *t, ls_buf *out);
void ls_table_markdown(const ls_table *t, bool padded, ls_buf *out); // padded: readable on a terminal, too
void ls_table_html(const ls_table *t, ls_buf *out);
void ls_table_show(ls_table *t, ls_form form, ls_buf *out); // in one of these three; frees the table
// head: with a line of the columns' names.
void ls_table_csv(const ls_table *t, bool head, const char *line_end, ls_buf *out);
void ls_table_json(const ls_table *t, ls_jsonw *w);               // an array of objects
void ls_table_fields(const ls_table *t, size_t row, ls_jsonw *w); // the fields of a row, into an open object
