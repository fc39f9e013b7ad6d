// Reflective verification: where the probe lies, how distributions are fused, what stands by it, what it leaves alone.
#include "base/mem.h"
#include "decode/choose.h"
#include "decode/session.h"
#include "decode/stats.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static ls_model model;

static int load(void **unused) {
    (void)unused;
    const ls_model_options o = {.name = "script", .engine = {.context = 600}};
    return ls_model_load(&model, &o, NULL) != LS_OK;
}

static int unload(void **unused) {
    (void)unused;
    ls_model_free(&model);
    return 0;
}

static ls_accept rule(const char *text) {
    ls_accept a;
    assert_int_equal(ls_accept_read(&a, "", text, NULL), LS_OK);
    return a;
}

static ls_ids ids_of(const char *text) {
    ls_ids ids = {0};
    assert_int_equal(ls_encode(model.vocab, text, strlen(text), true, &ids, NULL), LS_OK);
    return ids;
}

// ---- fusion

static void assert_shares(const float *logits, double a, double b, double c) {
    const double e[] = {exp((double)logits[0]), exp((double)logits[1]), exp((double)logits[2])},
                 sum = e[0] + e[1] + e[2];
    assert_float_equal(e[0] / sum, a, 1e-6);
    assert_float_equal(e[1] / sum, b, 1e-6);
    assert_float_equal(e[2] / sum, c, 1e-6);
}

static void fused_distributions_are_those_by_hand(void **state) {
    (void)state;
    const float own[] = {logf(0.6f), logf(0.3f), logf(0.1f)};
    const float other[] = {logf(0.1f) + 7, logf(0.8f) + 7, logf(0.1f) + 7}; // whatever is added to logits
    float fused[3];
    ls_fuse(own, other, 3, 0.5, 0, fused);
    assert_shares(fused, 0.35, 0.55, 0.1);
    ls_fuse(own, other, 3, 0.25, 1, fused);
    assert_shares(fused, 0.475, 0.425, 0.1);
    ls_fuse(own, other, 3, 1, 1, fused);
    assert_shares(fused, 0.1, 0.8, 0.1);
    ls_fuse(own, other, 3, 0, 0.7, fused);
    assert_memory_equal(fused, own, sizeof own);
    // at temperature 0.5 the squares are mixed: 36:9:1 and 1:64:1, each of its sum; sampling shapes once more
    ls_fuse(own, other, 3, 0.5, 0.5, fused);
    for (int i = 0; i < 3; i++) fused[i] /= 0.5f;
    assert_shares(fused, (36 / 46. + 1 / 66.) / 2, (9 / 46. + 64 / 66.) / 2, (1 / 46. + 1 / 66.) / 2);
}

// ---- the probe

enum { A = 10, B, C, D, E };

// root - A - B - C, and root - D - E
static void plant(ls_tree *t, float a, float d) {
    ls_tree_start(t, 7);
    ls_tree_add(t, (const int32_t[]){A, B, C}, 3, LS_MAX_ROWS, (ls_branch){.rank = -1});
    ls_tree_add(t, (const int32_t[]){D, E}, 2, LS_MAX_ROWS, (ls_branch){.rank = -1});
    for (int32_t i = 1; i < t->n; i++) t->nodes[i].est_p = i < 4 ? a : d;
}

static void the_probe_repeats_the_likeliest_path(void **state) {
    (void)state;
    ls_tree *t = ls_tree_new();
    int32_t prompt_ids[] = {100, 101}, ids[LS_MAX_ROWS], parents[LS_MAX_ROWS];
    const ls_ids prompt = {.p = prompt_ids, .n = 2};
    ls_probe p;
    plant(t, 0.5f, 0.6f); // 0.5 + 0.25 + 0.125 drafts are expected there, 0.6 + 0.36 here
    ls_probe_add(&p, t, &prompt, 100, ids, parents);
    assert_int_equal(p.n, 2 + 2);
    assert_int_equal(p.n_path, 3);
    assert_memory_equal(p.path, ((const int32_t[]){0, 4, 5}), 3 * sizeof *p.path);
    assert_int_equal(p.copies, 8);
    assert_memory_equal(ids + 6, ((const int32_t[]){100, 101, 7, D}), 4 * sizeof *ids);
    assert_memory_equal(parents + 6, ((const int32_t[]){5, 6, 7, 8}), 4 * sizeof *parents);
    plant(t, 0.9f, 0.6f);
    ls_probe_add(&p, t, &prompt, 100, ids, parents);
    assert_memory_equal(p.path, ((const int32_t[]){0, 1, 2, 3}), 4 * sizeof *p.path);
    assert_memory_equal(ids + 6, ((const int32_t[]){100, 101, 7, A, B}), 5 * sizeof *ids);
    assert_int_equal(parents[6], 3);
    // its last row takes the position 3 + 2 + 3 behind the root's: there must be one more
    ls_probe_add(&p, t, &prompt, 9, ids, parents);
    assert_int_equal(p.n, 5);
    ls_probe_add(&p, t, &prompt, 8, ids, parents);
    assert_int_equal(p.n, 0);
    ls_tree_start(t, 7);
    ls_probe_add(&p, t, &prompt, 100, ids, parents);
    assert_int_equal(p.n, 0);
    free(t);
}

static void the_forward_keeps_to_its_rows(void **state) {
    (void)state;
    ls_tree *t = ls_tree_new();
    int32_t chain[LS_MAX_ROWS] = {0}, prompt_ids[LS_MAX_ROWS] = {0}, ids[LS_MAX_ROWS], parents[LS_MAX_ROWS];
    ls_probe p;
    ls_tree_start(t, 7);
    ls_tree_add(t, chain, 100, LS_MAX_ROWS, (ls_branch){.rank = -1});
    for (int32_t i = 1; i < t->n; i++) t->nodes[i].est_p = 1;
    for (size_t n = 50; n < 60; n++) {
        ls_probe_add(&p, t, &(ls_ids){.p = prompt_ids, .n = n}, 1000, ids, parents);
        assert_int_equal(p.n, 101 + n + 100 <= LS_MAX_ROWS ? n + 100 : 0);
    }
    free(t);
}

// ---- what stands

// Judges a tree behind a text; the rows that the forward says, and what the target chose alone.
static void judge(const char *text, const char *prompt, double weight, const ls_tree *t, lst_row *rows, int32_t *own) {
    const lst_sampling greedy = {.top_p = 1};
    ls_ids context = ids_of(text), asked = ids_of(prompt);
    ls_kv_cache *line;
    lst_row last;
    ls_probe p;
    int32_t ids[LS_MAX_ROWS], parents[LS_MAX_ROWS];
    for (int32_t i = 0; i < t->n; i++) ids[i] = t->nodes[i].token, parents[i] = t->nodes[i].parent;
    assert_int_equal(model.engine->kv_cache(model.engine, 0, &line, NULL), LS_OK);
    assert_int_equal(line->prefill(line, context.p, (int32_t)context.n, &greedy, &last, NULL, NULL, NULL), LS_OK);
    ls_probe_add(&p, t, &asked, 200, ids, parents);
    assert_int_equal(line->forward_tree(line, ids, parents, t->n + p.n, &greedy, rows, NULL), LS_OK);
    assert_int_equal(ls_reflect(&p, weight, &greedy, line, t, (int32_t)context.n, rows, own, NULL), LS_OK);
    line->free(line);
    ls_ids_free(&context), ls_ids_free(&asked);
}

// After "blue fish. One " the script wants "cat", after "blue cats. One " it wants "dog".
static void a_draft_stands_that_the_reflection_chooses(void **state) {
    (void)state;
    ls_tree *t = ls_tree_new();
    lst_row rows[LS_MAX_ROWS];
    int32_t own[LS_MAX_ROWS];
    ls_tree_start(t, ' ');
    ls_tree_add(t, (const int32_t[]){'d', 'o'}, 2, LS_MAX_ROWS, (ls_branch){.rank = -1});
    ls_tree_add(t, (const int32_t[]){'c', 'a'}, 2, LS_MAX_ROWS, (ls_branch){.rank = -1});
    ls_tree_add(t, (const int32_t[]){'d', 'u'}, 2, LS_MAX_ROWS, (ls_branch){.rank = -1}); // a twin of 'd'
    for (int32_t i = 1; i < t->n; i++) t->nodes[i].est_p = i < 3 ? 0.9f : 0.1f;
    judge("red fish, blue fish. One", " cats, blue cats. One", 1, t, rows, own);
    assert_int_equal(own[0], 'c');
    assert_int_equal(rows[0].chosen, 'd');
    const double p = exp((double)rows[0].chosen_logit - (double)rows[0].lse); // the target's own, of the draft
    assert_float_equal(p, exp((double)rows[1].parent_logit - (double)rows[1].parent_lse), 1e-6);
    assert_true(p < 0.5);
    assert_int_equal(rows[1].chosen, 'o');
    assert_true(own[1] >= 0 && own[5] >= 0); // judged, and so is its twin
    assert_int_equal(rows[5].chosen, rows[1].chosen);
    for (int32_t i = 2; i < t->n; i++) assert_true(i == 5 || own[i] == -1); // the end of the path, other branches
    judge("red fish, blue fish. One", " cats, blue cats. One", 0, t, rows, own);
    assert_true(own[0] == 'c' && rows[0].chosen == 'c');
    // a reflection that wants neither leaves the choice to the target: "if n" goes on with a blank and "<"
    judge("red fish, blue fish. One", "\n    if n", 1, t, rows, own);
    assert_true(own[0] == 'c' && rows[0].chosen == 'c');
    free(t);
}

// ---- in the step loop

typedef struct {
    ls_ids out;
    ls_stats stats;
    int plain_at_end;   // steps with drafts and no probe
    int32_t last_probe; // context of the last probe
    ls_finish finish;
} result;

static result run(const char *prompt, const ls_decode_options *o) {
    result r = {0};
    ls_session *s;
    ls_ids ids = ids_of(prompt);
    ls_step *step = ls_step_new();
    ls_err err = {0};
    if (ls_session_new(&s, &model, o, &err)) fail_msg("%s", err.msg);
    assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, NULL), LS_OK);
    do {
        if (ls_session_step(s, step, &err)) fail_msg("%s", err.msg);
        ls_stats_add(&r.stats, step);
        assert_int_equal(step->rows, step->tree.n);
        assert_true(ls_step_forwarded(step) <= LS_MAX_ROWS);
        assert_int_equal(step->exact, ls_accept_guarantee(&o->accept, 1) != LS_LOSSY);
        if (step->probes) r.last_probe = step->context_len, r.plain_at_end = 0;
        else r.plain_at_end += step->rows > 1;
        for (int i = 0; i < step->tree.n; i++) {
            const ls_node *n = &step->tree.nodes[i];
            bool drafted = n->own < 0 || n->own == n->target;
            for (int k = i + 1; k < step->tree.n; k++)
                drafted |= step->tree.nodes[k].parent == i && step->tree.nodes[k].token == n->target;
            assert_true(drafted); // what a reflection puts in place of a choice is a draft
            assert_true(step->probes || !step->forward || n->own == -1);
        }
    } while (!step->finish);
    r.finish = step->finish;
    ls_ids_add(&r.out, ls_session_output(s)->p, ls_session_output(s)->n);
    ls_step_free(step);
    ls_ids_free(&ids);
    ls_session_free(s);
    return r;
}

static const char fish[] = "One fish, two fish, red fish, blue fish. One cat, two";

static void at_weight_0_the_text_is_plain_decodings(void **state) {
    (void)state;
    static const char *const methods[] = {"logitspec", "logitspec-paper", "draft-model", "hybrid", "pld", "lookahead"};
    const lst_sampling ways[] = {{.top_p = 1},
                                 {.temperature = 0.8, .top_p = 1, .seed = 11},
                                 {.temperature = 1.2, .top_k = 20, .top_p = 0.9, .seed = 5}};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        ls_decode_options o = {.method = "plain", .max_tokens = 150, .sampling = ways[w]};
        result plain = run(fish, &o);
        o.reflection = "Once more: ";
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            o.method = methods[m];
            o.max_rows = 12;
            o.draft = (ls_draft_options){.layers = 3, .depth = 3, .width = 3};
            o.accept = rule("exact");
            result exact = run(fish, &o);
            o.accept = rule("reflective:0");
            result r = run(fish, &o);
            assert_int_equal(r.out.n, plain.out.n);
            assert_memory_equal(r.out.p, plain.out.p, r.out.n * sizeof *r.out.p);
            assert_true(r.stats.probes > 12 * r.stats.steps_with_draft / 2 && r.stats.judged > 0);
            assert_int_equal(r.stats.judged_otherwise, 0);
            assert_int_equal(r.stats.lossy, 0);
            assert_int_equal(exact.stats.probes, 0);
            assert_int_equal(r.stats.drafted, exact.stats.drafted); // a probe row is no draft
            assert_int_equal(r.stats.steps, exact.stats.steps);
            ls_ids_free(&r.out), ls_ids_free(&exact.out);
        }
        ls_ids_free(&plain.out);
    }
}

static void at_weight_1_drafts_stand_and_are_counted(void **state) {
    (void)state;
    ls_decode_options o = {.method = "logitspec-paper",
                           .max_rows = 24,
                           .max_tokens = 150,
                           .sampling = {.temperature = 0.8, .top_p = 1, .seed = 3}};
    result exact = run(fish, &o);
    o.accept = rule("reflective:1"); // without a prompt: the path once more behind itself
    result r = run(fish, &o);
    assert_true(r.stats.lossy > 0 && r.stats.judged_otherwise >= r.stats.lossy);
    assert_true(r.stats.judged > r.stats.judged_otherwise);
    assert_true(r.out.n != exact.out.n || memcmp(r.out.p, exact.out.p, r.out.n * sizeof *r.out.p));
    ls_ids_free(&r.out), ls_ids_free(&exact.out);
}

static void without_room_the_step_is_verified_plainly(void **state) {
    (void)state;
    ls_decode_options o = {.method = "logitspec-paper", .max_rows = 12, .max_tokens = 4000, .sampling = {.top_p = 1}};
    result plain = run(fish, &o);
    o.accept = rule("reflective:0");
    o.reflection = "Is that right? Once more, and please with care: ";
    result r = run(fish, &o);
    assert_int_equal(plain.finish, LS_FINISH_CONTEXT);
    assert_int_equal(r.finish, LS_FINISH_CONTEXT);
    assert_true(r.last_probe > 500 && r.plain_at_end > 0);
    assert_int_equal(r.out.n, plain.out.n);
    assert_memory_equal(r.out.p, plain.out.p, r.out.n * sizeof *r.out.p);
    ls_ids_free(&r.out), ls_ids_free(&plain.out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_distributions_are_those_by_hand),
        cmocka_unit_test(the_probe_repeats_the_likeliest_path),
        cmocka_unit_test(the_forward_keeps_to_its_rows),
        cmocka_unit_test(a_draft_stands_that_the_reflection_chooses),
        cmocka_unit_test(at_weight_0_the_text_is_plain_decodings),
        cmocka_unit_test(at_weight_1_drafts_stand_and_are_counted),
        cmocka_unit_test(without_room_the_step_is_verified_plainly),
    };
    return cmocka_run_group_tests_name("reflect", tests, load, unload);
}
