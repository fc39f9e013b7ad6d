#include "spec/corpus.h"
#include "base/file.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = "LSCORPUS";
enum { VERSION = 1, MAX_VOCAB = 1 << 24, MAX_THREADS = 64 };

typedef struct {
    char magic[8];
    uint32_t version, depth;
    ls_corpus_facts facts;
} header;

// ---- sorting

typedef struct {
    const int32_t *tokens;
    int64_t n;
    int32_t *suffixes;
    const int32_t *first;
    int32_t n_vocab, next; // next: first bucket without a thread; n_vocab: none left, or cancelled
    ls_progress progress;
    void *ud;
    pthread_t caller; // the only thread that calls progress
    bool cancelled;
} job;

static int32_t token_at(const int32_t *tokens, int64_t n, int64_t i) { // after the end: less than any token
    return i < n ? tokens[i] : LS_CORPUS_BREAK - 1;
}

static int compare(const job *j, int32_t a, int32_t b, int32_t depth) {
    for (; depth < LS_CORPUS_DEPTH; depth++) {
        const int32_t x = token_at(j->tokens, j->n, (int64_t)a + depth),
                      y = token_at(j->tokens, j->n, (int64_t)b + depth);
        if (x != y) return x < y ? -1 : 1;
    }
    return (a > b) - (a < b);
}

static int by_position(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Multikey quicksort (Bentley and Sedgewick 1997): s[0..n) agree in their first depth tokens.
static void sort(const job *j, int32_t *s, int64_t n, int32_t depth) {
    enum { SMALL = 12 };
    while (n > 1) {
        if (depth == LS_CORPUS_DEPTH) {
            qsort(s, (size_t)n, sizeof *s, by_position);
            return;
        }
        if (n <= SMALL) {
            for (int64_t i = 1; i < n; i++) {
                const int32_t v = s[i];
                int64_t k = i;
                for (; k > 0 && compare(j, s[k - 1], v, depth) > 0; k--) s[k] = s[k - 1];
                s[k] = v;
            }
            return;
        }
        const int32_t a = token_at(j->tokens, j->n, (int64_t)s[0] + depth),
                      b = token_at(j->tokens, j->n, (int64_t)s[n / 2] + depth),
                      c = token_at(j->tokens, j->n, (int64_t)s[n - 1] + depth);
        const int32_t pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
        int64_t less = 0, at = 0, more = n;
        while (at < more) {
            const int32_t v = s[at], t = token_at(j->tokens, j->n, (int64_t)v + depth);
            if (t < pivot) s[at++] = s[less], s[less++] = v;
            else if (t > pivot) s[at] = s[--more], s[more] = v;
            else at++;
        }
        sort(j, s, less, depth);
        sort(j, s + more, n - more, depth);
        s += less;
        n = more - less;
        depth++;
    }
}

static void *work(void *arg) {
    job *j = arg;
    const bool tells = j->progress && pthread_equal(pthread_self(), j->caller);
    for (int32_t t = 0;;) {
        if (tells && !j->progress(j->ud, "sorting", (double)t / j->n_vocab)) {
            j->cancelled = true;
            __atomic_store_n(&j->next, j->n_vocab, __ATOMIC_RELAXED);
        }
        t = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED);
        if (t >= j->n_vocab) break;
        sort(j, j->suffixes + j->first[t], j->first[t + 1] - j->first[t], 1);
    }
    return NULL;
}

static void sort_all(job *j, int32_t threads) {
    pthread_t t[MAX_THREADS];
    int32_t n = 0;
    for (int32_t i = 1; i < threads && i < MAX_THREADS; i++) n += !pthread_create(&t[n], NULL, work, j);
    work(j);
    for (int32_t i = 0; i < n; i++) pthread_join(t[i], NULL);
}

static ls_code write_file(const char *path, const header *h, const int32_t *tokens, const int32_t *suffixes,
                          const int32_t *first, ls_err *err) {
    ls_atomic_file r;
    ls_code code = ls_atomic_open(&r, path, LS_FILE_SHARED, err);
    if (code) return code;
    fwrite(h, sizeof *h, 1, r.f);
    fwrite(tokens, sizeof *tokens, (size_t)h->facts.n, r.f);
    fwrite(suffixes, sizeof *suffixes, (size_t)h->facts.n_suffixes, r.f);
    fwrite(first, sizeof *first, (size_t)h->facts.n_vocab + 1, r.f);
    return ls_atomic_close(&r, true, err);
}

ls_code ls_corpus_write(const char *path, const int32_t *tokens, const ls_corpus_facts *facts, int32_t threads,
                        ls_progress progress, void *ud, ls_err *err) {
    if (facts->n < 1 || facts->n > INT32_MAX - LS_CORPUS_DEPTH)
        return ls_fail(err, LS_E_RANGE, "a corpus has 1 to %d tokens, not %lld", INT32_MAX - LS_CORPUS_DEPTH,
                       (long long)facts->n);
    if (facts->n_vocab < 1 || facts->n_vocab > MAX_VOCAB)
        return ls_fail(err, LS_E_RANGE, "a vocabulary of %d tokens is not supported", facts->n_vocab);
    header h = {.version = VERSION, .depth = LS_CORPUS_DEPTH, .facts = *facts};
    memcpy(h.magic, magic, sizeof h.magic);
    int32_t *first = ls_calloc((size_t)facts->n_vocab + 2, sizeof *first);
    ls_code code = LS_OK;
    for (int64_t i = 0; i < facts->n && !code; i++) {
        if (tokens[i] >= facts->n_vocab || tokens[i] < LS_CORPUS_BREAK)
            code = ls_fail(err, LS_E_RANGE, "token %d is outside the vocabulary of %d", tokens[i], facts->n_vocab);
        else if (tokens[i] >= 0) first[tokens[i] + 1]++;
    }
    for (int32_t t = 0; t < facts->n_vocab && !code; t++) first[t + 1] += first[t];
    const int64_t n_suffixes = h.facts.n_suffixes = first[facts->n_vocab];
    if (!code && !n_suffixes) code = ls_fail(err, LS_E_RANGE, "a corpus needs tokens");
    int32_t *suffixes = NULL;
    if (!code) {
        suffixes = ls_malloc((size_t)n_suffixes * sizeof *suffixes);
        int32_t *at = ls_malloc((size_t)facts->n_vocab * sizeof *at);
        memcpy(at, first, (size_t)facts->n_vocab * sizeof *at);
        for (int64_t i = 0; i < facts->n; i++)
            if (tokens[i] >= 0) suffixes[at[tokens[i]]++] = (int32_t)i;
        free(at);
        job j = {.tokens = tokens,
                 .n = facts->n,
                 .suffixes = suffixes,
                 .first = first,
                 .n_vocab = facts->n_vocab,
                 .progress = progress,
                 .ud = ud,
                 .caller = pthread_self()};
        sort_all(&j, threads);
        code = j.cancelled ? ls_fail(err, LS_E_CANCELLED, "interrupted while the corpus was sorted")
                           : write_file(path, &h, tokens, suffixes, first, err);
    }
    free(suffixes);
    free(first);
    return code;
}

// ---- looking up

ls_code ls_corpus_open(ls_corpus **out, const char *path, ls_err *err) {
    ls_buf m = {0};
    header h;
    const ls_corpus_facts *f = &h.facts;
    *out = NULL;
    ls_code code = ls_read_file(&m, path, SIZE_MAX, err);
    if (code) return code;
    if (m.n < sizeof h || memcmp(m.p, magic, sizeof magic))
        code = ls_fail(err, LS_E_PARSE, "%s: not a corpus; build one with 'logitspec corpus build'", path);
    else {
        memcpy(&h, m.p, sizeof h);
        if (h.version != VERSION || h.depth != LS_CORPUS_DEPTH)
            code = ls_fail(err, LS_E_PARSE, "%s: the corpus has another version; build it again", path);
        else if (f->n < 1 || f->n > INT32_MAX || f->n_suffixes < 1 || f->n_suffixes > f->n || f->n_vocab < 1 ||
                 f->n_vocab > MAX_VOCAB ||
                 m.n != sizeof h + (size_t)(f->n + f->n_suffixes + f->n_vocab + 1) * sizeof(int32_t))
            code = ls_fail(err, LS_E_PARSE, "%s: the corpus is cut short or damaged; build it again", path);
    }
    if (code) {
        ls_buf_free(&m);
        return code;
    }
    ls_corpus *c = ls_calloc(1, sizeof *c);
    c->file = m;
    c->facts = *f;
    c->facts.tokenizer[sizeof c->facts.tokenizer - 1] = 0;
    c->tokens = (const int32_t *)(m.p + sizeof h);
    c->suffixes = c->tokens + f->n;
    c->first = c->suffixes + f->n_suffixes;
    *out = c;
    return LS_OK;
}

void ls_corpus_close(ls_corpus *c) {
    if (!c) return;
    ls_buf_free(&c->file);
    free(c);
}

// The token at `depth` of the i-th suffix. A damaged file may give wrong tokens, but never an id outside the
// vocabulary.
static int32_t token_of(const ls_corpus *c, int32_t i, int32_t depth) {
    const int64_t at = (int64_t)c->suffixes[i] + depth;
    if (at < 0 || at >= c->facts.n) return LS_CORPUS_BREAK;
    const int32_t t = c->tokens[at];
    return t >= 0 && t < c->facts.n_vocab ? t : LS_CORPUS_BREAK;
}

// The first place of [lo, hi) whose token at `depth` is not below `token`.
static int32_t lower(const ls_corpus *c, int32_t lo, int32_t hi, int32_t depth, int32_t token) {
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (token_of(c, mid, depth) < token) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static ls_corpus_range bucket(const ls_corpus *c, int32_t token) {
    if (token < 0 || token >= c->facts.n_vocab) return (ls_corpus_range){0, 0};
    const ls_corpus_range r = {c->first[token], c->first[token + 1]};
    return r.lo < 0 || r.hi > c->facts.n_suffixes || r.lo > r.hi ? (ls_corpus_range){0, 0} : r;
}

static ls_corpus_range find_all(const ls_corpus *c, const int32_t *gram, int32_t n) {
    ls_corpus_range r = bucket(c, gram[0]);
    for (int32_t d = 1; d < n && r.lo < r.hi; d++)
        r = (ls_corpus_range){lower(c, r.lo, r.hi, d, gram[d]), lower(c, r.lo, r.hi, d, gram[d] + 1)};
    return r;
}

ls_corpus_range ls_corpus_find(const ls_corpus *c, const int32_t *tail, int32_t n, int32_t most, int32_t *length) {
    int32_t lo = 0, hi = n < most ? n : most; // binary search: if an ending occurs, its shorter endings occur too
    ls_corpus_range best = {0, 0};
    while (lo < hi) {
        const int32_t k = lo + (hi - lo + 1) / 2;
        const ls_corpus_range r = find_all(c, tail + n - k, k);
        if (r.lo < r.hi) best = r, lo = k;
        else hi = k - 1;
    }
    *length = lo;
    return best;
}

ls_corpus_range ls_corpus_next(const ls_corpus *c, ls_corpus_range r, int32_t depth, int32_t i, int32_t *token) {
    const int32_t t = *token = token_of(c, i, depth);
    int32_t same = i, step = 1; // the last place known to have the token
    for (; step < r.hi - same && token_of(c, same + step, depth) <= t; step *= 2) same += step;
    const int32_t beyond = step < r.hi - same ? same + step : r.hi;
    return (ls_corpus_range){i, lower(c, same + 1, beyond, depth, t + 1)};
}
