#include "gpu/plan.h"

#include "base/ggml.h"
#include "torch/lst.h"

lsg_format lsg_format_of(int ggml_type) {
    switch (ggml_type) {
    case LS_GGML_F32:
    case LS_GGML_BF16: return LSG_BF16;
    case LS_GGML_F16: return LSG_F16;
    case LS_GGML_Q4_0:
    case LS_GGML_Q4_1: return LSG_Q4;
    case LS_GGML_Q8_0: return LSG_Q8;
    case LS_GGML_Q4_K: return LSG_Q4S;
    default: return LSG_Q8S;
    }
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

size_t lsg_matrix_size(lsg_format format, int64_t n_out, int64_t n_in) {
    const size_t tiles = (size_t)ceil_div(n_out, LSG_TILE) * (size_t)(n_in / LSG_GROUP);
    return ((tiles + 1) * (size_t)lsg_tile_bytes(format) + 255) / 256 * 256;
}

int32_t lsg_resident(int32_t multiprocessors, int32_t shared_kib) {
    return multiprocessors * (shared_kib >= 160 ? 2 : 1);
}

/* The cut that takes the least time, in the times of a group: all blocks run in waves of those that the device holds at
 * once, and a block takes as many groups as each of its warps has. A chunk more costs about one, since its sums are
 * written and added. Chunks are of at least four groups. */
lsg_cut lsg_cut_of(int64_t n_out, int64_t n_in, int32_t resident) {
    enum { LEAST_GROUPS = 4 };
    const int64_t groups = n_in / LSG_GROUP;
    lsg_cut best = {0};
    double least = 0;
    for (int32_t warps = 4; warps >= 2; warps /= 2)
        for (int32_t chunks = 1; chunks <= LSG_MATMUL_CHUNKS; chunks++) {
            if (chunks > 1 && groups < (int64_t)chunks * LEAST_GROUPS) break;
            const int64_t of_chunk = ceil_div(groups, chunks), there = ceil_div(groups, of_chunk),
                          blocks = ceil_div(n_out, LSG_TILE * warps) * there;
            const double splits = warps == LSG_WARPS ? 1 : 2,
                         time = (double)(ceil_div(blocks, resident) * of_chunk) / splits + (double)there;
            if (best.warps_out && time >= least) continue;
            least = time;
            best = (lsg_cut){warps, (int32_t)there, (int32_t)of_chunk,
                             (int32_t)(blocks < resident ? resident / blocks : 1)};
        }
    return best;
}

int32_t lsg_matmul_eights(int32_t rows, int32_t beside) {
    const int64_t eights = ceil_div(rows, 8), least = ceil_div(eights, 8), side = beside < eights ? beside : eights;
    if (side > least) return (int32_t)ceil_div(eights, side);
    return (int32_t)ceil_div(eights, eights % least && eights % (least + 1) == 0 ? least + 1 : least);
}

int32_t lsg_tail_rows(int32_t group) {
    return group >= 16 ? 1 : 16 / group < LSG_TAIL_ROWS ? 16 / group : LSG_TAIL_ROWS;
}

int32_t lsg_attention_tiles(int32_t head_dim) {
    return head_dim <= 128 ? 4 : 2;
}

size_t lsg_attention_shared(int32_t q_tiles, int32_t head_dim, int tails) {
    return (size_t)q_tiles * 16 * (LSG_SCORES * sizeof(float) + (size_t)head_dim * sizeof(uint16_t)) +
           (size_t)(tails ? LSG_TAIL_ROWS : 1) * LSG_CHUNK * sizeof(void *);
}

static ls_part whole(const lsg_shape *s) {
    return (ls_part){{0, s->n_heads}, {0, s->n_kv_heads}, {0, s->n_ff}, {0, s->n_embd}, {0, s->n_vocab}};
}

int lsg_is_whole(const lsg_shape *s) {
    return s->own.vocab.to == 0;
}

ls_part lsg_own(const lsg_shape *s) {
    return lsg_is_whole(s) ? whole(s) : s->own;
}

ls_part lsg_held(ls_part part, int32_t n_heads, int32_t n_kv_heads, int norm_spans_heads) {
    const int32_t group = n_heads / n_kv_heads;
    if (norm_spans_heads) part.kv_heads = (ls_range){0, n_kv_heads};
    if (norm_spans_heads || ls_range_size(part.kv_heads) > 1)
        part.heads = (ls_range){part.kv_heads.from * group, part.kv_heads.to * group};
    return part;
}

static void shape_of(const lsg_shape *s, const ls_part *part, lsg_which which, int32_t *n_out, int32_t *n_in) {
    *n_out = which == LSG_QKV       ? (ls_range_size(part->heads) + 2 * ls_range_size(part->kv_heads)) * s->head_dim
             : which == LSG_GATE_UP ? 2 * ls_range_size(part->ff)
             : which == LSG_HEAD    ? ls_range_size(part->vocab)
                                    : ls_range_size(part->embd);
    *n_in = which == LSG_OUT ? s->n_heads * s->head_dim : which == LSG_DOWN ? s->n_ff : s->n_embd;
}

void lsg_matrix_shape(const lsg_shape *s, lsg_which which, int32_t *n_out, int32_t *n_in) {
    const ls_part own = lsg_own(s);
    shape_of(s, &own, which, n_out, n_in);
}

lsg_cut lsg_matrix_cut(const lsg_shape *s, lsg_which which) {
    const ls_part all = whole(s);
    int32_t n_out, n_in;
    shape_of(s, &all, which, &n_out, &n_in);
    return lsg_cut_of(n_out, n_in, s->resident);
}

int32_t lsg_bucket_rows(int32_t n) {
    const int32_t multiple = n <= 64 ? 8 : n <= 128 ? 16 : 32;
    return n == 1 ? 1 : (n + multiple - 1) / multiple * multiple;
}

int32_t lsg_bucket_chunks(int32_t length) {
    int32_t n = length < LSG_CHUNK ? 0 : 1;
    while (n < length / LSG_CHUNK) n *= 2;
    return n;
}

size_t lsg_keys_count(int32_t rows, int32_t n_vocab) {
    const size_t stats = (size_t)rows * (size_t)ceil_div(n_vocab, LSG_SLICE) * LST_ROW_TOP;
    const size_t lists = 2 * LSG_TOP * ((size_t)ceil_div(n_vocab, LSG_SORT) + 1);
    return stats > lists ? stats : lists;
}

size_t lsg_page_values(const lsg_shape *s) {
    const ls_part own = lsg_own(s);
    return (size_t)s->n_layers * 2 * (size_t)ls_range_size(own.kv_heads) * LSG_PAGE * (size_t)s->head_dim;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

lsg_room lsg_room_of(const lsg_shape *s, int32_t n_context) {
    enum { PART_BYTES = 256 << 20 }; /* the most that attention's partial results take */
    const ls_part own = lsg_own(s);
    const int32_t n_heads = ls_range_size(own.heads), n_vocab = ls_range_size(own.vocab);
    const size_t rows = LST_MAX_ROWS, q = (size_t)n_heads * (size_t)s->head_dim, of_part = q * sizeof(float),
                 all_q = (size_t)s->n_heads * (size_t)s->head_dim,
                 chunks = (size_t)lsg_bucket_chunks(n_context) + LSG_TAIL_CHUNKS;
    size_t y = (size_t)s->n_embd; /* what all ranks computed comes here */
    for (lsg_which i = 0; i < LSG_HEAD; i++) {
        int32_t n_out, n_in;
        lsg_matrix_shape(s, i, &n_out, &n_in);
        y = larger(y, (size_t)lsg_matrix_cut(s, i).chunks * (size_t)n_out);
    }
    lsg_room r = {.x = rows * (size_t)s->n_embd,
                  .xn = rows * larger(larger((size_t)s->n_embd, (size_t)s->n_ff), all_q),
                  .q = rows * q,
                  .y = rows * y,
                  .turns = 2 * rows * (size_t)s->rope_dims,
                  .logits = (size_t)lsg_matrix_cut(s, LSG_HEAD).chunks * rows * (size_t)n_vocab,
                  .last = (size_t)n_vocab,
                  .keys = lsg_keys_count(LST_MAX_ROWS, n_vocab),
                  .slices = rows * (size_t)ceil_div(n_vocab, LSG_SLICE) * LSG_SLICE_FLOATS,
                  .sums = lsg_is_whole(s) ? 0 : rows * (size_t)ls_range_size(own.embd),
                  .columns = (size_t)n_context,
                  .ancestors = rows * rows,
                  .pages = (size_t)(n_context + LST_MAX_ROWS) / LSG_PAGE + 1,
                  .parts = rows * chunks};
    if (r.parts * of_part > PART_BYTES) r.parts = larger(PART_BYTES / of_part, chunks); /* one row always */
    r.part_o = r.parts * q;
    r.part_ml = r.parts * (size_t)n_heads * 2;
    return r;
}

uint64_t lsg_session_bytes(const lsg_shape *s, int32_t n_context) {
    enum { REST = 4 << 20 }; /* the step, its result, lists; what an allocator rounds up */
    const lsg_room r = lsg_room_of(s, n_context);
    return sizeof(float) *
               (uint64_t)(r.x + r.y + r.sums + r.turns + r.part_o + r.part_ml + r.logits + r.last + r.slices) +
           sizeof(uint16_t) * (uint64_t)(r.xn + r.q + r.ancestors) + sizeof(uint64_t) * (uint64_t)r.keys +
           sizeof(int32_t) * (uint64_t)r.columns + sizeof(void *) * (uint64_t)r.pages + REST;
}
