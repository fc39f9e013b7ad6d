#include "decode/packed.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct ls_packed {
    atomic_uint owners;
    int32_t n_top, n_path, n_branches, n_said, n_nodes; // unpacking needs them first
    unsigned char bytes[];
};

// The arrays of a record and how much of each is in use. What lies between them is copied whole.
typedef struct {
    size_t at, size, used;
} part;

enum { PARTS = 5 };

static void parts_of(int32_t n_top, int32_t n_path, int32_t n_branches, int32_t n_said, int32_t n_nodes,
                     part out[PARTS]) {
    const ls_step *s = NULL;
    out[0] = (part){offsetof(ls_step, top), sizeof s->top, (size_t)n_top * sizeof *s->top};
    out[1] = (part){offsetof(ls_step, path), sizeof s->path, (size_t)n_path * sizeof *s->path};
    out[2] = (part){offsetof(ls_step, tree.branches), sizeof s->tree.branches,
                    (size_t)n_branches * sizeof *s->tree.branches};
    out[3] = (part){offsetof(ls_step, tree.said), sizeof s->tree.said, (size_t)n_said * sizeof *s->tree.said};
    out[4] = (part){offsetof(ls_step, tree.nodes), sizeof s->tree.nodes, (size_t)n_nodes * sizeof *s->tree.nodes};
}

ls_packed *ls_pack(const ls_step *s) {
    part p[PARTS];
    parts_of(s->n_top, s->n_path, s->tree.n_branches, s->tree.n_said, s->tree.n, p);
    size_t n = 0, at = 0;
    for (int i = 0; i < PARTS; i++) n += p[i].used + (p[i].at - at), at = p[i].at + p[i].size;
    ls_packed *out = ls_malloc(sizeof *out + n);
    atomic_init(&out->owners, 1);
    out->n_top = s->n_top, out->n_path = s->n_path, out->n_branches = s->tree.n_branches;
    out->n_said = s->tree.n_said, out->n_nodes = s->tree.n;
    unsigned char *to = out->bytes;
    at = 0;
    for (int i = 0; i < PARTS; i++) {
        memcpy(to, (const char *)s + at, p[i].at - at + p[i].used); // what is in use begins where the gap ends
        to += p[i].at - at + p[i].used;
        at = p[i].at + p[i].size;
    }
    return out;
}

ls_packed *ls_packed_share(ls_packed *p) {
    atomic_fetch_add_explicit(&p->owners, 1, memory_order_relaxed);
    return p;
}

void ls_packed_free(ls_packed *p) {
    if (p && atomic_fetch_sub_explicit(&p->owners, 1, memory_order_acq_rel) == 1) free(p);
}

void ls_unpack(const ls_packed *p, ls_step *s) {
    part parts[PARTS];
    parts_of(p->n_top, p->n_path, p->n_branches, p->n_said, p->n_nodes, parts);
    const unsigned char *from = p->bytes;
    size_t at = 0;
    for (int i = 0; i < PARTS; i++) {
        const size_t n = parts[i].at - at + parts[i].used;
        memcpy((char *)s + at, from, n);
        from += n;
        at = parts[i].at + parts[i].size;
    }
}
