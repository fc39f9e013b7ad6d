// Escapes untrusted text for HTML, SVG, Markdown and CSV: every byte is shown, none is interpreted. Characters that
// hide or reverse text appear as base/utf8.h writes them.
#pragma once
#include "base/buf.h"
#include "decode/step.h"

// Escapes for element content and quoted attributes. Newlines and tabs stay.
void ls_markup(ls_buf *out, const char *p, size_t n);
void ls_markup_str(ls_buf *out, const char *s);
// For a text in pieces: *before is the last character of the piece before, as in ls_sanitize_next.
void ls_markup_after(ls_buf *out, const char *p, size_t n, uint32_t *before);
void ls_markup_fmt(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // escapes the result
void ls_markdown(ls_buf *out, const char *p, size_t n); // one line, none of it syntax
void ls_markdown_str(ls_buf *out, const char *s);
void ls_csv_str(ls_buf *out, const char *s); // a quoted cell that a spreadsheet treats as text
// Appends a token as one visible word, not escaped: a dot for a blank, an arrow for a newline.
void ls_label_token(ls_buf *out, const ls_tokens *t, int32_t id);

// ---- a self-contained HTML page: it needs no script, no network and no other file

// Writes everything up to and including the heading. style: CSS rules added to those of every page.
void ls_page_begin(ls_buf *out, const char *title, const char *style);
void ls_page_end(ls_buf *out);
void ls_page_tag(ls_buf *out, const char *name, const char *text); // an element that holds this text
// A paragraph of this class.
#define ls_page_text(out, class, ...)                                                                                  \
    (ls_buf_fmt(out, "<p class=\"%s\">", class), ls_markup_fmt(out, __VA_ARGS__), ls_buf_str(out, "</p>\n"))
