// Growable byte and int32 arrays. Zero-initialise; free with ls_buf_free / ls_ids_free.
#pragma once
#include <stddef.h>
#include <stdint.h>

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
void ls_buf_clear(ls_buf *b); // keeps the memory
void ls_buf_free(ls_buf *b);

typedef struct {
    int32_t *p;
    size_t n, cap;
} ls_ids; // token ids

void ls_ids_push(ls_ids *v, int32_t id);
void ls_ids_add(ls_ids *v, const int32_t *p, size_t n);
void ls_ids_free(ls_ids *v);
