#include "gpu/plan.h"

#include "base/ggml.h"
#include "compute/lst.h"

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

/* What a multiprocessor gets, in bytes a us: its share of the memory's rate, and what one reaches alone, with a block's
 * ring under way. How long a warp takes for a group, where nothing else bounds it. Chosen after an H200
 * (tests/gpu/results), for the shapes of an 8B model in bf16 and 4 bits. */
static const double SHARE = 25e3, ALONE = 60e3, GROUP_US = 0.35;

/* A multiprocessor with room for more than one block, so that it matters how many it takes. */
static int is_large(lsg_gpu gpu) {
    return gpu.shared_kib * 1024 > LSG_LARGE_BLOCK_SHARED;
}

/* The cut that takes the least time for ROWS rows. Multiprocessors share the memory's rate alike: blocks run in waves
 * of one each, and the last wave's get more, up to what one reaches; few of them leave some of the rate unused. Nor
 * does a block end before its warps have walked their groups, of which the first slice has the more. The second-level
 * cache gives inputs and weights at CACHED times the memory's rate. Sums of several chunks are written, and read by the
 * next kernel. */
lsg_cut lsg_cut_of(lsg_format format, int64_t n_out, int64_t n_in, lsg_gpu gpu) {
    enum { LEAST_GROUPS = 4, ROWS = 32, FEW = 16, HALF = LSG_STAGE / 2 };
    const double CACHED = 1.8, all = SHARE * gpu.multiprocessors;
    const int64_t groups = n_in / LSG_GROUP, out_blocks = ceil_div(n_out, LSG_BLOCK_OUT), most = gpu.multiprocessors;
    const double tile = lsg_tile_bytes(format), weights = tile * (double)(groups * ceil_div(n_out, LSG_TILE)),
                 inputs = 2.0 * ROWS * (double)(out_blocks * n_in), again = (weights + inputs) / (CACHED * weights),
                 sums = 4.0 * ROWS * (double)n_out / all;
    const int plain = lsg_is_plain(format);
    lsg_cut best = {0};
    double least = 0;
    for (int32_t chunks = 1; chunks <= LSG_MATMUL_CHUNKS; chunks++) {
        if (chunks > 1 && groups < (int64_t)chunks * LEAST_GROUPS) break;
        const int64_t of_chunk = ceil_div(groups, chunks), there = ceil_div(groups, of_chunk),
                      blocks = out_blocks * there, waves = blocks / most, more = of_chunk % LSG_STAGE,
                      of_slice = of_chunk / LSG_STAGE * HALF + (more < HALF ? more : HALF);
        const int64_t busy = blocks < most ? blocks : most, rest = blocks % most;
        const double of_block = tile * LSG_BLOCK_TILES * 2 * (double)of_slice,
                     share = rest && all / (double)rest < ALONE ? all / (double)rest : ALONE,
                     stream = (double)waves * of_block / SHARE + (rest ? of_block / share : 0),
                     memory = stream * (again > 1 ? again : 1) * (double)(busy + FEW) / (double)busy,
                     walk = (double)(ceil_div(blocks, 2 * most) * of_slice) * GROUP_US,
                     time = (memory > walk ? memory : walk) + sums * (there > 1 ? 2 * (double)there : 1 / CACHED);
        if (best.chunks && time >= least) continue;
        least = time;
        best = (lsg_cut){(int32_t)there,
                         (int32_t)of_chunk,
                         (int32_t)(blocks < most ? most / blocks : 1),
                         plain && !is_large(gpu) ? 3 : lsg_tile_of(format).eights,
                         LSG_LARGE_OFF,
                         gpu};
    }
    return best;
}

int32_t lsg_matmul_eights(int32_t rows, const lsg_cut *cut) {
    const int64_t eights = ceil_div(rows, 8), most = cut->most_eights, least = ceil_div(eights, most),
                  side = cut->beside < eights ? cut->beside : eights;
    if (side > least) return (int32_t)ceil_div(eights, side);
    return (int32_t)ceil_div(eights, eights % least && eights % (least + 1) == 0 ? least + 1 : least);
}

/* A kernel that starts early finds some multiprocessors free before others. It puts as many blocks there as fit, and
 * others stay idle. So a multiprocessor may take an even share of the blocks and no more. On an H200, 224 blocks of
 * 4-bit weights took 45 us where three fit on a multiprocessor and 35 where two did.
 *
 * Plain weights are bounded by the memory. One block on a multiprocessor keeps it busy, and a second one costs more
 * than it gains (one row of an 8B model: 18% longer). Weights with scales are bounded by instructions and gain by the
 * warps of two blocks. */
static int32_t even_share(lsg_format format, int32_t own, int64_t blocks, const lsg_cut *cut) {
    if (!is_large(cut->gpu)) return own;
    const int64_t share = lsg_is_plain(format) ? 1 : ceil_div(blocks, cut->gpu.multiprocessors),
                  least = (int64_t)cut->gpu.shared_kib * 1024 / (share + 1);
    return own > least ? own : (int32_t)least;
}

int32_t lsg_matmul_shared(lsg_format format, int32_t eights, int64_t blocks, const lsg_cut *cut) {
    return even_share(format, lsg_matmul_plan_of(format, eights).shared, blocks, cut);
}

int32_t lsg_large_shared(lsg_format format, int64_t blocks, const lsg_cut *cut) {
    return even_share(format, lsg_large_plan_of(format, lsg_large_stages(format, cut->gpu)).shared, blocks, cut);
}

int32_t lsg_large_stages(lsg_format format, lsg_gpu gpu) {
    return lsg_large_plan_of(format, 3).shared <= (is_large(gpu) ? LSG_LARGE_BLOCK_SHARED : LSG_BLOCK_SHARED) ? 3 : 2;
}

/* By estimate a multiprocessor computes about three times as many products in a time as with the blocks for few rows
 * where weights are plain, and half as many again where they have scales. So it is enough if a third of the
 * multiprocessors, or all, have a block. Half as many rows are bounded by what blocks read: there it is enough if half
 * as many blocks, of twice as many outputs each, are done as soon. Not measured. */
int lsg_matmul_is_large(lsg_format format, int32_t rows, int32_t n_out, const lsg_cut *cut) {
    const int64_t most = cut->gpu.multiprocessors, of_out = ceil_div(n_out, lsg_large_out(format)) * cut->chunks;
    if (cut->large == LSG_LARGE_OFF) return 0;
    if (rows >= LSG_LARGE_ROWS)
        return cut->large == LSG_LARGE_ALWAYS ||
               ceil_div(rows, LSG_LARGE_ROWS) * of_out * (lsg_is_plain(format) ? 3 : 1) >= most;
    if (format != LSG_BF16 || rows <= LSG_LARGE_ROWS / 4 || rows > LSG_LARGE_ROWS / 2) return 0;
    if (lsg_large_stages(format, cut->gpu) < 3) return 0;
    return cut->large == LSG_LARGE_ALWAYS ||
           2 * ceil_div(of_out, most) <= ceil_div(ceil_div(n_out, LSG_BLOCK_OUT) * cut->chunks, most);
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

int32_t lsg_attention_parts(int32_t queries) {
    return (int32_t)ceil_div(queries, LSG_LARGE_QUERIES);
}

/* They pay where they fill the device and their warps have queries. Not measured. */
int32_t lsg_attention_large_chunks(lsg_large large, lsg_gpu gpu, int32_t head_dim, int32_t n_kv_heads, int32_t queries,
                                   int32_t chunks) {
    const int64_t blocks = (int64_t)n_kv_heads * lsg_attention_parts(queries) * chunks,
                  waves = ceil_div(blocks, gpu.multiprocessors);
    if (large == LSG_LARGE_OFF || !chunks || queries <= 16) return 0;
    if (!is_large(gpu) || lsg_attention_plan_of(head_dim).shared > LSG_LARGE_BLOCK_SHARED) return 0;
    if (large == LSG_LARGE_FILLING && (queries <= LSG_LARGE_QUERIES / 2 || blocks < gpu.multiprocessors)) return 0;
    return waves < LSG_LARGE_CHUNKS ? (int32_t)waves : LSG_LARGE_CHUNKS;
}

lsg_shape lsg_shape_of(const ls_hparams *h, lsg_gpu gpu, const ls_shard *own) {
    lsg_shape s = {.n_layers = h->n_layers,
                   .n_embd = h->n_embd,
                   .n_ff = h->n_ff,
                   .ungated = h->arch->ungated,
                   .n_heads = h->n_heads,
                   .n_kv_heads = h->n_kv_heads,
                   .head_dim = h->head_dim,
                   .rope_dims = h->rope_dims,
                   .n_vocab = h->n_vocab,
                   .gpu = gpu,
                   .n_experts = h->n_experts,
                   .n_experts_used = h->n_experts_used,
                   .n_ff_expert = h->n_ff_expert,
                   .n_ff_shared = h->n_ff_shared};
    if (own) s.own = *own;
    return s;
}

static ls_shard whole(const lsg_shape *s) {
    return (ls_shard){.heads = {0, s->n_heads},
                      .kv_heads = {0, s->n_kv_heads},
                      .ff = {0, s->n_ff},
                      .embd = {0, s->n_embd},
                      .vocab = {0, s->n_vocab},
                      .expert_ff = {0, s->n_ff_expert},
                      .shared_ff = {0, s->n_ff_shared}};
}

static int is_whole(const lsg_shape *s) {
    return s->own.vocab.to == 0;
}

ls_shard lsg_own(const lsg_shape *s) {
    return is_whole(s) ? whole(s) : s->own;
}

ls_shard lsg_held(ls_shard part, int32_t n_heads, int32_t n_kv_heads, int norm_spans_heads) {
    const int32_t group = n_heads / n_kv_heads;
    if (norm_spans_heads) part.kv_heads = (ls_range){0, n_kv_heads};
    if (norm_spans_heads || ls_range_size(part.kv_heads) > 1)
        part.heads = (ls_range){part.kv_heads.from * group, part.kv_heads.to * group};
    return part;
}

static void shape_of(const lsg_shape *s, const ls_shard *part, lsg_which which, int32_t *n_out, int32_t *n_in) {
    const int32_t embd = ls_range_size(part->embd);
    *n_in = s->n_embd;
    switch (which) {
    case LSG_QKV: *n_out = (ls_range_size(part->heads) + 2 * ls_range_size(part->kv_heads)) * s->head_dim; break;
    case LSG_OUT: *n_out = embd, *n_in = s->n_heads * s->head_dim; break;
    case LSG_GATE_UP: *n_out = (s->ungated ? 1 : 2) * ls_range_size(part->ff); break;
    case LSG_DOWN: *n_out = embd, *n_in = s->n_ff; break;
    case LSG_EXPERT_GATE_UP: *n_out = s->n_experts ? 2 * ls_range_size(part->expert_ff) : 0; break;
    case LSG_EXPERT_DOWN: *n_out = s->n_experts ? embd : 0, *n_in = s->n_ff_expert; break;
    case LSG_SHARED_GATE_UP: *n_out = 2 * ls_range_size(part->shared_ff); break;
    case LSG_SHARED_DOWN: *n_out = s->n_ff_shared ? embd : 0, *n_in = s->n_ff_shared; break;
    default: *n_out = ls_range_size(part->vocab);
    }
}

void lsg_matrix_shape(const lsg_shape *s, lsg_which which, int32_t *n_out, int32_t *n_in) {
    const ls_shard own = lsg_own(s);
    shape_of(s, &own, which, n_out, n_in);
}

lsg_cut lsg_matrix_cut(const lsg_shape *s, lsg_which which, lsg_format format) {
    const ls_shard all = whole(s);
    int32_t n_out, n_in;
    shape_of(s, &all, which, &n_out, &n_in);
    return lsg_cut_of(format, n_out, n_in, s->gpu);
}

/* Of any format: a KV cache has room for all of them. */
static size_t most_chunks(const lsg_shape *s, lsg_which which) {
    int32_t most = 1;
    for (lsg_format f = 0; f < LSG_N_FORMATS; f++) {
        const int32_t chunks = lsg_matrix_cut(s, which, f).chunks;
        most = chunks > most ? chunks : most;
    }
    return (size_t)most;
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
    const ls_shard own = lsg_own(s);
    return (size_t)s->n_layers * 2 * (size_t)ls_range_size(own.kv_heads) * LSG_PAGE * (size_t)s->head_dim;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

lsg_room lsg_room_of(const lsg_shape *s, int32_t n_context) {
    enum { PART_BYTES = 256 << 20 }; /* the most that attention's partial results take */
    const ls_shard own = lsg_own(s);
    const int32_t n_heads = ls_range_size(own.heads), n_vocab = ls_range_size(own.vocab);
    const size_t rows = LST_MAX_ROWS, q = (size_t)n_heads * (size_t)s->head_dim, of_part = q * sizeof(float),
                 all_q = (size_t)s->n_heads * (size_t)s->head_dim,
                 chunks = (size_t)lsg_bucket_chunks(n_context) + LSG_TAIL_CHUNKS;
    size_t y = (size_t)s->n_embd; /* what all ranks computed comes here */
    const int32_t d = s->n_embd, ff = s->n_ff_expert, wide = s->n_ff_shared;
    const size_t used = (size_t)s->n_experts_used, pairs = rows * used;
    for (lsg_which i = 0; i < LSG_MATRICES; i++) {
        int32_t n_out, n_in;
        lsg_matrix_shape(s, i, &n_out, &n_in);
        if (i == LSG_HEAD || !n_out) continue;
        const size_t times = i == LSG_EXPERT_GATE_UP || i == LSG_EXPERT_DOWN ? used : 1;
        y = larger(y, times * most_chunks(s, i) * (size_t)n_out);
    }
    lsg_room r = {.x = rows * (size_t)s->n_embd,
                  .xn = rows * larger(larger((size_t)s->n_embd, (size_t)s->n_ff), all_q),
                  .q = rows * q,
                  .y = rows * y,
                  .turns = 2 * rows * (size_t)s->rope_dims,
                  .logits = most_chunks(s, LSG_HEAD) * rows * (size_t)n_vocab,
                  .last = (size_t)n_vocab,
                  .keys = lsg_keys_count(LST_MAX_ROWS, n_vocab),
                  .slices = rows * (size_t)ceil_div(n_vocab, LSG_SLICE) * LSG_SLICE_FLOATS,
                  .sums = is_whole(s) ? 0 : rows * (size_t)ls_range_size(own.embd),
                  .columns = (size_t)n_context,
                  .ancestors = rows * rows,
                  .pages = (size_t)(n_context + LST_MAX_ROWS) / LSG_PAGE + 1,
                  .parts = rows * chunks};
    if (s->n_experts) {
        r.expert_logits = rows * ((size_t)s->n_experts + 1);
        r.lists = pairs * (size_t)s->n_layers;
        r.begin = (size_t)s->n_experts + 1;
        r.pairs = pairs;
        r.pair_x = pairs * (size_t)d;
        r.pair_act = larger(pairs * (size_t)ff, rows * (size_t)wide);
        r.expert_rows = rows * (size_t)d;
    }
    if (r.parts * of_part > PART_BYTES) r.parts = larger(PART_BYTES / of_part, chunks); /* one row always */
    r.part_o = r.parts * q;
    r.part_ml = r.parts * (size_t)n_heads * 2;
    return r;
}

uint64_t lsg_kv_cache_bytes(const lsg_shape *s, int32_t n_context) {
    enum { REST = 4 << 20 }; /* the step, its result, lists; what an allocator rounds up */
    const lsg_room r = lsg_room_of(s, n_context);
    return sizeof(float) * (uint64_t)(r.x + r.y + r.sums + r.turns + r.part_o + r.part_ml + r.logits + r.last +
                                      r.slices + r.expert_logits + r.lists + 2 * r.expert_rows) +
           sizeof(uint16_t) * (uint64_t)(r.xn + r.q + r.ancestors + r.pair_x + r.pair_act) +
           sizeof(uint64_t) * (uint64_t)r.keys +
           sizeof(int32_t) * (uint64_t)(r.columns + r.lists + r.begin + 3 * r.pairs) +
           sizeof(void *) * (uint64_t)r.pages + (uint64_t)LSG_GRAPHS * LSG_GRAPH_BYTES + REST;
}
