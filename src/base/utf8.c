#include "base/utf8.h"
#include "base/mem.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

int ls_utf8_decode(const char *s, size_t n, uint32_t *cp) {
    const unsigned char *p = (const unsigned char *)s;
    uint32_t c = p[0];
    int len = c < 0x80 ? 1 : c < 0xC2 ? -1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : -1;
    if (len < 0) return -1;
    uint32_t v = len == 1 ? c : c & (0xFFu >> (len + 1));
    for (int i = 1; i < len; i++) {
        if ((size_t)i >= n) return 0;
        unsigned lo = 0x80, hi = 0xBF;
        if (i == 1) { // the second byte carries the limits that rule out overlongs and surrogates
            if (c == 0xE0) lo = 0xA0;
            if (c == 0xED) hi = 0x9F;
            if (c == 0xF0) lo = 0x90;
            if (c == 0xF4) hi = 0x8F;
        }
        if (p[i] < lo || p[i] > hi) return -1;
        v = v << 6 | (p[i] & 0x3F);
    }
    if (cp) *cp = v;
    return len;
}

bool ls_utf8_valid(const char *p, size_t n) {
    for (size_t i = 0; i < n;) {
        int len = ls_utf8_decode(p + i, n - i, NULL);
        if (len <= 0) return false;
        i += (size_t)len;
    }
    return true;
}

int ls_utf8_encode(uint32_t cp, char out[4]) {
    const bool surrogate = cp >= 0xD800 && cp < 0xE000; // which the library would encode
    return surrogate ? 0 : (int)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)out);
}

// ---- safe text

typedef struct {
    uint32_t from, to;
} range;

static bool is_in(const range *r, size_t n, uint32_t cp) { // r in order
    size_t i = 0;
    while (i < n && cp > r[i].to) i++;
    return i < n && cp >= r[i].from;
}
#define IS_IN(ranges, cp) is_in(ranges, sizeof(ranges) / sizeof *(ranges), cp)

// Control characters, direction marks, invisible characters (Default_Ignorable_Code_Point) and noncharacters. Text
// needs some of them after certain characters: belongs_to() decides.
static const range hidden[] = {{0x00, 0x1F},     {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},
                               {0x61C, 0x61C},   {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},
                               {0x200B, 0x200F}, {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},
                               {0xFDD0, 0xFDEF}, {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
                               {0xFFF0, 0xFFFB}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}};

static bool is_joiner(uint32_t cp) {
    return cp == 0x200C || cp == 0x200D;
}
static bool is_selector(uint32_t cp) {
    return (cp >= 0x180B && cp <= 0x180F) || (cp >= 0xFE00 && cp <= 0xFE0F) || (cp >= 0xE0100 && cp <= 0xE01EF);
}

// Whether real text has the joiner or selector cp after this character. A sequence of them could hide data: false.
static bool belongs_to(uint32_t cp, uint32_t before) {
    // Arabic to Mongolian, pictures, further Indic and Arabic blocks
    static const range joined[] = {{0x600, 0x1CFF},    {0x2190, 0x2BFF},   {0xA800, 0xABFF},  {0xFB50, 0xFEFC},
                                   {0x10A00, 0x11FFF}, {0x1E800, 0x1E95F}, {0x1F000, 0x1FAFF}};
    static const range ideographs[] = {{0x2E80, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x3FFFF}};
    if (is_joiner(cp)) return IS_IN(joined, before);
    if (is_joiner(before) || is_selector(before)) return false;
    if (cp >= 0x180B && cp <= 0x180F) return before >= 0x1800 && before <= 0x18AF;
    return cp >= 0xE0000 ? IS_IN(ideographs, before) : before > ' ';
}

bool ls_is_visible(uint32_t cp, uint32_t before) {
    if (cp >= 0x20 && cp < 0x7F) return true;
    if (is_joiner(cp) || is_selector(cp)) return belongs_to(cp, before);
    return !IS_IN(hidden, cp) && (cp & 0xFFFE) != 0xFFFE;
}

void ls_sanitize_sign(uint32_t cp, char sign[LS_SANITIZE_BYTES]) {
    if (cp == '\n') strcpy(sign, "⏎");
    else if (cp == '\t') strcpy(sign, "⇥");
    else if (cp < 0x80) snprintf(sign, LS_SANITIZE_BYTES, "^%c", (char)(cp ^ 64));
    else snprintf(sign, LS_SANITIZE_BYTES, "<U+%04X>", (unsigned)(cp & 0x1FFFFF));
}

size_t ls_sanitize_next(const char *p, size_t n, uint32_t *before, char sign[LS_SANITIZE_BYTES]) {
    uint32_t cp = 0;
    const int len = ls_utf8_decode(p, n, &cp);
    *sign = 0;
    if (len > 0 && ls_is_visible(cp, *before)) return *before = cp, (size_t)len;
    if (len > 0) ls_sanitize_sign(cp, sign);
    else snprintf(sign, LS_SANITIZE_BYTES, "<%02X>", (unsigned char)*p);
    *before = 0;
    return len > 0 ? (size_t)len : 1;
}

static void add_visible(ls_buf *out, const char *p, size_t n, uint32_t *before, bool line) {
    char sign[LS_SANITIZE_BYTES];
    for (size_t i = 0; i < n;) {
        const size_t taken = ls_sanitize_next(p + i, n - i, before, sign);
        if (*sign && (line || (p[i] != '\n' && p[i] != '\t'))) ls_buf_str(out, sign);
        else ls_buf_add(out, p + i, taken);
        i += taken;
    }
}

bool ls_all_visible(const char *s) {
    uint32_t before = 0;
    char sign[LS_SANITIZE_BYTES] = "";
    for (size_t n = strlen(s), i = 0; i < n && !*sign;) i += ls_sanitize_next(s + i, n - i, &before, sign);
    return !*sign;
}

void ls_sanitize_text(ls_buf *out, const char *p, size_t n) {
    add_visible(out, p, n, &(uint32_t){0}, false);
}

void ls_sanitize_line(ls_buf *out, const char *p, size_t n) {
    add_visible(out, p, n, &(uint32_t){0}, true);
}

void ls_sanitize_str(ls_buf *out, const char *s) {
    ls_sanitize_line(out, s, strlen(s));
}

static void add_fmt(ls_buf *out, const char *fmt, va_list ap) {
    char *text = ls_format_list(fmt, ap);
    ls_sanitize_str(out, text);
    free(text);
}

void ls_sanitize_fmt(ls_buf *out, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_fmt(out, fmt, ap);
    va_end(ap);
}

void ls_sanitize_row(ls_buf *out, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_fmt(out, fmt, ap);
    va_end(ap);
    ls_buf_char(out, '\n');
}

void ls_sanitize_push(ls_sanitize_stream *s, const char *p, size_t n, ls_buf *out) {
    ls_buf all = {0};
    ls_buf_add(&all, s->part, (size_t)s->n_part);
    ls_buf_add(&all, p, n);
    size_t whole = all.n; // bytes before an incomplete character at the end
    for (size_t back = 1; back <= 3 && back <= all.n; back++)
        if (ls_utf8_decode(all.p + all.n - back, back, NULL) == 0) whole = all.n - back;
    add_visible(out, all.p, whole, &s->before, false);
    s->n_part = (int)(all.n - whole);
    memcpy(s->part, all.p + whole, all.n - whole);
    ls_buf_free(&all);
}

void ls_sanitize_end(ls_sanitize_stream *s, ls_buf *out) {
    add_visible(out, s->part, (size_t)s->n_part, &s->before, false);
    *s = (ls_sanitize_stream){0};
}

void ls_warn(const char *fmt, ...) {
    static const char name[] = "logitspec: "; // wrapped text from files never starts a line with this prefix
    ls_buf line = {0};
    va_list ap;
    va_start(ap, fmt);
    ls_buf_str(&line, name);
    add_fmt(&line, fmt, ap);
    va_end(ap);
    ls_buf_char(&line, '\n');
    ls_wrap(&line, 0, ls_columns(STDERR_FILENO), (int)sizeof name - 1);
    fwrite(line.p, 1, line.n, stderr);
    ls_buf_free(&line);
}

// ---- widths and lines

enum { UNKNOWN = 80, ROOM = 20, INDENT = 4 }; // cells; ROOM: the smallest useful width of a column

int ls_columns(int fd) {
    struct winsize size = {0};
    if (!isatty(fd)) return 0;
    return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? UNKNOWN : size.ws_col;
}

int ls_char_cells(uint32_t cp) {
    return utf8proc_charwidth((utf8proc_int32_t)cp);
}

bool ls_char_joins(uint32_t before, uint32_t cp, int32_t *state) {
    return !utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)cp, state);
}

size_t ls_fitting(const char *p, size_t n, int room, int *cells) {
    char sign[LS_SANITIZE_BYTES];
    uint32_t before = 0;
    size_t taken = 0;
    int used = 0;
    while (taken < n) {
        uint32_t cp = 0;
        const size_t len = ls_sanitize_next(p + taken, n - taken, &before, sign);
        if (!*sign) ls_utf8_decode(p + taken, len, &cp);
        // the signs of a newline and a tab are one character of several bytes, all others ASCII
        const int cell = !*sign ? ls_char_cells(cp) : *sign & 0x80 ? 1 : (int)strlen(sign);
        if (used + cell > room) break;
        used += cell;
        taken += len;
    }
    *cells = used;
    return taken;
}

int ls_cells(const char *p, size_t n) {
    int cells;
    ls_fitting(p, n, INT_MAX, &cells);
    return cells;
}

// The indent of a line: `wanted`, or less if fewer than ROOM cells remain or the first word does not fit.
static int indent_of(int wanted, int columns, int cells) {
    if (wanted + ROOM > columns) wanted = columns < INDENT + ROOM ? 0 : wanted < INDENT ? wanted : INDENT;
    return wanted + cells > columns && cells <= columns ? columns - cells : wanted;
}

// Length of the next word. In a command, all text up to its comment is one word, and so is a comment that has a #.
static size_t word_of(const char *p, size_t n, bool command, bool first) {
    if (command && *p == '#') return n;
    for (size_t i = 0; i < n; i++)
        if (p[i] == ' ' && (!command || !first || (i + 1 < n && (p[i + 1] == ' ' || p[i + 1] == '#')))) return i;
    return n;
}

static void wrap_line(ls_buf *out, const char *p, size_t n, int columns, int left) {
    const bool command = left == LS_COMMANDS, narrow = command || left + ROOM > columns;
    int at = 0;
    for (size_t i = 0, words = 0; i < n; words++) {
        size_t gap = 0;
        while (i + gap < n && p[i + gap] == ' ') gap++;
        const char *word = p + i + gap;
        const size_t rest = n - i - gap, len = rest ? word_of(word, rest, command, !words) : 0;
        const int cells = ls_cells(word, len), next = at + (int)gap;
        // if the last column moves below its row, all of it moves
        const bool column = narrow && (command ? words == 1 : ls_cells(p, i + gap) == left);
        if (!words) ls_buf_fmt(out, "%*s", at = indent_of((int)gap, columns, cells), "");
        else if (rest && next + (column ? ls_cells(word, rest) : cells) > columns) {
            // a right-aligned number keeps its padding, so that the numbers of several rows stay aligned
            const int kept = !column && gap > 1 && (int)gap + cells <= columns ? (int)gap : 0;
            at = indent_of(command ? INDENT : left, columns, kept + cells) + kept;
            ls_buf_fmt(out, "\n%*s", at, "");
        } else if (next <= columns) ls_buf_add(out, p + i, gap), at = next;
        ls_buf_add(out, word, len);
        at += cells;
        i += gap + len;
    }
}

size_t ls_wrap(ls_buf *b, size_t from, int columns, int left) {
    ls_buf text = {0};
    if (!columns || b->n == from) return b->n;
    ls_buf_add(&text, b->p + from, b->n - from);
    b->n = from;
    for (size_t i = 0; i < text.n;) {
        const char *line = text.p + i, *end = memchr(line, '\n', text.n - i);
        const size_t n = end ? (size_t)(end - line) : text.n - i;
        if (ls_cells(line, n) <= columns) ls_buf_add(b, line, n);
        else wrap_line(b, line, n, columns, left);
        if (end) ls_buf_char(b, '\n');
        i += n + 1;
    }
    ls_buf_free(&text);
    return b->n;
}
