// The step loop on the scripted model: every method emits what plain decoding emits, whatever ends the turn.
#include "engine/measured.h"
#include "decode/conversation.h"
#include "decode/stats.h"
#include "decode/answer.h"
#include "decode/bigrams.h"
#include "decode/suite.h"
#include "drafters.h"
#include "base/file.h"
#include "base/mem.h"
#include "decode/session_state.h"
#include "scripted.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

typedef struct {
    ls_ids out;
    char *text;
    ls_finish finish;
    ls_stats stats;
} result;

static int32_t length_of(ls_session *s) {
    ls_kv_cache *t = s->kv;
    return t->length(t);
}

static result run(const char *prompt, ls_decode_options o) {
    result r = {0};
    ls_err err = {0};
    ls_session *s;
    ls_ids ids = {0};
    if (!strcmp(o.method, "rest")) o.knobs = test_knobs(ls_vocab_size(model.vocab), ls_vocab_id(model.vocab));
    assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
    assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
    assert_int_equal(ls_encode(model.vocab, prompt, strlen(prompt), true, &ids, &err), LS_OK);
    assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
    ls_step *step = ls_step_new();
    size_t emitted = 0;
    do {
        assert_int_equal(ls_session_step(s, step, &err), LS_OK);
        ls_stats_add(&r.stats, step);
        emitted += (size_t)step->n_emitted;
        assert_int_equal(emitted, ls_session_output(s)->n);
        for (int i = 0; i < step->n_emitted; i++) // what the record says was emitted is what was emitted
            assert_int_equal(step->tree.nodes[step->path[i]].token,
                             ls_session_output(s)->p[emitted - (size_t)step->n_emitted + (size_t)i]);
        for (int i = 1; i < step->tree.n; i++) assert_true(step->tree.nodes[i].parent < i);
        assert_int_equal(step->exact, ls_accept_guarantee(&o.accept, 1) != LS_LOSSY);
        // the KV cache holds what the conversation holds
        assert_int_equal(length_of(s), (int32_t)ls_session_conversation(s)->context.n);
    } while (!step->finish);
    r.finish = step->finish;
    ls_ids_add(&r.out, ls_session_output(s)->p, ls_session_output(s)->n);
    r.text = ls_strdup(ls_session_text(s)->n ? ls_session_text(s)->p : "");
    ls_step_free(step);
    ls_ids_free(&ids);
    ls_session_free(s);
    return r;
}

static void drop(result *r) {
    ls_ids_free(&r->out);
    free(r->text);
}

static void all_methods_equal_plain_decoding(void **state) {
    (void)state;
    const char *const prompts[] = {"def fib(n):\n", "One fish, two", "Retrieval finds", "zzz qqq",
                                   "When the text is new"};
    const lst_sampling ways[] = {{.temperature = 0, .top_p = 1},
                                 {.temperature = 0.8, .top_p = 1, .seed = 11},
                                 {.temperature = 1.2, .top_k = 20, .top_p = 0.9, .seed = 5}};
    const int32_t budgets[] = {0, 7, 1, 2, 64, 256};
    for (size_t p = 0; p < sizeof prompts / sizeof *prompts; p++)
        for (size_t w = 0; w < 3; w++) {
            ls_decode_options o = {.method = "plain", .max_tokens = 200, .sampling = ways[w]};
            result plain = run(prompts[p], o);
            assert_true(ls_stats_mat(&plain.stats) == 1.0);
            for (const ls_method *const *m = ls_methods; *m; m++)
                for (size_t b = 0; b < sizeof budgets / sizeof *budgets && !(*m)->asks_head; b++) {
                    // every prompt in every way as published and with 7 rows; LogitSpec also with others, in one way
                    // each
                    if (b > 1 && (strncmp((*m)->name, "logitspec", 9) || w != p % 3)) continue;
                    o.method = (*m)->name;
                    o.max_rows = budgets[b];
                    result r = run(prompts[p], o);
                    assert_int_equal(r.out.n, plain.out.n);
                    assert_memory_equal(r.out.p, plain.out.p, plain.out.n * sizeof *plain.out.p);
                    assert_string_equal(r.text, plain.text);
                    assert_int_equal(r.finish, plain.finish);
                    drop(&r);
                }
            drop(&plain);
        }
}

static void all_sizings_equal_plain_decoding(void **state) {
    (void)state;
    static const char *const methods[] = {"logitspec", "logitspec-paper", "pld", "suffix", "cacheback", "lookahead"};
    const lst_sampling sampling = {.temperature = 0.6, .top_p = 1, .seed = 2};
    ls_decode_options o = {.method = "plain", .max_tokens = 150, .sampling = sampling};
    result plain = run("for i in range(10):\n", o);
    uint64_t rows_by_rule[16] = {0};
    int distinct = 0, rules = 0;
    for (int k = 0; ls_sizing_at(k); k++) {
        uint64_t rows = 0;
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            o.method = methods[m];
            assert_int_equal(ls_sizing_read(&o.sizing, "", ls_sizing_at(k)->name, NULL), LS_OK);
            for (o.max_rows = 0; o.max_rows <= 5; o.max_rows += 5) {
                result r = run("for i in range(10):\n", o);
                assert_int_equal(r.out.n, plain.out.n);
                assert_memory_equal(r.out.p, plain.out.p, plain.out.n * sizeof *plain.out.p);
                if (o.max_rows) assert_true(r.stats.drafted <= 4 * r.stats.forwards);
                rows += r.stats.drafted;
                drop(&r);
            }
        }
        bool seen = false;
        for (int i = 0; i < rules; i++) seen |= rows_by_rule[i] == rows;
        distinct += !seen;
        rows_by_rule[rules++] = rows;
    }
    assert_true(distinct >= rules - 1); // the rules differ; by measured cost two may meet
    drop(&plain);
}

// A prompt that is read row by row, where that is asked for: the same text, and a drafter that has learnt from it.
static void prompts_can_be_read_row_by_row(void **state) {
    (void)state;
    static ls_knob_value knobs[64];
    ls_buf prompt = {0};
    for (int i = 0; i < 30; i++) ls_buf_str(&prompt, "for i in range(10):\n"); // several forwards of 64 rows
    ls_ids ids = {0};
    assert_int_equal(ls_encode(model.vocab, prompt.p, prompt.n, true, &ids, NULL), LS_OK);
    size_t bytes[2];
    ls_ids out[2] = {{0}};
    for (int k = 0; k < 2; k++) {
        ls_err err;
        ls_session *s;
        ls_knob_defaults(knobs);
        for (size_t i = 0; i < ls_knob_count(); i++)
            if (!strcmp(ls_knob_at(i)->key, "logitspec.read_prompt")) knobs[i].number = k ? 1000 : 0;
        const ls_decode_options o = {.method = "logitspec",
                                     .max_tokens = 80,
                                     .knobs = knobs,
                                     .sampling = {.temperature = 0.7, .top_p = 1, .seed = 4}};
        assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
        assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
        for (int turn = 0; turn < 2; turn++) {
            assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
            if (!turn) bytes[k] = ls_memory_bytes(ls_drafter_memory, (void *)ls_session_drafter(s));
            ls_step *step = ls_step_new();
            do assert_int_equal(ls_session_step(s, step, &err), LS_OK);
            while (!step->finish);
            ls_step_free(step);
            ls_ids_add(&out[k], ls_session_output(s)->p, ls_session_output(s)->n);
        }
        assert_int_equal(length_of(s), (int32_t)ls_session_conversation(s)->context.n);
        ls_session_free(s);
    }
    assert_true(bytes[1] > bytes[0]);
    assert_int_equal(out[0].n, out[1].n);
    assert_memory_equal(out[0].p, out[1].p, out[0].n * sizeof *out[0].p);
    ls_ids_free(&out[0]), ls_ids_free(&out[1]), ls_ids_free(&ids);
    ls_buf_free(&prompt);
}

// By default only where that takes 1% of what the answer takes: here 100 ms, of rows that cost 1 ms each.
static void a_prompts_rows_are_read_where_that_pays(void **state) {
    (void)state;
    static const struct {
        uint64_t row_macs, head_macs;
        double prefill_ms;
        int32_t most; // tokens of a prompt whose rows pay
    } cases[] = {
        {1000, 200, 0, 5},                   // not measured: the head's share
        {1000, 200, 0.7, 3},                 // measured
        {1000, 200, 0.95, 5},                // at a bad moment
        {0, 0, 0.75, 4},      {0, 0, 0, 40}, // nothing is known
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        model.engine->row_macs = cases[c].row_macs;
        model.engine->head_macs = cases[c].head_macs;
        for (int32_t more = 0; more < 2; more++) {
            const int32_t n = cases[c].most + more;
            ls_decode_options o = {.method = "logitspec", .max_tokens = 100, .sampling = {.top_p = 1}};
            ls_err err;
            ls_session *s;
            int32_t ids[64];
            if (n > 40) continue;
            for (int32_t i = 0; i < n; i++) ids[i] = 1 + i;
            assert_int_equal(ls_cost_read(&o.costs, "", "1:1,64:64", &err), LS_OK);
            o.costs.prefill_ms = cases[c].prefill_ms;
            assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
            assert_int_equal(ls_session_begin(s, ids, n, NULL, NULL, NULL, &err), LS_OK);
            enum { REMEMBERS = 50000 }; // bytes: with anything that the target said
            const bool read = ls_memory_bytes(ls_drafter_memory, (void *)ls_session_drafter(s)) > REMEMBERS;
            if (read == more) fail_msg("case %zu: %d tokens %s", c, (int)n, read ? "are read" : "are not read");
            ls_session_free(s);
        }
    }
    model.engine->row_macs = model.engine->head_macs = 0;
}

// LOSSY: what is not the target's own choice is counted, and nothing else is.
static void lossy_acceptance_says_what_it_let_stand(void **state) {
    (void)state;
    ls_decode_options o = {.method = "logitspec-paper", .max_tokens = 120, .sampling = {.top_p = 1}};
    result exact = run("One fish, two", o);
    assert_int_equal(exact.stats.lossy, 0);
    assert_int_equal(ls_accept_read(&o.accept, "", "typical:0:1", NULL), LS_OK); // lets everything stand
    result all = run("One fish, two", o);
    assert_true(all.stats.lossy > 5);
    assert_true(ls_stats_mat(&all.stats) > ls_stats_mat(&exact.stats));
    assert_true(all.out.n != exact.out.n || memcmp(all.out.p, exact.out.p, all.out.n * sizeof *all.out.p));
    assert_int_equal(ls_accept_read(&o.accept, "", "fuzzy-tv:0", NULL), LS_OK); // lets nothing stand
    result none = run("One fish, two", o);
    assert_int_equal(none.stats.lossy, 0);
    assert_int_equal(none.out.n, exact.out.n);
    assert_memory_equal(none.out.p, exact.out.p, none.out.n * sizeof *none.out.p);
    drop(&exact), drop(&all), drop(&none);
}

static void drafting_saves_steps_on_repetitive_text(void **state) {
    (void)state;
    ls_decode_options o = {.method = "logitspec-paper", .max_tokens = 400, .sampling = {.top_p = 1}};
    result r = run("for i in range(10):\n    print(i, fib(i))\nfor i in range(10):\n", o);
    assert_true(ls_stats_mat(&r.stats) > 2);
    assert_int_equal(r.stats.emitted, r.out.n);
    assert_int_equal(r.stats.accepted + r.stats.forwards >= r.stats.emitted - 1, 1);
    drop(&r);
}

static void turns_end_for_the_right_reason(void **state) {
    (void)state;
    for (const ls_method *const *m = ls_methods; *m; m++) {
        if ((*m)->asks_head) continue; // the script has none: unit/test_heads.c
        ls_decode_options o = {.method = (*m)->name, .max_tokens = 7, .sampling = {.top_p = 1}};
        result r = run("def fact(n):", o);
        assert_int_equal(r.finish, LS_FINISH_LENGTH);
        assert_int_equal(r.out.n, 7);
        drop(&r);
        o.max_tokens = 1;
        r = run("def fact(n):", o);
        assert_int_equal(r.out.n, 1);
        assert_int_equal(r.stats.steps, 1);
        assert_int_equal(r.stats.forwards, 0); // nothing follows, so nothing is computed
        drop(&r);
        o.max_tokens = 400;
        r = run("The end of the stor", o);
        assert_int_equal(r.finish, LS_FINISH_EOS);
        assert_string_equal(r.text, "y.");
        assert_int_equal(r.out.p[r.out.n - 1], ls_vocab_eos(model.vocab));
        drop(&r);
        o.max_tokens = 60;
        r = run("One fish, two", o);
        char *stop = ls_strndup(r.text + 20, 6), *want = ls_strndup(r.text, (size_t)(strstr(r.text, stop) - r.text));
        drop(&r);
        const char *const stops[] = {"nothing like it", stop, NULL};
        o.stops = stops;
        r = run("One fish, two", o);
        assert_int_equal(r.finish, LS_FINISH_STOP);
        assert_string_equal(r.text, want);
        drop(&r);
        free(stop), free(want);
        o.max_tokens = 400;
        o.stops = NULL;
        char *full = malloc(4091); // a prompt that leaves room for a few tokens only
        memset(full, 'a', 4090);
        full[4090] = 0;
        r = run(full, o);
        assert_int_equal(r.finish, LS_FINISH_CONTEXT);
        assert_int_equal(r.out.n, 6);
        drop(&r);
        free(full);
    }
}

// An answer that its length has cut goes on as if it had been let run, wherever it was cut: within a tree, or at a root
// that no forward has seen; in the middle of a character, too.
static void a_cut_answer_goes_on(void **state) {
    (void)state;
    enum { WHOLE = 90 };
    const char *const prompts[] = {"One fish, two", "def fib(n):\n"};
    const lst_sampling ways[] = {{.temperature = 0, .top_p = 1}, {.temperature = 0.8, .top_p = 1, .seed = 11}};
    ls_step *step = ls_step_new();
    int roots = 0, cuts = 0;
    for (size_t p = 0; p < 2; p++)
        for (size_t w = 0; w < 2; w++)
            for (int32_t part = 1; part <= 45; part += part < 4 ? 1 : 7) {
                const char *const methods[] = {"plain", "logitspec-paper", "logitspec", "pld", "suffix"};
                result whole =
                    run(prompts[p], (ls_decode_options){.method = "plain", .max_tokens = WHOLE, .sampling = ways[w]});
                ls_decode_options o = {.method = methods[(size_t)part % 5], .max_tokens = part, .sampling = ways[w]};
                ls_err err = {0};
                ls_session *s;
                ls_ids ids = {0};
                ls_finish finish = LS_GOING;
                assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
                assert_int_equal(ls_session_go_on(s, &err), LS_E_RANGE); // nothing was begun
                assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
                assert_int_equal(ls_encode(model.vocab, prompts[p], strlen(prompts[p]), true, &ids, &err), LS_OK);
                assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
                assert_int_equal(ls_session_go_on(s, &err), LS_E_RANGE); // it is going
                while (ls_session_output(s)->n < whole.out.n) {
                    const size_t before = ls_session_output(s)->n;
                    do {
                        const size_t n = ls_session_output(s)->n;
                        assert_int_equal(ls_session_step(s, step, &err), LS_OK);
                        assert_int_equal(step->output_pos, (int32_t)n);
                    } while (!step->finish);
                    finish = (ls_finish)step->finish;
                    if (finish != LS_FINISH_LENGTH) break;
                    roots += !step->forward;
                    cuts++;
                    assert_int_equal(ls_session_output(s)->n, before + (size_t)part);
                    if (ls_session_output(s)->n >= whole.out.n) break;
                    assert_int_equal(ls_session_go_on(s, &err), LS_OK);
                    assert_true(ls_session_active(s));
                    assert_int_equal(length_of(s), (int32_t)ls_session_conversation(s)->context.n);
                }
                const ls_ids *out = ls_session_output(s);
                assert_true(out->n >= whole.out.n || finish == whole.finish);
                assert_memory_equal(out->p, whole.out.p,
                                    (out->n < whole.out.n ? out->n : whole.out.n) * sizeof *out->p);
                if (out->n == whole.out.n) assert_string_equal(ls_session_text(s)->p, whole.text);
                drop(&whole);
                ls_ids_free(&ids);
                ls_session_free(s);
            }
    assert_true(roots > 0 && cuts > roots); // both kinds were met
    ls_step_free(step);
}

static void too_long_a_prompt_changes_nothing(void **state) {
    (void)state;
    ls_err err;
    ls_session *s;
    ls_decode_options o = {.method = "logitspec", .max_tokens = 5, .sampling = {.top_p = 1}};
    assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
    int32_t *ids = calloc(5000, sizeof *ids);
    for (int i = 0; i < 5000; i++) ids[i] = 'x';
    assert_int_equal(ls_session_begin(s, ids, 5000, NULL, NULL, NULL, &err), LS_E_RANGE);
    assert_non_null(strstr(err.msg, "5000 tokens"));
    assert_int_equal(ls_session_conversation(s)->context.n, 0);
    model.engine->kv_bytes = (uint64_t)1 << 44; // more than any machine has for ten of them
    assert_int_equal(ls_session_begin(s, ids, 10, NULL, NULL, NULL, &err), LS_E_RANGE);
    assert_non_null(strstr(err.msg, "the KV cache of 10 tokens needs 163840.0 GiB of memory, but only "));
    assert_int_equal(ls_session_conversation(s)->context.n, 0);
    model.engine->kv_bytes = 0;
    assert_int_equal(ls_session_begin(s, ids, 10, NULL, NULL, NULL, &err), LS_OK);
    o.method = "nonsense";
    assert_int_equal(ls_session_set(s, &o, &err), LS_E_USAGE);
    free(ids);
    ls_session_free(s);
}

// A second turn on the kept cache equals the same conversation prefilled at once.
static void a_second_turn_continues_the_first(void **state) {
    (void)state;
    ls_err err;
    ls_step *step = ls_step_new();
    ls_ids kept = {0}, fresh = {0}, whole = {0};
    for (int32_t max = 3; max < 40; max += 9) { // ends on a root, inside a path, at the end of sequence
        ls_session *s;
        ls_decode_options o = {.method = "logitspec-paper", .max_tokens = max, .sampling = {.top_p = 1}};
        assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
        kept.n = fresh.n = whole.n = 0;
        const ls_conversation *d = ls_session_conversation(s);
        ls_next_prompt p;
        assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 0, "One fish", 8, &p, &err), LS_OK);
        assert_int_equal(p.kept, 0);
        assert_int_equal(ls_session_begin_at(s, 0, &p, NULL, NULL, NULL, &err), LS_OK);
        ls_ids_add(&whole, p.ids.p, p.ids.n);
        ls_next_prompt_free(&p);
        do assert_int_equal(ls_session_step(s, step, &err), LS_OK);
        while (!step->finish);
        assert_int_equal(ls_conversation_output(d), ls_session_output(s)->n);
        for (size_t i = 0; i < ls_session_output(s)->n; i++)
            if (ls_session_output(s)->p[i] != ls_vocab_eos(model.vocab))
                ls_ids_push(&whole, ls_session_output(s)->p[i]);
        assert_int_equal(ls_conversation_tokens(d), whole.n);
        assert_int_equal(ls_conversation_last(d)->finish, step->finish);
        assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 1, "def fib", 7, &p, &err), LS_OK);
        assert_int_equal(p.kept, whole.n); // the answer stays as it was written
        ls_ids_add(&whole, p.ids.p, p.ids.n);
        assert_int_equal(ls_session_begin_at(s, 1, &p, NULL, NULL, NULL, &err), LS_OK);
        ls_next_prompt_free(&p);
        assert_int_equal(ls_session_conversation(s)->context.n, whole.n);
        assert_memory_equal(ls_session_conversation(s)->context.p, whole.p, whole.n * sizeof *whole.p);
        do assert_int_equal(ls_session_step(s, step, &err), LS_OK);
        while (!step->finish);
        assert_int_equal(step->turn, 1);
        ls_ids_add(&kept, ls_session_output(s)->p, ls_session_output(s)->n);
        ls_session_reset(s);
        assert_int_equal(ls_session_begin(s, whole.p, (int32_t)whole.n, NULL, NULL, NULL, &err), LS_OK);
        do assert_int_equal(ls_session_step(s, step, &err), LS_OK);
        while (!step->finish);
        ls_ids_add(&fresh, ls_session_output(s)->p, ls_session_output(s)->n);
        assert_int_equal(kept.n, fresh.n);
        assert_memory_equal(kept.p, fresh.p, kept.n * sizeof *kept.p);
        ls_session_free(s);
    }
    ls_step_free(step);
    ls_ids_free(&kept), ls_ids_free(&fresh), ls_ids_free(&whole);
}

static bool refuses(void *ud, const char *stage, double fraction) {
    (void)ud, (void)stage, (void)fraction;
    return false;
}

// An edit that cannot be done takes nothing away.
static void edit_fails(ls_session *s, uint32_t turn, size_t mark) {
    static const int32_t word[] = {'n', 'o'};
    ls_ids before = {0}, endless = {0};
    ls_ids_add(&before, ls_session_conversation(s)->context.p, ls_session_conversation(s)->context.n);
    for (int32_t i = 0; i < model.engine->n_context; i++) ls_ids_push(&endless, 'a');
    for (int why = 0; why < 3; why++) {
        const ls_code code = why == 0   ? begin_at(s, turn, mark, endless.p, endless.n, NULL)
                             : why == 1 ? begin_at(s, turn, mark, word, 2, refuses)
                                        : begin_at(s, 99, mark, word, 2, NULL);
        assert_int_equal(code, why == 1 ? LS_E_CANCELLED : LS_E_RANGE);
        assert_int_equal(ls_session_conversation(s)->context.n, before.n);
        assert_memory_equal(ls_session_conversation(s)->context.p, before.p, before.n * sizeof *before.p);
        assert_true(length_of(s) <= (int32_t)before.n); // the rest is read when it is needed
    }
    ls_ids_free(&before), ls_ids_free(&endless);
}

// A turn that is answered anew, or changed, gives what it would have given in the first place; and a session whose
// turn was answered by another too, on a KV cache of its own or on this one, goes on as if nothing had been.
static void turns_can_be_taken_back(void **state) {
    (void)state;
    static const char *const said[] = {"Retrieval ", "One fish ", "def fib "};
    for (int way = 0; way < 6; way++) {
        const ls_decode_options o = {.method = way % 2 ? "logitspec" : "logitspec-paper",
                                     .max_rows = 9,
                                     .max_tokens = 25,
                                     .sampling = {.temperature = way / 2 * 0.4, .top_p = 1, .seed = 4}};
        ls_err err = {0};
        size_t marks[3] = {0}; // tokens before each turn
        ls_session *s, *other;
        ls_ids first[3] = {{0}}, context = {0}, all = {0};
        ls_step *step = ls_step_new();
        assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
        assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
        for (int round = 0; round < 3; round++) { // 0: as it is; 1: from turn 1 on anew; 2: after a rival answered
            if (round == 2) {
                ls_ids_add(&context, ls_session_conversation(s)->context.p, ls_session_conversation(s)->context.n);
                bool lent;
                model.engine->kv_bytes = way % 4 < 2 ? 0 : (uint64_t)1 << 44; // or no memory for another one
                assert_int_equal(ls_session_rival(&other, s, &o, &lent, &err), LS_OK);
                model.engine->kv_bytes = 0;
                assert_int_equal(lent, way % 4 >= 2);
                assert_int_equal(ls_session_calibrate(other, LS_COSTS_MEASURED, NULL, NULL, &err), LS_OK);
                assert_int_equal(ls_session_answer_too(other, s, 9, &(ls_ids){0}, NULL, NULL, &err), LS_OK);
                do assert_int_equal(ls_session_step(other, step, &err), LS_OK);
                while (!step->finish);
                ls_session_free(other);
                if (!lent) assert_int_equal(length_of(s), (int32_t)context.n);
                assert_int_equal(ls_session_conversation(s)->context.n, context.n);
                assert_memory_equal(ls_session_conversation(s)->context.p, context.p, context.n * sizeof *context.p);
                ls_ids_free(&context);
            }
            if (round) edit_fails(s, (uint32_t)round, marks[round]);
            for (int turn = round; turn < 3; turn++) {
                ls_ids ids = {0};
                assert_int_equal(ls_encode(model.vocab, said[turn], strlen(said[turn]), false, &ids, &err), LS_OK);
                if (round && turn == round) assert_int_equal(begin_at(s, turn, marks[turn], ids.p, ids.n, NULL), LS_OK);
                else assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
                marks[turn] = ls_session_conversation(s)->context.n - ids.n;
                assert_int_equal(begin_at(s, 0, 0, ids.p, 1, NULL),
                                 LS_E_RANGE); // not while it is being decoded
                do assert_int_equal(ls_session_step(s, step, &err), LS_OK);
                while (!step->finish);
                assert_int_equal(step->turn, turn);
                const ls_ids *out = ls_session_output(s);
                if (round == 0) ls_ids_add(&first[turn], out->p, out->n);
                assert_int_equal(out->n, first[turn].n);
                assert_memory_equal(out->p, first[turn].p, out->n * sizeof *out->p);
                ls_ids_free(&ids);
            }
            if (round == 0)
                ls_ids_add(&all, ls_session_conversation(s)->context.p, ls_session_conversation(s)->context.n);
            assert_int_equal(ls_session_conversation(s)->context.n, all.n);
            assert_memory_equal(ls_session_conversation(s)->context.p, all.p, all.n * sizeof *all.p);
        }
        ls_session_free(s);
        for (int i = 0; i < 3; i++) ls_ids_free(&first[i]);
        ls_ids_free(&all);
        ls_step_free(step);
    }
}

// All steps of a turn: rows and what was emitted of each.
static void steps_of(ls_session *s, ls_ids *out) {
    ls_err err = {0};
    ls_step *step = ls_step_new();
    do {
        assert_int_equal(ls_session_step(s, step, &err), LS_OK);
        for (int i = 0; i < step->tree.n; i++) {
            ls_ids_push(out, step->tree.nodes[i].token);
            ls_ids_push(out, step->tree.nodes[i].parent);
        }
        ls_ids_push(out, -1 - step->n_emitted);
    } while (!step->finish);
    ls_step_free(step);
}

// What an answer taught is forgotten when its prompt is answered again: else a repetition would measure memory.
static void an_answer_that_is_repeated_is_drafted_as_before(void **state) {
    (void)state;
    const char *const prompts[] = {"One fish, two", "def fib(n):\n"};
    for (const ls_method *const *m = ls_methods; *m; m++) {
        if ((*m)->asks_head) continue;
        ls_decode_options o = {.method = (*m)->name, .max_rows = 7, .max_tokens = 60, .sampling = {.top_p = 1}};
        o.draft.overlap = LS_OVERLAP_OFF;
        ls_err err = {0};
        ls_session *s;
        size_t mark = 0;
        ls_ids ids = {0}, first = {0};
        if (!strcmp(o.method, "rest")) o.knobs = test_knobs(ls_vocab_size(model.vocab), ls_vocab_id(model.vocab));
        assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
        for (int i = 0; i < 2; i++) {
            ids.n = first.n = 0;
            assert_int_equal(ls_encode(model.vocab, prompts[i], strlen(prompts[i]), true, &ids, &err), LS_OK);
            assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
            mark = ls_session_conversation(s)->context.n - ids.n;
            steps_of(s, &first);
        }
        for (int again = 0; again < 3; again++) {
            ls_ids steps = {0};
            assert_int_equal(begin_at(s, 1, mark, ids.p, ids.n, NULL), LS_OK);
            steps_of(s, &steps);
            if (steps.n != first.n || memcmp(steps.p, first.p, first.n * sizeof *first.p))
                fail_msg("%s drafts otherwise the %d. time", o.method, again + 2);
            ls_ids_free(&steps);
        }
        ls_session_free(s);
        ls_ids_free(&ids);
        ls_ids_free(&first);
    }
}

static bool refuses_later(void *ud, const char *stage, double fraction) {
    (void)ud, (void)stage;
    return fraction < 0.4;
}

// Neither an edit nor a next turn changes what the drafter has learnt if it was interrupted, also in the middle.
static void a_prompt_that_fails_is_forgotten_by_the_drafter(void **state) {
    (void)state;
    static const char *const said[] = {"One fish, two", "def fib(n):\n", "One fish, two"};
    int32_t words[205];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) words[i] = "One fish, def "[i % 14];
    for (const ls_method *const *m = ls_methods; *m; m++)
        for (uint32_t edited = 0; edited < 2 && !(*m)->asks_head; edited++) {
            ls_decode_options o = {.method = (*m)->name, .max_rows = 7, .max_tokens = 60, .sampling = {.top_p = 1}};
            o.draft.overlap = LS_OVERLAP_OFF;
            ls_ids steps[2] = {{0}};
            ls_err bad;
            assert_int_equal(ls_cost_read(&o.costs, "", "1:10,8:15,64:20", &bad), LS_OK); // prompts are learnt, too
            if (!strcmp(o.method, "rest")) o.knobs = test_knobs(ls_vocab_size(model.vocab), ls_vocab_id(model.vocab));
            for (int fails = 0; fails < 2; fails++) {
                ls_err err = {0};
                ls_session *s;
                size_t marks[3];
                assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
                // the last one repeats the third: what was before it is kept, too
                for (int turn = 0; turn < 4; turn++) {
                    ls_ids ids = {0};
                    const char *text = said[turn < 3 ? turn : 2];
                    for (int i = 0; fails && turn > 1 && i < 4; i++) { // a next turn, too
                        const uint32_t at = i < 3 ? edited : (uint32_t)ls_session_conversation(s)->n_turns;
                        const size_t mark = i < 3 ? marks[edited] : ls_conversation_tokens(ls_session_conversation(s));
                        const ls_drafter *d = ls_session_drafter(s); // one that reads rows is asked between blocks
                        const bool in_blocks = i % 2 && d && d->read && d->read_share > 0;
                        assert_int_equal(begin_at(s, at, mark, words, 205, in_blocks ? refuses_later : refuses),
                                         LS_E_CANCELLED);
                    }
                    assert_int_equal(ls_encode(model.vocab, text, strlen(text), true, &ids, &err), LS_OK);
                    if (turn < 3) {
                        assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
                        marks[turn] = ls_session_conversation(s)->context.n - ids.n;
                    } else assert_int_equal(begin_at(s, 2, marks[2], ids.p, ids.n, NULL), LS_OK);
                    steps_of(s, &steps[fails]);
                    ls_ids_free(&ids);
                }
                ls_session_free(s);
            }
            if (steps[0].n != steps[1].n || memcmp(steps[0].p, steps[1].p, steps[0].n * sizeof *steps[0].p))
                fail_msg("%s drafts otherwise after a next turn, and edits of turn %u, that failed", o.method, edited);
            ls_ids_free(&steps[0]), ls_ids_free(&steps[1]);
        }
}

// An engine that counts the rows that it is asked for, and can end a forward as one that was interrupted does.
static ls_code (*real_forward)(ls_kv_cache *b, const int32_t *ids, const int32_t *parents, int32_t n,
                               const lst_sampling *s, lst_row *rows, ls_err *err);
static int forwards, most_rows, cancel_at;

static ls_code counted_forward(ls_kv_cache *b, const int32_t *ids, const int32_t *parents, int32_t n,
                               const lst_sampling *s, lst_row *rows, ls_err *err) {
    if (n > most_rows) most_rows = n;
    if (++forwards == cancel_at) return ls_fail(err, LS_E_CANCELLED, "interrupted");
    return real_forward(b, ids, parents, n, s, rows, err);
}

static ls_code (*real_kv_cache)(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err);

static ls_code counted_kv_cache(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err) {
    const ls_code code = real_kv_cache(e, layers, out, err);
    real_forward = (*out)->forward_tree;
    (*out)->forward_tree = counted_forward;
    return code;
}

// KV caches that are made while it is on.
static void watch_forwards(bool on) {
    if (on) real_kv_cache = model.engine->kv_cache;
    model.engine->kv_cache = on ? counted_kv_cache : real_kv_cache;
    forwards = most_rows = cancel_at = 0;
}

// The one file of a measurement in that folder, with its time moved and, where `how` is given, made in that way.
static void age_costs(const char *dir, int64_t by, const char *how) {
    char *find = ls_format("ls %s/logitspec/costs/*.txt", dir), path[512], text[4096], was[16];
    FILE *f = popen(find, "r");
    assert_non_null(fgets(path, sizeof path, f));
    pclose(f);
    free(find);
    path[strcspn(path, "\n")] = 0;
    f = fopen(path, "r");
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    char *at = strstr(text, "\nmeasured "), *end = strchr(at + 1, '\n');
    int64_t when;
    assert_int_equal(sscanf(at, "\nmeasured %" SCNd64 " %15s", &when, was), 2);
    f = fopen(path, "w");
    fprintf(f, "%.*s\nmeasured %" PRId64 " %s%s", (int)(at - text), text, when + by, how ? how : was, end);
    fclose(f);
}

static void forget_costs(ls_model *m) { // of this process
    free(m->costs);
    m->costs = NULL;
}

// The first answer of all begins after a few forwards; more are made when nobody waits, and in any case by who asks for
// them.
static void an_answer_begins_with_few_forwards(void **state) {
    (void)state;
    ls_err err = {0};
    char dir[] = "/tmp/logitspec-costs-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *old = getenv("XDG_CACHE_HOME") ? ls_strdup(getenv("XDG_CACHE_HOME")) : NULL;
    setenv("XDG_CACHE_HOME", dir, 1);
    watch_forwards(true);
    ls_model m = model;
    snprintf(m.file, sizeof m.file, "some.gguf");
    snprintf(m.sha256, sizeof m.sha256, "%064d", 3);
    ls_cost_curve first, z;
    ls_costs_noise noise;
    assert_false(ls_costs_due(&m));
    assert_int_equal(ls_costs_get(&first, &m, LS_COSTS_AT_ONCE, LS_BUSY, &noise, NULL, NULL, &err), LS_OK);
    assert_in_range(forwards, 4, 5);
    for (int i = 0; i < LS_COST_SIZES; i++)
        assert_true(first.base_ms[i] > 0 && (!i || first.base_ms[i] >= first.base_ms[i - 1]));
    assert_true(ls_costs_due(&m));
    forwards = 0;
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_AT_ONCE, LS_BUSY, &noise, NULL, NULL, &err), LS_OK);
    assert_int_equal(forwards, 0);
    age_costs(dir, -601, NULL); // a later start tries again, and takes the shorter times
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_AT_ONCE, LS_BUSY, &noise, NULL, NULL, &err), LS_OK);
    assert_in_range(forwards, 4, 5);
    for (int i = 0; i < LS_COST_SIZES; i++) assert_true(z.base_ms[i] <= first.base_ms[i] * 1.0001);
    forwards = 0; // a busy machine: all sizes, and that is kept for ten minutes, and for who cannot wait
    assert_int_equal(ls_costs_get(&first, &m, LS_COSTS_MEASURED, -1, &noise, NULL, NULL, &err), LS_OK);
    assert_true(forwards > 20 && most_rows == 64 && noise.busy && !ls_costs_due(&m));
    forwards = 0;
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, -1, &noise, NULL, NULL, &err), LS_OK);
    age_costs(dir, -601, NULL);
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_AT_ONCE, -1, &noise, NULL, NULL, &err), LS_OK);
    assert_true(!forwards && ls_costs_due(&m));
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_true(forwards > 20 && !ls_costs_due(&m));
    forwards = 0; // what was measured quietly lasts
    age_costs(dir, -100000000, NULL);
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, -1, &noise, NULL, NULL, &err), LS_OK);
    assert_int_equal(forwards, 0);
    age_costs(dir, 200000000, "busy"); // of a clock that was wrong
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_true(forwards > 20);
    age_costs(dir, 0, "certainly"); // no way that is known, which is seen when the process does not know better
    forget_costs(&m);
    forwards = 0;
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_true(forwards > 20);
    assert_int_equal(ls_measured_forget(), 1);
    assert_int_equal(ls_measured_forget(), 0);
    forget_costs(&m);
    watch_forwards(false);
    char *remove = ls_format("rm -r %s", dir);
    assert_int_equal(system(remove), 0);
    free(remove);
    if (old) setenv("XDG_CACHE_HOME", old, 1);
    else unsetenv("XDG_CACHE_HOME");
    free(old);
}

// Costs are measured once, then read back; a damaged or foreign cache is measured again.
static void costs_are_kept_for_the_next_run(void **state) {
    (void)state;
    ls_err err = {0};
    char dir[] = "/tmp/logitspec-costs-XXXXXX";
    assert_non_null(mkdtemp(dir));
    char *old = getenv("XDG_CACHE_HOME") ? ls_strdup(getenv("XDG_CACHE_HOME")) : NULL;
    setenv("XDG_CACHE_HOME", dir, 1);
    ls_model m = model; // with a file, as a real model has one
    snprintf(m.file, sizeof m.file, "some.gguf");
    snprintf(m.sha256, sizeof m.sha256, "%064d", 1);
    ls_cost_curve first, z;
    ls_costs_noise noise;
    char line[LS_COSTS_NOTE];
    // a machine that is busy all the time: what is measured is used, and told; no attempt needs more context than the
    // first one
    const int32_t whole = m.engine->n_context;
    m.engine->n_context = 320;
    assert_int_equal(ls_costs_get(&first, &m, LS_COSTS_MEASURED, -1, &noise, NULL, NULL, &err), LS_OK);
    m.engine->n_context = whole;
    assert_true(noise.busy && !noise.kept && first.base_ms[0] > 0);
    assert_true(ls_costs_note(&noise, line) && strstr(line, "again in ten minutes"));
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, -1, &noise, NULL, NULL, &err), LS_OK); // ... until then
    assert_false(noise.busy);
    for (int i = 0; i < LS_COST_SIZES; i++) assert_float_equal(z.base_ms[i], first.base_ms[i], 1e-4 * first.base_ms[i]);
    assert_int_equal(ls_measured_forget(), 1);
    forget_costs(&m);
    assert_int_equal(ls_costs_get(&first, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_true(first.cost_context > 0);
    for (int i = 0; i < LS_COST_SIZES; i++)
        assert_true(first.base_ms[i] > 0 && (!i || first.base_ms[i] >= first.base_ms[i - 1]));
    char *find = ls_format("ls %s/logitspec/costs/*.txt", dir), path[512];
    FILE *f = popen(find, "r");
    assert_non_null(fgets(path, sizeof path, f));
    pclose(f);
    path[strcspn(path, "\n")] = 0;
    // what is read is what is written there
    char text[4096];
    f = fopen(path, "r");
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    char *one = strstr(text, "\n1 ");
    assert_non_null(one);
    f = fopen(path, "w");
    fprintf(f, "%.*s\n1 0.123 0\n%s", (int)(one - text), text, strchr(one + 1, '\n') + 1);
    fclose(f);
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_float_equal(z.base_ms[0], 0.123, 1e-9);
    assert_float_equal(z.base_ms[LS_COST_SIZES - 1], first.base_ms[LS_COST_SIZES - 1],
                       1e-4 * first.base_ms[LS_COST_SIZES - 1]);
    // asked for anew while the machine is busy: what is there stays, and is told; else it is measured
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_ANEW, -1, &noise, NULL, NULL, &err), LS_OK);
    assert_float_equal(z.base_ms[0], 0.123, 1e-9);
    assert_true(noise.busy && noise.kept && ls_costs_note(&noise, line) && strstr(line, "the earlier measured costs"));
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_float_equal(z.base_ms[0], 0.123, 1e-9);
    assert_false(ls_costs_note(&noise, line));
    // of another model, cut short: measured
    forget_costs(&m);
    snprintf(m.sha256, sizeof m.sha256, "%064d", 2);
    assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_true(z.base_ms[0] < 0.12 || z.base_ms[0] > 0.124);
    snprintf(m.sha256, sizeof m.sha256, "%064d", 1);
    for (size_t cut = 0; cut < n; cut += 7) {
        f = fopen(path, "w");
        fwrite(text, 1, cut, f);
        fclose(f);
        forget_costs(&m);
        assert_int_equal(ls_costs_get(&z, &m, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
        for (int i = 0; i < LS_COST_SIZES; i++) assert_true(z.base_ms[i] > 0);
    }
    forget_costs(&m);
    free(find);
    char *remove = ls_format("rm -r %s", dir);
    assert_int_equal(system(remove), 0);
    free(remove);
    if (old) setenv("XDG_CACHE_HOME", old, 1);
    else unsetenv("XDG_CACHE_HOME");
    free(old);
}

static void a_slow_engine_is_measured_briefly(void **state) {
    (void)state;
    ls_err err = {0};
    ls_costs_noise noise;
    ls_cost_curve z;
    watch_forwards(true);
    model.engine->slow = true;
    assert_int_equal(ls_costs_get(&z, &model, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, &err), LS_OK);
    assert_true(forwards <= 3 && most_rows <= 4);
    for (int i = 0; i < LS_COST_SIZES; i++) assert_true(z.base_ms[i] > 0 && (!i || z.base_ms[i] >= z.base_ms[i - 1]));
    forwards = 0;
    assert_int_equal(ls_costs_get(&z, &model, LS_COSTS_ANEW, 2, &noise, NULL, NULL, &err),
                     LS_OK); // asked for: all of it
    assert_true(forwards > 20 && most_rows == 64);
    model.engine->slow = false;
    watch_forwards(false);
}

// Wherever a step is interrupted, it did not happen: the turn goes on to the same text, step by step the same.
static void a_cancelled_step_did_not_happen(void **state) {
    (void)state;
    static const char *const methods[] = {"plain", "logitspec", "logitspec-paper", "lookahead", "recycle", "suffix"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        const ls_decode_options o = {.method = methods[m], .max_tokens = 60, .max_rows = 8, .sampling = {.top_p = 1}};
        result want = run("One fish, two fish. One", o);
        ls_err err = {0};
        ls_session *s;
        ls_ids ids = {0};
        ls_step *step = ls_step_new();
        watch_forwards(true);
        assert_int_equal(ls_session_new(&s, &model, &o, &err), LS_OK);
        assert_int_equal(ls_encode(model.vocab, "One fish, two fish. One", 23, true, &ids, &err), LS_OK);
        assert_int_equal(ls_session_begin(s, ids.p, (int32_t)ids.n, NULL, NULL, NULL, &err), LS_OK);
        int cancelled = 0, steps = 0;
        do {
            const size_t before = ls_session_output(s)->n;
            cancel_at = forwards + 1 + steps++ % 2; // the probe of plain decoding too
            const ls_code code = ls_session_step(s, step, &err);
            cancel_at = 0;
            if (code) {
                assert_int_equal(code, LS_E_CANCELLED);
                assert_int_equal(ls_session_output(s)->n, before);
                assert_int_equal(length_of(s), (int32_t)ls_session_conversation(s)->context.n);
                cancelled++;
                assert_int_equal(ls_session_step(s, step, &err), LS_OK);
            }
        } while (!step->finish);
        watch_forwards(false);
        assert_true(cancelled > 3);
        assert_int_equal(ls_session_output(s)->n, want.out.n);
        assert_memory_equal(ls_session_output(s)->p, want.out.p, want.out.n * sizeof *want.out.p);
        ls_session_free(s);
        ls_ids_free(&ids);
        ls_step_free(step);
        drop(&want);
    }
}

static void plain_forwards_tell_how_far_they_lie_apart(void **state) {
    (void)state;
    ls_plain_cost a = {0};
    assert_true(ls_plain_spread(&a) == 0);
    static const double took[] = {10, 14, 11, 90, 12, 9, 12, 13, 12, 30};
    for (int i = 0; i < 10; i++) {
        a.timed[a.n_timed++ % LS_PLAIN_RECENT] = took[i];
        if (i == 2) assert_float_equal(ls_plain_spread(&a), 2.0 / 11, 1e-12); // half of 14 - 10, over 11
    }
    // the last nine: 9 11 12 12 12 13 14 30 90; without the ends half of 30 - 11, over 12
    assert_float_equal(ls_plain_spread(&a), 9.5 / 12, 1e-12);
}

static void plain_decoding_is_never_slower_than_steps(void **state) {
    (void)state;
    ls_plain_cost a = {.us = 100}; // the probes met a busy moment
    for (int i = 0; i < LS_PLAIN_RECENT - 1; i++) {
        ls_plain_bound(&a, i == 3 ? 10 : 40 + i); // one lucky step says nothing
        assert_true(a.us == 100);
    }
    ls_plain_bound(&a, 60);
    assert_float_equal(a.us, 44, 1e-9);                   // the median
    for (int i = 0; i < 20; i++) ls_plain_bound(&a, 500); // slow steps do not raise it
    assert_float_equal(a.us, 44, 1e-9);
}

// A special token is no text, but a stop string may be one, or end with one.
static void a_stop_string_may_be_a_special_token(void **state) {
    (void)state;
    static const struct {
        const char *stop, *text;
        bool stops;
    } cases[] = {{"<|im_start|>", "ab", true},
                 {"b<|im_start|>", "a", true},
                 {"x<|im_start|>", "abc", false},
                 {"|im_start|>", "abc", false},
                 {"<|im_end|>", "abc", false}};
    const int32_t special = ls_vocab_special(model.vocab, "<|im_start|>", 12);
    ls_ids ids = {0};
    assert_int_equal(ls_encode(model.vocab, "ab", 2, false, &ids, NULL), LS_OK);
    ls_ids_push(&ids, special);
    assert_int_equal(ls_encode(model.vocab, "c", 1, false, &ids, NULL), LS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_answer a = {0};
        ls_finish finish = LS_GOING;
        ls_answer_ends(&a, 100, (const char *const[]){cases[i].stop, NULL});
        const int32_t n = ls_answer_add(&a, model.vocab, ids.p, (int32_t)ids.n, &finish);
        assert_int_equal(finish, cases[i].stops ? LS_FINISH_STOP : LS_GOING);
        assert_int_equal(n, cases[i].stops ? 3 : 4);
        assert_string_equal(a.text.p, cases[i].text);
        ls_answer_free(&a);
    }
    ls_ids_free(&ids);
}

static void suites_are_read_line_by_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *error;
        size_t n;
    } cases[] = {
        {"{\"prompt\": \"a\"}\n\n{\"turns\": [\"b\", \"c\"], \"category\": \"k\", \"question_id\": 7}\r\n", NULL, 2},
        {"{\"prompt\": \"no newline\", \"id\": \"x\"}", NULL, 1},
        {"", "has no prompts", 0},
        {"{\"prompt\": \"a\"}\n{\"prompt\": \"\"}\n", ":2: no user text: none of", 0},
        {"{\"prompt\": 3}\n", ": no user text", 0},
        {"{\"prompt\": \"a\"}\n{\"prompt\": \"a\"\n", ":2:14: not JSON", 0},
        {"[1]\n", ": element 1: no user text", 0},
        {"[{\"prompt\": \"a\"},\n{\"prompt\": \"b\"}]\n", NULL, 2},
        {"{\"data\":\n[{\"prompt\": \"a\"},\n{\"prompt\": \"b\"}]}\n", NULL, 2},
        {"{\n\"prompt\":\n\"a\"}\n", NULL, 1},
        {" []", "has no prompts", 0},
        {"[{\"prompt\": \"a\"},\n", "2:0: not JSON", 0},
        {"{\"turns\": []}\n", ": no user text", 0},
        {"{\"prompt\": \"a\"}\n{\"turns\": [\"a\", 3]}\n", ":2: turn 2 of the conversation is not text", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[] = "/tmp/logitspec-suite-XXXXXX";
        const int fd = mkstemp(path);
        assert_true(fd >= 0 && write(fd, cases[i].text, strlen(cases[i].text)) == (ssize_t)strlen(cases[i].text));
        close(fd);
        ls_suite s;
        ls_err err = {0};
        const ls_code code = ls_suite_read(&s, path, true, &err);
        unlink(path);
        assert_int_equal(code != LS_OK, cases[i].error != NULL);
        assert_int_equal(s.n, cases[i].n);
        if (cases[i].error && !strstr(err.msg, cases[i].error)) fail_msg("'%s' lacks '%s'", err.msg, cases[i].error);
        if (i == 0) {
            assert_string_equal(s.items[0].name, "1");
            assert_string_equal(s.items[1].name, "7");
            assert_string_equal(s.items[1].category, "k");
            assert_int_equal(s.n_turns, 3);
            assert_int_equal(s.items[0].n_turns, 1);
            assert_int_equal(s.items[1].n_turns, 2);
            assert_int_equal(s.items[1].first, 1);
            assert_string_equal(s.items[1].turns[0].p, "b");
            assert_string_equal(s.items[1].turns[1].p, "c");
        }
        ls_suite_free(&s);
    }
    ls_suite s;
    ls_err err = {0};
    assert_int_equal(ls_suite_read(&s, "/nonexistent", true, &err), LS_E_IO);
}

static void suites_of_others_are_known_by_their_keys(void **state) {
    (void)state;
    static const struct {
        const char *line, *name, *turns, *system;
    } cases[] = {
        {"{\"question_id\": 81, \"category\": \"writing\", \"turns\": [\"a\", \"b\"], \"reference\": [\"r\"]}", "81",
         "a|b|", NULL},
        {"{\"prompt\": [\"a\", \"b\"], \"prompt_id\": 4, \"category\": \"stem\"}", "4", "a|b|", NULL},
        {"{\"task_id\": \"HumanEval/0\", \"prompt\": \"def f():\", \"canonical_solution\": \"x\", \"test\": \"t\"}",
         "HumanEval/0", "def f():|", NULL},
        {"{\"question\": \"How many?\", \"answer\": \"#### 3\"}", "1", "How many?|", NULL},
        {"{\"instruction\": \"Sum up.\", \"input\": \"A text.\", \"output\": \"o\"}", "1", "Sum up.\n\nA text.|", NULL},
        {"{\"instruction\": \"Tell.\", \"input\": \"\", \"output\": \"o\"}", "1", "Tell.|", NULL},
        {"{\"instruction\": \"Tell.\", \"output\": \"o\"}", "1", "Tell.|", NULL},
        {"{\"instruction\": \"Who?\", \"context\": \"It was I.\", \"response\": \"r\"}", "1", "Who?\n\nIt was I.|",
         NULL},
        {"{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": "
         "\"a\"}, {\"role\": "
         "\"assistant\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": "
         "\"b\"}, {\"type\": "
         "\"text\", \"text\": \"c\"}]}]}",
         "1", "a|bc|", "Be brief."},
        {"{\"custom_id\": \"r-1\", \"method\": \"POST\", \"body\": {\"model\": \"m\", \"messages\": [{\"role\": "
         "\"user\", \"content\": "
         "\"a\"}]}}",
         "r-1", "a|", NULL},
        {"{\"id\": \"g_0\", \"conversations\": [{\"from\": \"system\", \"value\": \"s\"}, {\"from\": \"human\", "
         "\"value\": \"a\"}, "
         "{\"from\": \"gpt\", \"value\": \"x\"}, {\"from\": \"human\", \"value\": \"b\"}]}",
         "g_0", "a|b|", "s"},
        {"{\"conversation_id\": \"c\", \"conversation\": [{\"role\": \"user\", \"content\": \"a\"}]}", "c", "a|", NULL},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": {}}]}]}", NULL,
         "turn 1 of", NULL},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"x\"}]}", NULL, "no user text", NULL},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) { // as a line, and as an array
        char path[] = "/tmp/logitspec-suite-XXXXXX";
        FILE *f = fdopen(mkstemp(path), "w");
        assert_non_null(f);
        fprintf(f, i % 2 ? "[\n%s\n]\n" : "%s\n", cases[i / 2].line);
        assert_int_equal(fclose(f), 0);
        ls_suite s;
        ls_err err = {0};
        ls_buf turns = {0};
        const ls_code code = ls_suite_read(&s, path, true, &err);
        unlink(path);
        ls_buf_str(&turns, "");
        if (!cases[i / 2].name) {
            assert_int_equal(code, LS_E_PARSE);
            if (!strstr(err.msg, cases[i / 2].turns)) fail_msg("%s", err.msg);
            ls_buf_free(&turns);
            continue;
        }
        if (code || s.n != 1) fail_msg("%s: %s", cases[i / 2].line, err.msg);
        for (size_t t = 0; t < s.items[0].n_turns; t++) ls_buf_fmt(&turns, "%s|", s.items[0].turns[t].p);
        assert_string_equal(turns.p, cases[i / 2].turns);
        assert_string_equal(s.items[0].name, cases[i / 2].name);
        if (cases[i / 2].system) assert_string_equal(s.items[0].system, cases[i / 2].system);
        else assert_null(s.items[0].system);
        ls_buf_free(&turns);
        ls_suite_free(&s);
    }
}

// Of a file of another shape there is one complaint; of some bad lines, one each.
static void a_suite_of_another_shape_is_told_once(void **state) {
    (void)state;
    for (int good = 0; good < 2; good++) {
        char path[] = "/tmp/logitspec-suite-XXXXXX";
        FILE *f = fdopen(mkstemp(path), "w");
        assert_non_null(f);
        for (int i = 0; i < 50; i++) fprintf(f, "{\"text\": %d}\n", i);
        if (good) fprintf(f, "{\"prompt\": \"a\"}\n");
        assert_int_equal(fclose(f), 0);
        ls_suite s;
        ls_err err = {0};
        assert_int_equal(ls_suite_read(&s, path, false, &err), good ? LS_OK : LS_E_RANGE);
        unlink(path);
        assert_int_equal(s.n_left_out, good ? 50 : 0);
        if (!good && !strstr(err.msg, "has no prompts; its first line: ")) fail_msg("%s", err.msg);
        ls_suite_free(&s);
    }
}

static bool some_tokens(void *ud, const char *stage, double fraction) {
    int *calls = ud;
    assert_string_equal(stage, "asking what follows each token");
    assert_true(fraction >= 0 && fraction < 1);
    return (*calls)-- > 0;
}

// Bigrams are asked in parts, and then are as if they had been asked at once.
static void bigrams_are_asked_in_parts(void **state) {
    (void)state;
    char cache[64], *path;
    ls_err err;
    ls_buf parts = {0}, whole = {0};
    int32_t n, before = 0;
    const int32_t size = ls_vocab_size(model.vocab);
    snprintf(cache, sizeof cache, "/tmp/logitspec-test-%d.bigrams", (int)getpid());
    char *old = getenv("XDG_CACHE_HOME") ? ls_strdup(getenv("XDG_CACHE_HOME")) : NULL;
    setenv("XDG_CACHE_HOME", cache, 1);
    int calls = 0;
    assert_int_equal(ls_bigrams_learn(&model, LS_FORMAT_AUTO, NULL, false, some_tokens, &calls, &n, &path, &err),
                     LS_E_CANCELLED);
    assert_null(path);
    for (n = 0; n < size; before = n) {
        calls = 2; // forwards
        assert_int_equal(ls_bigrams_learn(&model, LS_FORMAT_AUTO, NULL, false, some_tokens, &calls, &n, &path, &err),
                         LS_OK);
        assert_true(n > before && n - before < 128);
        if (n == size) assert_int_equal(ls_read_file(&parts, path, 1 << 20, &err), LS_OK);
        free(path);
    }
    calls = INT32_MAX;
    assert_int_equal(ls_bigrams_learn(&model, LS_FORMAT_AUTO, NULL, true, some_tokens, &calls, &n, &path, &err), LS_OK);
    assert_int_equal(n, size);
    assert_int_equal(ls_read_file(&whole, path, 1 << 20, &err), LS_OK);
    assert_int_equal(parts.n, whole.n);
    assert_memory_equal(parts.p, whole.p, whole.n);
    unlink(path);
    free(path);
    if (old) setenv("XDG_CACHE_HOME", old, 1);
    else unsetenv("XDG_CACHE_HOME");
    free(old);
    ls_buf_free(&parts);
    ls_buf_free(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bigrams_are_asked_in_parts),
        cmocka_unit_test(all_methods_equal_plain_decoding),
        cmocka_unit_test(all_sizings_equal_plain_decoding),
        cmocka_unit_test(prompts_can_be_read_row_by_row),
        cmocka_unit_test(a_prompts_rows_are_read_where_that_pays),
        cmocka_unit_test(lossy_acceptance_says_what_it_let_stand),
        cmocka_unit_test(drafting_saves_steps_on_repetitive_text),
        cmocka_unit_test(turns_end_for_the_right_reason),
        cmocka_unit_test(a_cut_answer_goes_on),
        cmocka_unit_test(too_long_a_prompt_changes_nothing),
        cmocka_unit_test(a_second_turn_continues_the_first),
        cmocka_unit_test(turns_can_be_taken_back),
        cmocka_unit_test(an_answer_that_is_repeated_is_drafted_as_before),
        cmocka_unit_test(a_prompt_that_fails_is_forgotten_by_the_drafter),
        cmocka_unit_test(an_answer_begins_with_few_forwards),
        cmocka_unit_test(costs_are_kept_for_the_next_run),
        cmocka_unit_test(a_slow_engine_is_measured_briefly),
        cmocka_unit_test(a_cancelled_step_did_not_happen),
        cmocka_unit_test(a_stop_string_may_be_a_special_token),
        cmocka_unit_test(suites_are_read_line_by_line),
        cmocka_unit_test(suites_of_others_are_known_by_their_keys),
        cmocka_unit_test(a_suite_of_another_shape_is_told_once),
        cmocka_unit_test(plain_forwards_tell_how_far_they_lie_apart),
        cmocka_unit_test(plain_decoding_is_never_slower_than_steps),
    };
    return cmocka_run_group_tests_name("session", tests, load, unload);
}
