// An arena, what it may hold, and the way out of everything.
#include "base/mem.h"
#include "text/jinja_internal.h"

#include <stdarg.h>
#include <stdlib.h>

enum { BLOCK = 64 << 10, MAX_MEMORY = 96 << 20 };

void *j_alloc(jvm *m, size_t n) {
    jarena *a = m->memory;
    n = (n + 15) / 16 * 16;
    if (n > MAX_MEMORY - a->total) j_fail(m, LS_E_RANGE, "the template needs more than %d MiB", MAX_MEMORY >> 20);
    if (!a->blocks || n > a->room - a->used) {
        const size_t room = n > BLOCK ? n : BLOCK;
        jblock *b = ls_calloc(1, sizeof *b + 16 + room);
        b->next = a->blocks;
        a->blocks = b;
        a->room = room;
        a->used = 0;
    }
    void *p = (char *)a->blocks + (sizeof(jblock) + 15) / 16 * 16 + a->used;
    a->used += n;
    a->total += n;
    j_spend(m, n / 64);
    return p;
}

void j_arena_free(jarena *a) {
    for (jblock *b = a->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *a = (jarena){0};
}

void j_fail(jvm *m, ls_code code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = ls_format_list(fmt, ap);
    va_end(ap);
    ls_fail(m->err, code, "line %d: %s", m->line, text);
    free(text);
    longjmp(m->failed, (int)code);
}

void j_exhausted(jvm *m) {
    m->fuel = J_FUEL; // for what the error itself costs
    j_fail(m, LS_E_RANGE, "the template takes more than %d steps", J_FUEL);
}
