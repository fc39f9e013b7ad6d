// A draft model drafts: on the target itself its likeliest token is the target's at every place, so that one row lost
// or kept wrongly shows as a rejected draft.
#include "base/mem.h"
#include "base/rng.h"
#include "decode/ahead.h"
#include "decode/draft_model.h"
#include "decode/stats.h"
#include "drafters.h"
#include "engine/load.h"
#include "scripted.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static const char prompt[] = "One fish, two fish, red fish, blue fish. One dog, two dogs, red dogs. ";
static const ls_accept exact;
static const lst_sampling greedy = {.top_p = 1}, sampled = {.temperature = 0.9, .top_p = 0.95, .seed = 3};

typedef struct {
    ls_ids out;
    ls_stats stats;
    int32_t deepest, seen; // accepted depth at most; rows that the draft model saw
} outcome;

static void follow(ls_session *s, outcome *o) {
    ls_step *step = ls_step_new();
    ls_err err = {0};
    do {
        if (ls_session_step(s, step, &err)) fail_msg("%s", err.msg);
        ls_stats_add(&o->stats, step);
        if (step->n_path - 1 > o->deepest) o->deepest = step->n_path - 1;
        o->seen += step->tree.n_predictions;
        for (int32_t i = 1; i < step->tree.n;
             i++) { // a draft's probability is what the draft model predicts after its parent
            const ls_node *n = &step->tree.nodes[i];
            const int said = step->tree.nodes[n->parent].prediction;
            if (n->draft_p <= 0) continue;
            assert_true(said > 0 && said <= step->tree.n_predictions);
            const ls_prediction *after = &step->tree.predictions[said - 1];
            bool named = after->chosen == n->token;
            for (int k = 0; k < LS_PREDICTION_TOP; k++)
                named |= after->id[k] == n->token && fabsf(after->p[k] - n->draft_p) < 1e-6f;
            assert_true(named);
        }
    } while (!step->finish);
    ls_step_free(step);
}

static outcome decode(ls_decode_options o, int turns) {
    outcome out = {0};
    ls_session *s;
    ls_ids ids = {0};
    ls_err err = {0};
    if (ls_session_new(&s, &model, &o, &err)) fail_msg("%s", err.msg);
    assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
    assert_int_equal(ls_encode(model.vocab, prompt, strlen(prompt), true, &ids, &err), LS_OK);
    for (int turn = 0; turn < turns; turn++) {
        assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
        follow(s, &out);
        ls_ids_add(&out.out, ls_session_output(s)->p, ls_session_output(s)->n);
    }
    ls_ids_free(&ids);
    ls_session_free(s);
    return out;
}

static void assert_same(const outcome *a, const outcome *b) {
    assert_int_equal(a->out.n, b->out.n);
    assert_memory_equal(a->out.p, b->out.p, a->out.n * sizeof *a->out.p);
}

static void the_target_drafts_what_it_will_choose(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++)
        for (int32_t width = 1; width <= 5; width += 2) {
            ls_decode_options o = {.method = "plain", .max_tokens = 90, .sampling = how ? sampled : greedy};
            outcome plain = decode(o, 3);
            o.method = "draft-model";
            o.draft = (ls_draft_options){.model = "script:0", .depth = 5, .width = width};
            o.max_rows = width == 1 ? 6 : 30;
            outcome drafted = decode(o, 3);
            assert_same(&plain, &drafted);
            // five drafts a step, each of which is right (the last step of a turn is cut short)
            assert_int_equal(drafted.deepest, 5);
            const ls_ratio first = drafted.stats.depth[1], last = drafted.stats.depth[5];
            // one that draws from the same logits by another draw may differ
            const uint64_t least = how && width == 1 ? 90 : 100;
            assert_true(100 * first.n >= least * first.of && 100 * last.n >= least * last.of);
            assert_true(ls_stats_mat(&drafted.stats) > 5.3);
            assert_true(drafted.stats.draft_forwards >= 4 * drafted.stats.forwards);
            assert_true(drafted.seen + 3 >= (int32_t)drafted.stats.draft_forwards); // a prompt's forward sees no draft
            ls_ids_free(&plain.out);
            ls_ids_free(&drafted.out);
        }
}

static void fewer_layers_draft_less_well(void **state) {
    (void)state;
    double before = 0;
    ls_decode_options o = {.method = "plain", .max_tokens = 150, .sampling = greedy};
    outcome plain = decode(o, 1);
    for (int32_t layers = 1; layers <= 8; layers += 3) {
        o.method = "draft-model";
        o.max_rows = 6;
        o.draft = (ls_draft_options){.layers = layers, .depth = 5, .width = 1};
        outcome r = decode(o, 1);
        assert_same(&plain, &r);
        assert_true(ls_stats_mat(&r.stats) >= before);
        before = ls_stats_mat(&r.stats);
        ls_ids_free(&r.out);
    }
    assert_true(before > 3);
    ls_ids_free(&plain.out);
}

// Both in one tree: at least what the better of the two brings, on a text that repeats.
static void look_ups_and_a_model_share_a_tree(void **state) {
    (void)state;
    ls_decode_options o = {.method = "plain", .max_tokens = 150, .sampling = greedy, .max_rows = 8};
    o.draft = (ls_draft_options){.layers = 3, .depth = 3, .width = 2};
    outcome plain = decode(o, 2);
    double mat[3];
    for (int i = 0; i < 3; i++) {
        o.method = ((const char *[]){"logitspec", "draft-model", "hybrid"})[i];
        outcome r = decode(o, 2);
        assert_same(&plain, &r);
        mat[i] = ls_stats_mat(&r.stats);
        if (i == 2) {
            assert_true(r.stats.from[LS_SOURCE_DRAFT_MODEL].of > 0);
            assert_true(r.stats.from[LS_SOURCE_RETRIEVED].of + r.stats.from[LS_SOURCE_REMEMBERED].of > 0);
        }
        ls_ids_free(&r.out);
    }
    assert_true(mat[2] >= mat[0] && mat[2] >= mat[1]);
    ls_ids_free(&plain.out);
}

// Where a forward of the draft model costs as much as one of the target, and says nothing better than a third of the
// time, it is asked now and then only; where it is nearly free, in every step.
static void a_sized_draft_asks_where_that_pays(void **state) {
    (void)state;
    ls_model slow = {0};
    ls_decode_options o = {.method = "draft-model", .max_tokens = 60, .sampling = greedy};
    assert_int_equal(ls_model_load(&slow, &(ls_model_options){.name = "script:4"}, NULL), LS_OK);
    const ls_model quick = model;
    model = slow;
    o.draft = (ls_draft_options){.model = "script:4", .layers = 1, .overlap = LS_OVERLAP_OFF};
    outcome dear = decode(o, 1);
    o.draft = (ls_draft_options){.model = "script:0", .overlap = LS_OVERLAP_OFF};
    outcome cheap = decode(o, 1);
    slow = model; // with the models that drafted for it
    model = quick;
    assert_true(cheap.stats.draft_forwards >= cheap.stats.forwards);
    assert_true(ls_stats_mat(&cheap.stats) > 2);
    assert_true(dear.stats.draft_forwards < dear.stats.forwards);
    assert_same(&dear, &cheap);
    ls_ids_free(&dear.out);
    ls_ids_free(&cheap.out);
    ls_model_free(&slow);
}

// A draft on a text that went other ways than the drafts before says what one says that never saw those.
static void what_is_said_does_not_depend_on_earlier_drafts(void **state) {
    (void)state;
    uint64_t at = 0;
    int resumed = 0;
    for (int round = 0; round < 30; round++) {
        ls_draft_model *old, *fresh;
        int32_t root = 7;
        ls_err err = {0};
        const ls_draft_options o = {.weights = "auto", .layers = 6};
        int32_t text[300], n = 3;
        for (int32_t i = 0; i < n; i++) text[i] = (int32_t)(ls_uniform_at(4, at++) * 250);
        assert_int_equal(ls_draft_model_open(&old, &model, &o, &greedy, &exact, &err), LS_OK);
        for (int step = 0; step < 12; step++) {
            ls_prediction predictions[LS_MAX_PREDICTIONS], again[LS_MAX_PREDICTIONS];
            int32_t tokens[LS_MAX_PREDICTIONS] = {root}, parents[LS_MAX_PREDICTIONS] = {-1}, rows = 1;
            ls_draft_rows seen = {0};
            assert_int_equal(ls_draft_model_open(&fresh, &model, &o, &greedy, &exact, &err), LS_OK);
            assert_int_equal(fresh->begin(fresh, text, (size_t)n, root, again, &err), LS_OK);
            if (old->resume(old, text, (size_t)n, root, &seen)) {
                resumed += seen.n;
                rows = seen.n;
                memcpy(tokens, seen.token, sizeof tokens);
                memcpy(parents, seen.parent, sizeof parents);
                memcpy(predictions, seen.predictions, sizeof predictions);
                assert_int_equal(tokens[0], root);
                if (rows > 1)
                    assert_int_equal(fresh->more(fresh, tokens + 1, parents + 1, rows - 1, again + 1, &err), LS_OK);
            } else assert_int_equal(old->begin(old, text, (size_t)n, root, predictions, &err), LS_OK);
            for (int k = 0; k < 3 && rows < 40; k++) {
                const int32_t more = 1 + (int32_t)(ls_uniform_at(4, at++) * 4);
                for (int32_t i = rows; i < rows + more; i++) {
                    tokens[i] = (int32_t)(ls_uniform_at(4, at++) * 30);
                    parents[i] = (int32_t)(ls_uniform_at(4, at++) * rows);
                }
                assert_int_equal(old->more(old, tokens + rows, parents + rows, more, predictions + rows, &err), LS_OK);
                assert_int_equal(fresh->more(fresh, tokens + rows, parents + rows, more, again + rows, &err), LS_OK);
                rows += more;
            }
            assert_memory_equal(predictions, again, (size_t)rows * sizeof *predictions);
            fresh->free(fresh);
            // the text takes some of these rows, and may go on without them; now and then it is another one, or longer
            text[n++] = tokens[0];
            int32_t last = 0;
            for (int32_t i = 1; i < rows; i++)
                if (parents[i] == last && ls_uniform_at(4, at++) < 0.4) text[n++] = tokens[last = i];
            root = (int32_t)(ls_uniform_at(4, at++) * 250);
            for (int32_t i = 1; i < rows; i++) // often one that the draft had there
                if (parents[i] == last && ls_uniform_at(4, at++) < 0.6) root = tokens[i];
            for (double more = ls_uniform_at(4, at++) * 3 - (step % 3 ? 2 : 0); more > 1; more--)
                text[n++] = (int32_t)(ls_uniform_at(4, at++) * 250);
            if (step % 5 == 4) n -= 2 + (int32_t)(ls_uniform_at(4, at++) * 2);
            for (int i = 0; step == 7 && i < 50; i++) text[n++] = (int32_t)(ls_uniform_at(4, at++) * 250);
        }
        old->free(old);
    }
    assert_true(resumed > 100);
}

// How likely a draft is taken to be follows how often such drafts were right, whatever the draft model thinks of it.
static void estimates_follow_what_was_accepted(void **state) {
    (void)state;
    for (int right = 0; right < 2; right++) {
        ls_drafter *d = test_drafter_named("draft-model");
        int32_t text[400] = {5}, n = 1;
        double first = 0, last = 0;
        for (int step = 0; step < 60; step++) {
            ls_tree t = test_tree();
            int32_t chosen[LS_MAX_ROWS], path[LS_MAX_ROWS];
            const ls_draft_state s = {.context = text, .n_context = (size_t)n, .root = step % 12};
            d->propose(d, &s, 4, &t);
            last = (double)t.nodes[1].est_p;
            if (!step) first = last;
            for (int32_t i = 0; i < t.n; i++) chosen[i] = right ? (t.nodes[i].token * 3 + 1) % 12 : 300;
            const int32_t n_path = test_verify(&t, chosen, path);
            d->learn(d, &(ls_draft_result){&s, &t, n_path});
            text[n++] = s.root;
        }
        assert_true(fabs(first - 0.5) < 0.01); // nothing is known yet but what the draft model says
        assert_true(right ? last > 0.8 : last < 0.1);
        d->free(d);
    }
}

static int told;
static void count(void *ud, const char *text) {
    (void)ud;
    assert_non_null(strstr(text, "the draft model failed"));
    told++;
}

static ls_code refuse(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n, const lst_sampling *s,
                      lst_row *rows, ls_err *err) {
    (void)t, (void)ids, (void)parents, (void)n, (void)s, (void)rows;
    return ls_fail(err, LS_E_BACKEND, "no memory");
}

static ls_code (*real_kv_cache)(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err);
static bool breaks; // KV caches of fewer layers cannot grow a tree
static ls_code kv_cache(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err) {
    const ls_code code = real_kv_cache(e, layers, out, err);
    if (!code && layers && breaks) (*out)->grow_tree = refuse;
    return code;
}

static void a_second_model_that_fails_costs_its_drafts_only(void **state) {
    (void)state;
    ls_decode_options o = {.method = "plain", .max_tokens = 60, .sampling = greedy, .max_rows = 6};
    outcome plain = decode(o, 2);
    real_kv_cache = model.engine->kv_cache;
    model.engine->kv_cache = kv_cache;
    breaks = true;
    o.method = "draft-model";
    o.draft = (ls_draft_options){.layers = 6};
    o.note = count;
    told = 0;
    outcome r = decode(o, 2);
    model.engine->kv_cache = real_kv_cache;
    assert_same(&plain, &r);
    assert_int_equal(told, 1);
    assert_int_equal(r.stats.drafted, 0);
    assert_int_equal(r.stats.draft_forwards, 2); // the prompt and a root: it is not asked again
    ls_ids_free(&plain.out);
    ls_ids_free(&r.out);
}

// ---- beside the target's forward

// The target's forwards wait a moment for the draft model to do two beside them, however busy the machine is.
static atomic_int beside; // forwards of the draft model in another thread than the test's, since the target's last
static bool waits;
static pthread_t of_test;
static ls_code (*real_forward)(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                               const lst_sampling *s, lst_row *rows, ls_err *err);
static ls_code (*real_grow)(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err);

static ls_code slow_forward(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err) {
    const ls_code code = real_forward(t, ids, parents, n, s, rows, err);
    for (int i = 0; i < 100 && waits && atomic_load(&beside) < 2; i++)
        nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    atomic_store(&beside, 0);
    return code;
}

static ls_code counted_grow(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                            const lst_sampling *s, lst_row *rows, ls_err *err) {
    const ls_code code = real_grow(t, ids, parents, n, s, rows, err);
    if (!pthread_equal(pthread_self(), of_test)) atomic_fetch_add(&beside, 1);
    return code;
}

static ls_code kv_caches_to_watch(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err) {
    const ls_code code = real_kv_cache(e, layers, out, err);
    if (code) return code;
    if (layers) {
        real_grow = (*out)->grow_tree;
        (*out)->grow_tree = counted_grow;
    } else {
        real_forward = (*out)->forward_tree;
        (*out)->forward_tree = slow_forward;
    }
    return code;
}

static outcome watched(ls_decode_options o) {
    real_kv_cache = model.engine->kv_cache;
    model.engine->kv_cache = kv_caches_to_watch;
    of_test = pthread_self();
    waits = o.draft.overlap == LS_OVERLAP_ON;
    outcome r = decode(o, 2);
    model.engine->kv_cache = real_kv_cache;
    return r;
}

// All layers but the last few, so that it is right nearly always: then the next step begins where it went on.
static void it_goes_on_while_the_target_verifies(void **state) {
    (void)state;
    for (int how = 0; how < 2; how++)
        for (int hybrid = 0; hybrid < 2; hybrid++) {
            ls_decode_options o = {.method = "plain", .max_tokens = 60, .sampling = how ? sampled : greedy};
            outcome plain = decode(o, 2);
            o.method = hybrid ? "hybrid" : "draft-model";
            o.draft = (ls_draft_options){.layers = 7, .depth = 4, .width = 2, .overlap = LS_OVERLAP_OFF};
            o.max_rows = 8;
            outcome off = watched(o);
            o.draft.overlap = LS_OVERLAP_AUTO; // a fixed number of rows: the steps are those of every run
            outcome fixed = watched(o);
            o.draft.overlap = LS_OVERLAP_ON;
            outcome on = watched(o);
            assert_same(&plain, &off);
            assert_same(&plain, &on);
            assert_int_equal(off.stats.ahead_forwards, 0);
            assert_int_equal(fixed.stats.ahead_forwards, 0);
            // hybrid learns from the prompt's rows if that pays by costs that were just measured
            if (!hybrid) assert_int_equal(fixed.stats.steps, off.stats.steps);
            assert_true(on.stats.ahead_forwards > 0);
            // what was seen ahead is not seen again
            assert_true(on.stats.draft_forwards < off.stats.draft_forwards);
            assert_true(on.stats.draft_forwards + on.stats.ahead_forwards > off.stats.draft_forwards);
            ls_ids_free(&plain.out);
            ls_ids_free(&off.out);
            ls_ids_free(&fixed.out);
            ls_ids_free(&on.out);
        }
}

static void never(ls_drafter *d, const ls_draft_state *s, const atomic_bool *stop) {
    (void)d, (void)s, (void)stop;
}

// Steps with, out of 20 blocks, where drafting ahead makes a token take `us` and without 100.
static int steps_ahead(ls_ahead *a, double us) {
    int n = 0;
    for (int i = 0; i < 20 * 16; i++) {
        const bool on = ls_ahead_is_on(a);
        n += on;
        ls_ahead_learn(a, 2 * (on ? us : 100), 2);
    }
    return n;
}

static void the_better_way_goes_on(void **state) {
    (void)state;
    ls_draft_model draft_model = {.threads = 1};
    ls_drafter d = {.ahead = never, .draft_model = &draft_model};
    assert_null(ls_ahead_new(LS_OVERLAP_AUTO, &d, 100000)); // more processors than any machine has
    assert_null(ls_ahead_new(LS_OVERLAP_OFF, &d, 0));
    assert_null(ls_ahead_new(LS_OVERLAP_ON, NULL, 0));
    ls_ahead *a = ls_ahead_new(LS_OVERLAP_AUTO, &d, 0);
    assert_int_equal(steps_ahead(a, 80), (20 - 3) * 16); // without: two blocks at first, and one look later
    assert_int_equal(steps_ahead(a, 120), 2 * 16);       // one block tells; one looks again
    assert_int_equal(steps_ahead(a, 120), 1 * 16);
    ls_ahead_free(a);
    a = ls_ahead_new(LS_OVERLAP_ON, &d, 100000);
    assert_int_equal(steps_ahead(a, 1000), 20 * 16);
    ls_ahead_free(a);
    draft_model.threads = 0; // on a GPU
    assert_null(ls_ahead_new(LS_OVERLAP_ON, &d, 0));
}

static void what_cannot_draft_is_named(void **state) {
    (void)state;
    static const struct {
        ls_draft_options draft;
        const char *says[2];
    } wrong[] = {
        {{.layers = 9}, {"draft.layers is 9", "script has 8"}},
        {{.model = "/nowhere/model.gguf"}, {"the draft model", "/nowhere/model.gguf"}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_session *s;
        ls_err err = {0};
        const ls_decode_options o = {.method = "hybrid", .max_tokens = 9, .draft = wrong[i].draft, .sampling = greedy};
        assert_int_not_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
        assert_null(s);
        for (int k = 0; k < 2; k++)
            if (!strstr(err.msg, wrong[i].says[k])) fail_msg("'%s' lacks '%s'", err.msg, wrong[i].says[k]);
    }
}

// A session that goes on with other settings of the draft model: the conversation stays.
static void the_second_model_changes_within_a_conversation(void **state) {
    (void)state;
    ls_decode_options o = {.method = "draft-model", .max_tokens = 40, .sampling = greedy, .max_rows = 5};
    ls_session *s;
    ls_ids ids = {0};
    ls_err err = {0};
    outcome out = {0};
    const char *const models[] = {NULL, "script:0", NULL, "script:0"};
    assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
    assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
    assert_int_equal(ls_encode(model.vocab, prompt, strlen(prompt), true, &ids, &err), LS_OK);
    for (int turn = 0; turn < 4; turn++) {
        o.draft = (ls_draft_options){.model = models[turn], .layers = turn == 2 ? 2 : 0};
        if (ls_session_set(s, &o, &err)) fail_msg("%s", err.msg);
        const ls_draft_model *draft_model = ls_session_drafter(s)->draft_model;
        assert_string_equal(draft_model->name, ((const char *[]){"script, its first 4 layers", "script:0",
                                                                 "script, its first 2 layers", "script:0"})[turn]);
        assert_int_equal(ls_session_set(s, &o, &err), LS_OK);
        assert_ptr_equal(ls_session_drafter(s)->draft_model, draft_model); // what stays as it was is not made anew
        assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
        follow(s, &out);
        ls_ids_add(&out.out, ls_session_output(s)->p, ls_session_output(s)->n);
    }
    ls_session_free(s);
    outcome plain = decode((ls_decode_options){.method = "plain", .max_tokens = 40, .sampling = greedy}, 4);
    assert_same(&plain, &out);
    ls_ids_free(&ids);
    ls_ids_free(&out.out);
    ls_ids_free(&plain.out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_target_drafts_what_it_will_choose),
        cmocka_unit_test(fewer_layers_draft_less_well),
        cmocka_unit_test(look_ups_and_a_model_share_a_tree),
        cmocka_unit_test(a_sized_draft_asks_where_that_pays),
        cmocka_unit_test(what_is_said_does_not_depend_on_earlier_drafts),
        cmocka_unit_test(estimates_follow_what_was_accepted),
        cmocka_unit_test(a_second_model_that_fails_costs_its_drafts_only),
        cmocka_unit_test(it_goes_on_while_the_target_verifies),
        cmocka_unit_test(the_better_way_goes_on),
        cmocka_unit_test(what_cannot_draft_is_named),
        cmocka_unit_test(the_second_model_changes_within_a_conversation),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
