// Methods against their authors' programs: tests/vectors/published.json has what these did on seeded inputs
// (gen_published.py). What differs on purpose, the heads of draft_*.c and accept.c say.
#include "drafters.h"
#include "base/mem.h"
#include "decode/choose.h"
#include "spec/accept.h"
#include "spec/corpus.h"
#include "spec/sizing.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { VOCAB = 8, ROOM = 64 };
static json_t *published;

static int load(void **state) {
    (void)state;
    json_error_t err;
    published = json_load_file("tests/vectors/published.json", 0, &err);
    if (!published) print_error("%s:%d: %s\n", err.source, err.line, err.text);
    return published ? 0 : -1;
}

static int unload(void **state) {
    (void)state;
    json_decref(published);
    return 0;
}

static int int_at(const json_t *array, size_t i) {
    return (int)json_integer_value(json_array_get(array, i));
}

static void floats(const json_t *array, float *out) {
    for (size_t i = 0; i < json_array_size(array); i++) out[i] = (float)json_number_value(json_array_get(array, i));
}

static double log_sum(const float *logits) {
    double sum = 0;
    for (int k = 0; k < VOCAB; k++) sum += exp((double)logits[k]);
    return log(sum);
}

// All tokens in descending order of their logits.
static void order(const float *logits, int32_t *ids) {
    for (int n = 0; n < VOCAB; n++) {
        int k = n;
        for (; k > 0 && logits[ids[k - 1]] < logits[n]; k--) ids[k] = ids[k - 1];
        ids[k] = n;
    }
}

// What the target says after a row, and of the row's children.
static void target_says(ls_tree *t, int32_t row, const float *logits) {
    ls_node *n = &t->nodes[row];
    int32_t ids[VOCAB];
    order(logits, ids);
    n->lse = (float)log_sum(logits);
    n->target = ids[0];
    n->entropy = 0;
    for (int k = 0; k < LS_ROW_TOP; k++) n->top[k].id = -1;
    for (int k = 0; k < VOCAB; k++) {
        const float log_p = logits[ids[k]] - n->lse;
        n->top[k] = (ls_top_entry){ids[k], logits[ids[k]]};
        n->entropy -= expf(log_p) * log_p;
    }
    for (int32_t i = row + 1; i < t->n; i++)
        if (t->nodes[i].parent == row) t->nodes[i].p = expf(logits[t->nodes[i].token] - n->lse);
}

static void draft_says(ls_prediction *predictions, const float *logits) {
    int32_t ids[VOCAB];
    order(logits, ids);
    *predictions = (ls_prediction){.chosen = ids[0]};
    for (int k = 0; k < LS_PREDICTION_TOP; k++) {
        predictions->id[k] = k < VOCAB ? ids[k] : -1;
        predictions->p[k] = k < VOCAB ? expf(logits[ids[k]] - (float)log_sum(logits)) : 0;
    }
}

static int32_t drafts_accepted(const char *rule, double limit, const ls_tree *t) {
    ls_accept a;
    ls_err err;
    int32_t path[LS_MAX_ROWS];
    assert_int_equal(ls_accept_read(&a, "", rule, &err), LS_OK);
    a.values[0] = limit;
    return ls_accept_path(&a, t, path) - 1;
}

static void fuzzy_rules_stop_where_the_authors_program_stops(void **state) {
    (void)state;
    size_t at, stops = 0;
    json_t *c;
    json_array_foreach(json_object_get(published, "fuzzy"), at, c) {
        const char *kind = json_string_value(json_object_get(c, "kind"));
        const char *rule = !strcmp(kind, "kl_div") ? "fuzzy-kl" : !strcmp(kind, "js_div") ? "fuzzy-js" : "fuzzy-tv";
        const json_t *tokens = json_object_get(c, "tokens"), *divergence = json_object_get(c, "divergence");
        const int32_t n = (int32_t)json_array_size(tokens);
        float draft[ROOM], target[ROOM];
        ls_draft rows[ROOM] = {{.parent = -1}};
        ls_tree t = test_tree();
        floats(json_object_get(c, "draft"), draft);
        floats(json_object_get(c, "target"), target);
        for (int32_t i = 0; i < n; i++) {
            rows[i].prediction = (int16_t)(i + 1);
            rows[i + 1] = (ls_draft){.token = int_at(tokens, (size_t)i), .parent = (int16_t)i, .rank = -1};
        }
        ls_tree_lay_out(&t, rows, n + 1);
        t.n_predictions = (int16_t)n;
        for (int32_t i = 0; i < n; i++) draft_says(&t.predictions[i], draft + i * VOCAB);
        for (int32_t i = 0; i <= n; i++) target_says(&t, i, target + i * VOCAB);
        assert_int_equal(drafts_accepted(rule, 0.1, &t), json_integer_value(json_object_get(c, "accepted at 0.1")));
        for (int32_t j = 0; j < n; j++) // limits just above and below each divergence
            for (int side = -1; side <= 1; side += 2) {
                const double limit = json_number_value(json_array_get(divergence, (size_t)j)) * (1 + side * 1e-3);
                int32_t first = 0;
                while (first < n && json_number_value(json_array_get(divergence, (size_t)first)) <= limit) first++;
                assert_int_equal(drafts_accepted(rule, limit, &t), first);
                stops += first > 0 && first < n;
            }
    }
    assert_true(stops > 50);
}

static const float *rows_logits;

static ls_code row_logits(ls_kv_cache *t, int32_t row, float *logits, ls_err *err) {
    (void)t, (void)err;
    memcpy(logits, rows_logits + row * VOCAB, VOCAB * sizeof *logits);
    return LS_OK;
}

static void typical_takes_the_path_of_the_authors_program(void **state) {
    (void)state;
    size_t at;
    json_t *c;
    json_array_foreach(json_object_get(published, "typical"), at, c) {
        const json_t *parents = json_object_get(c, "parents"), *tokens = json_object_get(c, "tokens"),
                     *expected = json_object_get(c, "path");
        const double run = json_number_value(json_object_get(c, "temperature"));
        const int32_t n = (int32_t)json_array_size(parents);
        float logits[ROOM * VOCAB];
        int32_t row_of[ROOM], path[LS_MAX_ROWS];
        ls_draft rows[ROOM];
        ls_tree t = test_tree();
        ls_shaped shaped[ROOM];
        ls_err err;
        floats(json_object_get(c, "logits"), logits);
        for (int32_t i = 0; i < n; i++)
            rows[i] = (ls_draft){.token = int_at(tokens, (size_t)i),
                                 .parent = (int16_t)int_at(parents, (size_t)i),
                                 .rank = -1,
                                 .match_pos = i};
        ls_tree_lay_out(&t, rows, n);
        float laid[ROOM * VOCAB];
        for (int32_t i = 0; i < n; i++) {
            const int32_t from = i ? t.nodes[i].match_pos : 0;
            row_of[from] = i;
            memcpy(laid + i * VOCAB, logits + from * VOCAB, VOCAB * sizeof *laid);
        }
        for (int32_t i = 0; i < n; i++) target_says(&t, i, laid + i * VOCAB);
        ls_accept a;
        assert_int_equal(ls_accept_read(&a, "", "typical", &err), LS_OK);
        const double temperature = ls_accept_temperature(&a, run);
        assert_true(temperature == run);
        if (run == 0) a.rule = NULL;
        else if (run != 1) {
            const ls_engine engine = {.n_vocab = VOCAB};
            ls_kv_cache cache = {.engine = &engine, .row_logits = row_logits};
            rows_logits = laid;
            assert_int_equal(ls_shape_tree(temperature, &cache, &t, shaped, &err), LS_OK);
            a.shaped = shaped;
        }
        const int32_t n_path = ls_accept_path(&a, &t, path);
        assert_int_equal(n_path, json_array_size(expected));
        for (int32_t i = 0; i < n_path; i++) assert_int_equal(path[i], row_of[int_at(expected, (size_t)i)]);
    }
}

// ---- EAGLE

// A draft model that says what EAGLE's predictions, and only where EAGLE asked.
typedef struct {
    ls_draft_model base;
    const json_t *seen;
    int32_t token[LS_MAX_PREDICTIONS], parent[LS_MAX_PREDICTIONS], n;
} recorded_model;

static bool is_path(const json_t *path, const int32_t *tokens, size_t n) {
    bool same = json_array_size(path) == n;
    for (size_t i = 0; i < n && same; i++) same = int_at(path, i) == tokens[i];
    return same;
}

static bool tree_has(const ls_tree *t, const json_t *path) {
    int32_t tokens[LS_MAX_ROWS];
    for (int32_t i = 1; i < t->n; i++) {
        const int32_t n = ls_tree_tokens(t, i, tokens);
        if (is_path(path, tokens + 1, (size_t)n - 1)) return true;
    }
    return false;
}

// The tree has exactly these paths.
static void has_paths(const ls_tree *t, const json_t *paths) {
    size_t k;
    json_t *path;
    assert_int_equal(t->n, 1 + json_array_size(paths));
    json_array_foreach(paths, k, path) assert_true(tree_has(t, path));
}

static ls_prediction recorded_said(const recorded_model *m, int32_t row) {
    int32_t path[LS_MAX_PREDICTIONS], n = 0;
    for (int32_t at = row; at > 0; at = m->parent[at]) n++;
    for (int32_t at = row, i = n; at > 0; at = m->parent[at]) path[--i] = m->token[at];
    size_t at;
    json_t *seen;
    ls_prediction predictions = {.chosen = -1};
    for (int k = 0; k < LS_PREDICTION_TOP; k++) predictions.id[k] = -1;
    json_array_foreach(m->seen, at, seen) {
        const json_t *ids = json_object_get(seen, "ids");
        if (!is_path(json_object_get(seen, "path"), path, (size_t)n)) continue;
        floats(json_object_get(seen, "p"), predictions.p);
        for (size_t k = 0; k < json_array_size(ids); k++) predictions.id[k] = int_at(ids, k);
        return predictions;
    }
    fail_msg("EAGLE did not expand row %d at depth %d", row, n);
    return predictions;
}

static ls_code recorded_begin(ls_draft_model *base, const int32_t *context, size_t n, int32_t root,
                              ls_prediction *predictions, ls_err *err) {
    recorded_model *m = (recorded_model *)base;
    (void)context, (void)n, (void)err;
    m->token[0] = root;
    m->parent[0] = -1;
    m->n = base->forwards = 1;
    *predictions = recorded_said(m, 0);
    return LS_OK;
}

static ls_code recorded_more(ls_draft_model *base, const int32_t *tokens, const int32_t *parents, int32_t n,
                             ls_prediction *predictions, ls_err *err) {
    recorded_model *m = (recorded_model *)base;
    (void)err;
    for (int32_t i = 0; i < n; i++) {
        m->token[m->n] = tokens[i];
        m->parent[m->n] = parents[i];
        predictions[i] = recorded_said(m, m->n++);
    }
    base->forwards++;
    return LS_OK;
}

static void recorded_free(ls_draft_model *base) {
    (void)base;
}

static ls_code recorded_made(void *of, const ls_draft_options *o, ls_draft_model **out, ls_err *err) {
    (void)o, (void)err;
    *out = of;
    return LS_OK;
}

static void eagle_grows_the_tree_of_the_authors_program(void **state) {
    (void)state;
    size_t at;
    json_t *c;
    json_array_foreach(json_object_get(published, "eagle"), at, c) {
        const int32_t rows = (int32_t)json_integer_value(json_object_get(c, "rows")),
                      depth = (int32_t)json_integer_value(json_object_get(c, "depth")),
                      width = (int32_t)json_integer_value(json_object_get(c, "width")), context[] = {1, 2, 3};
        recorded_model m = {.base = {.begin = recorded_begin, .more = recorded_more, .free = recorded_free},
                            .seen = json_object_get(c, "seen")};
        const ls_method *method = ls_method_find("eagle3");
        const ls_draft_options published_options = ls_draft_defaults(&(ls_draft_options){.head = "x"}, method, false);
        if (at < 2) { // the numbers of the paper
            assert_int_equal(method->rows, rows);
            assert_int_equal(published_options.depth, 1 + depth);
            assert_int_equal(published_options.width, width);
        }
        const ls_draft_setup setup = {.n_vocab = 60,
                                      .draft = {.head = "x", .depth = 1 + depth, .width = width},
                                      .draft_model = recorded_made,
                                      .of = &m};
        ls_drafter *d;
        ls_err err;
        ls_tree t = test_tree();
        if (ls_drafter_make(&d, method, &setup, &err)) fail_msg("%s", err.msg);
        d->propose(d,
                   &(ls_draft_state){.context = context,
                                     .n_context = 3,
                                     .root = (int32_t)json_integer_value(json_object_get(c, "root"))},
                   rows, &t);
        assert_int_equal(m.n, json_array_size(m.seen));
        assert_int_equal(m.base.forwards, 1 + depth);
        has_paths(&t, json_object_get(c, "tree"));
        d->free(d);
    }
}

// ---- Medusa

typedef struct {
    ls_multi_head base;
    const json_t *heads;
} recorded_heads;

static ls_code recorded_guess(ls_multi_head *base, const int32_t *context, size_t n_context, int32_t k, int32_t *ids,
                              float *p, ls_err *err) {
    const json_t *heads = ((recorded_heads *)base)->heads;
    (void)context, (void)n_context, (void)err;
    for (int32_t i = 0; i < base->n * k; i++) {
        ids[i] = int_at(json_array_get(heads, (size_t)(i / k)), (size_t)(i % k));
        p[i] = 0.1f;
    }
    return LS_OK;
}

static void multi_head_stays(ls_multi_head *base) {
    (void)base;
}

static ls_code recorded_multi_head(void *of, const ls_draft_options *o, ls_multi_head **out, ls_err *err) {
    (void)o, (void)err;
    *out = of;
    return LS_OK;
}

static int tree_number(const char *name) {
    static const char *const names[] = {"",
#define TREE(name, word, other, choices) #name,
#include "spec/medusa_trees.def"
#undef TREE
                                        NULL};
    int i = 1;
    while (names[i] && strcmp(names[i], name)) i++;
    if (!names[i]) fail_msg("no tree %s", name);
    return i;
}

static void medusa_has_the_nine_trees_of_the_authors_program(void **state) {
    (void)state;
    size_t at, trees = 0;
    json_t *c;
    const json_t *all = json_object_get(published, "medusa");
    json_array_foreach(all, at, c) {
        const ls_method *method = ls_method_find("medusa");
        const char *base, *tree = json_string_value(json_object_get(c, "tree"));
        ls_knob_value knobs[] = {{.number = tree ? tree_number(tree) : 0}};
        recorded_heads heads = {.base = {.n = 4, .guess = recorded_guess, .free = multi_head_stays}};
        const ls_draft_setup setup = {
            .knobs = knobs, .draft = {.head = "x"}, .multi_head = recorded_multi_head, .of = &heads};
        const ls_draft_state s = {.root = 1};
        json_t *name;
        ls_drafter *d;
        ls_err err;
        if (tree) {
            ls_tree t = test_tree();
            heads.heads = json_object_get(c, "heads");
            assert_int_equal(ls_drafter_make(&d, method, &setup, &err), LS_OK);
            d->propose(d, &s, method->rows, &t);
            has_paths(&t, json_object_get(c, "paths"));
            d->free(d);
            trees++;
            continue;
        }
        json_object_foreach(json_object_get(c, "base"), base, name) { // which tree a base model's name chooses
            const char *expected = json_string_value(name);
            size_t k = 0;
            const json_t *one;
            ls_tree t = test_tree();
            do one = json_array_get(all, k++);
            while (strcmp(json_string_value(json_object_get(one, "tree")), expected) != 0);
            heads.heads = json_object_get(one, "heads");
            snprintf(heads.base.base, sizeof heads.base.base, "%s", base);
            assert_int_equal(ls_drafter_make(&d, method, &setup, &err), LS_OK);
            d->propose(d, &s, method->rows, &t);
            has_paths(&t, json_object_get(one, "paths"));
            d->free(d);
        }
    }
    assert_int_equal(trees, 9);
}

// ---- RACER

enum { RACER_VOCAB = 97, RACER_PROMPT = RACER_VOCAB + 90, RACER_STEPS = 60 };

static int32_t racer_best(int32_t token, int prompt, int j) {
    return (token * 5 + 3 + prompt * 2 + j * j) % RACER_VOCAB;
}

static uint32_t paths_sum(const ls_tree *t) {
    uint32_t hash[LS_MAX_ROWS] = {1}, sum = 0;
    for (int32_t i = 1; i < t->n; i++) {
        hash[i] = hash[t->nodes[i].parent] * 31 + (uint32_t)t->nodes[i].token + 1;
        sum += hash[i] * hash[i];
    }
    return sum;
}

static void racer_drafts_what_the_authors_automaton_drafts(void **state) {
    (void)state;
    size_t at;
    json_t *c;
    json_array_foreach(json_object_get(published, "racer"), at, c) {
        const ls_method *m = ls_method_find("racer");
        const json_t *steps = json_object_get(c, "steps");
        const int32_t rows = (int32_t)json_integer_value(json_object_get(c, "rows"));
        static ls_knob_value all[64];
        ls_knob_defaults(all);
        ls_knob_value *knobs = all + ls_knob_offset(m);
        knobs[0].number = (double)json_integer_value(json_object_get(c, "nodes"));
        const ls_draft_setup setup = {.knobs = knobs, .n_vocab = RACER_VOCAB};
        ls_drafter *d;
        ls_node *read = calloc(RACER_PROMPT, sizeof *read);
        int32_t *text = calloc(4096, sizeof *text);
        assert_int_equal(ls_drafter_make(&d, m, &setup, NULL), LS_OK);
        for (int prompt = 0; prompt < 3; prompt++) {
            size_t n = 0;
            for (int32_t i = 0; i < RACER_PROMPT; i++) {
                const bool noise = i < RACER_VOCAB || i % 13 == 0;
                text[i] = noise ? (i * 31 + prompt) % RACER_VOCAB : racer_best(text[i - 1], prompt, 0);
                for (int j = 0; j < LS_ROW_TOP; j++) read[i].top[j].id = racer_best(text[i], prompt, j);
            }
            n = RACER_PROMPT;
            d->observe(d, text, n, true);
            d->read(d, text, 0, n, read);
            for (int step = 0; step < RACER_STEPS; step++) {
                const json_t *expected = json_array_get(steps, (size_t)(prompt * RACER_STEPS + step));
                const int32_t root = racer_best(text[n - 1], prompt, 0);
                int32_t chosen[LS_MAX_ROWS], path[LS_MAX_ROWS];
                ls_tree t = test_tree();
                d->propose(d, &(ls_draft_state){.context = text, .n_context = n, .root = root}, rows, &t);
                assert_int_equal(root, int_at(expected, 0));
                for (int32_t i = 0; i < t.n; i++) {
                    chosen[i] = racer_best(t.nodes[i].token, prompt, 0);
                    for (int j = 0; j < LS_ROW_TOP; j++)
                        test_say(&t.nodes[i], j, racer_best(t.nodes[i].token, prompt, j), 0.1f);
                }
                const int32_t n_path = test_verify(&t, chosen, path);
                assert_int_equal(t.n - 1, int_at(expected, 1));
                assert_int_equal(paths_sum(&t), (uint32_t)json_integer_value(json_array_get(expected, 2)));
                assert_int_equal(n_path - 1, int_at(expected, 3));
                d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = text, .n_context = n}, &t, n_path});
                for (int32_t i = 0; i < n_path; i++) text[n++] = t.nodes[path[i]].token;
                d->observe(d, text, n, false);
            }
        }
        free(read);
        free(text);
        d->free(d);
    }
}

// ---- lookahead

enum { LOOKAHEAD_VOCAB = 13, LOOKAHEAD_PROMPT = 30 };

// The pseudo-random numbers of the script.
static int32_t below(uint32_t *state, int32_t n) {
    *state = (*state * 1103515245u + 12345u) & 0x7FFFFFFFu;
    return (int32_t)(*state >> 16) % n;
}

static int32_t lookahead_next(int32_t before, int32_t last, int prompt) {
    return (5 * last + 3 * before + before * last + prompt) % LOOKAHEAD_VOCAB;
}

static int32_t lookahead_choice(const ls_tree *t, int32_t row, int32_t before_root, int prompt) {
    const int32_t parent = t->nodes[row].parent;
    return lookahead_next(row ? t->nodes[parent].token : before_root, t->nodes[row].token, prompt);
}

static void lookahead_has_the_rows_of_the_authors_program(void **state) {
    (void)state;
    size_t at, k;
    json_t *c, *expected;
    int more = 0, accepted = 0;
    json_array_foreach(json_object_get(published, "lookahead"), at, c) {
        const int prompt = (int)json_integer_value(json_object_get(c, "prompt"));
        uint32_t draw = (uint32_t)prompt + 1;
        int32_t text[1024], path[LS_MAX_ROWS], chosen[LS_MAX_ROWS];
        size_t n = LOOKAHEAD_PROMPT - 1; // the last token of the prompt is the program's first root
        ls_drafter *d = test_drafter_named("lookahead");
        for (int32_t i = 0; i < LOOKAHEAD_PROMPT; i++) text[i] = below(&draw, LOOKAHEAD_VOCAB);
        json_array_foreach(json_object_get(c, "steps"), k, expected) {
            const ls_method *m = ls_method_find("lookahead");
            ls_tree t = test_tree();
            d->observe(d, text, n, k == 0);
            assert_int_equal(text[n], int_at(expected, 0));
            d->propose(d, &(ls_draft_state){.context = text, .n_context = n, .root = text[n]}, m->rows, &t);
            assert_int_equal(t.n - 1, int_at(expected, 1));
            assert_int_equal(paths_sum(&t), (uint32_t)json_integer_value(json_array_get(expected, 2)));
            for (int32_t i = 0; i < t.n; i++) {
                chosen[i] = lookahead_choice(&t, i, text[n - 1], prompt);
                test_say(&t.nodes[i], 0, chosen[i], 1);
            }
            const int32_t n_path = test_verify(&t, chosen, path), theirs = int_at(expected, 3) + 1;
            assert_true(n_path >= theirs); // rows of the window, and the last token of an n-gram
            more += n_path > theirs;
            accepted += theirs > 1;
            d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = text, .n_context = n}, &t, theirs});
            for (int32_t i = 0; i < theirs; i++, n++) text[n + 1] = lookahead_next(text[n - 1], text[n], prompt);
        }
        d->free(d);
    }
    assert_true(more > 20 && accepted > 50);
}

// ---- LogitSpec

static void logitspec_paper_drafts_what_the_authors_program_drafts(void **state) {
    (void)state;
    size_t at, k;
    json_t *c, *expected;
    json_array_foreach(json_object_get(published, "logitspec"), at, c) {
        const int32_t prompt = (int32_t)json_integer_value(json_object_get(c, "prompt")), kinds = 4 + 3 * prompt;
        uint32_t draw = (uint32_t)prompt + 1;
        int32_t text[1024];
        size_t n = 0;
        ls_drafter *d = test_drafter_named("logitspec-paper");
        for (; n < 60; n++) text[n] = below(&draw, kinds);
        json_array_foreach(json_object_get(c, "steps"), k, expected) {
            const int32_t root = below(&draw, kinds), accepted = below(&draw, 4);
            int32_t top_ids[101];
            float top_p[101];
            ls_tree t = test_tree();
            for (int32_t j = 0; j < 101; j++) top_ids[j] = (root + 7 * j) % 101, top_p[j] = 1 / (float)(2 + j);
            d->observe(d, text, n, k == 0);
            d->propose(d, &(ls_draft_state){text, n, root, top_ids, top_p, 101, NULL},
                       ls_method_find("logitspec-paper")->rows, &t);
            assert_int_equal(root, int_at(expected, 0));
            assert_int_equal(t.n - 1, int_at(expected, 1));
            assert_int_equal(paths_sum(&t), (uint32_t)json_integer_value(json_array_get(expected, 2)));
            text[n++] = root;
            for (int32_t i = 0; i < accepted; i++) text[n++] = below(&draw, kinds);
        }
        d->free(d);
    }
}

// ---- SuffixDecoding

static int32_t suffix_next(uint32_t *draw, const int32_t *text, size_t n, int32_t request) {
    return n < 2 || below(draw, 4) == 0 ? below(draw, 7) : (3 * text[n - 1] + 5 * text[n - 2] + request) % 7;
}

// The program's trees without the root give what ours gives; with it, as the program has them, the pattern counts, too.
static void suffix_drafts_what_the_authors_trees_draft_before_the_root(void **state) {
    (void)state;
    const json_t *steps = json_object_get(published, "suffix");
    ls_drafter *d = test_drafter_named("suffix");
    uint32_t draw = 1;
    int32_t text[128], same = 0, published_too = 0, steps_seen = 0;
    for (int32_t request = 0; request < 4; request++) {
        size_t n = 0;
        for (; n < 40; n++) text[n] = suffix_next(&draw, text, n, request);
        d->observe(d, text, n, true);
        for (int step = 0; step < 50; step++, steps_seen++) {
            const json_t *expected = json_array_get(steps, (size_t)steps_seen);
            const int32_t root = suffix_next(&draw, text, n, request);
            ls_tree t = test_tree();
            assert_int_equal(root, int_at(expected, 0));
            d->propose(d, &(ls_draft_state){.context = text, .n_context = n, .root = root}, 64, &t);
            const uint32_t sum = paths_sum(&t);
            assert_int_equal(t.n - 1, int_at(expected, 1));
            double chance[LS_MAX_ROWS] = {1}, score = 0;
            for (int32_t i = 1; i < t.n; i++) {
                chance[i] = chance[t.nodes[i].parent] * (double)t.nodes[i].est_p;
                score += chance[i];
            }
            assert_true(fabs(score - json_number_value(json_array_get(expected, 3))) < 1e-4);
            // If paths at the end are equally likely, either may be drafted.
            same += sum == (uint32_t)json_integer_value(json_array_get(expected, 2));
            published_too += sum == (uint32_t)json_integer_value(json_array_get(expected, 5));
            d->learn(d, &(ls_draft_result){&(ls_draft_state){.context = text, .n_context = n}, &t, 1});
            text[n++] = root;
            d->observe(d, text, n, false);
        }
    }
    assert_in_range(same, steps_seen * 9 / 10, steps_seen);
    assert_in_range(published_too, 1, same - 1);
    d->free(d);
}

// ---- REST

enum { REST_TOKENS = 4000, REST_VOCAB = 30 };

static int32_t different_tokens(const int32_t *path, int32_t n) {
    int32_t different = 0;
    for (int32_t i = 0; i < n; i++) {
        bool seen = false;
        for (int32_t k = 0; k < i; k++) seen |= path[k] == path[i];
        different += !seen;
    }
    return different;
}

// Of the prefixes that ours drafts the program drops the longest, until their lengths sum to 64.
static void rest_drafts_what_the_authors_program_drafts_and_longer_paths(void **state) {
    (void)state;
    char path[64];
    uint32_t draw = 1;
    static int32_t corpus[REST_TOKENS];
    size_t at, k;
    json_t *c, *whole;
    ls_drafter *d;
    ls_err err;
    int same = 0, more = 0;
    snprintf(path, sizeof path, "/tmp/logitspec-published-%d.corpus", (int)getpid());
    for (int i = 0; i < REST_TOKENS; i++)
        corpus[i] =
            i < 2 || below(&draw, 3) == 0 ? below(&draw, REST_VOCAB) : (3 * corpus[i - 1] + 5 * corpus[i - 2]) % 7;
    const ls_corpus_facts facts = {.n = REST_TOKENS, .n_vocab = REST_VOCAB, .tokenizer = "test"};
    if (ls_corpus_write(path, corpus, &facts, 1, NULL, NULL, &err)) fail_msg("%s", err.msg);
    const ls_knob_value knobs[] = {{0, path}, {16, NULL}, {10, NULL}};
    const ls_draft_setup setup = {.knobs = knobs};
    if (ls_drafter_make(&d, ls_method_find("rest"), &setup, &err)) fail_msg("%s", err.msg);
    unlink(path);
    json_array_foreach(json_object_get(published, "rest"), at, c) {
        const json_t *ending = json_object_get(c, "ending");
        const int32_t n = (int32_t)json_array_size(ending),
                      theirs = (int32_t)json_integer_value(json_object_get(c, "rows"));
        int32_t text[ROOM], tokens[LS_MAX_ROWS], lengths = 0;
        ls_tree t = test_tree();
        for (int32_t i = 0; i < n; i++) text[i] = int_at(ending, (size_t)i);
        d->propose(d, &(ls_draft_state){.context = text, .n_context = (size_t)n - 1, .root = text[n - 1]}, 64, &t);
        json_array_foreach(json_object_get(c, "paths"), k, whole) assert_true(tree_has(&t, whole));
        for (int32_t i = 1; i < t.n; i++) {
            const int32_t length = ls_tree_tokens(&t, i, tokens) - 1;
            lengths += different_tokens(tokens + 1, length);
        }
        assert_true(t.n - 1 >= theirs);
        assert_int_equal(t.n - 1 == theirs, lengths <= 64);
        same += t.n - 1 == theirs;
        more += t.n - 1 > theirs;
    }
    assert_true(same > 10 && more > 10);
    d->free(d);
}

// ---- SpecDec++

// The program's head judges a draft in the forward that draws the next one, so it verifies one more.
static void specdec_keeps_one_draft_less_than_the_authors_program(void **state) {
    (void)state;
    size_t at;
    json_t *c;
    json_array_foreach(json_object_get(published, "specdec"), at, c) {
        const json_t *p = json_object_get(c, "p");
        const int32_t n = (int32_t)json_array_size(p), theirs = (int32_t)json_integer_value(json_object_get(c, "kept"));
        ls_draft rows[ROOM] = {{.token = 1, .parent = -1}};
        ls_tree t = test_tree();
        ls_sizing z;
        ls_err err;
        char rule[32];
        const ls_cost_curve no_costs = {0};
        for (int32_t i = 0; i < n; i++)
            rows[i + 1] = (ls_draft){.token = i + 2,
                                     .parent = (int16_t)i,
                                     .rank = -1,
                                     .est_p = (float)json_number_value(json_array_get(p, (size_t)i))};
        ls_tree_lay_out(&t, rows, n + 1);
        snprintf(rule, sizeof rule, "specdec++:%g", json_number_value(json_object_get(c, "threshold")));
        assert_int_equal(ls_sizing_read(&z, "", rule, &err), LS_OK);
        ls_sizing_cut(&z, &t, &no_costs, 0, 0);
        if (theirs == 20) assert_in_range(t.n - 1, 19, 20); // the most that both keep
        else assert_int_equal(t.n - 1, theirs > 2 ? theirs - 1 : 2);
    }
}

// ---- FLy

// The program needs one more draft behind its window, so it judges its last draft by the target's choice alone.
static void fly_accepts_what_the_authors_program_accepts(void **state) {
    (void)state;
    size_t at;
    json_t *c;
    int mismatches = 0, alone = 0;
    json_array_foreach(json_object_get(published, "fly"), at, c) {
        const json_t *tokens = json_object_get(c, "tokens");
        const int32_t n = (int32_t)json_array_size(tokens),
                      theirs = (int32_t)json_integer_value(json_object_get(c, "accepted"));
        float target[ROOM * VOCAB];
        int32_t ours[2], choices = 0;
        floats(json_object_get(c, "target"), target);
        for (int32_t drafts = n - 1; drafts <= n; drafts++) {
            ls_draft rows[ROOM] = {{.parent = -1}};
            ls_tree t = test_tree();
            for (int32_t i = 0; i < drafts; i++)
                rows[i + 1] = (ls_draft){.token = int_at(tokens, (size_t)i), .parent = (int16_t)i, .rank = -1};
            ls_tree_lay_out(&t, rows, drafts + 1);
            for (int32_t i = 0; i <= drafts; i++) target_says(&t, i, target + i * VOCAB);
            ours[drafts == n] = drafts_accepted("fly", 0.3, &t);
            for (choices = 0; choices < drafts && t.nodes[choices + 1].token == t.nodes[choices].target;) choices++;
            if (drafts < n) continue;
            const bool last = t.nodes[n].token == t.nodes[n - 1].target;
            assert_int_equal(ours[0] < n - 1 ? ours[0] : n - 1 + last, theirs);
        }
        mismatches += theirs > choices;
        alone += ours[1] > theirs;
    }
    assert_true(mismatches > 3 && alone > 0);
}

// ---- prompt lookup

// Saxena's program copies what ours copies where ten tokens are left to copy; elsewhere it looks for less.
static void pld_copies_what_saxenas_program_copies(void **state) {
    (void)state;
    size_t at;
    int same = 0;
    json_t *c;
    json_array_foreach(json_object_get(published, "pld"), at, c) {
        const json_t *text = json_object_get(c, "text"), *copied = json_object_get(c, "copied");
        const size_t n = json_array_size(text) - 1;
        int32_t ids[ROOM], drafted[LS_MAX_ROWS];
        ls_drafter *d = test_drafter_named("pld");
        ls_tree t = test_tree();
        for (size_t i = 0; i <= n; i++) ids[i] = int_at(text, i);
        d->observe(d, ids, n, true);
        d->propose(d, &(ls_draft_state){.context = ids, .n_context = n, .root = ids[n]}, 11, &t);
        if (t.n == 11) {
            ls_tree_tokens(&t, 10, drafted);
            assert_true(is_path(copied, drafted + 1, 10));
            same++;
        }
        d->free(d);
    }
    assert_in_range(same, 20, at - 1); // and some differ
}

// ---- Token Recycling

static void recycle_has_the_published_tree(void **state) {
    (void)state;
    const json_t *ranks = json_object_get(json_array_get(json_object_get(published, "recycle"), 0), "ranks");
    const ls_method *m = ls_method_find("recycle");
    ls_drafter *d = test_drafter_named("recycle");
    ls_tree t = test_tree(), drafted = test_tree();
    json_t *paths = json_deep_copy(ranks), *path;
    size_t i, k;
    for (int32_t token = 1; token <= LS_ROW_TOP + 1; token++) { // after every token the rank j says token j + 1
        ls_tree_start(&t, token);
        for (int j = 0; j < LS_ROW_TOP; j++) test_say(&t.nodes[0], j, j + 1, 0.1f);
        d->learn(d, &(ls_draft_result){&(ls_draft_state){0}, &t, 1});
    }
    json_array_foreach(paths, i, path) for (k = 0; k < json_array_size(path); k++)
        json_array_set_new(path, k, json_integer(int_at(path, k) + 1));
    d->propose(d, &(ls_draft_state){.root = LS_ROW_TOP + 1}, m->rows, &drafted);
    has_paths(&drafted, paths);
    json_decref(paths);
    d->free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fuzzy_rules_stop_where_the_authors_program_stops),
                                       cmocka_unit_test(typical_takes_the_path_of_the_authors_program),
                                       cmocka_unit_test(eagle_grows_the_tree_of_the_authors_program),
                                       cmocka_unit_test(medusa_has_the_nine_trees_of_the_authors_program),
                                       cmocka_unit_test(racer_drafts_what_the_authors_automaton_drafts),
                                       cmocka_unit_test(lookahead_has_the_rows_of_the_authors_program),
                                       cmocka_unit_test(logitspec_paper_drafts_what_the_authors_program_drafts),
                                       cmocka_unit_test(suffix_drafts_what_the_authors_trees_draft_before_the_root),
                                       cmocka_unit_test(rest_drafts_what_the_authors_program_drafts_and_longer_paths),
                                       cmocka_unit_test(specdec_keeps_one_draft_less_than_the_authors_program),
                                       cmocka_unit_test(fly_accepts_what_the_authors_program_accepts),
                                       cmocka_unit_test(pld_copies_what_saxenas_program_copies),
                                       cmocka_unit_test(recycle_has_the_published_tree)};
    return cmocka_run_group_tests_name("published", tests, load, unload);
}
