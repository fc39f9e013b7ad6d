// Text of unknown origin in HTML, SVG and Markdown: every byte is shown, none is obeyed.
#pragma once
#include "base/buf.h"
#include "run/tokens.h"

// Escapes for element content and quoted attributes. Control characters, broken UTF-8 and characters that turn or hide
// text are written as their code: <1B>, <U+202E>. Newlines and tabs stay.
void ls_markup(ls_buf *out, const char *p, size_t n);
void ls_markup_str(ls_buf *out, const char *s);
void ls_markup_fmt(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // its result is escaped
// A token as one visible word, not escaped: blanks as a dot, newlines as an arrow.
void ls_label_token(ls_buf *out, const ls_tokens *t, int32_t id);
void ls_label_safe(ls_buf *out, const char *p, size_t n); // as ls_markup, for a terminal: codes, but no entities
size_t ls_label_cells(const char *p, size_t n);           // characters of a label
