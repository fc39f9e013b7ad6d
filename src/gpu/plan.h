/* The plan of a decode step on a GPU: the split of its work, its memory and its estimated cost, computed from shapes
 * and a few numbers of the device, without CUDA. The kernels (compute/kernels/gpu*.cu) are launched by this plan. The
 * program also uses it to check whether a model fits.
 *
 * All functions are pure; sizes are in elements unless they say bytes. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/split.h"
#include "model/hparams.h"

#ifdef __cplusplus
#define LSG_CONSTANT constexpr
extern "C" {
#else
#define LSG_CONSTANT static inline
#endif

enum {
    LSG_TILE = 32,       /* outputs of a tile */
    LSG_GROUP = 32,      /* its inputs, which share a scale */
    LSG_STAGE = 8,       /* groups whose inputs come to shared memory at once */
    LSG_WARPS = 8,       /* of a block of a matmul: */
    LSG_BLOCK_TILES = 4, /* its tiles of outputs; the other warps share their inputs */
    LSG_SLICES = 2,      /* of a stage's groups, each summed by itself: the first half and the second */
    LSG_BLOCK_OUT = LSG_BLOCK_TILES * LSG_TILE,

    LSG_LARGE_ROWS = 128, /* rows of a block of large tiles, or half as many; groups of its stages */
    LSG_LARGE_GROUPS = 2,
    LSG_LARGE_QUERIES = 128, /* queries of a large block of attention, 16 of each warp; its chunks, at most; */
    LSG_LARGE_CHUNKS = 4,
    LSG_LARGE_STAGES = 4, /* its stages of LSG_KEYS keys, or of LSG_VALUES dimensions of a chunk's values */
    LSG_KEYS = 64,
    LSG_VALUES = 32,
    /* bytes from value to value of a stage, so that what lanes read at once lies in different banks */
    LSG_VALUE_STRIDE = LSG_VALUES * 2 + 16,

    LSG_ATTENTION_WARPS = 8,    /* of a block of attention */
    LSG_MATMUL_CHUNKS = 8,      /* chunks of a matmul's inputs, at most */
    LSG_EXPERT_EIGHTS = 3,      /* eights of rows of a block of an expert's matmul, at most: an expert has few */
    LSG_CHUNK = 256,            /* logical positions that one attention block sums */
    LSG_SCORES = LSG_CHUNK + 4, /* floats from a query's scores to the next one's */
    LSG_TAIL_ROWS = 4,          /* rows of an attention block at the context's end, at most */
    LSG_TAIL_CHUNKS = 2,        /* in which the context ends, and the longest path of a tree behind it */
    LSG_PAGE = 1024,            /* cache columns of a page */
    LSG_TOP = 256,              /* best tokens kept for the row that is likely to be the last kept */
    LSG_SLICE = 4096,           /* logits that one block of the head's statistics reads */
    LSG_SLICE_FLOATS = 3,       /* and what it says of them */
    LSG_SORT = 4096,            /* keys that one block of a row's best sorts */
    LSG_PREFILL_ROWS = 128,     /* rows of a block of a prompt, at most, */
    LSG_LARGE_PREFILL = 256,    /* and where large tiles compute it */
    LSG_MOST_EMBD = 16384,      /* values of the residual stream */
    LSG_GRAPHS = 32,            /* recorded steps that a KV cache keeps, */
    LSG_GRAPH_BYTES = 1 << 20,  /* and what one of some 300 kernels takes on an H200 */
    /* bytes of shared memory that every device since compute capability 8.0 gives a block, and that those with larger
       multiprocessors give (8.0, 9.0, 10.0) */
    LSG_BLOCK_SHARED = 99 << 10,
    LSG_LARGE_BLOCK_SHARED = 163 << 10,
};

/* The properties of a device that the plans use. */
typedef struct {
    int32_t multiprocessors, shared_kib; /* shared memory of one */
} lsg_gpu;

/* ---- weights */

/* A tile holds the weights of 32 outputs by 32 inputs: as many bytes of values, and of scales behind them; so many
 * minima an output; so many eights of rows of a matmul's block, at most: of plain formats what a block holds, of the
 * others what leaves registers for two blocks on a multiprocessor. Then what a warp of the matmul executes for a tile
 * and eights of rows, in the innermost loop of its machine code for compute capability 9.0: so many instructions, and
 * so many more for each eight (tests/gpu/machine_code.py holds them to it). F16: a value is the sum of two bf16, so
 * that it is exact. Q4: 4-bit q, weight = scale * q + minimum, both f16 for 32 inputs (Q4_0, Q4_1). Q8: 8-bit q, weight
 * = scale * q, f16 for 32 inputs (Q8_0). Q4S: as Q4 with f32 scale and minimum (Q4_K). Q8S: 8-bit q, weight = scale * q
 * + minimum, f32 for 16 inputs (all others). */
#define LSG_FORMATS(X)                                                                                                 \
    X(LSG_BF16, 2048, 0, 0, 8, 66, 5)                                                                                  \
    X(LSG_F16, 2048, 0, 0, 8, 193, 9)                                                                                  \
    X(LSG_Q4, 512, 128, 1, 4, 95, 13.1)                                                                                \
    X(LSG_Q8, 1024, 64, 0, 4, 104, 13)                                                                                 \
    X(LSG_Q4S, 512, 256, 1, 4, 89, 13.2)                                                                               \
    X(LSG_Q8S, 1024, 512, 2, 3, 137, 22)
#define LSG_NAME(name, ...) name,
typedef enum { LSG_FORMATS(LSG_NAME) LSG_N_FORMATS, LSG_NO_FORMAT = LSG_N_FORMATS } lsg_format;

typedef struct {
    int32_t values, scales; /* bytes */
    int32_t minima;         /* of an output and group */
    int32_t eights;         /* of rows of a block, at most */
    double base, more;      /* instructions */
} lsg_tile;
#define LSG_TILE_OF(name, ...) {__VA_ARGS__},
LSG_CONSTANT lsg_tile lsg_tile_of(int format) {
    const lsg_tile of[] = {LSG_FORMATS(LSG_TILE_OF)};
    return of[format];
}
LSG_CONSTANT int32_t lsg_tile_bytes(int format) {
    return lsg_tile_of(format).values + lsg_tile_of(format).scales;
}
LSG_CONSTANT int32_t lsg_is_plain(int format) { /* without scales */
    return format == LSG_BF16 || format == LSG_F16;
}
lsg_format lsg_format_of(int ggml_type);
/* Bytes of a [n_out, n_in] matrix, a multiple of 256. Includes one extra tile, because prefetches may read past the
 * end. */
size_t lsg_matrix_size(lsg_format format, int64_t n_out, int64_t n_in);

/* ---- a matmul */

/* How a [n_out, n_in] matrix is shared out, by its shape, format and the device: a block takes LSG_BLOCK_OUT outputs of
 * a chunk of the inputs. beside: so many blocks of rows the device holds at once, with all weights. most_eights: eights
 * of rows of a block, at most. large: whether many rows are computed in large tiles; off, unless the caller sets it.
 * gpu: the device. Sums depend on the chunks alone. */
typedef enum { LSG_LARGE_OFF, LSG_LARGE_FILLING, LSG_LARGE_ALWAYS } lsg_large; /* filling: where they fill the device */
typedef struct {
    int32_t chunks, chunk_groups, beside, most_eights;
    lsg_large large;
    lsg_gpu gpu;
} lsg_cut;
lsg_cut lsg_cut_of(lsg_format format, int64_t n_out, int64_t n_in, lsg_gpu gpu);

/* Shared memory of a block for so many eights of rows (1 to 8), in bytes. Each warp has a ring of slots of weights, all
 * but one under way; the block has stages of inputs. */
typedef struct {
    int32_t groups, slot, slots; /* groups of a slot; its bytes; slots of a warp's ring */
    int32_t stride, stages;      /* from row to row of a stage; stages of inputs */
    int32_t inputs, totals;      /* of all stages; sums of two stages' inputs */
    int32_t shared;              /* of the block */
} lsg_matmul_plan;
LSG_CONSTANT lsg_matmul_plan lsg_matmul_plan_of(int format, int32_t eights) {
    lsg_matmul_plan p = {0, 0, 0, 0, 0, 0, 0, 0};
    const int32_t tile = lsg_tile_bytes(format);
    p.groups = tile < 1536 ? 2 : 1;
    p.slot = p.groups * tile;
    p.slots = 8192 / p.slot;
    /* the addresses that lanes read at once fall into different banks */
    p.stride = LSG_STAGE * LSG_GROUP * 2 + (format == LSG_Q8S ? 32 : 64);
    p.stages = eights <= 2 ? 3 : 2;
    p.inputs = p.stages * 8 * eights * p.stride;
    p.totals = 2 * eights * 8 * LSG_STAGE * lsg_tile_of(format).minima * 4;
    p.shared = p.inputs + LSG_WARPS * p.slots * p.slot + p.totals;
    return p;
}
/* Eights of rows of a block, chosen so that blocks are filled evenly and rows of a small matrix are distributed. */
int32_t lsg_matmul_eights(int32_t rows, const lsg_cut *cut);
/* Shared memory of each block, in bytes, for a launch with this number of blocks. It may be more than the block needs,
 * to limit the number of blocks on a multiprocessor. */
int32_t lsg_matmul_shared(lsg_format format, int32_t eights, int64_t blocks, const lsg_cut *cut);

LSG_CONSTANT int32_t lsg_large_out(int format) { /* outputs of a block of large tiles */
    return lsg_is_plain(format) ? 256 : 128;
}
/* Large tiles: a block has lsg_large_out outputs of LSG_LARGE_ROWS rows, or of half as many, and computes the slices
 * one after the other. Its shared memory, in bytes: stages of LSG_LARGE_GROUPS groups, 2 or 3, weights and then inputs;
 * sums of two stages' inputs. */
typedef struct {
    int32_t weights, inputs, totals, shared;
} lsg_large_plan;
LSG_CONSTANT lsg_large_plan lsg_large_plan_of(int format, int32_t stages) {
    lsg_large_plan p = {0, 0, 0, 0};
    p.weights = lsg_large_out(format) / LSG_TILE * LSG_LARGE_GROUPS * lsg_tile_bytes(format);
    p.inputs = LSG_LARGE_ROWS * LSG_LARGE_GROUPS * LSG_GROUP * 2;
    p.totals = 2 * LSG_LARGE_ROWS * LSG_STAGE / LSG_SLICES * lsg_tile_of(format).minima * 4;
    p.shared = stages * (p.weights + p.inputs) + p.totals;
    return p;
}
/* Stages: 3 where they fit. Shared memory of each block of a launch, as lsg_matmul_shared. */
int32_t lsg_large_stages(lsg_format format, lsg_gpu gpu);
int32_t lsg_large_shared(lsg_format format, int64_t blocks, const lsg_cut *cut);
/* Whether a matmul of so many rows and outputs is computed in large tiles. */
int lsg_matmul_is_large(lsg_format format, int32_t rows, int32_t n_out, const lsg_cut *cut);

/* ---- attention */

/* Rows of a block at the context's end, by the heads that share keys and values: as many as fill a tile of 16 queries.
 */
int32_t lsg_tail_rows(int32_t group);
/* Queries of a block that reads a chunk, in tiles of 16; shared memory of a block with so many, in bytes. */
int32_t lsg_attention_tiles(int32_t head_dim);
size_t lsg_attention_shared(int32_t q_tiles, int32_t head_dim, int tails);

/* A large block, which reads a chunk's keys and values once for LSG_LARGE_QUERIES queries. In bytes: from key to key of
 * a stage, as LSG_VALUE_STRIDE; a stage; shared memory: stages, where the keys lie, queries. */
typedef struct {
    int32_t key, stage, shared;
} lsg_attention_plan;
LSG_CONSTANT lsg_attention_plan lsg_attention_plan_of(int32_t head_dim) {
    lsg_attention_plan p = {0, 0, 0};
    p.key = (head_dim / 16 | 1) * 32;
    p.stage = LSG_KEYS * p.key > LSG_CHUNK * LSG_VALUE_STRIDE ? LSG_KEYS * p.key : LSG_CHUNK * LSG_VALUE_STRIDE;
    p.shared = LSG_LARGE_STAGES * p.stage + LSG_LARGE_CHUNKS * LSG_CHUNK * 8 + LSG_LARGE_QUERIES * head_dim * 2;
    return p;
}
/* How many blocks of at most LSG_LARGE_QUERIES share so many queries; how many chunks a large block takes: as many as
 * let all of them run at once. 0: attention is not computed in large blocks. */
int32_t lsg_attention_parts(int32_t queries);
int32_t lsg_attention_large_chunks(lsg_large large, lsg_gpu gpu, int32_t head_dim, int32_t n_kv_heads, int32_t queries,
                                   int32_t chunks);

/* ---- a KV cache */

/* A model, and the part of it that a device computes. */
typedef struct {
    int32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, rope_dims, n_vocab;
    lsg_gpu gpu;
    ls_shard own;    /* zeros: all */
    int32_t ungated; /* the feed-forward part has no gate */
    /* 0 experts: no mixture */
    int32_t n_experts, n_experts_used, n_ff_expert, n_ff_shared;
} lsg_shape;
/* own: NULL: all. */
lsg_shape lsg_shape_of(const ls_hparams *h, lsg_gpu gpu, const ls_shard *own);
ls_shard lsg_own(const lsg_shape *s);
/* The part that a device computes for a rank's part: whole groups of heads that share keys and values, because a block
 * of attention computes a whole group; all heads if a norm spans them. */
ls_shard lsg_held(ls_shard part, int32_t n_heads, int32_t n_kv_heads, int norm_spans_heads);

/* The matrices of a step: a device has its own outputs of all inputs. Those behind the head are of mixtures: of each
 * expert, and of the shared one. */
typedef enum {
    LSG_QKV,
    LSG_OUT,
    LSG_GATE_UP,
    LSG_DOWN,
    LSG_HEAD,
    LSG_EXPERT_GATE_UP,
    LSG_EXPERT_DOWN,
    LSG_SHARED_GATE_UP,
    LSG_SHARED_DOWN,
    LSG_MATRICES
} lsg_which;
/* No outputs: the model has no such matrix. */
void lsg_matrix_shape(const lsg_shape *s, lsg_which which, int32_t *n_out, int32_t *n_in);
/* The same split as on one device with all outputs, so that sums do not depend on the number of ranks. */
lsg_cut lsg_matrix_cut(const lsg_shape *s, lsg_which which, lsg_format format);

/* The numbers of rows and of attention chunks that graphs are made for. */
int32_t lsg_bucket_rows(int32_t n);
int32_t lsg_bucket_chunks(int32_t length); /* at least those that lie wholly in the committed context */

/* The memory that a KV cache allocates at its start, for the largest tree. Afterwards only the pages of the KV cache
 * grow. */
typedef struct {
    size_t x, xn, q, y, turns, part_o, part_ml, logits, last, keys, slices, columns, ancestors, pages;
    /* of mixtures: logits, lists of a layer, places of pairs; inputs of pairs; rows */
    size_t expert_logits, lists, begin, pairs, pair_x, pair_act, expert_rows;
    size_t sums;  /* with other ranks: its own outputs of a matmul */
    size_t parts; /* rows times chunks that part_o and part_ml hold */
} lsg_room;
lsg_room lsg_room_of(const lsg_shape *s, int32_t n_context);
size_t lsg_keys_count(int32_t rows, int32_t n_vocab);               /* of a head's lists */
size_t lsg_page_values(const lsg_shape *s);                         /* of a page of keys and values, bf16 */
uint64_t lsg_kv_cache_bytes(const lsg_shape *s, int32_t n_context); /* without pages; and page tables, results */

/* ---- the estimated cost of a step */

typedef struct {
    const char *name, *mark, *spelled; /* as it is asked for, what its driver's name holds, as people call it */
    lsg_gpu gpu;
    double ghz, gb_s; /* boost clock; memory */
} lsg_card;
extern const lsg_card lsg_cards[]; /* ends with a NULL name */
/* The card with a driver's name; NULL: not known. */
const lsg_card *lsg_card_of(const char *device);

typedef struct {
    const char *kernel;
    int32_t launches;    /* a step */
    int64_t blocks;      /* a launch */
    int64_t resident;    /* that the card holds at once */
    double bytes;        /* a step's, of the card's memory */
    double again;        /* a step's, of its second-level cache: what blocks of a matmul read after others */
    double sums;         /* a step's, of a matmul's results, all chunks: written, and read by the next kernel */
    double instructions; /* a step's, of warps */
    double us;           /* a step */
    const char *bound;   /* "memory", "instructions" or "latency": what takes most of it */
} lsg_cost;
enum { LSG_KERNELS = 20 };
/* Costs of a forward of `rows` after `length` tokens, by kernel, into out. formats: [n_layers], LSG_NO_FORMAT for
 * matrices that a layer does not have; the head's is in each. The rows of a mixture take experts at random
 * (ls_distinct_at_random). Returns how many kernels there are. */
int lsg_step_costs(const lsg_card *card, const lsg_shape *s, lsg_format (*formats)[LSG_MATRICES], int32_t rows,
                   int32_t length, lsg_cost out[LSG_KERNELS]);

#ifdef __cplusplus
}
#endif
