// Cacheback (arXiv 2511.21699): a cache maps leaders (the last tokens) to followers (tuples of tokens that came next),
// both least recently used first out (a look-up is a use of a leader); a draft tree grows breadth-first by asking the
// cache again after each follower. Leaders of `leader` tokens are tried first, then shorter ones. The cache is kept
// across prompts and, if a file is named, across runs (the text is kept, and the cache filled from it again). The
// lengths are knobs: the paper's are not restated here.
#include "base/mem.h"
#include "spec/drafter.h"
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
    ls_drafter base;
    ls_stream history;
    leader *leaders;
    int32_t *buckets; // first leader of each; -1: none
    int32_t n, limit, newest, oldest;
    int32_t max_leader, length; // tokens of the longest leader, and of a follower
} drafter;

// Twenty bits a token; a larger vocabulary would only mix up some leaders.
static uint64_t key_of(const int32_t *tokens, int32_t n) {
    uint64_t key = (uint64_t)n;
    for (int32_t i = 0; i < n; i++) key = key << 20 | ((uint32_t)tokens[i] & 0xFFFFF);
    return key;
}

static int32_t *bucket_of(const drafter *d, uint64_t key) {
    return &d->buckets[(key * 0x9E3779B97F4A7C15u >> 32) * (uint64_t)d->limit >> 32];
}

static int32_t find(const drafter *d, uint64_t key) {
    int32_t i = *bucket_of(d, key);
    while (i >= 0 && d->leaders[i].key != key) i = d->leaders[i].chain;
    return i;
}

static void unlink_use(drafter *d, int32_t i) {
    leader *l = &d->leaders[i];
    *(l->newer >= 0 ? &d->leaders[l->newer].older : &d->newest) = l->older;
    *(l->older >= 0 ? &d->leaders[l->older].newer : &d->oldest) = l->newer;
}

static void use(drafter *d, int32_t i) { // it is the newest now
    leader *l = &d->leaders[i];
    l->newer = -1;
    l->older = d->newest;
    if (d->newest >= 0) d->leaders[d->newest].newer = i;
    else d->oldest = i;
    d->newest = i;
}

static int32_t take_leader(drafter *d) { // a free place: a new one, or that of the leader used longest ago
    if (d->n < d->limit) return d->n++;
    const int32_t i = d->oldest;
    int32_t *p = bucket_of(d, d->leaders[i].key);
    while (*p != i) p = &d->leaders[*p].chain;
    *p = d->leaders[i].chain;
    unlink_use(d, i);
    return i;
}

static void put(drafter *d, uint64_t key, const int32_t *follower) {
    int32_t i = find(d, key);
    if (i >= 0) unlink_use(d, i);
    else {
        i = take_leader(d);
        int32_t *bucket = bucket_of(d, key);
        d->leaders[i] = (leader){.key = key, .chain = *bucket};
        *bucket = i;
    }
    use(d, i);
    leader *l = &d->leaders[i];
    const size_t size = (size_t)d->length * sizeof *follower;
    int32_t at = 0;
    while (at < l->n && memcmp(l->follower[at], follower, size)) at++;
    if (at == l->n && l->n < FOLLOWERS) l->n++;
    if (at == FOLLOWERS) at = FOLLOWERS - 1; // the follower used longest ago makes room
    memmove(l->follower[1], l->follower[0], (size_t)at * sizeof l->follower[0]);
    memcpy(l->follower[0], follower, size);
}

// The tokens at ids[end - length .. end) follow the leaders before them.
static void take(drafter *d, const int32_t *ids, size_t end) {
    const size_t length = (size_t)d->length;
    for (size_t k = 1; k <= (size_t)d->max_leader && k + length <= end; k++) {
        const int32_t *first = ids + end - length - k;
        if (*first == LS_STREAM_BREAK) return;
        bool whole = true;
        for (size_t i = 1; i < k + length; i++) whole &= first[i] != LS_STREAM_BREAK;
        if (whole) put(d, key_of(first, (int32_t)k), first + k);
    }
}

static void observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    const size_t added = ls_stream_observe(&d->history, context, n, reset);
    for (size_t end = d->history.ids.n - added + 1; end <= d->history.ids.n; end++) take(d, d->history.ids.p, end);
}

static void propose(ls_drafter *base, const ls_draft_state *s, int32_t budget, ls_tree *tree) {
    drafter *d = (drafter *)base;
    ls_draft nodes[LS_MAX_ROWS] = {{.token = s->root, .parent = -1}};
    int32_t queue[LS_MAX_ROWS] = {0}, n_queue = 1, n = 1;
    for (int32_t q = 0; q < n_queue && n < budget; q++) {
        int32_t tail[MAX_LEADER], m = MAX_LEADER;
        for (int32_t at = queue[q]; at >= 0 && m > 0; at = nodes[at].parent) tail[--m] = nodes[at].token;
        for (size_t i = s->n_context; i > 0 && m > 0; i--) tail[--m] = s->context[i - 1];
        int32_t found = -1, k = d->max_leader < MAX_LEADER - m ? d->max_leader : MAX_LEADER - m;
        for (; k > 0 && (found = find(d, key_of(tail + MAX_LEADER - k, k))) < 0; k--) {
        }
        if (found < 0) continue;
        unlink_use(d, found);
        use(d, found);
        for (int32_t f = 0; f < d->leaders[found].n && n < budget; f++) {
            int32_t at = queue[q];
            for (int32_t i = 0; i < d->length && n < budget; i++) {
                const ls_draft draft = {.token = d->leaders[found].follower[f][i],
                                        .parent = (int16_t)at,
                                        .rank = -1,
                                        .match_n = (int16_t)k,
                                        .match_pos = -1,
                                        .from = LS_FROM_HISTORY,
                                        .est_p = NAN};
                at = ls_draft_child(nodes, &n, budget, &draft);
            }
            if (n_queue < LS_MAX_ROWS) queue[n_queue++] = at;
        }
    }
    ls_tree_lay_out(tree, nodes, n);
}

static int32_t pool_size(const ls_drafter *base) {
    return ((const drafter *)base)->n;
}

static size_t bytes(const ls_drafter *base) {
    const drafter *d = (const drafter *)base;
    return sizeof *d + (size_t)d->n * sizeof *d->leaders + (size_t)d->limit * sizeof *d->buckets +
           d->history.ids.cap * sizeof *d->history.ids.p;
}

static void free_drafter(ls_drafter *base) {
    drafter *d = (drafter *)base;
    ls_stream_close(&d->history);
    free(d->leaders);
    free(d->buckets);
    free(d);
}

enum { LEADER, LENGTH, LEADERS, FILE_NAME };
static const ls_knob knobs[] = {
    [LEADER] = {"cacheback.leader", LS_KNOB_INT, 2, 1, MAX_LEADER, "tokens of the longest leader"},
    [LENGTH] = {"cacheback.length", LS_KNOB_INT, 3, 1, MAX_LENGTH, "tokens of a follower"},
    [LEADERS] = {"cacheback.leaders", LS_KNOB_INT, 65536, 16, 16777216, "leaders that are remembered, 160 bytes each"},
    [FILE_NAME] = {"cacheback.file", LS_KNOB_FILE, 0, 0, 0, "keep the text there for the next run"},
    {0},
};

static ls_code make(ls_drafter **out, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = ls_calloc(1, sizeof *d);
    d->base = (ls_drafter){
        .observe = observe, .propose = propose, .pool_size = pool_size, .bytes = bytes, .free = free_drafter};
    d->max_leader = (int32_t)setup->knobs[LEADER].number;
    d->length = (int32_t)setup->knobs[LENGTH].number;
    d->limit = (int32_t)setup->knobs[LEADERS].number;
    d->newest = d->oldest = -1;
    d->leaders = ls_calloc((size_t)d->limit, sizeof *d->leaders); // zeroed pages cost nothing until they are used
    d->buckets = ls_malloc((size_t)d->limit * sizeof *d->buckets);
    memset(d->buckets, -1, (size_t)d->limit * sizeof *d->buckets);
    const ls_code code =
        ls_stream_open(&d->history, setup->knobs[FILE_NAME].text, (size_t)d->limit * TEXT_PER_LEADER, setup, err);
    for (size_t end = 1; end <= d->history.ids.n; end++) take(d, d->history.ids.p, end);
    *out = code ? NULL : &d->base;
    if (code) free_drafter(&d->base);
    return code;
}

const ls_method ls_method_cacheback = {
    .name = "cacheback",
    .summary = "Cacheback: tables of what came next, least recently used first out",
    .source = "arXiv 2511.21699",
    .rows = 64,
    .text_only = true,
    .knobs = knobs,
    .make = make,
};
