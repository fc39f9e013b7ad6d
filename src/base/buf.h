// Bytes and token ids: borrowed, and in growable arrays. Zero-initialise those; free with ls_buf_free / ls_ids_free.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// A borrowed run of bytes: never NUL-terminated, may hold anything.
typedef struct {
    const char *p;
    size_t n;
} ls_str;

static inline bool ls_str_same(ls_str a, ls_str b) {
    return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}
static inline bool ls_str_is(ls_str s, const char *text) {
    return ls_str_same(s, (ls_str){text, strlen(text)});
}
// Words of a list such as "a|b" or "a b"; between: the characters that separate them.
const char *ls_next_word(const char **list, const char *between, size_t *n); // n bytes, moves *list; NULL: no more
// The number of s among words that blanks separate, from 0; -1: it is none of them.
int ls_str_among(ls_str s, const char *words);
bool ls_begins_among(const char *s, const char *words); // s begins with one of them

typedef struct {
    char *p; // always NUL-terminated once anything was added; may hold NULs inside
    size_t n, cap;
} ls_buf;

char *ls_buf_room(ls_buf *b, size_t n); // makes room for n bytes; the caller writes them there and raises b->n
void ls_buf_add(ls_buf *b, const void *p, size_t n);
void ls_buf_str(ls_buf *b, const char *s);
void ls_buf_char(ls_buf *b, char c);
void ls_buf_fmt(ls_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void ls_buf_base64(ls_buf *b, const char *bytes, size_t n);
bool ls_buf_unbase64(ls_buf *b, ls_str s); // appends the bytes; false: it is not base64
void ls_buf_clear(ls_buf *b);              // keeps the memory
void ls_buf_free(ls_buf *b);

typedef struct { // a text, and a mark of each of its bytes
    ls_buf text, marks;
} ls_marked;

void ls_marked_add(ls_marked *m, const char *p, size_t n, char mark);
void ls_marked_slice(ls_marked *m, const ls_marked *of, size_t from, size_t to); // appends of[from..to)
void ls_marked_free(ls_marked *m);

typedef struct {
    int32_t *p;
    size_t n, cap;
} ls_ids; // token ids

void ls_ids_push(ls_ids *v, int32_t id);
void ls_ids_add(ls_ids *v, const int32_t *p, size_t n);
void ls_ids_free(ls_ids *v);
// The number of tokens with which both begin.
static inline size_t ls_ids_common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b) {
    size_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

enum { LS_MAX_EOS = 32 };

typedef struct { // the tokens that end an answer
    int32_t ids[LS_MAX_EOS], n;
} ls_eos_set;

static inline bool ls_eos_set_has(const ls_eos_set *e, int32_t id) {
    for (int32_t i = 0; i < e->n; i++)
        if (e->ids[i] == id) return true;
    return false;
}

// Does nothing if the id is in the list already or the list is full.
static inline void ls_eos_set_add(ls_eos_set *e, int32_t id) {
    if (e->n < LS_MAX_EOS && !ls_eos_set_has(e, id)) e->ids[e->n++] = id;
}
