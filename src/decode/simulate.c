#include "decode/simulate.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The target's best tokens at one place: entries[first .. first + n) of the recording.
typedef struct {
    uint32_t first;
    uint16_t n;
    float lse;
} best;

struct ls_recording {
    ls_ids text; // context, then output
    size_t n_context;
    int32_t capacity; // context of the model
    ls_top_entry *entries;
    size_t n_entries;
    best *known;
    size_t n_known;
    // hash of (output position where a row leaves the text, tokens since) -> index into known; without tokens: what
    // predicted the token at that position, one beyond the last included
    ls_map by_path;
};

ls_recording *ls_recording_new(const int32_t *context, size_t n, int32_t n_context) {
    ls_recording *r = ls_calloc(1, sizeof *r);
    ls_ids_add(&r->text, context, n);
    r->n_context = n;
    r->capacity = n_context;
    return r;
}

void ls_recording_free(ls_recording *r) {
    if (!r) return;
    ls_ids_free(&r->text);
    free(r->entries);
    free(r->known);
    ls_map_free(&r->by_path);
    free(r);
}

size_t ls_recording_output(const ls_recording *r) {
    return r->text.n - r->n_context;
}

static uint64_t path_key(size_t position, const int32_t *tokens, int32_t n) {
    return ls_hash_bytes(tokens, (size_t)n * sizeof *tokens) ^ (position + 1) * 0x9E3779B97F4A7C15u;
}

static best recall(const ls_recording *r, size_t position, const int32_t *tokens, int32_t n) {
    int32_t index;
    return ls_map_get(&r->by_path, path_key(position, tokens, n), &index) ? r->known[index] : (best){0};
}

// What is known of that place; of the text's own the longer list stays.
static void describe_place(ls_recording *r, size_t position, const int32_t *tokens, int32_t n_tokens,
                           const ls_top_entry *top, int n, float lse) {
    if (!n_tokens && recall(r, position, NULL, 0).n >= n) return;
    r->known = ls_grown(r->known, r->n_known, sizeof *r->known);
    r->known[r->n_known] = (best){(uint32_t)r->n_entries, (uint16_t)n, lse};
    for (int i = 0; i < n; i++) {
        r->entries = ls_grown(r->entries, r->n_entries, sizeof *r->entries);
        r->entries[r->n_entries++] = top[i];
    }
    ls_map_put(&r->by_path, path_key(position, tokens, n_tokens), (int32_t)r->n_known++);
}

// The tokens from where a row leaves the path to the row itself; none on the path.
static int32_t leave(const ls_tree *t, const bool *on_path, int32_t row, int32_t *out) {
    int32_t n = 0, reversed[LS_MAX_ROWS];
    for (; !on_path[row]; row = t->nodes[row].parent) reversed[n++] = t->nodes[row].token;
    for (int32_t i = 0; i < n; i++) out[i] = reversed[n - 1 - i];
    return n;
}

void ls_recording_add(ls_recording *r, const ls_step *s) {
    const size_t position = ls_recording_output(r);
    for (int i = 0; i < s->n_emitted; i++) ls_ids_push(&r->text, s->tree.nodes[s->path[i]].token);
    ls_recording_more(r, position, s);
}

void ls_recording_more(ls_recording *r, size_t position, const ls_step *s) {
    describe_place(r, position, NULL, 0, s->top, s->n_top, s->top_lse);
    if (!s->forward) return;
    int32_t path[LS_MAX_ROWS];
    bool on_path[LS_MAX_ROWS] = {0};
    for (int i = 0; i < s->n_emitted; i++) on_path[s->path[i]] = true; // what was cut off did not become text
    for (int i = 0; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        const int32_t len = leave(&s->tree, on_path, i, path);
        int known = 0;
        while (known < LS_ROW_TOP && n->top[known].id >= 0) known++;
        describe_place(r, position + (size_t)(n->depth - len) + !len, path, len, n->top, known, n->lse);
    }
}

// ---- simulating

struct ls_simulator {
    ls_drafting drafting;
    ls_cost_curve costs;
    size_t position; // output tokens so far
    bool proposed;   // the tree of the next step is there
    ls_tree *tree;
    int32_t top_ids[LS_MAX_TOP]; // of the last logits
    float top_p[LS_MAX_TOP];
};

ls_code ls_simulator_new(ls_simulator **out, const ls_decode_options *opt, const ls_draft_setup *place,
                         const ls_cost_curve *costs, ls_err *err) {
    *out = NULL;
    if (ls_decode_guarantee(opt) != LS_SAME_TEXT)
        return ls_fail(err, LS_E_USAGE, "this acceptance rule changes the text: it cannot be simulated on a recording");
    ls_simulator *s = ls_calloc(1, sizeof *s);
    s->costs = *costs;
    s->tree = ls_tree_new();
    ls_draft_setup reads = *place;
    reads.read_only = true; // what was only imagined is not remembered
    const ls_code code = ls_drafting_set(&s->drafting, opt, &reads, NULL, 0, err);
    if (code) ls_simulator_free(s);
    else *out = s;
    return code;
}

void ls_simulator_free(ls_simulator *s) {
    if (!s) return;
    ls_drafting_free(&s->drafting);
    free(s->tree);
    free(s);
}

// The rows that the text takes are the target's choices; of rows off it no choice is known.
static void follow_text(ls_tree *t, const int32_t *text, size_t n, bool *on_path) {
    for (int32_t i = 0; i < t->n; i++) {
        ls_node *row = &t->nodes[i];
        const size_t next = (size_t)row->depth + 1;
        on_path[i] = i == 0 || (on_path[row->parent] && row->token == t->nodes[row->parent].target);
        row->target = on_path[i] && next < n ? text[next] : -1;
    }
}

static void recall_rows(ls_tree *t, const ls_recording *r, size_t position, const bool *on_path, ls_simulated *total) {
    int32_t tokens[LS_MAX_ROWS];
    for (int32_t i = 0; i < t->n; i++) {
        ls_node *row = &t->nodes[i];
        const int32_t len = leave(t, on_path, i, tokens);
        const best b = recall(r, position + (size_t)(row->depth - len) + !len, tokens, len);
        row->lse = b.lse;
        for (int j = 0; j < LS_ROW_TOP; j++)
            row->top[j] = j < b.n ? r->entries[b.first + (uint32_t)j] : (ls_top_entry){-1, 0};
        total->rows_known += b.n > 0;
        total->rows++;
    }
}

static ls_draft_state state_of(ls_simulator *s, const ls_recording *r) {
    const size_t n_context = r->n_context + s->position;
    const best b = recall(r, s->position, NULL, 0);
    for (uint32_t i = 0; i < b.n; i++) {
        s->top_ids[i] = r->entries[b.first + i].id;
        s->top_p[i] = expf(r->entries[b.first + i].logit - b.lse);
    }
    return (ls_draft_state){r->text.p, n_context, r->text.p[n_context], s->top_ids, s->top_p, b.n, NULL};
}

static void simulate_propose(ls_simulator *s, const ls_recording *r, ls_simulated *total) {
    const ls_draft_state state = state_of(s, r);
    const uint64_t start = ls_now_ns();
    ls_drafting_propose(&s->drafting, &state, &s->costs, r->capacity - (int32_t)state.n_context, s->tree);
    total->draft_us += (double)(ls_now_ns() - start) / 1e3;
    total->lasts_whole += state.n_top >= LS_MAX_TOP;
    total->by_clock |= s->drafting.sizing.rule->by_cost;
    total->lasts++;
    s->proposed = true;
}

// Checks the tree against the text; returns the tokens that the step emits. 0: that depends on text to come.
static int32_t simulate_verify(ls_simulator *s, const ls_recording *r, bool whole, ls_simulated *total) {
    const size_t n_context = r->n_context + s->position, left = r->text.n - n_context;
    int32_t path[LS_MAX_ROWS];
    bool on_path[LS_MAX_ROWS];
    ls_tree *t = s->tree;
    follow_text(t, r->text.p + n_context, left, on_path);
    const int32_t n_path = ls_accept_path(&(ls_accept){0}, t, path);
    if ((size_t)n_path == left && !whole) return 0;
    recall_rows(t, r, s->position, on_path, total);
    ls_tree_mark(t, path, n_path);
    const ls_draft_state state = state_of(s, r);
    ls_drafting_learn(&s->drafting, &state, &s->costs, t, n_path);
    s->proposed = false;
    total->forwards++;
    total->drafted += (uint64_t)(t->n - 1);
    total->accepted += (uint64_t)(n_path - 1);
    total->cost_ms += ls_cost_ms(&s->costs, t->n, (int32_t)n_context);
    for (int32_t i = 0; i < n_path; i++)
        if ((size_t)i + 1 < left) total->plain_ms += ls_cost_ms(&s->costs, 1, (int32_t)n_context + i);
    return n_path;
}

bool ls_recording_goes_on(const ls_recording *r, const int32_t *context, size_t n) {
    return r->text.n > 0 && r->text.n <= n && !memcmp(r->text.p, context, (r->text.n - 1) * sizeof *context);
}

void ls_simulate_begin(ls_simulator *s, const ls_recording *r, bool fresh) {
    if (fresh) ls_drafting_observe(&s->drafting, NULL, 0, true);
    ls_drafting_observe(&s->drafting, r->text.p, r->n_context, false);
    s->position = 0;
    s->proposed = false;
}

bool ls_simulate_step(ls_simulator *s, const ls_recording *r, bool whole, ls_simulated *total) {
    const size_t left = ls_recording_output(r) - s->position;
    if (left == 0 || (left == 1 && !whole)) return false;
    int32_t emitted = 1; // the last token: nothing follows, so it takes no forward
    if (left > 1) {
        if (!s->proposed) simulate_propose(s, r, total);
        emitted = simulate_verify(s, r, whole, total);
        if (!emitted) return false;
    }
    total->steps++;
    s->position += (size_t)emitted;
    total->emitted += (uint64_t)emitted;
    total->by_emitted[emitted]++;
    ls_drafting_observe(&s->drafting, r->text.p, r->n_context + s->position, false);
    return true;
}

void ls_simulate(ls_simulator *s, const ls_recording *r, ls_simulated *total) {
    ls_simulate_begin(s, r, true);
    while (ls_simulate_step(s, r, true, total)) {
    }
}

double ls_simulated_speedup(const ls_simulated *t) {
    return t->cost_ms > 0 ? t->plain_ms / (t->cost_ms + t->draft_us / 1e3) : (double)NAN;
}

bool ls_simulated_is_exact(const ls_simulated *t, const ls_method *m) {
    const bool knows_all = m->text_only || (t->rows_known == t->rows && t->lasts_whole == t->lasts);
    return !m->drafter || (knows_all && !t->by_clock);
}
