// Text of unknown origin in HTML, SVG, Markdown and CSV: every byte is shown, none is obeyed. What hides or turns text
// is written as base/visible.h writes it.
#pragma once
#include "base/buf.h"
#include "run/tokens.h"

// Escapes for element content and quoted attributes. Newlines and tabs stay.
void ls_markup(ls_buf *out, const char *p, size_t n);
void ls_markup_str(ls_buf *out, const char *s);
// Of a text in pieces: *before is the character that the piece before it ended with, as in ls_visible_next.
void ls_markup_after(ls_buf *out, const char *p, size_t n, uint32_t *before);
void ls_markup_fmt(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // its result is escaped
void ls_markdown(ls_buf *out, const char *p, size_t n); // a line; nothing of it is syntax
void ls_markdown_str(ls_buf *out, const char *s);
void ls_csv_str(ls_buf *out, const char *s); // a quoted cell that no spreadsheet takes for a formula
// A token as one visible word, not escaped: blanks as a dot, newlines as an arrow.
void ls_label_token(ls_buf *out, const ls_tokens *t, int32_t id);
size_t ls_label_cells(const char *p, size_t n); // characters of a label
