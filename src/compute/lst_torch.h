/* The C interface of liblstorch.so: what needs libtorch. The rules are those of lst.h. */
#pragma once
#include "compute/lst.h"

#ifdef __cplusplus
extern "C" {
#endif
#include "model/head.h"

/* ---- Trained heads: small models that draft from a target's hidden states (see lst_hidden), in f32, on the CPU or on
 * a GPU. EAGLE-3 (arXiv 2503.01840), EAGLE and EAGLE-2 (2401.15077, 2406.16858), Medusa (2401.10774). Their results are
 * only drafts, so the bits may depend on the number of rows and on the device. `values` are in the memory of the head's
 * device; of a row that a GPU computed, only its best tokens and their logits come back. */
typedef struct lst_head lst_head;   /* the weights; may be shared by drafts */
typedef struct lst_draft lst_draft; /* EAGLE's keys and values of one conversation */
/* Whether heads can run on a device ("cpu", "cuda", "cuda:N"); if not, the last error says why, and what would help. */
int lst_head_device(const char *device);

/* Tensors are found by their published names without the prefix of the layer ("fc.weight", "self_attn.q_proj.weight",
 * "0.0.linear.weight", ...). "token_embd.weight" and "output.weight" are the target's; an EAGLE head without
 * "embed_tokens.weight" or "lm_head.weight" uses them. Of opt, only device, threads, progress, read and their uds are
 * used. p (ls_head_open) is used during
 * the call only. LST_E_MEMORY: a GPU has no room for it. */
int lst_head_open(lst_head **out, const ls_head *p, const lst_tensor *tensors, int32_t n_tensors,
                  const lst_open_options *opt);
void lst_head_close(lst_head *h); /* after its drafts */
uint64_t lst_head_bytes(const lst_head *h);
/* n zeros in the memory of the head's device. LST_E_MEMORY: no room. */
int lst_head_memory(lst_head *h, int64_t n, float **out);
void lst_head_memory_free(lst_head *h, float *p); /* accepts NULL; before the head is closed */
/* Copies n numbers from such memory, or from a model on the same device whose work on them is complete; complete when
 * it returns. The places must not overlap. */
int lst_head_copy(lst_head *h, float *to, const float *from, int64_t n);

int lst_draft_new(lst_draft **out, lst_head *h, int32_t n_context); /* LST_E_ARG: Medusa, which keeps nothing */
void lst_draft_free(lst_draft *d);
/* EAGLE's input is pairs: at position i the token i + 1 and the target's hidden state of token i. This call removes the
 * tree and all pairs at positions `keep` and later, then reads n >= 1 pairs (values: [n][ls_head_values]) at positions
 * at, at + 1, ... (at >= keep; positions between are never seen). The last pair's token is row 0 of a new tree; *row is
 * the prediction after it, in the target's ids (top_id -1: no more; parent_* are NAN). */
int lst_draft_begin(lst_draft *d, int32_t keep, int32_t at, const int32_t *tokens, const float *values, int32_t n,
                    const lst_sampling *sampling, lst_row *row);
/* Adds n rows, whose parents are any earlier rows and whose features are their parents' outputs. rows[i] describes new
 * row i. On an error the old rows are kept. */
int lst_draft_grow(lst_draft *d, const int32_t *tokens, const int32_t *parents, int32_t n, const lst_sampling *sampling,
                   lst_row *rows);
/* The k best tokens of a row (1 to LST_DRAFT_TOP) in the target's ids, best first, with their raw logits; -1: no more.
 */
enum { LST_DRAFT_TOP = 16 };
int lst_draft_top(const lst_draft *d, int32_t row, int32_t k, int32_t *ids, float *logits);
/* All raw logits of a row, in the target's ids (n_vocab floats); tokens that cannot be drafted have -INFINITY. */
int lst_draft_logits(const lst_draft *d, int32_t row, float *logits);
/* Medusa: from one row's values the k best tokens (1 to 256) of each position after the next one, best first, with
 * their probabilities: ids and p are [n_guesses][k]. */
int lst_head_guess(const lst_head *h, const float *values, int32_t k, int32_t *ids, float *p);

/* ---- Ranks that a launcher started, on any machines: libtorch's process group (c10d, Gloo). */
typedef struct {
    int32_t rank, n;
    const char *store;   /* "HOST:PORT" of the store through which the ranks connect */
    int32_t serves;      /* 1: rank 0 serves HOST:PORT, at that address only; 0: another program does */
    const char *address; /* of this process, for the other ranks */
    /* HMAC-SHA-256 of n bytes with this run's secret, in hex; authenticates the ranks and the stored values. Called by
     * one thread, until the wire is closed. */
    void (*mac)(void *secret, const void *p, size_t n, char out[LST_MAC + 1]);
    void *secret;
    int32_t timeout_ms;
    bool (*stop)(void *ud); /* as in lst_ranks_options */
    void *ud;
} lst_gloo_options;
/* Waits until all ranks have connected. The last error names the rank that is missing or has another token. */
int lst_gloo_join(lst_wire *out, const lst_gloo_options *opt);
const char *lst_torch_version(void); /* "libtorch 2.13.0" */

// clang-format off
#define LST_TORCH(X) \
    X(last_error) X(torch_version) X(head_device) X(head_open) X(head_close) X(head_bytes) X(head_memory) \
    X(head_memory_free) X(head_copy) X(head_guess) X(draft_new) X(draft_free) X(draft_begin) X(draft_grow) \
    X(draft_top) X(draft_logits) X(gloo_join)
// clang-format on
typedef struct {
    LST_TORCH(LST_POINTER)
} lst_torch;
#define lst_torch_table LST_NAMED(lst_torch, LST_VERSION)
__attribute__((visibility("default"))) extern const lst_torch lst_torch_table;

#ifdef __cplusplus
}
#endif
