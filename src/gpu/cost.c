/* What a step costs on paper. Memory: each byte that must come from the card's memory once, at the rate that streaming
 * kernels reach of what the card's maker says; what blocks of a matmul read again (inputs, and weights for more rows
 * than a block has) comes from its second-level cache (keys that blocks of more rows read again are left out).
 * Instructions: counted in the machine code, at a rate of a scheduler's cycles. A kernel takes the largest of these,
 * and what no kernel escapes: its launch, and the way to memory and back for what the kernel before it wrote. The
 * constants were chosen after an H200's times; tests/gpu/results/h200.md has both, and says how far off the
 * results are. For other cards they are assumptions. */
#include "gpu/plan.h"

#include "base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const double STREAMED = 0.88; /* of the memory's rate: what its bytes come at */
static const double CACHED = 17;     /* bytes a cycle and multiprocessor: from memory and the cache together */
static const double ISSUED = 0.36;   /* instructions a scheduler and cycle, where they are the bound */
static const double LATENCY_US = 2;
static const double ATTENTION_US = 4; /* keys, scores, weights and values wait for each other */

const lsg_card lsg_cards[] = {
    {"a100", "A100", "NVIDIA A100 80 GB SXM", {108, 164}, 1.41, 2039},
    {"h100", "H100", "NVIDIA H100 SXM", {132, 228}, 1.83, 3352},
    {"h200", "H200", "NVIDIA H200 SXM", {132, 228}, 1.83, 4800},
    {"3090", "RTX 3090", "NVIDIA GeForce RTX 3090", {82, 100}, 1.70, 936},
    {"4090", "RTX 4090", "NVIDIA GeForce RTX 4090", {128, 100}, 2.52, 1008},
    {0},
};

const lsg_card *lsg_card_of(const char *device) {
    for (const lsg_card *c = lsg_cards; c->name; c++)
        if (strstr(device, c->mark)) return c;
    return NULL;
}

typedef struct {
    const lsg_card *card;
    lsg_cost *out;
    int n;
} sheet;

/* The row of a kernel; a kernel with launches of different kinds has one. */
static lsg_cost *row_of(sheet *s, const char *kernel) {
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->out[i].kernel, kernel)) return &s->out[i];
    s->out[s->n] = (lsg_cost){.kernel = kernel};
    return &s->out[s->n++];
}

/* A kernel: its blocks, the shared memory and warps of one, and what all launches of a step move and execute. again:
 * bytes that blocks read after others. */
static void add(sheet *s, const char *kernel, int32_t launches, int64_t blocks, size_t shared, int32_t warps,
                double bytes, double again, double instructions) {
    const lsg_card *c = s->card;
    int64_t of_one =
        (int64_t)c->gpu.shared_kib * 1024 / ((int64_t)shared + 1024); /* 1 KiB of a block is the system's */
    if (of_one > 48 / warps) of_one = 48 / warps;                     /* warps of a multiprocessor */
    const int64_t resident = of_one * c->gpu.multiprocessors,
                  of_most = (blocks + c->gpu.multiprocessors - 1) / c->gpu.multiprocessors;
    const double streamed = bytes / (c->gb_s * STREAMED * 1e3),
                 cached = (bytes + again) / (CACHED * c->ghz * 1e3 * c->gpu.multiprocessors),
                 memory = streamed > cached ? streamed : cached,
                 even = instructions / (4e3 * c->ghz * ISSUED * c->gpu.multiprocessors),
                 /* until the multiprocessor with the most blocks has ended */
        issue = even * (double)(of_most * c->gpu.multiprocessors) / (double)blocks;
    const double latency = LATENCY_US * launches, busy = memory > issue ? memory : issue;
    lsg_cost *r = row_of(s, kernel);
    r->launches += launches;
    r->blocks = blocks;
    r->resident = resident;
    r->bytes += bytes;
    r->again += again;
    r->instructions += instructions;
    r->us += busy + latency;
    r->bound = latency > busy ? "latency" : memory > issue ? "memory" : "instructions"; /* of the last kind */
}

/* A matmul of `rows`, launched for more. Of a mixture the experts that rows take at random have as many of them each;
 * blocks of experts that no row took leave at once and are not counted. */
static void add_matmul(sheet *s, const char *kernel, const lsg_shape *m, lsg_which which, lsg_format format,
                       int32_t rows, int32_t launched) {
    const lsg_tile of_format = lsg_tile_of(format);
    const bool of_experts = which == LSG_EXPERT_GATE_UP || which == LSG_EXPERT_DOWN;
    const lsg_cut cut = lsg_matrix_cut(m, which, format);
    int32_t n_out, n_in, eights = (launched + 7) / 8;
    lsg_matrix_shape(m, which, &n_out, &n_in);
    if (!of_experts) eights = lsg_matmul_eights(launched, &cut);
    else if (eights > LSG_EXPERT_EIGHTS) eights = LSG_EXPERT_EIGHTS;
    const double matrices = of_experts ? ls_distinct_at_random(m->n_experts, m->n_experts_used, rows) : 1,
                 inputs = of_experts ? (double)rows * m->n_experts_used : launched,
                 row_blocks = ceil(inputs / matrices / (8 * eights)), tile = lsg_tile_bytes(format);
    const int32_t out_blocks = (n_out + LSG_BLOCK_OUT - 1) / LSG_BLOCK_OUT;
    const int64_t of_matrix = (int64_t)((n_out + LSG_TILE - 1) / LSG_TILE) * (n_in / LSG_GROUP);
    const double tiles = matrices * (double)of_matrix;
    const int64_t blocks = (int64_t)ceil(matrices * row_blocks * out_blocks * cut.chunks);
    add(s, kernel, 1, blocks,
        (size_t)(of_experts ? lsg_matmul_plan_of(format, eights).shared
                            : lsg_matmul_shared(format, eights, blocks, &cut)),
        LSG_WARPS, tiles * tile, 2.0 * n_in * inputs * out_blocks + (row_blocks - 1) * tiles * tile,
        tiles * row_blocks * (of_format.base + of_format.more * eights));
    row_of(s, kernel)->sums += 4.0 * cut.chunks * n_out * inputs;
}

int lsg_step_costs(const lsg_card *card, const lsg_shape *m, lsg_format (*formats)[LSG_MATRICES], int32_t rows,
                   int32_t length, lsg_cost out[LSG_KERNELS]) {
    sheet s = {card, out, 0};
    const ls_shard own = lsg_own(m);
    const int32_t n_heads = ls_range_size(own.heads), n_kv_heads = ls_range_size(own.kv_heads),
                  n_ff = ls_range_size(own.ff), n_vocab = ls_range_size(own.vocab);
    const int32_t launched = lsg_bucket_rows(rows), layers = m->n_layers, group = n_heads / n_kv_heads,
                  heads = n_heads + 2 * n_kv_heads, tiles = lsg_attention_tiles(m->head_dim);
    lsg_shape on_card = *m;
    on_card.gpu = card->gpu;
    static const char *const names[] = {"matmul qkv",    "matmul out",      "matmul gate, up",
                                        "matmul down",   "matmul head",     "experts' gate, up",
                                        "experts' down", "shared gate, up", "shared down"};
    int32_t of_kind[LSG_MATRICES] = {0}; /* layers that have such a matrix */
    add(&s, "begin, embed", 2, launched, 4096, 8, 0, 0, 0);
    for (lsg_which i = 0; i < LSG_MATRICES; i++)
        for (int32_t k = 0; k < (i == LSG_HEAD ? 1 : layers); k++) {
            if (formats[k][i] == LSG_NO_FORMAT) continue;
            of_kind[i]++;
            add_matmul(&s, names[i], &on_card, i, formats[k][i], rows, launched);
        }
    const int32_t dense = of_kind[LSG_DOWN], mixtures = of_kind[LSG_EXPERT_DOWN], shared = of_kind[LSG_SHARED_DOWN];
    add(&s, "add, norm", 2 * layers + 1, launched, 1024, 16, 0, 0, 0);
    add(&s, "rotate, keys, values", layers, (int64_t)launched * ((heads * m->head_dim + 511) / 512), 4096, 4, 0, 0, 0);
    /* attention: instructions of a warp for a tile of 16 queries and a chunk, from the machine code of four tiles:
     * scores of 16 slots by 16 dimensions 8 and 30, a query's softmax 200, values of 16 slots and dimensions 14 and 100
     */
    const double steps = m->head_dim / 16.0, of_tile = 16 * (8 * steps + 30) + 16 * 200 + steps * (16 * 14 + 100);
    const int32_t queries = launched * group, query_tiles = (queries + 15) / 16, whole = length / LSG_CHUNK;
    const double bytes = 2.0 * layers * n_kv_heads * m->head_dim * 2; /* of a position's keys and values */
    const int64_t shared_blocks = (int64_t)n_kv_heads * whole * ((queries + 16 * tiles - 1) / (16 * tiles));
    if (whole)
        add(&s, "attention", 0, shared_blocks, lsg_attention_shared(tiles, m->head_dim, 0), LSG_ATTENTION_WARPS,
            bytes * whole * LSG_CHUNK, 0, (double)layers * n_kv_heads * whole * query_tiles * of_tile);
    const int32_t of_rows = lsg_tail_rows(group);
    const int64_t tails = (launched + of_rows - 1) / of_rows * (int64_t)n_kv_heads;
    add(&s, "attention", layers, tails, lsg_attention_shared(1, m->head_dim, 1), LSG_ATTENTION_WARPS,
        bytes * (length % LSG_CHUNK + rows), 0, (double)layers * (double)tails * of_tile);
    lsg_cost *attention = row_of(&s, "attention");
    attention->us += ATTENTION_US * layers;
    attention->blocks = shared_blocks + LSG_TAIL_CHUNKS * tails; /* of one launch */
    add(&s, "attention, sum", layers, (int64_t)launched * n_heads, 1024, 2, 0, 0, 0);
    if (dense) add(&s, "gate", dense, (int64_t)launched * ((n_ff + 1023) / 1024), 1024, 8, 0, 0, 0);
    if (mixtures) { /* the router is floats; it chooses, groups rows and copies them to their experts */
        const int64_t pairs = (int64_t)launched * m->n_experts_used;
        add(&s, "router", 4 * mixtures, pairs, 1024, 4, 4.0 * mixtures * m->n_embd * (m->n_experts + (shared > 0)), 0,
            0);
        add(&s, "gate", mixtures + shared, pairs * ((ls_range_size(own.expert_ff) + 1023) / 1024), 1024, 8, 0, 0, 0);
        add(&s, "experts' sum", mixtures + shared, launched * ((m->n_embd + 1023) / 1024), 1024, 8, 0, 0, 0);
    }
    add(&s, "head's rows", 6, (int64_t)launched * ((n_vocab + LSG_SLICE - 1) / LSG_SLICE), 1024, 8, 0, 0,
        300.0 * launched * n_vocab / 512);
    return s.n;
}
