#include "spec/memory.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void ls_memory_part(ls_memory_visit *v, void *part, size_t n) {
    if (v->does == LS_MEMORY_COUNTS) v->at += n;
    if (v->does == LS_MEMORY_COPIES) ls_buf_add(v->bytes, part, n);
    if (v->does != LS_MEMORY_RESTORES) return;
    memcpy(part, v->bytes->p + v->at, n);
    v->at += n;
}

void ls_memory_whole(ls_memory_visit *v, void *whole, size_t n) {
    if (v->does == LS_MEMORY_RESTORES) {
        v->whole = whole;
        v->old = ls_malloc(n);
        memcpy(v->old, whole, n);
    }
    ls_memory_part(v, whole, n);
}

void ls_memory_own(ls_memory_visit *v, void *field, size_t n) {
    if (v->does == LS_MEMORY_RESTORES) memcpy(field, v->old + ((char *)field - v->whole), n);
}

void ls_memory_array(ls_memory_visit *v, void **p, size_t n) {
    if (v->does == LS_MEMORY_DROPS) {
        free(*p);
        *p = NULL;
    } else if (v->does != LS_MEMORY_RESTORES) {
        if (n) ls_memory_part(v, *p, n);
    } else { // the copied pointer is that of the copied array
        *p = NULL;
        if (!n) return;
        *p = ls_realloc_lines(NULL, 0, n);
        ls_memory_part(v, *p, n);
    }
}

void ls_memory_map(ls_memory_visit *v, ls_map *m) {
    ls_memory_array(v, (void **)&m->slots, m->cap * sizeof *m->slots);
}

size_t ls_memory_bytes(void (*lists)(void *of, ls_memory_visit *v), void *of) {
    ls_memory_visit v = {.does = LS_MEMORY_COUNTS};
    lists(of, &v);
    return v.at;
}

void ls_memory_drop(void (*lists)(void *of, ls_memory_visit *v), void *of) {
    lists(of, &(ls_memory_visit){.does = LS_MEMORY_DROPS});
}

void ls_memory_copy(ls_buf *out, void (*lists)(void *of, ls_memory_visit *v), void *of) {
    ls_buf_clear(out);
    lists(of, &(ls_memory_visit){.does = LS_MEMORY_COPIES, .bytes = out});
}

void ls_memory_restore(const ls_buf *bytes, void (*lists)(void *of, ls_memory_visit *v), void *of) {
    ls_buf from = *bytes;
    ls_memory_drop(lists, of);
    ls_memory_visit v = {.does = LS_MEMORY_RESTORES, .bytes = &from};
    lists(of, &v);
    free(v.old);
}
