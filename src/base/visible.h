// Makes text of unknown origin safe to print. Control characters, and characters that hide or reorder text, become a
// visible sign: ^[ for ESC and other controls, <U+202E> for other characters, <E4> for a byte that is not UTF-8; within
// a line also ⏎ and ⇥. All text that is printed, drawn or written to a page passes through here. JSON escapes the same
// characters.
#pragma once
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { LS_VISIBLE_BYTES = 12 }; // of the longest sign, with its NUL

// Whether a character can be printed unchanged. `before` is the printed character before it, 0: none. Joiners and
// variation selectors pass only after characters that need them (emoji, Persian, Indic scripts).
bool ls_is_visible(uint32_t cp, uint32_t before);
// The sign of a character that cannot be printed unchanged.
void ls_visible_sign(uint32_t cp, char sign[LS_VISIBLE_BYTES]);
// Reads the first character of p[0..n), n at least 1, and returns its length. sign: the text that replaces it, "" if it
// passes. *before: state between calls, 0 at the start; it is 0 after a sign.
size_t ls_visible_next(const char *p, size_t n, uint32_t *before, char sign[LS_VISIBLE_BYTES]);
bool ls_all_visible(const char *s); // every character passes; false if there is a newline

void ls_visible_text(ls_buf *out, const char *p, size_t n); // newlines and tabs stay
void ls_visible_line(ls_buf *out, const char *p, size_t n); // one line, without an end
void ls_visible_str(ls_buf *out, const char *s);            // ls_visible_line of a string
void ls_visible_fmt(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // ... of what fmt makes
void ls_visible_row(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // ... and the line's end

// A text that comes in pieces, which may end within a character. Zero-initialise.
typedef struct {
    char part[4]; // the bytes so far of an incomplete character
    int n_part;
    uint32_t before;
} ls_visible_stream;
void ls_visible_push(ls_visible_stream *s, const char *p, size_t n, ls_buf *out); // as ls_visible_text
void ls_visible_end(ls_visible_stream *s, ls_buf *out);                           // the text is complete

// "logitspec: MESSAGE" on standard error: one line, or as many as a terminal needs.
void ls_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
