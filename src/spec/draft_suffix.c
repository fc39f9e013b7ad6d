// SuffixDecoding (arXiv 2411.04975; Arctic Inference, suffix_decoding/cache.py): finds the longest suffixes of the text
// that occurred before. Each proposes the tree of the tokens that followed it, the most likely first by counts; the
// size is the length of the match times a factor. The tree with the highest sum of probabilities is drafted. As
// published, there are two texts: this conversation, and the answers of all conversations so far, without their
// prompts. If the sums are equal, the conversation's tree is used. A match and its drafts have at most 64 tokens. The
// tree is the paper's; the published program drafts a chain by default.
//
// A continuation that c of a match's n occurrences have gets c/n; in the program (snowflakedb/ArcticInference, 9d46438)
// the pattern finds itself, too, so it gets c/(n + 1). On 36 recorded answers the MAT is 1.802 and 1.798 (with the
// program's factor 4: 2.035). From trees without the root the program drafts the same (test_published).
//
// Differences: suffix automata (spec/automaton.h) with the same counts replace the published suffix trees. Only the
// ENDINGS longest different endings are tried. Memory is bounded: when the younger of two automata of answers has half
// of the tokens to be remembered, the older one is dropped. An answer's last token is not remembered if no forward was
// run for it.
#include "spec/automaton.h"
#include "spec/stream.h"

#include <math.h>

enum { ENDINGS = 8, MAX_CHILDREN = 64 }; // MAX_CHILDREN: examined children of a state, newest first

enum { CONVERSATION, YOUNG, OLD, TEXTS }; // young and old: of answers
typedef struct {
    ls_automaton text;
    ls_automaton_match at; // match of the conversation's ending in it
} grown;

typedef struct {
    ls_drafter base;
    grown texts[TEXTS];
    size_t seen;          // tokens of the conversation
    ls_ids answers;       // of this conversation, with a break between them
    ls_stream history;    // answers of all
    bool verified;        // the next observed tokens are of an answer
    bool broken;          // the last observed token was not of an answer
    int32_t breaks;       // separators so far: each is a different token
    double factor, least; // knobs
    int32_t longest;      // a knob: limit for the tokens of a match and its drafts
    int32_t tokens;       // a knob: limit of the history
    const char *file;     // a knob: the history's
} drafter;

static void suffix_forget(grown *g) {
    ls_automaton_free(&g->text);
    *g = (grown){0};
}

static void add_to(grown *g, int32_t token) {
    ls_automaton_add(&g->text, token);
    ls_automaton_settle(&g->text, &g->at);
}

// A match is shorter than `longest`, so that drafts can follow it. Also, in a text that repeats one token each ending
// is a state: without this limit each step would visit all of them.
static void suffix_move(const drafter *d, const ls_automaton *text, ls_automaton_match *at, int32_t token) {
    ls_automaton_follow(text, at, token);
    if (at->length >= d->longest) at->length = d->longest - 1;
    ls_automaton_settle(text, at);
}

static void add_answer(drafter *d, int32_t token) {
    if (token == LS_STREAM_BREAK) token = -2 - d->breaks++;
    if ((size_t)d->texts[YOUNG].text.n >= d->history.limit / 2) {
        suffix_forget(&d->texts[OLD]);
        d->texts[OLD] = d->texts[YOUNG];
        d->texts[YOUNG] = (grown){0};
    }
    add_to(&d->texts[YOUNG], token);
}

static void suffix_observe(ls_drafter *base, const int32_t *context, size_t n, bool reset) {
    drafter *d = (drafter *)base;
    if (reset || n < d->seen) {
        suffix_forget(&d->texts[CONVERSATION]);
        d->texts[YOUNG].at = d->texts[OLD].at = (ls_automaton_match){0};
        d->seen = d->answers.n = 0;
        d->verified = false;
        reset = true;
    }
    for (size_t i = d->seen; i < n; i++) {
        for (int k = 0; k < TEXTS; k++) suffix_move(d, &d->texts[k].text, &d->texts[k].at, context[i]);
        add_to(&d->texts[CONVERSATION], context[i]);
        const bool begins = d->verified && d->broken;
        if (begins && d->texts[YOUNG].text.n) add_answer(d, LS_STREAM_BREAK);
        if (begins && d->answers.n) ls_ids_push(&d->answers, LS_STREAM_BREAK);
        d->broken = !d->verified;
        if (!d->verified) continue;
        add_answer(d, context[i]);
        ls_ids_push(&d->answers, context[i]);
    }
    d->seen = n;
    d->verified = false;
    ls_stream_observe(&d->history, d->answers.p, d->answers.n, reset);
}

static void suffix_learn(ls_drafter *base, const ls_draft_result *r) {
    (void)r;
    ((drafter *)base)->verified = true;
}

typedef struct {
    int32_t parent, token, state, depth;
    double p;
} offshoot;

// A tree that grows from one state.
typedef struct {
    offshoot rows[LS_MAX_ROWS];
    int32_t n;
    double sum; // sum of its rows' probabilities: expected accepted tokens
    const ls_automaton *text;
    ls_automaton_match at; // the match that it grew from
} suffix_tree;

static void suffix_grow_from(const ls_automaton *a, ls_automaton_match at, const drafter *d, int32_t max_rows,
                             suffix_tree *g) {
    static _Thread_local offshoot c[LS_CANDIDATES];
    static _Thread_local ls_open open;
    int32_t n = 0;
    const double most = d->factor * at.length;
    if (max_rows > most + 1) max_rows = 1 + (int32_t)most;
    g->n = 1;
    g->sum = 0;
    g->text = a;
    g->at = at;
    open.n = 0;
    int32_t state = at.state, parent = 0, depth = 0;
    double chance = 1;
    while (g->n < max_rows) {
        const double total = a->states[state].count;
        int32_t looked = 0;
        const bool deeper = at.length + depth < d->longest;
        for (int32_t e = deeper ? a->states[state].first_edge : -1;
             e >= 0 && looked < MAX_CHILDREN && n < LS_CANDIDATES; looked++) {
            const ls_automaton_edge *edge = &a->edges[e];
            const double p = a->states[edge->to].count / total;
            e = edge->next;
            if (edge->token < 0 || chance * p < d->least || p > 1)
                continue; // a separator, or an inexact count (see automaton.c)
            if (ls_open_add(&open, max_rows - g->n, n, chance * p))
                c[n++] = (offshoot){parent, edge->token, edge->to, depth + 1, p};
        }
        const int32_t item = ls_open_take(&open, &chance);
        if (item < 0) break;
        state = c[item].state;
        depth = c[item].depth;
        parent = g->n++;
        g->rows[parent] = c[item];
        g->sum += chance;
    }
}

// All endings of one state, from `shortest` to `longest` tokens, have the same continuations. The published program
// tries each of them: a longer one may have more drafts by the factor, but fewer by the total limit. Here the ending
// with the largest number of drafts is used.
static int32_t best_length(const drafter *d, int32_t shortest, int32_t longest) {
    const int32_t most = (int32_t)ceil(d->longest / (1 + d->factor));
    return most < shortest ? shortest : most < longest ? most : longest;
}

// The best tree; without a text if no text has a continuation.
static const suffix_tree *grow_best(const drafter *d, const ls_draft_state *s, int32_t max_rows) {
    static _Thread_local suffix_tree best, g;
    best.n = 1;
    best.sum = 0;
    best.text = NULL;
    for (int i = 0; i < TEXTS; i++) {
        const ls_automaton *text = &d->texts[i].text;
        ls_automaton_match at = d->texts[i].at;
        if (!text->n_states) continue;
        suffix_move(d, text, &at, s->root);
        for (int k = 0; k < ENDINGS && at.state > 0; k++) { // the longest suffix, then shorter ones with more counts
            const int32_t link = text->states[at.state].link, shortest = text->states[link].length + 1;
            suffix_grow_from(text, (ls_automaton_match){at.state, best_length(d, shortest, at.length)}, d, max_rows,
                             &g);
            if (g.sum > best.sum) best = g;
            at = (ls_automaton_match){link, shortest - 1};
        }
    }
    return &best;
}

// Extends a match along the path; false: the text has the path only after a shorter ending.
static bool suffix_follow(const ls_automaton *text, ls_automaton_match *m, const int32_t *path, int32_t n) {
    const int32_t length = m->length;
    for (int32_t i = 1; i < n; i++) ls_automaton_follow(text, m, path[i]);
    return m->length == length + n - 1;
}

static void suffix_grow(ls_drafter *base, const ls_draft_state *s, ls_growth *g) {
    const suffix_tree *best = grow_best((const drafter *)base, s, g->q ? LS_MAX_ROWS : g->max_rows);
    int32_t row[LS_MAX_ROWS] = {0};
    for (int32_t i = 1; i < best->n; i++) {
        const int32_t parent = row[best->rows[i].parent], n = best->at.length < INT16_MAX ? best->at.length : INT16_MAX;
        row[i] = parent < 0 ? -1 : ls_grow(g, parent, best->rows[i].token, LS_SOURCE_HISTORY, n, best->rows[i].p);
    }
    ls_automaton_match m = best->at;
    if (!g->q || !best->text || !suffix_follow(best->text, &m, g->path, g->n)) return;
    const int32_t length = m.length;
    ls_automaton_follow(best->text, &m, g->q->token);
    if (m.length > length) ls_grow_note(g, LS_MISS_BEYOND);
}

static ls_miss suffix_miss(const ls_drafter *base, const ls_draft_question *q, ls_miss miss) {
    const drafter *d = (const drafter *)base;
    int32_t path[LS_MAX_ROWS];
    const int32_t n = ls_tree_tokens(q->tree, q->row, path);
    for (int k = 0; k < TEXTS && miss < LS_MISS_BEYOND; k++) {
        const ls_automaton *text = &d->texts[k].text;
        ls_automaton_match m = d->texts[k].at;
        if (!text->n_states) continue;
        ls_automaton_follow(text, &m, q->state->root);
        suffix_follow(text, &m, path, n);
        if (m.length > 0) miss = LS_MISS_OTHERWISE;
        ls_automaton_follow(text, &m, q->token);
        if (m.length > 1) return LS_MISS_TAKEN; // after an ending of one token at least
    }
    return miss;
}

static void suffix_arrays(void *of, ls_memory_visit *v) {
    drafter *d = of;
    for (int i = 0; i < TEXTS; i++) ls_automaton_arrays(&d->texts[i].text, v);
    ls_memory_array(v, (void **)&d->answers.p, d->answers.cap * sizeof *d->answers.p);
}

static int32_t suffix_pool_size(const ls_drafter *base) {
    int32_t n = 0;
    for (int k = 0; k < TEXTS; k++) n += ((const drafter *)base)->texts[k].text.n_states;
    return n;
}

static const ls_knob knobs[] = {
    {"suffix.factor", LS_KNOB_NUMBER, 1, 0.1, 256, "draft tokens per token of the match", offsetof(drafter, factor)},
    {"suffix.min_p", LS_KNOB_NUMBER, 0.1, 0, 1, "least probability of a path", offsetof(drafter, least)},
    {"suffix.depth", LS_KNOB_INT, 64, 2, 1024, "largest number of tokens of a match and its drafts",
     offsetof(drafter, longest)},
    {"suffix.tokens", LS_KNOB_INT, 200000, 1000, 50000000,
     "number of remembered tokens of answers, about 150 bytes each", offsetof(drafter, tokens)},
    {"suffix.file", LS_KNOB_FILE, 0, 0, 0, "file that keeps these tokens for the next run", offsetof(drafter, file)},
    {0},
};

static ls_code suffix_set_up(ls_drafter *base, const ls_draft_setup *setup, ls_err *err) {
    drafter *d = (drafter *)base;
    base->stream = &d->history;
    const ls_code code = ls_stream_open(&d->history, "history", d->file, (size_t)d->tokens, setup, err);
    for (size_t i = 0; i < d->history.ids.n; i++) add_answer(d, d->history.ids.p[i]);
    return code;
}

const ls_method ls_method_suffix = {
    .name = "suffix",
    .summary = "SuffixDecoding: the tokens that followed the longest suffixes of the text before, by counts",
    .source = "arXiv 2411.04975 and Arctic Inference",
    .rows = 64,
    .text_only = true,
    .knobs = knobs,
    .drafter = &(const ls_drafter){.size = sizeof(drafter),
                                   .set_up = suffix_set_up,
                                   .observe = suffix_observe,
                                   .grow = suffix_grow,
                                   .learn = suffix_learn,
                                   .miss = suffix_miss,
                                   .arrays = suffix_arrays,
                                   .pool_size = suffix_pool_size},
};
