// Cacheback (arXiv 2511.21699): a cache maps leaders (the last tokens) to followers (the tuples of tokens that came
// next). Both are evicted least recently used first; a look-up counts as a use of a leader. A draft tree grows
// breadth-first by a look-up after each follower. Leaders of `leader` tokens are tried first, then shorter ones. The
// cache is kept across prompts and, if a file is named, across runs (the text is saved, and the cache is rebuilt from
// it). For a cold start a second, frozen table can be filled from such a file; it is used if the first has no match.
// The lengths are knobs; their defaults may differ from the paper's. The authors' program was not found.
#include "base/mem.h"
#include "spec/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FOLLOWERS = 8, MAX_LENGTH = 4, MAX_LEADER = 3, TEXT_PER_LEADER = 2 };

typedef struct {
    uint64_t key;         // of the leader and its length
    int32_t chain;        // next leader of the same bucket; -1: none
    int32_t newer, older; // by use; -1: none
    int32_t n;            // followers, most recently used first
    int32_t follower[FOLLOWERS][MAX_LENGTH];
} leader;

typedef struct {
    leader *leaders;
    int32_t *buckets; // first leader of each; -1: none
    int32_t n, limit, newest, oldest;
} table;

typedef struct {
    ls_drafter base;
    ls_stream history;
    table seen, frozen; // frozen: used if `seen` has no match; never changed
    // knobs: tokens of the longest leader, and of a follower; leaders of a table; files of `history` and `frozen`
    int32_t max_leader, length, leaders;
    const char *file, *old_file;
} drafter;

// Twenty bits per token; with a larger vocabulary some leaders share a key, which costs only accuracy.
static uint64_t leader_key(const int32_t *tokens, int32_t n) {
    uint64_t key = (uint64_t)n;
    for (int32_t i = 0; i < n; i++) key = key << 20 | ((uint32_t)tokens[i] & 0xFFFFF);
    return key;
}

static int32_t *leader_bucket(const table *t, uint64_t key) {
    return &t->buckets[(key * 0x9E3779B97F4A7C15u >> 32) * (uint64_t)t->limit >> 32];
}

static int32_t find_leader(const table *t, uint64_t key) {
    int32_t i = *leader_bucket(t, key);
    while (i >= 0 && t->leaders[i].key != key) i = t->leaders[i].chain;
    return i;
}

static void unlink_use(table *t, int32_t i) {
    leader *l = &t->leaders[i];
    *(l->newer >= 0 ? &t->leaders[l->newer].older : &t->newest) = l->older;
    *(l->older >= 0 ? &t->leaders[l->older].newer : &t->oldest) = l->newer;
}

static void use(table *t, int32_t i) { // makes it the most recently used
    leader *l = &t->leaders[i];
    l->newer = -1;
    l->older = t->newest;
    if (t->newest >= 0) t->leaders[t->newest].newer = i;
    else t->oldest = i;
    t->newest = i;
}

static int32_t take_leader(table *t) { // a new place, or that of the least recently used leader
    if (t->n < t->limit) return t->n++;
    const int32_t i = t->oldest;
    int32_t *p = leader_bucket(t, t->leaders[i].key);
    while (*p != i) p = &t->leaders[*p].chain;
    *p = t->leaders[i].chain;
    unlink_use(t, i);
    return i;
}

static void put_follower(table *t, uint64_t key, const int32_t *follower, int32_t length) {
    int32_t i = find_leader(t, key);
    if (i >= 0) unlink_use(t, i);
    else {
        i = take_leader(t);
        int32_t *bucket = leader_bucket(t, key);
        t->leaders[i] = (leader){.key = key, .chain = *bucket};
        *bucket = i;
    }
    use(t, i);
    leader *l = &t->leaders[i];
    const size_t size = (size_t)length * sizeof *follower;
    int32_t at = 0;
    while (at < l->n && memcmp(l->follower[at], follower, size)) at++;
    if (at == l->n && l->n < FOLLOWERS) l->n++;
    if (at == FOLLOWERS) at = FOLLOWERS - 1; // evict the least recently used follower
    memmove(l->follower[1], l->follower[0], (size_t)at * sizeof l->follower[0]);
    memcpy(l->follower[0], follower, size);
}

// Adds the tokens ids[end - length .. end) as follower of the leaders before them.
static void add_followers(const drafter *d, table *t, const int32_t *ids, size_t end) {
    const size_t length = (size_t)d->length;
    for (size_t k = 1; k <= (size_t)d->max_leader && k + length <= end; k++) {
        const int32_t *first = ids + end - length - k;
        if (*first == LS_STREAM_BREAK) return;
        bool whole = true;
        for (size_t i = 1; i < k + length; i++) whole &= first[i] != LS_STREAM_BREAK;
        if (whole) put_follower(t, leader_key(first, (int32_t)k), first + k, d->length);
    }
}

static void cacheback_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    const size_t added = ls_stream_observe(&d->history, context, n, reset);
    for (size_t end = d->history.ids.n - added + 1; end <= d->history.ids.n; end++)
        add_followers(d, &d->seen, d->history.ids.p, end);
}

// The longest leader in a table that ends before `end`, of at most `most` tokens; *k: its length; -1: there is none.
static int32_t longest(const table *t, const int32_t *end, int32_t n, int32_t most, int32_t *k) {
    int32_t found = -1;
    for (*k = most < n ? most : n; t->n && *k > 0; --*k)
        if ((found = find_leader(t, leader_key(end - *k, *k))) >= 0) break;
    return found;
}

// The longest known leader; the frozen table is used if the other has none. *seen: its place in the other; -1: none.
static const leader *peek(const drafter *d, const int32_t *end, int32_t n, int32_t *k, int32_t *seen) {
    *seen = longest(&d->seen, end, n, d->max_leader, k);
    if (*seen >= 0) return &d->seen.leaders[*seen];
    const int32_t frozen = longest(&d->frozen, end, n, d->max_leader, k);
    return frozen >= 0 ? &d->frozen.leaders[frozen] : NULL;
}

static void cacheback_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    drafter *d = (drafter *)base;
    int32_t queue[LS_MAX_ROWS] = {0}, n_queue = 1;
    for (int32_t i = 0; i < n_queue && ls_grow_room(g) > 0; i++) {
        int32_t tail[MAX_LEADER], k, seen;
        const int32_t n = ls_draft_tail(s, g->rows, sizeof *g->rows, queue[i], tail, MAX_LEADER);
        const leader *found = peek(d, tail + n, n, &k, &seen);
        if (seen >= 0 && !g->q) unlink_use(&d->seen, seen), use(&d->seen, seen);
        for (int32_t f = 0; found && f < found->n; f++) {
            int32_t at = queue[i];
            for (int32_t t = 0; t < d->length && at >= 0; t++)
                at = ls_grow(g, at, found->follower[f][t], LS_SOURCE_HISTORY, k, NAN);
            if (at >= 0 && n_queue < LS_MAX_ROWS) queue[n_queue++] = at;
        }
    }
}

static ls_miss cacheback_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const drafter *d = (const drafter *)base;
    const table *tables[] = {&d->seen, &d->frozen};
    int32_t tail[MAX_LEADER], at;
    const int32_t n = ls_question_tail(q, tail, MAX_LEADER);
    for (int t = 0; t < 2; t++) // also leaders that were not looked up
        for (int32_t k = d->max_leader; (at = longest(tables[t], tail + n, n, k, &k)) >= 0; k--) {
            const leader *l = &tables[t]->leaders[at];
            for (int32_t f = 0; f < l->n; f++)
                if (l->follower[f][0] == q->token) return LS_MISS_TAKEN;
            miss = LS_MISS_OTHERWISE;
        }
    return miss;
}

static void cacheback_arrays(void *of, ls_memory_visit *v) {
    drafter *d = of;
    table *t = &d->seen; // its arrays are never reallocated
    ls_memory_own(v, &d->frozen, sizeof d->frozen);
    ls_memory_own(v, &t->leaders, sizeof t->leaders);
    ls_memory_own(v, &t->buckets, sizeof t->buckets);
    ls_memory_part(v, t->leaders, (size_t)t->n * sizeof *t->leaders);
    ls_memory_part(v, t->buckets, (size_t)t->limit * sizeof *t->buckets);
}

static int32_t cacheback_pool_size(const ls_drafter *base) {
    const drafter *d = (const drafter *)base;
    return d->seen.n + d->frozen.n;
}

static void free_table(table *t) {
    free(t->leaders);
    free(t->buckets);
}

static void cacheback_free(ls_drafter *base) {
    drafter *d = (drafter *)base;
    free_table(&d->seen);
    free_table(&d->frozen);
    ls_drafter_free(base);
}

static const ls_knob knobs[] = {
    {"cacheback.leader", LS_KNOB_INT, 2, 1, MAX_LEADER, "tokens of the longest leader", offsetof(drafter, max_leader)},
    {"cacheback.length", LS_KNOB_INT, 3, 1, MAX_LENGTH, "tokens of a follower", offsetof(drafter, length)},
    {"cacheback.leaders", LS_KNOB_INT, 65536, 16, 16777216, "number of remembered leaders, 160 bytes each",
     offsetof(drafter, leaders)},
    {"cacheback.file", LS_KNOB_FILE, 0, 0, 0, "file that keeps the text for the next run", offsetof(drafter, file)},
    {"cacheback.frozen", LS_KNOB_FILE, 0, 0, 0,
     "file written by cacheback.file: used for a cold start, if nothing newer is known", offsetof(drafter, old_file)},
    {0},
};

static void make_table(table *t, int32_t limit) {
    *t = (table){.limit = limit, .newest = -1, .oldest = -1};
    t->leaders = ls_calloc((size_t)limit, sizeof *t->leaders); // zeroed pages cost nothing until they are used
    t->buckets = ls_malloc((size_t)limit * sizeof *t->buckets);
    memset(t->buckets, -1, (size_t)limit * sizeof *t->buckets);
}

static void fill_table(const drafter *d, table *t, const ls_stream *text) {
    for (size_t end = 1; end <= text->ids.n; end++) add_followers(d, t, text->ids.p, end);
}

static ls_code cacheback_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    const size_t most = (size_t)d->leaders * TEXT_PER_LEADER;
    base->stream = &d->history;
    make_table(&d->seen, d->leaders);
    ls_code code = ls_stream_open(&d->history, "history", d->file, most, setup, err);
    fill_table(d, &d->seen, &d->history);
    if (code || !d->old_file || !*d->old_file) return code;
    ls_stream text;
    code = ls_stream_read(&text, "history", d->old_file, most, setup, err);
    if (code) {
        ls_err_prefix(err, "cacheback.frozen");
        ls_stream_keep(&d->history);
    } else {
        make_table(&d->frozen, d->leaders);
        fill_table(d, &d->frozen, &text);
        base->began = text.sum;
    }
    ls_stream_close(&text);
    return code;
}

const ls_method ls_method_cacheback = {
    .name = "cacheback",
    .summary = "Cacheback: LRU tables of the tokens that came next",
    .source = "arXiv 2511.21699",
    .rows = 64,
    .text_only = true,
    .knobs = knobs,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = cacheback_set_up,
                                   .observe = cacheback_observe,
                                   .grow = cacheback_grow,
                                   .miss = cacheback_miss,
                                   .arrays = cacheback_arrays,
                                   .pool_size = cacheback_pool_size,
                                   .free = cacheback_free},
};
