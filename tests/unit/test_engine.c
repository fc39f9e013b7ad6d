// The real model: logits and text equal the reference, every method equals plain decoding in every arithmetic.
// Needs the default model and the compute library; golden runs need the shared folder (needs:shared).
#include "decode/session.h"
#include "decode/simulate.h"
#include "decode/conversation.h"
#include "drafters.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static ls_model model;
static char missing[600];
static ls_step *step;

// The default model in this arithmetic; skips the test where it is missing.
static void need_model(const char *dtype) {
    static char loaded[16];
    if (missing[0]) {
        print_message("needs:model: %s\n", missing);
        skip();
    }
    if (!strcmp(loaded, dtype)) return;
    ls_err err = {0};
    const ls_model_options o = {.name = "default", .engine = {.device = "cpu", .dtype = dtype}};
    if (loaded[0]) ls_model_free(&model);
    if (ls_model_load(&model, &o, &err)) fail_msg("%s", err.msg);
    assert_string_equal(model.engine->dtype, dtype);
    assert_true(model.engine->exact);
    snprintf(loaded, sizeof loaded, "%s", dtype);
}

static FILE *golden(void) {
    const char *dir = getenv("LOGITSPEC_SHARED");
    char path[512];
    snprintf(path, sizeof path, "%s/golden/greedy_smollm2.jsonl", dir ? dir : "../shared");
    FILE *f = fopen(path, "r");
    if (!f) {
        print_message("needs:shared: no golden runs at %s\n", path);
        skip();
    }
    return f;
}

static ls_ids ids_of(json_t *array) {
    ls_ids out = {0};
    for (size_t i = 0; i < json_array_size(array); i++)
        ls_ids_push(&out, (int32_t)json_integer_value(json_array_get(array, i)));
    return out;
}

// What forwards cost is given: the trees are those of any other machine.
static ls_cost_curve costs(void) {
    ls_cost_curve z;
    assert_int_equal(ls_cost_read(&z, "", "1:10,8:15,64:90", NULL), LS_OK);
    return z;
}

// Runs one turn on a fresh conversation; per_step may be NULL.
static ls_ids decode(const ls_ids *prompt, ls_decode_options o, ls_ids *per_step) {
    ls_err err = {0};
    ls_session *s;
    ls_ids out = {0};
    if (!strcmp(o.method, "rest")) o.knobs = test_knobs(ls_vocab_size(model.vocab), ls_vocab_id(model.vocab));
    o.costs = costs();
    assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
    assert_int_equal(ls_session_begin(s, prompt->p, (int32_t)prompt->n, NULL, NULL, NULL, &err), LS_OK);
    do {
        assert_int_equal(ls_session_step(s, step, &err), LS_OK);
        if (per_step) ls_ids_push(per_step, step->n_emitted);
    } while (!step->finish);
    ls_ids_add(&out, ls_session_output(s)->p, ls_session_output(s)->n);
    ls_session_free(s);
    return out;
}

static bool near_tie_at_or_before(json_t *ties, size_t pos) {
    for (size_t i = 0; i < json_array_size(ties); i++)
        if ((size_t)json_integer_value(json_array_get(ties, i)) <= pos) return true;
    return false;
}

static void same_output(const ls_ids *want, const ls_ids *got, const char *name, const char *method, json_t *ties) {
    for (size_t i = 0; i < want->n && i < got->n; i++)
        if (want->p[i] != got->p[i]) {
            if (ties && near_tie_at_or_before(ties, i)) {
                print_message("%s (%s): leaves the golden output at %zu, after a recorded near tie\n", name, method, i);
                return;
            }
            fail_msg("%s (%s): token %zu is %d, expected %d", name, method, i, got->p[i], want->p[i]);
        }
    if (want->n != got->n) fail_msg("%s (%s): %zu tokens, expected %zu", name, method, got->n, want->n);
}

// One golden run: the reference's prompt, text, best logits at its first positions, and what the published method
// emitted in each step.
typedef struct {
    json_t *j, *tops, *ties;
    const char *name;
    ls_ids prompt, output, steps;
} golden_run;

static bool golden_next(golden_run *g, FILE *f, char **line, size_t *cap) {
    if (getline(line, cap, f) <= 0) return false;
    json_t *j = json_loads(*line, 0, NULL);
    assert_non_null(j);
    *g = (golden_run){.j = j,
                      .tops = json_object_get(j, "top10"),
                      .ties = json_object_get(j, "near_ties"),
                      .name = json_string_value(json_object_get(j, "name")),
                      .prompt = ids_of(json_object_get(j, "prompt_ids")),
                      .output = ids_of(json_object_get(j, "output_ids")),
                      .steps = ids_of(json_object_get(j, "paper_emitted_per_step"))};
    return true;
}

static void golden_free(golden_run *g) {
    ls_ids_free(&g->prompt), ls_ids_free(&g->output), ls_ids_free(&g->steps);
    json_decref(g->j);
}

static void check_prompt(const golden_run *g) {
    ls_err err = {0};
    ls_ids chat = {0};
    const char *user = json_string_value(json_object_get(g->j, "user"));
    assert_int_equal(ls_prompt_encode(&model, LS_FORMAT_CHAT, NULL, user, strlen(user), &chat, &err), LS_OK);
    same_output(&g->prompt, &chat, g->name, "chat template and tokenizer", NULL);
    ls_ids_free(&chat);
}

// How far the best logits of a row are from the reference's at this output position.
static double logits_error(const golden_run *g, size_t at, const ls_step *row) {
    const json_t *top = json_array_get(g->tops, at), *ids = json_object_get(top, "ids"),
                 *values = json_object_get(top, "logits");
    double worst = fabs((double)row->top_lse - json_number_value(json_object_get(top, "logsumexp")));
    for (size_t k = 0; k < json_array_size(ids); k++) {
        int i = 0;
        while (i < row->n_top && row->top[i].id != json_integer_value(json_array_get(ids, k))) i++;
        assert_true(i < 16);
        worst = fmax(worst, fabs((double)row->top[i].logit - json_number_value(json_array_get(values, k))));
    }
    return worst;
}

// Plain decoding's step at this output position, as a recording has it; its logits are those of a row that was
// forwarded.
static void plain_step(ls_kv_cache *t, int32_t row, float lse, int32_t token) {
    ls_err err = {0};
    int32_t ids[LS_MAX_TOP];
    float logits[LS_MAX_TOP];
    assert_int_equal(t->row_top(t, row, LS_MAX_TOP, ids, logits, &err), LS_OK);
    ls_step_start(step, (ls_step){.n_emitted = 1, .n_top = LS_MAX_TOP, .top_lse = lse});
    step->tree.n = 1;
    step->tree.nodes[0].token = token;
    for (int i = 0; i < LS_MAX_TOP; i++) step->top[i] = (ls_top_entry){ids[i], logits[i]};
}

// The text is what the model says at each of its places, its own choice before: read in blocks, for a row's bits are
// the same in any block. Adds the steps of plain decoding to the recording, up to a recorded near tie that goes the
// other way.
static double read_golden(const golden_run *g, ls_recording *recording) {
    enum { BLOCK = 64 };
    static const lst_sampling greedy = {.top_p = 1};
    ls_err err = {0};
    ls_kv_cache *t;
    lst_row rows[BLOCK];
    int32_t parents[BLOCK], path[BLOCK];
    double worst = 0;
    for (int32_t i = 0; i < BLOCK; i++) parents[i] = i - 1, path[i] = i;
    assert_int_equal(model.engine->kv_cache(model.engine, 0, &t, &err), LS_OK);
    assert_int_equal(t->prefill(t, g->prompt.p, (int32_t)g->prompt.n, &greedy, rows, NULL, NULL, &err), LS_OK);
    int32_t at_row = -1;
    for (size_t at = 0; at < g->output.n; at++) {
        const lst_row *row = &rows[at_row < 0 ? 0 : at_row];
        const int32_t token = g->output.p[at];
        if (row->chosen != token) {
            if (!near_tie_at_or_before(g->ties, at))
                fail_msg("%s: token %zu is %d, expected %d", g->name, at, row->chosen, token);
            break;
        }
        plain_step(t, at_row, row->lse, token);
        if (at < json_array_size(g->tops)) worst = fmax(worst, logits_error(g, at, step));
        ls_recording_add(recording, step);
        if (++at_row % BLOCK == 0) { // the last row of the block before, or of the prompt, has said what it had to
            const size_t left = g->output.n - at;
            if (at_row) assert_int_equal(t->keep_path(t, path, at_row, &err), LS_OK);
            at_row = 0;
            assert_int_equal(t->forward_tree(t, g->output.p + at, parents, left < BLOCK ? (int32_t)left : BLOCK,
                                             &greedy, rows, &err),
                             LS_OK);
        }
    }
    t->free(t);
    return worst;
}

// The published method's trees follow from the text and from the last logits, both of which are recorded: so does what
// each of its steps emitted.
static void check_steps(const golden_run *g, const ls_recording *recording, const ls_ids *real, ls_simulated *total) {
    ls_err err = {0};
    const ls_decode_options o = {.method = "logitspec-paper"};
    const ls_draft_setup place = {
        .tokenizer = model.name, .n_vocab = model.engine->n_vocab, .tokenizer_id = ls_vocab_id(model.vocab)};
    const ls_cost_curve free_rows = {0};
    ls_simulator *s;
    assert_int_equal(ls_simulator_new(&s, &o, &place, &free_rows, &err), LS_OK);
    ls_simulate_begin(s, recording, true);
    size_t at = 0;
    for (size_t i = 0;; i++) {
        const uint64_t before = total->emitted;
        if (!ls_simulate_step(s, recording, true, total)) break;
        const int32_t n = (int32_t)(total->emitted - before), recorded = i < g->steps.n ? g->steps.p[i] : -1;
        if (real) assert_int_equal(real->p[i], n);
        const bool last = at + (size_t)n == ls_recording_output(recording); // the recorded one may run past the end
        if (last ? recorded < n : recorded != n) {
            if (!near_tie_at_or_before(g->ties, at))
                fail_msg("%s: step %zu emitted %d, recorded %d", g->name, i, n, recorded);
            break;
        }
        at += (size_t)n;
    }
    ls_simulator_free(s);
}

static void golden_prompts_logits_outputs_and_steps(void **state) {
    (void)state;
    need_model("f32");
    FILE *f = golden();
    char *line = NULL;
    size_t cap = 0, prompts = 0, decoded = 0, compared = 0;
    const bool whole = getenv("LOGITSPEC_TEST_WHOLE") != NULL; // every method decodes all of them
    enum { SHORT = 45, SHORT_PROMPT = 100 };                   // tokens of those that are decoded otherwise
    enum { LONG = 200, LONG_PROMPT = 400 };                    // tokens of those that nobody reads otherwise
    ls_simulated paper = {0};
    double worst = 0;
    golden_run g;
    while (golden_next(&g, f, &line, &cap)) {
        check_prompt(&g);
        if (!whole && g.output.n > LONG && g.prompt.n > LONG_PROMPT) {
            golden_free(&g);
            continue;
        }
        prompts++;
        ls_recording *recording = ls_recording_new(g.prompt.p, g.prompt.n, model.engine->n_context);
        worst = fmax(worst, read_golden(&g, recording));
        assert_true(worst < 1e-3);
        compared += json_array_size(g.tops);
        ls_ids per_step = {0};
        const bool decodes = whole || (g.output.n <= SHORT && g.prompt.n <= SHORT_PROMPT);
        if (decodes) {
            static const char *const methods[] = {"logitspec-paper", "logitspec",
                                                  "plain"}; // the last: read_golden's text
            for (int m = 0; m < (whole ? 3 : 2); m++) {
                const ls_decode_options o = {.method = methods[m], .max_tokens = 256, .sampling = {.top_p = 1}};
                ls_ids got = decode(&g.prompt, o, m == 0 ? &per_step : NULL);
                same_output(&g.output, &got, g.name, o.method, g.ties);
                ls_ids_free(&got);
            }
        }
        check_steps(&g, recording, decodes ? &per_step : NULL, &paper);
        decoded += decodes;
        ls_recording_free(recording);
        ls_ids_free(&per_step);
        golden_free(&g);
    }
    free(line);
    fclose(f);
    print_message(
        "%zu prompts, %zu of them decoded; largest logit difference of %zu positions %.2g; logitspec-paper MAT %.3f "
        "(%llu tokens / %llu steps)\n",
        prompts, decoded, compared, worst, (double)paper.emitted / (double)paper.steps,
        (unsigned long long)paper.emitted, (unsigned long long)paper.steps);
    assert_true(prompts >= 17 && decoded >= 3 && compared >= prompts * 4);
    assert_int_equal(paper.lasts_whole, paper.lasts); // nothing was guessed
}

static ls_ids chat_prompt(const char *text) {
    ls_ids ids = {0};
    ls_err err;
    assert_int_equal(ls_prompt_encode(&model, LS_FORMAT_CHAT, NULL, text, strlen(text), &ids, &err), LS_OK);
    return ids;
}

static void every_method_equals_plain_decoding(void **state) {
    (void)state;
    static const lst_sampling greedy = {.top_p = 1}, warm = {.temperature = 0.7, .top_p = 1, .seed = 3},
                              cut = {.temperature = 1, .top_k = 40, .top_p = 0.9, .seed = 4};
    // Every method in the default model's own arithmetic, both ways: what a drafter learns does not depend on the
    // arithmetic. In the others the trees that differ most. (Tiny models
    // have all of them in every arithmetic: make exactness, e2e/test_exactness.py.)
    static const struct {
        const char *dtype, *methods;
        const lst_sampling *way;
        int32_t tokens, most; // largest tree
    } cases[] = {{"i8", "", &greedy, 20, 13},
                 {"i8", "", &cut, 12, 0},
                 {"f32", "logitspec", &warm, 16, 13},
                 {"bf16", "logitspec lookahead", &greedy, 16, 13},
                 {"i16", "logitspec recycle", &warm, 16, 13}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        need_model(cases[k].dtype);
        ls_ids prompt = chat_prompt("List five fruits, then list them again in reverse order.");
        ls_decode_options o = {.method = "plain", .max_tokens = cases[k].tokens, .sampling = *cases[k].way};
        ls_ids plain = decode(&prompt, o, NULL);
        for (const ls_method *const *m = ls_methods; *m; m++)
            for (int max_rows = 0; max_rows <= cases[k].most; max_rows += 13) {
                char word[40];
                snprintf(word, sizeof word, "%s ", (*m)->name);
                char all[80];
                snprintf(all, sizeof all, "%s ", cases[k].methods);
                if ((*m)->asks_head || (*cases[k].methods ? !strstr(all, word) : max_rows && (*m)->rows > 64)) continue;
                if (max_rows && (*m)->rows == 1) continue;
                o.method = (*m)->name;
                o.max_rows = max_rows;
                ls_ids got = decode(&prompt, o, NULL);
                same_output(&plain, &got, cases[k].dtype, (*m)->name, NULL);
                ls_ids_free(&got);
            }
        if (cases[k].way->temperature > 0) { // another seed, another text
            o.sampling.seed++;
            ls_ids other = decode(&prompt, o, NULL);
            assert_true(other.n != plain.n || memcmp(other.p, plain.p, plain.n * sizeof *plain.p));
            ls_ids_free(&other);
        }
        ls_ids_free(&plain);
        ls_ids_free(&prompt);
    }
}

static void bad_calls_are_refused_with_a_reason(void **state) {
    (void)state;
    need_model("f32");
    ls_err err = {0};
    ls_kv_cache *b;
    lst_sampling greedy = {.top_p = 1};
    lst_row rows[4];
    int32_t bad[] = {model.engine->n_vocab}, ok[] = {5, 6}, parents[] = {-1, 1}, root[] = {-1}, far[] = {3};
    assert_int_equal(model.engine->kv_cache(model.engine, 0, &b, &err), LS_OK);
    assert_int_equal(b->prefill(b, bad, 1, &greedy, rows, NULL, NULL, &err), LS_E_RANGE);
    assert_non_null(strstr(err.msg, "outside the vocabulary"));
    assert_int_equal(b->prefill(b, ok, 2, &greedy, rows, NULL, NULL, &err), LS_OK);
    assert_int_equal(b->forward_tree(b, ok, parents, 2, &greedy, rows, &err), LS_E_RANGE); // its own parent
    assert_int_equal(b->forward_tree(b, ok, root, 1, &greedy, rows, &err), LS_OK);
    assert_int_equal(b->keep_path(b, far, 1, &err), LS_E_RANGE);
    assert_int_equal(b->rewind(b, 99, &err), LS_E_RANGE);
    assert_int_equal(b->length(b), 2);
    b->free(b);
}

static int load(void **state) {
    (void)state;
    step = ls_step_new();
    char *path = ls_model_path("default");
    if (access(path, R_OK)) snprintf(missing, sizeof missing, "no default model; run 'make setup'");
    if (getenv("LOGITSPEC_TEST_WITHOUT_MODEL")) snprintf(missing, sizeof missing, "left out in this build");
    free(path);
    return 0;
}

static int unload(void **state) {
    (void)state;
    ls_step_free(step);
    if (model.engine) ls_model_free(&model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_calls_are_refused_with_a_reason),
        cmocka_unit_test(every_method_equals_plain_decoding),
        cmocka_unit_test(golden_prompts_logits_outputs_and_steps),
    };
    return cmocka_run_group_tests_name("engine", tests, load, unload);
}
