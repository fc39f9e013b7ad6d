// Methods against their authors' programs: tests/vectors/published.json has what these did on seeded inputs
// (gen_published.py). What differs on purpose, the heads of draft_*.c and accept.c say.
#include "drafters.h"
#include "base/mem.h"
#include "decode/choose.h"
#include "spec/accept.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
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

static void draft_says(ls_said *said, const float *logits) {
    int32_t ids[VOCAB];
    order(logits, ids);
    *said = (ls_said){.chosen = ids[0]};
    for (int k = 0; k < LS_SAID_TOP; k++) {
        said->id[k] = k < VOCAB ? ids[k] : -1;
        said->p[k] = k < VOCAB ? expf(logits[ids[k]] - (float)log_sum(logits)) : 0;
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
            rows[i].said = (int16_t)(i + 1);
            rows[i + 1] = (ls_draft){.token = int_at(tokens, (size_t)i), .parent = (int16_t)i, .rank = -1};
        }
        ls_tree_lay_out(&t, rows, n + 1);
        t.n_said = (int16_t)n;
        for (int32_t i = 0; i < n; i++) draft_says(&t.said[i], draft + i * VOCAB);
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fuzzy_rules_stop_where_the_authors_program_stops),
                                       cmocka_unit_test(typical_takes_the_path_of_the_authors_program)};
    return cmocka_run_group_tests_name("published", tests, load, unload);
}
