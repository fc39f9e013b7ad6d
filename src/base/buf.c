#include "base/buf.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *ls_next_word(const char **list, const char *between, size_t *n) {
    const char *word = *list + strspn(*list, between);
    *n = strcspn(word, between);
    *list = word + *n;
    return *n ? word : NULL;
}

int ls_str_among(ls_str s, const char *words) {
    ls_str word;
    for (int i = 0; (word.p = ls_next_word(&words, " ", &word.n)); i++)
        if (ls_str_same(s, word)) return i;
    return -1;
}

bool ls_begins_among(const char *s, const char *words) {
    size_t n;
    for (const char *w; (w = ls_next_word(&words, " ", &n));)
        if (!strncmp(s, w, n)) return true;
    return false;
}

static void buf_reserve(ls_buf *b, size_t extra) {
    if (b->n + extra + 1 <= b->cap) return;
    b->cap = (b->n + extra + 1) * 2;
    b->p = ls_realloc(b->p, b->cap);
}

char *ls_buf_room(ls_buf *b, size_t n) {
    buf_reserve(b, n);
    return b->p + b->n;
}

void ls_buf_add(ls_buf *b, const void *p, size_t n) {
    buf_reserve(b, n);
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
}

void ls_buf_str(ls_buf *b, const char *s) {
    ls_buf_add(b, s, strlen(s));
}
void ls_buf_char(ls_buf *b, char c) {
    ls_buf_add(b, &c, 1);
}

void ls_buf_fmt(ls_buf *b, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) ls_out_of_memory(0); // with our formats, nothing else can fail
    if (n > 0) {
        buf_reserve(b, (size_t)n);
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
}

void ls_buf_clear(ls_buf *b) {
    b->n = 0;
    if (b->p) b->p[0] = 0;
}

void ls_buf_free(ls_buf *b) {
    free(b->p);
    *b = (ls_buf){0};
}

void ls_marked_add(ls_marked *m, const char *p, size_t n, char mark) {
    ls_buf_add(&m->text, p, n);
    memset(ls_buf_room(&m->marks, n), mark, n);
    m->marks.n += n;
}

void ls_marked_slice(ls_marked *m, const ls_marked *of, size_t from, size_t to) {
    ls_buf_add(&m->text, of->text.p + from, to - from);
    ls_buf_add(&m->marks, of->marks.p + from, to - from);
}

void ls_marked_free(ls_marked *m) {
    ls_buf_free(&m->text);
    ls_buf_free(&m->marks);
}

static void ids_reserve(ls_ids *v, size_t extra) {
    if (v->n + extra <= v->cap) return;
    v->cap = (v->n + extra) * 2 + 16;
    v->p = ls_realloc(v->p, v->cap * sizeof *v->p);
}

void ls_ids_push(ls_ids *v, int32_t id) {
    ids_reserve(v, 1);
    v->p[v->n++] = id;
}

void ls_ids_add(ls_ids *v, const int32_t *p, size_t n) {
    ids_reserve(v, n);
    if (n) memcpy(v->p + v->n, p, n * sizeof *p);
    v->n += n;
}

void ls_ids_free(ls_ids *v) {
    free(v->p);
    *v = (ls_ids){0};
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"; // of base64

void ls_buf_base64(ls_buf *b, const char *bytes, size_t n) {
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        char t[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=',
                     i + 2 < n ? digits[v & 63] : '='};
        ls_buf_add(b, t, 4);
    }
}

bool ls_buf_unbase64(ls_buf *out, ls_str s) {
    uint32_t word = 0;
    int bits = 0;
    while (s.n && s.p[s.n - 1] == '=') s.n--;
    for (size_t i = 0; i < s.n; i++) {
        const char *d = s.p[i] ? strchr(digits, s.p[i]) : NULL;
        if (!d) return false;
        word = word << 6 | (uint32_t)(d - digits);
        if ((bits += 6) >= 8) ls_buf_char(out, (char)(word >> (bits -= 8)));
    }
    return true;
}
