#include "trace/by_request.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef struct recording recording;
struct recording {
    int32_t of;      // its request's place in `known`
    ls_buf lines;    // an ls_line, then its bytes, and so on
    size_t at;       // of the next line to be read
    bool all;        // no more lines come
    recording *next; // that began later
};

struct ls_by_request {
    recording *first, **end;
    ls_map at; // id -> its place in `known`
    struct known {
        recording *open; // NULL: none, or it was read to its end
        int32_t lost;
    } * known;
    size_t n_known;
    int32_t now; // place of the request of the next line; -1: the server itself
    uint64_t late;
};

ls_by_request *ls_by_request_new(void) {
    ls_by_request *b = ls_calloc(1, sizeof *b);
    b->end = &b->first;
    b->now = -1;
    return b;
}

static void drop_first(ls_by_request *b) {
    recording *r = b->first;
    if (b->known[r->of].open == r) b->known[r->of].open = NULL;
    if (!(b->first = r->next)) b->end = &b->first;
    ls_buf_free(&r->lines);
    free(r);
}

void ls_by_request_free(ls_by_request *b) {
    if (!b) return;
    while (b->first) drop_first(b);
    ls_map_free(&b->at);
    free(b->known);
    free(b);
}

void ls_by_request_about(ls_by_request *b, const ls_request_facts *facts) {
    b->now = facts->id ? *ls_map_at(&b->at, (uint64_t)facts->id, (int32_t)b->n_known) : -1;
    if (b->now < 0) return;
    if ((size_t)b->now == b->n_known) {
        b->known = ls_realloc(b->known, (b->n_known + 1) * sizeof *b->known);
        b->known[b->n_known++] = (struct known){0};
    }
    struct known *k = &b->known[b->now];
    if (facts->lost_lines > k->lost) k->lost = facts->lost_lines;
    if (k->open) k->open->all |= facts->state == LS_REQUEST_FORGOTTEN;
}

void ls_by_request_put(ls_by_request *b, ls_trace_line kind, const ls_line *line) {
    if (b->now < 0) return;
    recording *r = b->known[b->now].open;
    if (!r || (r->all && kind == LS_TRACE_HEADER)) { // or another server's, with the same number
        if (kind == LS_TRACE_OTHER) return;          // of the stream, such as that the server is there
        if (kind != LS_TRACE_HEADER) {
            b->late++;
            return;
        }
        r = b->known[b->now].open = ls_calloc(1, sizeof *r);
        r->of = b->now;
        *b->end = r;
        b->end = &r->next;
    }
    ls_buf_add(&r->lines, line, sizeof *line);
    ls_buf_add(&r->lines, line->p, line->n);
    r->all |= kind == LS_TRACE_END;
}

bool ls_by_request_next(ls_by_request *b, bool more, ls_line *out) {
    for (; b->first; drop_first(b)) {
        recording *r = b->first;
        if (r->at < r->lines.n) {
            memcpy(out, r->lines.p + r->at, sizeof *out);
            out->p = r->lines.p + r->at + sizeof *out;
            r->at += sizeof *out + out->n;
            return true;
        }
        ls_buf_clear(&r->lines); // read to here
        r->at = 0;
        if (!r->all && more) return false;
    }
    return false;
}

uint64_t ls_by_request_lost(const ls_by_request *b) {
    uint64_t lost = b->late;
    for (size_t i = 0; i < b->n_known; i++) lost += (uint64_t)b->known[i].lost;
    return lost;
}
