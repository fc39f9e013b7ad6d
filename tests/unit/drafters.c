#include "drafters.h"
#include "base/mem.h"
#include "base/rng.h"
#include "spec/accept.h"
#include "spec/corpus.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

ls_tree test_tree(void) {
    static ls_tree *trees[100];
    static size_t at;
    ls_tree **t = &trees[at++ % (sizeof trees / sizeof *trees)];
    if (!*t) *t = ls_tree_new();
    return **t;
}

ls_tree test_tree_copy(const ls_tree *t) {
    ls_tree copy = test_tree();
    ls_tree_copy(&copy, t);
    return copy;
}

static char corpus_path[64];

static void remove_corpus(void) {
    unlink(corpus_path);
}

const ls_knob_value *test_knobs(int32_t n_vocab, uint64_t tokenizer_id) {
    static ls_knob_value knobs[64];
    enum { N = 4000 };
    int32_t tokens[N];
    ls_err err = {0};
    assert_in_range(ls_knob_count(), 1, sizeof knobs / sizeof *knobs);
    if (!*corpus_path) {
        snprintf(corpus_path, sizeof corpus_path, "/tmp/logitspec-test-%d.corpus", (int)getpid());
        atexit(remove_corpus);
    }
    const int32_t kinds = n_vocab < 60 ? n_vocab : 60; // few enough that pairs occur again
    for (int32_t i = 0; i < N; i++) tokens[i] = (int32_t)(ls_uniform_at(9, (uint64_t)i) * kinds);
    const ls_corpus_facts facts = {.n = N, .n_vocab = n_vocab, .tokenizer_id = tokenizer_id, .tokenizer = "test"};
    if (ls_corpus_write(corpus_path, tokens, &facts, 2, NULL, NULL, &err)) fail_msg("%s", err.msg);
    ls_knob_defaults(knobs);
    for (size_t i = 0; i < ls_knob_count(); i++)
        if (!strcmp(ls_knob_at(i)->key, "rest.corpus")) knobs[i].text = corpus_path;
        else if (!strcmp(ls_knob_at(i)->key, "racer.read_prompt")) knobs[i].number = 0; // a recording has no such rows
    return knobs;
}

// A draft model whose likeliest token after a row is three times the row's and one, as that of the tests' targets is.
typedef struct {
    ls_draft_model base;
    int32_t token[LS_MAX_PREDICTIONS], n;
} fake_second;

static ls_prediction fake_said(int32_t token) {
    ls_prediction s = {.chosen = (token * 3 + 1) % 12, .entropy = 1};
    for (int i = 0; i < LS_PREDICTION_TOP; i++) s.id[i] = (s.chosen + i) % 400, s.p[i] = 0.5f / (float)(1 << i);
    return s;
}

static ls_code fake_begin(ls_draft_model *base, const int32_t *context, size_t n, int32_t root,
                          ls_prediction *prediction, ls_err *err) {
    fake_second *f = (fake_second *)base;
    (void)context, (void)n, (void)err;
    f->token[0] = root;
    f->n = 1;
    base->forwards = 1;
    *prediction = fake_said(root);
    return LS_OK;
}

static ls_code fake_more(ls_draft_model *base, const int32_t *tokens, const int32_t *parents, int32_t n,
                         ls_prediction *prediction, ls_err *err) {
    fake_second *f = (fake_second *)base;
    (void)err;
    assert_in_range(f->n + n, 2, LS_MAX_PREDICTIONS);
    for (int32_t i = 0; i < n; i++) {
        assert_in_range(parents[i], 0, f->n + i - 1); // a row before it
        prediction[i] = fake_said(tokens[i]);
    }
    memcpy(f->token + f->n, tokens, (size_t)n * sizeof *tokens);
    f->n += n;
    base->forwards++;
    return LS_OK;
}

static int32_t fake_unread(const ls_draft_model *base, const int32_t *context, size_t n) {
    (void)base, (void)context, (void)n;
    return 1;
}

static void fake_free(ls_draft_model *base) {
    free(base);
}

static ls_code make_fake(void *of, const ls_draft_options *o, ls_draft_model **out, ls_err *err) {
    (void)of, (void)o, (void)err;
    fake_second *f = ls_calloc(1, sizeof *f);
    f->base = (ls_draft_model){
        .name = "fake", .begin = fake_begin, .more = fake_more, .unread = fake_unread, .free = fake_free};
    ls_cost_of_points(&f->base.costs, (int32_t[]){1, 64}, (double[]){1.1, 7.4}, NULL, 2);
    *out = &f->base;
    return LS_OK;
}

// Heads that guess the same tokens at every place.
static ls_code fake_guess(ls_multi_head *g, const int32_t *context, size_t n_context, int32_t k, int32_t *ids, float *p,
                          ls_err *err) {
    (void)context, (void)n_context, (void)err;
    for (int32_t i = 0; i < g->n * k; i++) ids[i] = i % k * 3 + 1, p[i] = 0.5f / (float)(1 << (i % k));
    return LS_OK;
}

static void free_multi_head(ls_multi_head *g) {
    free(g);
}

static ls_code make_multi_head(void *of, const ls_draft_options *o, ls_multi_head **out, ls_err *err) {
    (void)of, (void)o, (void)err;
    *out = ls_calloc(1, sizeof **out);
    **out = (ls_multi_head){.n = 4, .guess = fake_guess, .free = free_multi_head};
    return LS_OK;
}

ls_drafter *test_drafter(const ls_method *m) {
    ls_drafter *d = NULL;
    ls_err err = {0};
    const ls_draft_setup setup = {.knobs = test_knobs(1000, 7) + ls_knob_offset(m),
                                  .tokenizer = "test",
                                  .n_vocab = 1000,
                                  .tokenizer_id = 7,
                                  .draft = {.head = "fake", .depth = LS_DRAFT_DEPTH, .width = LS_DRAFT_WIDTH},
                                  .draft_model = make_fake,
                                  .multi_head = make_multi_head};
    if (ls_drafter_make(&d, m, &setup, &err)) fail_msg("%s: %s", m->name, err.msg);
    return d;
}

ls_drafter *test_drafter_named(const char *name) {
    return test_drafter(ls_method_find(name));
}

void test_say(ls_node *row, int j, int32_t id, float p) {
    row->lse = 0;
    row->top[j] = (ls_top_entry){id, logf(p)};
}

int32_t test_verify(ls_tree *t, const int32_t *chosen, int32_t *path) {
    for (int32_t i = 0; i < t->n; i++) t->nodes[i].target = chosen[i];
    const int32_t n = ls_accept_path(&(ls_accept){0}, t, path);
    ls_tree_mark(t, path, n);
    return n;
}

void test_teach(ls_drafter *d, const int32_t *context, size_t n_context, int32_t token, int32_t first, int n, float p) {
    ls_tree t = test_tree();
    const int32_t path[] = {0};
    ls_tree_start(&t, token);
    ls_tree_mark(&t, path, 1);
    for (int j = 0; j < LS_ROW_TOP; j++) test_say(&t.nodes[0], j, j < n ? first + j : -1, p);
    d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = context, .n_context = n_context}, &t, 1});
}
