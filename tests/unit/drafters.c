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
    return knobs;
}

ls_drafter *test_drafter(const ls_method *m) {
    ls_drafter *d = NULL;
    ls_err err = {0};
    const ls_draft_setup setup = {
        .knobs = test_knobs(1000, 7) + ls_knob_offset(m), .tokenizer = "test", .n_vocab = 1000, .tokenizer_id = 7};
    if (m->make(&d, &setup, &err)) fail_msg("%s: %s", m->name, err.msg);
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
    ls_tree t;
    const int32_t path[] = {0};
    ls_tree_start(&t, token);
    ls_tree_mark(&t, path, 1);
    for (int j = 0; j < LS_ROW_TOP; j++) test_say(&t.nodes[0], j, j < n ? first + j : -1, p);
    d->learn(d, &(ls_draft_result){context, n_context, &t, 1});
}
