// UTF-8: decoding that never trusts its input (Unicode 15, table 3-7: no overlongs, no surrogates), signs in place of
// what is unsafe to print, and lines as wide as a terminal.
#pragma once
#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Length of the valid sequence at p[0..n): 1..4; 0 if the bytes are a proper prefix of a valid sequence
// that n cuts off; -1 if p[0] cannot start one. n must be at least 1. *cp (may be NULL) gets the code point.
int ls_utf8_decode(const char *p, size_t n, uint32_t *cp);
bool ls_utf8_valid(const char *p, size_t n);
// Writes cp to out (4 bytes of room) and returns its length; 0 for a surrogate or beyond U+10FFFF.
int ls_utf8_encode(uint32_t cp, char out[4]);

// ---- safe text

// Makes text of unknown origin safe to print. Control characters, and characters that hide or reorder text, become a
// visible sign: ^[ for ESC and other controls, <U+202E> for other characters, <E4> for a byte that is not UTF-8; within
// a line also ⏎ and ⇥. All text that is printed, drawn or written to a page passes through here. JSON escapes the same
// characters.
enum { LS_SANITIZE_BYTES = 12 }; // of the longest sign, with its NUL

// Whether a character can be printed unchanged. `before` is the printed character before it, 0: none. Joiners and
// variation selectors pass only after characters that need them (emoji, Persian, Indic scripts).
bool ls_is_visible(uint32_t cp, uint32_t before);
// The sign of a character that cannot be printed unchanged.
void ls_sanitize_sign(uint32_t cp, char sign[LS_SANITIZE_BYTES]);
// Reads the first character of p[0..n), n at least 1, and returns its length. sign: the text that replaces it, "" if it
// passes. *before: state between calls, 0 at the start; it is 0 after a sign.
size_t ls_sanitize_next(const char *p, size_t n, uint32_t *before, char sign[LS_SANITIZE_BYTES]);
bool ls_all_visible(const char *s); // every character passes; false if there is a newline

void ls_sanitize_text(ls_buf *out, const char *p, size_t n); // newlines and tabs stay
void ls_sanitize_line(ls_buf *out, const char *p, size_t n); // one line, without an end
void ls_sanitize_str(ls_buf *out, const char *s);            // ls_sanitize_line of a string
void ls_sanitize_fmt(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // ... of what fmt makes
void ls_sanitize_row(ls_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3))); // ... and the line's end

// A text that comes in pieces, which may end within a character. Zero-initialise.
typedef struct {
    char part[4]; // the bytes so far of an incomplete character
    int n_part;
    uint32_t before;
} ls_sanitize_stream;
void ls_sanitize_push(ls_sanitize_stream *s, const char *p, size_t n, ls_buf *out); // as ls_sanitize_text
void ls_sanitize_end(ls_sanitize_stream *s, ls_buf *out);                           // the text is complete

// "logitspec: MESSAGE" on standard error: one line, or as many as a terminal needs.
void ls_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// ---- lines for people, as wide as their terminal; pipes and files get whole lines, which scripts search

int ls_columns(int fd); // cells of a line of the terminal at fd, 80 if its width is unknown; 0: no terminal

int ls_char_cells(uint32_t cp); // 0: it has no width of its own, or is unassigned
// Whether cp and the character before it are one grapheme cluster (Unicode's extended ones). *state: 0 at the start.
bool ls_char_joins(uint32_t before, uint32_t cp, int32_t *state);
// Cells of a text as ls_sanitize_line shows it, by Unicode's widths: wcwidth knows ASCII only in the C locale.
int ls_cells(const char *p, size_t n);
size_t ls_fitting(const char *p, size_t n, int room, int *cells); // bytes of p that fit into `room`; *cells: cells used

// As `left`: the lines are commands or YAML for copying. A command is not broken; its comment (the text after two
// blanks or " #") goes into lines of its own.
enum { LS_COMMANDS = -1 };

// Breaks the lines of b from byte `from` on at blanks, so that none is wider than `columns` (0: all stay whole). A word
// that is wider stays whole. The rest of a broken line begins at column `left`: the last column of a table, or an
// indent. If a last column would be too narrow, it goes into lines of its own below its row. Returns b->n, where the
// next lines begin.
size_t ls_wrap(ls_buf *b, size_t from, int columns, int left);
