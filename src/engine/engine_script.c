#include "engine/load.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IM_START = 256, IM_END, N_VOCAB, ORDER = 8, CONTEXT = 4096 };
// As a mixture of experts: made-up routers and costs. A forward waits for each expert that its rows take, as a real one
// reads it from memory.
enum { MIXTURES = 4, EXPERTS = 16, USED = 2, ROW_ROUTES = MIXTURES * USED, FORWARD_US = 1000, EXPERT_US = 200 };
// Its "layers" are the length of its context in tokens: with fewer layers it acts as its own, less accurate draft
// model.

// The training text of the model. It repeats itself deliberately, so that some drafts are accepted and some rejected.
static const char corpus[] =
    "A draft is a guess. The target model checks the guess. If the guess is right, the target keeps it. "
    "If the guess is wrong, the target says what it wanted instead.\n\n"
    "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\n\n"
    "def fact(n):\n    if n < 2:\n        return 1\n    return n * fact(n - 1)\n\n"
    "for i in range(10):\n    print(i, fib(i))\nfor i in range(10):\n    print(i, fact(i))\n\n"
    "One fish, two fish, red fish, blue fish. One cat, two cats, red cats, blue cats. "
    "One dog, two dogs, red dogs, blue dogs.\n\n"
    "Retrieval finds what followed the same words before. What followed before will often follow again. "
    "When the text repeats itself, retrieval is right, and many tokens are accepted in one step. "
    "When the text is new, retrieval is wrong, and one token is accepted in one step.\n\n"
    "caf\xC3\xA9, na\xC3\xAFve, \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E, \xF0\x9F\x90\x9F. The end of the "
    "story.\x01";

const char ls_script_chat_template[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nYou are a "
    "script.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

typedef struct {
    ls_engine base;
    int delay_ms; // of a forward; negative: it is a mixture
} script_engine;

typedef struct {
    ls_kv_cache base;
    int delay_ms;
    int32_t order; // tokens that it looks back
    int32_t *text; // committed tokens
    int32_t n;
    int32_t tree[LST_MAX_ROWS], parent[LST_MAX_ROWS], depth[LST_MAX_ROWS], n_rows;
    float *logits; // [LST_MAX_ROWS][N_VOCAB]
    float last[N_VOCAB];
    bool last_known;
    int32_t expert[LST_MAX_ROWS * ROW_ROUTES]; // of a mixture
    float weight[LST_MAX_ROWS * ROW_ROUTES];
} script;

// The last up to ORDER tokens that row r sees (r = -1: the committed text), oldest first.
static int32_t history(const script *s, int32_t r, int32_t *out) {
    int32_t back[ORDER], n = 0;
    for (; r >= 0 && n < s->order; r = s->parent[r]) back[n++] = s->tree[r];
    for (int32_t i = s->n - 1; i >= 0 && n < s->order; i--) back[n++] = s->text[i];
    for (int32_t i = 0; i < n; i++) out[i] = back[n - 1 - i];
    return n;
}

// An answer begins with one of the paragraphs, chosen by a hash of the prompt. Returns its position + 1 if an answer
// begins here, otherwise 0.
static int32_t opening(const script *s, int32_t r, const int32_t *h, int32_t n) {
    static const char before[] = "istant\n"; // the end of the chat template's text
    const int32_t len = (int32_t)sizeof before - 1;
    if (n < len) return 0;
    for (int32_t i = 0; i < len; i++)
        if (h[n - 1 - i] != before[len - 1 - i]) return 0;
    uint32_t hash = 2166136261u;
    for (; r >= 0; r = s->parent[r]) hash = (hash ^ (uint32_t)s->tree[r]) * 16777619u;
    for (int32_t i = s->n - 1; i >= 0; i--) hash = (hash ^ (uint32_t)s->text[i]) * 16777619u;
    int32_t at[16], n_at = 0;
    at[n_at++] = 0;
    for (const char *p = corpus; (p = strstr(p, "\n\n")) && n_at < 16;) at[n_at++] = (int32_t)((p += 2) - corpus);
    return 1 + at[(hash >> 8) % (uint32_t)n_at];
}

static void predict(const script *s, int32_t r, float *logits) {
    int32_t h[ORDER], n = history(s, r, h);
    uint32_t seed = 2166136261u;
    for (int32_t i = n > 2 ? n - 2 : 0; i < n; i++) seed = (seed ^ (uint32_t)h[i]) * 16777619u;
    for (uint32_t t = 0; t < N_VOCAB; t++) { // noise that depends on the last two tokens, in [-6, -4)
        uint32_t x = (seed ^ t * 2654435761u) * 2246822519u;
        x ^= x >> 15;
        logits[t] = -6 + 2 * (float)(x * 3266489917u >> 8) * 0x1p-24f;
    }
    logits[IM_START] -= 20;
    const int32_t len = (int32_t)sizeof corpus - 1;
    int32_t agree[sizeof corpus], longest = 0;
    for (int32_t at = 0; at < len; at++) {
        int32_t same = 0;
        while (same < n && same < at && h[n - 1 - same] == (unsigned char)corpus[at - 1 - same]) same++;
        agree[at] = same;
        if (same > longest) longest = same;
    }
    for (int32_t at = 0; at < len; at++) { // the longer the match before a position, the higher the logit of its token
        int32_t t = corpus[at] == 1 ? IM_END : (unsigned char)corpus[at];
        const float same = (float)(agree[at] * agree[at]);
        logits[t] += agree[at] < longest ? same * 0.08f : same * 0.25f + (longest > 1 ? 2 : 0);
    }
    const int32_t begins = opening(s, r, h, n);
    if (begins) logits[(unsigned char)corpus[begins - 1]] += 32;
}

static void nap(int us) {
    struct timespec t = {us / 1000000, us % 1000000 * 1000L};
    if (us) nanosleep(&t, NULL);
}

static uint32_t mixed(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t x = (a * 2654435761u ^ b * 2246822519u ^ c * 3266489917u) + 374761393u;
    x = (x ^ x >> 15) * 2246822519u;
    return x ^ x >> 13;
}

// A row's best expert depends on its token, the second one also on the token before, so rows of equal texts agree.
static void route(script *s, int32_t row) {
    int32_t h[ORDER];
    const int32_t n = history(s, row, h);
    for (int32_t layer = 0; layer < MIXTURES; layer++) {
        int32_t *expert = s->expert + row * ROW_ROUTES + layer * USED;
        float *weight = s->weight + row * ROW_ROUTES + layer * USED;
        const uint32_t token = (uint32_t)h[n - 1], x = mixed(token, (uint32_t)layer, 0),
                       y = mixed(token, (uint32_t)layer, n > 1 ? 1 + (uint32_t)h[n - 2] : 0);
        expert[0] = (int32_t)(x % EXPERTS);
        expert[1] = (expert[0] + 1 + (int32_t)(y % (EXPERTS - 1))) % EXPERTS;
        weight[0] = 0.5f + 0.4f * (float)(y >> 8) * 0x1p-24f;
        weight[1] = 1 - weight[0];
    }
}

static ls_code experts(ls_kv_cache *t, lst_experts_seen *out, ls_err *err) {
    const script *s = (const script *)t;
    (void)err;
    *out = (lst_experts_seen){s->n_rows, MIXTURES, USED, s->expert, s->weight};
    return LS_OK;
}

// Waits as long as the forward takes that computed the rows from `first` on.
static void wait_for_rows(const script *s, int32_t first) {
    if (s->delay_ms >= 0) {
        nap(s->delay_ms * 1000);
        return;
    }
    const lst_experts_seen rows = {s->n_rows - first, MIXTURES, USED, s->expert + first * ROW_ROUTES, NULL};
    nap(FORWARD_US + EXPERT_US * (rows.n_rows ? ls_experts_count(&rows, 0, EXPERTS, NULL, NULL) : 0));
}

// The k largest of the logits x, the lower id first of equals.
static void best_of(const float *x, int32_t k, int32_t *ids, float *logits) {
    int32_t n = 0;
    for (int32_t id = 0; id < N_VOCAB; id++) {
        int32_t at = n < k ? n++ : k;
        while (at > 0 && logits[at - 1] < x[id]) {
            if (at < k) logits[at] = logits[at - 1], ids[at] = ids[at - 1];
            at--;
        }
        if (at < k) logits[at] = x[id], ids[at] = id;
    }
}

static void describe(const float *x, uint64_t next_position, const lst_sampling *sampling, lst_row *row) {
    best_of(x, LST_ROW_TOP, row->top_id, row->top_logit);
    double max = (double)x[row->top_id[0]], sum = 0, weighted = 0;
    for (int32_t t = 0; t < N_VOCAB; t++) {
        double d = (double)x[t] - max, e = exp(d);
        sum += e;
        weighted += e * d;
    }
    row->lse = (float)(max + log(sum));
    row->entropy = (float)(log(sum) - weighted / sum);
    row->chosen = sampling ? ls_sample(x, N_VOCAB, sampling->temperature, sampling->top_k, sampling->top_p,
                                       sampling->seed, next_position)
                           : row->top_id[0];
    row->chosen_logit = x[row->chosen];
    row->parent_logit = row->parent_lse = NAN;
}

static ls_code check_ids(const int32_t *ids, int32_t n, ls_err *err) {
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= N_VOCAB)
            return ls_fail(err, LS_E_RANGE, "token id %d is outside the vocabulary", ids[i]);
    return LS_OK;
}

static ls_code prefill(ls_kv_cache *t, const int32_t *ids, int32_t n, const lst_sampling *sampling, lst_row *last,
                       ls_progress progress, void *ud, ls_err *err) {
    script *s = (script *)t;
    ls_code code = check_ids(ids, n, err);
    if (code) return code;
    if (n > t->engine->n_context - s->n)
        return ls_fail(err, LS_E_RANGE, "%d more tokens do not fit a context of %d", n, t->engine->n_context);
    if (progress && !progress(ud, "prefill", 0)) return ls_fail(err, LS_E_CANCELLED, "prefill was cancelled");
    memcpy(s->text + s->n, ids, (size_t)n * sizeof *ids);
    s->n += n;
    s->n_rows = 0;
    wait_for_rows(s, 0);
    predict(s, -1, s->last);
    s->last_known = true;
    describe(s->last, (uint64_t)s->n, sampling, last);
    return LS_OK;
}

// n rows after the first `first` rows of the last forward.
static ls_code rows_of_tree(script *s, int32_t first, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *sampling, lst_row *rows, ls_err *err) {
    ls_code code = check_ids(ids, n, err);
    if (code) return code;
    if (n < 1 || n > LST_MAX_ROWS - first) return ls_fail(err, LS_E_RANGE, "a tree has 1 to 256 rows");
    s->n_rows = first;
    for (int32_t k = 0; k < n; k++) {
        const int32_t i = first + k, up = parents[k];
        if (i == 0 ? up != -1 : up < 0 || up >= i) return ls_fail(err, LS_E_RANGE, "row %d has an invalid parent", i);
        s->tree[i] = ids[k];
        s->parent[i] = up;
        s->depth[i] = i ? s->depth[up] + 1 : 0;
        if (s->n + s->depth[i] >= s->base.engine->n_context)
            return ls_fail(err, LS_E_RANGE, "a tree node is beyond the context");
        float *logits = s->logits + (size_t)i * N_VOCAB;
        if (s->base.experts) route(s, i);
        predict(s, i, logits);
        describe(logits, (uint64_t)(s->n + s->depth[i] + 1), sampling, &rows[k]);
        const float *before = i ? s->logits + (size_t)up * N_VOCAB : s->last;
        if (!i && !s->last_known) continue;
        lst_row parent;
        describe(before, 0, NULL, &parent);
        rows[k].parent_logit = before[ids[k]];
        rows[k].parent_lse = parent.lse;
    }
    s->n_rows = first + n;
    wait_for_rows(s, first);
    return LS_OK;
}

static ls_code forward_tree(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *sampling, lst_row *rows, ls_err *err) {
    return rows_of_tree((script *)t, 0, ids, parents, n, sampling, rows, err);
}

static ls_code grow_tree(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                         const lst_sampling *sampling, lst_row *rows, ls_err *err) {
    script *s = (script *)t;
    if (!s->n_rows) return ls_fail(err, LS_E_RANGE, "there is no tree to extend");
    return rows_of_tree(s, s->n_rows, ids, parents, n, sampling, rows, err);
}

static const float *row_at(const script *s, int32_t row) { // NULL: there is no such row
    if (row == -1) return s->last_known ? s->last : NULL;
    return row >= 0 && row < s->n_rows ? s->logits + (size_t)row * N_VOCAB : NULL;
}

static ls_code row_top(ls_kv_cache *t, int32_t row, int32_t k, int32_t *ids, float *logits, ls_err *err) {
    const float *x = row_at((const script *)t, row);
    if (!x || k < 1 || k > N_VOCAB) return ls_fail(err, LS_E_RANGE, "no such row, or more ranks than tokens");
    best_of(x, k, ids, logits);
    return LS_OK;
}

static ls_code row_logits(ls_kv_cache *t, int32_t row, float *logits, ls_err *err) {
    const float *x = row_at((const script *)t, row);
    if (!x) return ls_fail(err, LS_E_RANGE, "no such row");
    memcpy(logits, x, N_VOCAB * sizeof *logits);
    return LS_OK;
}

static ls_code keep_path(ls_kv_cache *t, const int32_t *rows, int32_t n, ls_err *err) {
    script *s = (script *)t;
    for (int32_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= s->n_rows || s->parent[rows[i]] != (i ? rows[i - 1] : -1))
            return ls_fail(err, LS_E_RANGE, "kept rows are not a path from the root");
    for (int32_t i = 0; i < n; i++) s->text[s->n++] = s->tree[rows[i]];
    memcpy(s->last, s->logits + (size_t)rows[n - 1] * N_VOCAB, sizeof s->last);
    s->last_known = true;
    s->n_rows = 0;
    return LS_OK;
}

static ls_code rewind_to(ls_kv_cache *t, int32_t n, ls_err *err) {
    script *s = (script *)t;
    if (n < 0 || n > s->n) return ls_fail(err, LS_E_RANGE, "cannot rewind to %d of %d tokens", n, s->n);
    s->last_known = s->last_known && n == s->n;
    s->n = n;
    s->n_rows = 0;
    return LS_OK;
}

static void timings(const ls_kv_cache *t, lst_timing *out) {
    (void)t;
    *out = (lst_timing){.experts_read = -1};
}

static int32_t length(const ls_kv_cache *t) {
    return ((const script *)t)->n;
}

static ls_code copy(ls_kv_cache *t, ls_kv_cache *from, int32_t n, ls_err *err) {
    script *s = (script *)t;
    if (n < 0 || n > from->length(from)) return ls_fail(err, LS_E_RANGE, "%d tokens cannot be copied", n);
    memcpy(s->text, ((const script *)from)->text, (size_t)n * sizeof *s->text);
    s->n = n;
    s->n_rows = 0;
    s->last_known = false;
    return LS_OK;
}

static void free_kv_cache(ls_kv_cache *t) {
    script *s = (script *)t;
    free(s->text);
    free(s->logits);
    free(s);
}

static ls_code kv_cache(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err) {
    if (layers < 0 || layers > ORDER) return ls_fail(err, LS_E_RANGE, "the script has %d layers", ORDER);
    script *s = ls_calloc(1, sizeof *s);
    s->base = (ls_kv_cache){.engine = e,
                            .prefill = prefill,
                            .forward_tree = forward_tree,
                            .grow_tree = grow_tree,
                            .row_top = row_top,
                            .row_logits = row_logits,
                            .keep_path = keep_path,
                            .rewind = rewind_to,
                            .copy = copy,
                            .length = length,
                            .timings = timings,
                            .free = free_kv_cache};
    s->order = layers ? layers : ORDER;
    s->delay_ms = ((const script_engine *)e)->delay_ms;
    if (e->n_mixtures) s->base.experts = experts;
    s->text = ls_calloc((size_t)e->n_context + LST_MAX_ROWS, sizeof *s->text);
    s->logits = ls_calloc((size_t)LST_MAX_ROWS * N_VOCAB, sizeof *s->logits);
    *out = &s->base;
    return LS_OK;
}

static void close_engine(ls_engine *e) {
    free(e);
}

ls_engine *ls_engine_script_new(int delay_ms, int32_t n_context) {
    script_engine *e = ls_calloc(1, sizeof *e);
    e->base = (ls_engine){.n_vocab = N_VOCAB,
                          .n_layers = ORDER,
                          .n_context = n_context ? n_context : CONTEXT,
                          .threads = 1,
                          .exact = true,
                          .device = "cpu",
                          .dtype = "f32",
                          .kernel = "scripted model",
                          .version = "logitspec " LS_VERSION,
                          .kv_cache = kv_cache,
                          .close = close_engine};
    e->delay_ms = delay_ms;
    if (delay_ms >= 0) return &e->base;
    e->base.n_mixtures = MIXTURES;
    e->base.n_experts = EXPERTS;
    e->base.n_experts_used = USED;
    e->base.expert_bytes = 1000000;
    snprintf(e->base.kernel, sizeof e->base.kernel, "scripted model, made-up experts and costs");
    return &e->base;
}

ls_code ls_script_vocab(ls_vocab **out, ls_err *err) {
    char spell[256][4];
    uint32_t cp_of[256];
    ls_str tokens[N_VOCAB];
    int32_t types[N_VOCAB];
    ls_byte_alphabet(cp_of);
    for (uint32_t b = 0; b < 256; b++) {
        tokens[b] = (ls_str){spell[b], (size_t)ls_utf8_encode(cp_of[b], spell[b])};
        types[b] = 1;
    }
    tokens[IM_START] = (ls_str){"<|im_start|>", 12};
    tokens[IM_END] = (ls_str){"<|im_end|>", 10};
    types[IM_START] = types[IM_END] = 3;
    const ls_vocab_source source = {
        .tokens = tokens, .n_tokens = N_VOCAB, .types = types, .pre = "gpt-2", .bos = -1, .eos = IM_END};
    return ls_vocab_new(out, &source, err);
}
