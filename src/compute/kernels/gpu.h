/* CUDA kernels of the decoder: their data, and the functions that launch them. gpu_plain.c computes the same in plain
 * C; the tests compare both.
 *
 * Batch invariance: the results of a row depend on its token, position and ancestors only. Matmuls run on tensor-core
 * tiles of 16 outputs by 8 rows and sum every element over the same inputs in the same order, for 1 row or 256; the
 * matrix's shape and the device decide how a sum is split. Attention walks logical positions in chunks of LSG_CHUNK,
 * which it computes alike for a row in a tree and for the same row alone.
 *
 * Arithmetic ("bf16"): the input of a matmul, queries, keys, values and attention's weights are rounded to bf16; sums,
 * norms and the residual stream are f32. Weights keep exactly the values of the file's format (plain f32 weights are
 * rounded to bf16).
 *
 * All pointers in structures are the device's unless said otherwise. Every launch function returns 0 or a cudaError_t.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "gpu/plan.h"
#include "compute/lst.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *lsg_stream; /* cudaStream_t */

/* ---- weights */

/* A [n_out, n_in] matrix: [tile of outputs][group of inputs] tiles, the last ones filled with zeros. Inside, a lane of
 * a warp finds its part of the four 16 x 16 operands (half t of the outputs, step s of the inputs) in 16-byte pieces.
 * Lane 4 r + c has outputs 16 t + r and 16 t + r + 8, and inputs 8 c .. 8 c + 7, four in each step; of Q8S inputs
 * 16 s + 4 c .. 16 s + 4 c + 3, so that a step has its own scale.
 *   BF16, F16  [t][s][lane][pair of inputs][outputs r, r + 8][2 inputs]
 *   Q4, Q4S    [lane][t][outputs r, r + 8][8 nibbles]: neighbours are 16 bits apart, so that one mask makes two halves
 *   Q8, Q8S    [t][lane][outputs r, r + 8][8 bytes]: of four neighbours, the two in the middle change places, as above
 * Scales (and minima behind each) are [r][t][outputs r, r + 8], of Q8S [s] before these. */
typedef struct {
    lsg_format format;
    int32_t n_out, n_in;
    const uint8_t *weights; /* lsg_matrix_bytes of them, on 16 bytes */
    lsg_cut cut;
} lsg_matrix;

/* Sets all but the pointers. 0, or -1 if the shape or ggml type cannot be kept. */
int lsg_matrix_init(lsg_matrix *m, int ggml_type, int64_t n_out, int64_t n_in, lsg_gpu gpu);
size_t
lsg_matrix_bytes(const lsg_matrix *m); /* a multiple of 256; a tile more than there are, which fetches may touch */
/* Packs raw GGUF rows into zeroed host memory. Calls for different tiles of outputs may run at once. */
void lsg_pack_rows(const lsg_matrix *m, uint8_t *host, int64_t row_begin, int ggml_type, const void *raw,
                   int64_t n_rows);

/* y[chunk][r][o] = sum over the chunk's k of x[r][k] * w[o][k]: x bf16 [rows][n_in], y f32 [chunks][rows_y][n_out].
 * The reader of y adds the chunks in order. rows: the most; n_rows, if not NULL, points to how many
 * there are, in the step. */
int lsg_matmul(const lsg_matrix *m, const uint16_t *x, float *y, int32_t rows_y, int32_t rows, const int32_t *n_rows,
               lsg_stream stream);

/* ---- a step */

/* The input of a forward, uploaded in one copy. */
typedef struct {
    int32_t n_rows, length; /* rows of this block; committed tokens before it */
    int32_t keep_row;       /* row of the forward before whose logits are now the last committed ones; -1: none */
    int32_t last_known;     /* the logits of the last committed token are there */
    float last_lse;
    int32_t n_new, new_from; /* positions whose columns are new since the step before */
    int32_t head_row;        /* the only row whose logits are wanted; -1: all */
    int32_t sampled, top_k;  /* sampled 0: argmax; top_k 0: all */
    double temperature, top_p;
    double uniform[LST_MAX_ROWS]; /* the random number of the token that follows a row */
    int32_t token[LST_MAX_ROWS], parent[LST_MAX_ROWS], depth[LST_MAX_ROWS];
    int32_t column[LST_MAX_ROWS];     /* cache column of a row */
    int32_t new_column[LST_MAX_ROWS]; /* of positions new_from .. */
} lsg_step;

/* Its result, downloaded in one copy. */
typedef struct {
    int32_t bad;             /* a logit is not finite */
    int32_t last_row;        /* the last row of the path that the chosen tokens follow */
    int32_t top_id[LSG_TOP]; /* of last_row, best first */
    float top_logit[LSG_TOP];
    lst_row row[LST_MAX_ROWS]; /* last, so that a copy can end with the last row */
} lsg_result;

/* Everything that lives as long as a KV cache, and the sizes that kernels need. */
typedef struct {
    const lsg_step *step;
    lsg_result *result;
    int32_t rows;                                                           /* rows that the launches are made for */
    int32_t n_embd, n_ff, n_heads, n_kv_heads, head_dim, n_vocab, n_layers; /* what this device computes of them */
    int32_t vocab_from;      /* the first token of its part of the vocabulary */
    int32_t *columns;        /* [n_context]: cache column of a committed position */
    int16_t *ancestors;      /* [LST_MAX_ROWS][LST_MAX_ROWS]: row of each depth of a row's path */
    uint16_t *const *pages;  /* KV pages: [n_layers][2: K, V][n_kv_heads][LSG_PAGE][head_dim] bf16 */
    float *x;                /* residual stream [rows][n_embd] */
    uint16_t *xn;            /* bf16 input of the next matmul [rows][widest] */
    uint16_t *q;             /* bf16 [rows][n_heads][head_dim], rotated and scaled */
    float *y;                /* partial sums of a matmul */
    float *part_o, *part_ml; /* attention: [chunk][some rows][n_heads][head_dim]; [...][max, sum] */
    size_t parts;            /* rows times chunks that these have room for */
    lsg_gpu gpu;
    lsg_large large;      /* whether attention of many queries is computed in large blocks; the bits are the same */
    float *turns;         /* [2 kinds][rows][rope_dims]: cosine and sine of each pair's angle */
    float *logits, *last; /* [rows][n_vocab]; [n_vocab] of the last committed row */
    uint64_t *keys;       /* of the top lists */
    float *slices;        /* of the head's statistics */
} lsg_buffers;

/* New columns, paths and rotations of the rows, and the logits of the row that was kept. */
typedef struct {
    int32_t dims;         /* of a head that are rotated */
    const float *freq[2]; /* [dims / 2] of each kind of layer; NULL: no layer is of this kind */
    float magnitude[2];
} lsg_rotation;
/* Of kernels that start early, only lsg_embed may follow: those behind it may read what lsg_begin wrote (columns,
 * ancestors) before they wait for the kernel ahead. */
int lsg_begin(const lsg_buffers *b, const lsg_rotation *r, lsg_stream stream);
/* x[r] = row token[r] of the embedding, times scale; 0 for a token of another device's part. */
int lsg_embed(const lsg_buffers *b, const lsg_matrix *embd, float scale, lsg_stream stream);
/* Adds a sublayer's output (y with bias, norm and scale) to x, then writes the next matmul's input. Weights may be
 * NULL. n_embd is LSG_MOST_EMBD at most. */
typedef struct {
    int32_t chunks; /* of y; 0: nothing is added */
    const float *bias, *post_norm, *norm;
    float residual_scale, eps;
    int32_t layer_norm; /* norms are layer norms: [2][n_embd], weights and biases */
} lsg_add;
int lsg_add_norm(const lsg_buffers *b, const lsg_add *a, lsg_stream stream);
/* Goes before a kernel that follows a copy or a call on the host: such a kernel starts early, which is for one that
 * follows a kernel. */
int lsg_arrive(lsg_stream stream);
/* sums[r][i] = y[.][r][i] with the chunks added in order, of the n outputs that this device computes: what others get.
 */
int lsg_sum(const lsg_buffers *b, int32_t chunks, int32_t n, float *sums, lsg_stream stream);
/* out[r * stride + i] = x[r][i], or if normed xn[r][i] as floats: hidden states of the rows, for whoever asked. */
int lsg_take_rows(const lsg_buffers *b, int32_t normed, float *out, int64_t stride, lsg_stream stream);
/* Queries, keys and values from y: bias, norms, rotation; keys and values go to the rows' columns. */
typedef struct {
    int32_t layer, chunks, qk_norm;
    const float *bias, *q_norm, *k_norm;
    float eps, attn_scale;
    int32_t rope_dims, rope_interleaved, rope_kind; /* rope_dims: the stride of turns */
    int32_t unrotated;                              /* 1: this layer does not rotate */
    float temperature;          /* queries are also multiplied by 1 + temperature * ln(1 + position / ... */
    int32_t temperature_length; /* ... temperature_length), rounded down */
} lsg_rope;
int lsg_rope_kv(const lsg_buffers *b, const lsg_rope *r, lsg_stream stream);
/* xn[r] = attention of each head over the committed positions in the window, the row's ancestors and itself. chunks:
 * at least those that lie wholly in the committed context; partial results take LSG_TAIL_CHUNKS more of each row. Rows
 * for whose partial results there is no room wait for others. It reads where keys lie before the kernel ahead has
 * ended, and asks for keys and values of the committed context. */
typedef struct {
    int32_t layer, chunks, window; /* window 0: all positions */
    float softcap;
    const float *sinks; /* [n_heads]: a head's score that has no value; NULL: none */
} lsg_attend;
int lsg_attention(const lsg_buffers *b, const lsg_attend *a, lsg_stream stream);
/* xn[r] = act(gate) * up from y, or act(up) if ungated. xielu: the numbers of that activation, in ls_hparams' order.
 */
typedef struct {
    int32_t chunks, activation, ungated;
    const float *bias;
    float xielu[4];
} lsg_gating;
int lsg_gate(const lsg_buffers *b, const lsg_gating *a, lsg_stream stream);
/* ---- a mixture of experts: lsg_route, lsg_matmul_experts of gate and up, lsg_gate_experts, lsg_matmul_experts of
 * down, lsg_sum_experts. A pair is a row and one of its experts; an expert's pairs lie side by side, so that a step
 * reads its weights once for all its rows (in blocks of 24). A row's bits do not depend on the grouping: its outputs
 * are added in the order of its own router. */
typedef struct {
    int32_t n, used;       /* experts, and how many of them a row takes */
    int32_t mixtures;      /* layers that are one */
    int32_t n_ff;          /* of an expert */
    float *logits;         /* [rows][n, and the shared expert's]; scores, where biases choose */
    int32_t *chosen;       /* [rows][mixtures][used], best first, */
    float *weight;         /* and their weights */
    int32_t *begin;        /* [n + 1]: an expert's first pair */
    int32_t *pair;         /* [rows][used] */
    int32_t *row, *expert; /* [pairs] */
    uint16_t *x, *act;     /* bf16 inputs: [pairs][n_embd], [pairs][n_ff] */
    float *shared, *sum;   /* [rows][n_embd]: the shared expert's output; all experts' */
} lsg_experts;
typedef struct {
    int32_t index;               /* of the layer among the mixtures */
    int32_t n_out;               /* of logits: n, and one more if the shared expert has a gate */
    const float *weights, *bias; /* [n_out][n_embd]; [n_out], NULL: none */
    const float *choice_bias;    /* [n]; NULL: none */
    int32_t kind, sum_experts;   /* see ls_hparams */
    float scale;
    int32_t groups, groups_used;
} lsg_router;
/* Chooses each row's experts by xn, groups the pairs and copies xn to x of the pairs. */
int lsg_route(const lsg_buffers *b, const lsg_experts *e, const lsg_router *r, lsg_stream stream);
/* y[chunk][pair] as lsg_matmul, of pairs that there is room for. weights: of each expert, whose matrices are like m.
 * rows: the most of one expert. */
int lsg_matmul_experts(const lsg_matrix *m, const uint8_t *const *weights, const int32_t *begin, int32_t n_experts,
                       const uint16_t *x, float *y, int32_t pairs, int32_t rows, lsg_stream stream);
/* act of the pairs from y, as lsg_gate. a->bias: [n][2 n_ff]. */
int lsg_gate_experts(const lsg_buffers *b, const lsg_experts *e, const lsg_gating *a, lsg_stream stream);
/* sum[row] from y, and shared if it is there: 1, or 2 if the router has its gate. bias: [n][n_embd], NULL: none. */
int lsg_sum_experts(const lsg_buffers *b, const lsg_experts *e, int32_t index, int32_t chunks, const float *bias,
                    int32_t shared, lsg_stream stream);
/* Logits from y (which may be the logits themselves), and every row's part of result. If step->head_row is set, that
 * row alone has logits, in row 0. Where other devices have parts of the vocabulary, all that is said is of this one's:
 * ids count from its first token, and the logit of a token that another has is NAN. */
typedef struct {
    int32_t rows, chunks; /* rows: of y and logits */
    const float *y, *bias;
    float scale, softcap;
    int32_t sampled; /* the step may ask for a sampled token */
} lsg_head;
int lsg_head_rows(const lsg_buffers *b, const lsg_head *h, lsg_stream stream);
/* The LSG_TOP best of a row of logits into ids and values; row NULL: the first one. keys: scratch. */
int lsg_top(const float *logits, int32_t n_vocab, const int32_t *row, uint64_t *keys, int32_t *ids, float *values,
            lsg_stream stream);

/* ---- plain twins, on host memory: every pointer, those inside structures too, is the host's */
float lsg_value(const lsg_matrix *m, int64_t o, int64_t k); /* a weight */
void lsg_plain_matmul(const lsg_matrix *m, const uint16_t *x, float *y,
                      int32_t rows); /* y: [rows][n_out], chunks added */
void lsg_plain_rotation(const lsg_buffers *b, const lsg_rotation *r);
void lsg_plain_add_norm(const lsg_buffers *b, const lsg_add *a);
void lsg_plain_rope_kv(const lsg_buffers *b, const lsg_rope *r);
void lsg_plain_attention(const lsg_buffers *b, const lsg_attend *a); /* ancestors come from the step's parents */
void lsg_plain_gate(const lsg_buffers *b, const lsg_gating *a);

#ifdef __cplusplus
}
#endif
