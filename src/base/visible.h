// Text of unknown origin, for people. What a terminal would obey, and what turns or hides text, is written as a sign
// that can be seen: ^[ for ESC and its like, <U+202E> for other characters, <E4> for a byte that is no UTF-8; within a
// line also ⏎ and ⇥. Everything that is printed, drawn or put on a page goes through here; JSON escapes the same
// characters.
#pragma once
#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

enum { LS_VISIBLE_BYTES = 12 }; // of the longest sign, with its NUL

// Whether a character can be sent as it is. `before` is the one in front of it that was sent, 0 where there is none:
// joiners and variation selectors pass where emoji and the scripts of Persian or India need them, else they hide.
bool ls_is_visible(uint32_t cp, uint32_t before);
// The sign of a character that cannot.
void ls_visible_sign(uint32_t cp, char sign[LS_VISIBLE_BYTES]);
// The first character of p[0..n), n at least 1: returns its bytes. sign: what stands in its place, "" where it passes.
// *before is carried from one to the next, and is 0 behind a sign.
size_t ls_visible_next(const char *p, size_t n, uint32_t *before, char sign[LS_VISIBLE_BYTES]);
bool ls_all_visible(const char *s); // every character passes: no newline either

void ls_visible_text(ls_buf *out, const char *p, size_t n); // newlines and tabs stay
void ls_visible_line(ls_buf *out, const char *p, size_t n); // one line, without an end
void ls_visible_str(ls_buf *out, const char *s);            // ls_visible_line of a string
void ls_visible_fmt(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // ... of what fmt makes
void ls_visible_row(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // ... and the line's end

// A text that comes in pieces, which may end within a character. Zero-initialise.
typedef struct {
    char part[4]; // of a character whose rest is still to come
    int n_part;
    uint32_t before;
} ls_visible_stream;
void ls_visible_push(ls_visible_stream *s, const char *p, size_t n, ls_buf *out); // as ls_visible_text
void ls_visible_end(ls_visible_stream *s, ls_buf *out);                           // no rest will come

// "logitspec: MESSAGE" on standard error: one line, or as many as a terminal needs.
void ls_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
