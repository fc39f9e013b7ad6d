#include "base/visible.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "base/wrap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void ls_visible_sign(uint32_t cp, char sign[LS_VISIBLE_BYTES]) {
    if (cp == '\n') strcpy(sign, "⏎");
    else if (cp == '\t') strcpy(sign, "⇥");
    else if (cp < 0x80) snprintf(sign, LS_VISIBLE_BYTES, "^%c", (char)(cp ^ 64));
    else snprintf(sign, LS_VISIBLE_BYTES, "<U+%04X>", (unsigned)(cp & 0x1FFFFF));
}

size_t ls_visible_next(const char *p, size_t n, uint32_t *before, char sign[LS_VISIBLE_BYTES]) {
    uint32_t cp = 0;
    const int len = ls_utf8_decode(p, n, &cp);
    *sign = 0;
    if (len > 0 && ls_is_visible(cp, *before)) return *before = cp, (size_t)len;
    if (len > 0) ls_visible_sign(cp, sign);
    else snprintf(sign, LS_VISIBLE_BYTES, "<%02X>", (unsigned char)*p);
    *before = 0;
    return len > 0 ? (size_t)len : 1;
}

static void add_visible(ls_buf *out, const char *p, size_t n, uint32_t *before, bool line) {
    char sign[LS_VISIBLE_BYTES];
    for (size_t i = 0; i < n;) {
        const size_t taken = ls_visible_next(p + i, n - i, before, sign);
        if (*sign && (line || (p[i] != '\n' && p[i] != '\t'))) ls_buf_str(out, sign);
        else ls_buf_add(out, p + i, taken);
        i += taken;
    }
}

bool ls_all_visible(const char *s) {
    uint32_t before = 0;
    char sign[LS_VISIBLE_BYTES] = "";
    for (size_t n = strlen(s), i = 0; i < n && !*sign;) i += ls_visible_next(s + i, n - i, &before, sign);
    return !*sign;
}

void ls_visible_text(ls_buf *out, const char *p, size_t n) {
    add_visible(out, p, n, &(uint32_t){0}, false);
}

void ls_visible_line(ls_buf *out, const char *p, size_t n) {
    add_visible(out, p, n, &(uint32_t){0}, true);
}

void ls_visible_str(ls_buf *out, const char *s) {
    ls_visible_line(out, s, strlen(s));
}

static void add_fmt(ls_buf *out, const char *fmt, va_list ap) {
    char *text = ls_format_list(fmt, ap);
    ls_visible_str(out, text);
    free(text);
}

void ls_visible_fmt(ls_buf *out, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_fmt(out, fmt, ap);
    va_end(ap);
}

void ls_visible_row(ls_buf *out, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    add_fmt(out, fmt, ap);
    va_end(ap);
    ls_buf_char(out, '\n');
}

void ls_visible_push(ls_visible_stream *s, const char *p, size_t n, ls_buf *out) {
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

void ls_visible_end(ls_visible_stream *s, ls_buf *out) {
    add_visible(out, s->part, (size_t)s->n_part, &s->before, false);
    *s = (ls_visible_stream){0};
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
