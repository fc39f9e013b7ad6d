// The step loop by its definitions, on short runs of the scripted model: what plain decoding says is
// asked of the model itself, row by row.
#include "drafters.h"
#include "decode/drafting.h"
#include "decode/stats.h"
#include "trace/turns.h"
#include "base/mem.h"
#include "decode/session_state.h"
#include "scripted.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { LENGTH = 70 };
static ls_step *step, *before; // the last step of a session and the one before it
static const char fish[] = "One fish, two fish. One";

static ls_ids ids_of(const char *text) {
    ls_ids ids = {0};
    assert_int_equal(ls_encode(model.vocab, text, strlen(text), true, &ids, NULL), LS_OK);
    return ids;
}

static ls_decode_options options(const char *method, int32_t max_rows, int32_t most) {
    return (ls_decode_options){.method = method, .max_rows = max_rows, .max_tokens = most, .sampling = {.top_p = 1}};
}

static ls_session *session(const ls_decode_options *o) {
    ls_session *s;
    ls_err err = {0};
    if (ls_session_new(&s, &model, o, &err)) fail_msg("%s", err.msg);
    return s;
}

static void begin(ls_session *s, const ls_ids *ids) {
    ls_err err = {0};
    if (ls_session_begin(s, ids->p, (int32_t)ids->n, NULL, NULL, NULL, &err)) fail_msg("%s", err.msg);
}

static void next(ls_session *s) {
    ls_err err = {0};
    ls_step_copy(before, step);
    if (ls_session_step(s, step, &err)) fail_msg("%s", err.msg);
}

static ls_finish answer(ls_session *s, const ls_ids *ids) {
    begin(s, ids);
    do next(s);
    while (!step->finish);
    return (ls_finish)step->finish;
}

static void assert_ids(const ls_ids *got, const int32_t *want, size_t n) {
    assert_int_equal(got->n, n);
    assert_memory_equal(got->p, want, n * sizeof *want);
}

static int32_t length_of(ls_session *s) {
    ls_kv_cache *t = s->kv;
    return t->length(t);
}

// The tokens that the model says one after another, without sessions and drafts.
static ls_ids prediction_after(const ls_ids *prompt, const lst_sampling *way, int32_t most) {
    ls_kv_cache *b;
    ls_ids out = {0};
    lst_row row;
    const int32_t parent = -1, root = 0;
    assert_int_equal(model.engine->kv_cache(model.engine, 0, &b, NULL), LS_OK);
    assert_int_equal(b->prefill(b, prompt->p, (int32_t)prompt->n, way, &row, NULL, NULL, NULL), LS_OK);
    while ((int32_t)out.n < most) {
        const int32_t token = row.chosen;
        ls_ids_push(&out, token);
        if (ls_vocab_is_end(model.vocab, token)) break;
        assert_int_equal(b->forward_tree(b, &token, &parent, 1, way, &row, NULL), LS_OK);
        assert_int_equal(b->keep_path(b, &root, 1, NULL), LS_OK);
    }
    b->free(b);
    return out;
}

// What a step's record says of itself.
static void check_record(bool first) {
    assert_in_range(step->n_emitted, 1, step->n_path);
    assert_int_equal(step->path[0], 0);
    for (int i = 0; i < step->n_top; i++)
        if (step->top[i].id == step->tree.nodes[0].token)
            assert_float_equal(step->tree.nodes[0].p, expf(step->top[i].logit - step->top_lse), 1e-6);
    bool accepted[LS_MAX_ROWS] = {0};
    for (int i = 0; i < step->n_path; i++) accepted[step->path[i]] = true;
    for (int i = 1; i < step->tree.n; i++) {
        const ls_node *n = &step->tree.nodes[i], *parent = &step->tree.nodes[n->parent];
        for (int k = 0; k < LS_ROW_TOP; k++) // the probability of a token that is among its parent's best
            if (parent->top[k].id == n->token) assert_float_equal(n->p, expf(parent->top[k].logit - parent->lse), 1e-6);
        if (accepted[i]) assert_int_equal(n->token, parent->target);
        assert_int_equal(n->state, accepted[i]           ? LS_NODE_ACCEPTED
                                   : accepted[n->parent] ? LS_NODE_REJECTED
                                                         : LS_NODE_NOT_REACHED);
    }
    for (int b = 0; b < step->tree.n_branches; b++) {
        int n = 0;
        for (int i = 0; i < step->tree.n; i++) n += accepted[i] && step->tree.nodes[i].branch == b;
        assert_int_equal(step->tree.branches[b].accepted, n);
    }
    bool refused = false; // a draft stood where this root stands
    for (int i = 1; !first && i < before->tree.n; i++)
        refused |= before->tree.nodes[i].parent == before->path[before->n_path - 1];
    assert_int_equal(step->corrected, refused);
    assert_true(step->t_draft_us + step->t_forward_us + step->t_verify_us + step->t_commit_us <= step->t_total_us);
    assert_int_equal(step->t_forward_us > 0, step->forward);
    if (step->rows > 1) assert_true(step->t_draft_us > 0);
}

static void steps_say_what_the_model_says(void **state) {
    (void)state;
    static const char *const methods[] = {"plain", "logitspec", "logitspec-paper", "pld", "lookahead"};
    const lst_sampling ways[] = {{.top_p = 1},
                                 {.temperature = 0.5, .top_p = 1, .seed = 7},
                                 {.temperature = 1, .top_p = 1, .seed = 8},
                                 {.temperature = 1.2, .top_k = 8, .top_p = 0.9, .seed = 9}};
    ls_ids prompt = ids_of(fish);
    int aside = 0; // accepted rows whose place in the tree is not their depth
    for (size_t w = 0; w < 4; w++) {
        ls_ids want = prediction_after(&prompt, &ways[w], LENGTH);
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            ls_decode_options o = options(methods[m], m ? 12 : 0, LENGTH);
            o.sampling = ways[w];
            ls_session *s = session(&o);
            ls_stats st = {0};
            uint64_t plain = 0, helped = 0, drafted = 0, corrected = 0;
            int32_t at = 0, first_pool = -1;
            begin(s, &prompt);
            do {
                next(s);
                check_record(!at);
                assert_int_equal(step->context_len, (int32_t)prompt.n + at);
                assert_int_equal(step->output_pos, at);
                assert_true((size_t)(at + step->n_emitted) <= want.n);
                for (int i = 0; i < step->n_emitted; i++)
                    assert_int_equal(step->tree.nodes[step->path[i]].token, want.p[at++]);
                ls_stats_add(&st, step);
                for (int i = 0; w && i < step->n_path; i++) aside += step->path[i] != i;
                plain += step->rows == 1;
                helped += step->n_emitted > 1;
                drafted += (uint64_t)step->rows - 1;
                corrected += step->corrected;
                if (first_pool < 0) first_pool = step->pool_size;
            } while (!step->finish);
            assert_ids(ls_session_output(s), want.p, want.n);
            assert_int_equal(st.emitted, want.n);
            assert_int_equal(st.steps + st.accepted, st.emitted); // every token is a root or an accepted draft
            assert_int_equal(st.steps_with_draft, st.steps - plain);
            assert_int_equal(st.steps_with_accept, helped);
            assert_int_equal(st.drafted, drafted);
            if (!m) assert_true(st.drafted == 0 && ls_stats_mat(&st) == 1);
            if (m == 1 || m == 2) assert_true(helped > 3 && corrected > 3 && step->pool_size > first_pool + 20);
            ls_session_free(s);
        }
        ls_ids_free(&want);
    }
    assert_true(aside > 10);
    ls_ids_free(&prompt);
}

// The answer is as long as was asked for, wherever in a path the limit lies, and is plain decoding's.
static void answers_have_the_length_that_was_asked_for(void **state) {
    (void)state;
    ls_ids prompt = ids_of(fish);
    const lst_sampling greedy = {.top_p = 1};
    ls_ids want = prediction_after(&prompt, &greedy, LENGTH);
    int cut = 0;
    for (int32_t most = 1; most < 40; most++) {
        const ls_decode_options o = options("logitspec-paper", 12, most);
        ls_session *s = session(&o);
        assert_int_equal(answer(s, &prompt), LS_FINISH_LENGTH);
        assert_ids(ls_session_output(s), want.p, (size_t)most);
        cut += step->n_emitted < step->n_path;
        ls_session_free(s);
    }
    assert_true(cut > 3); // the path went on behind the end
    ls_ids_free(&prompt), ls_ids_free(&want);
}

// Up to the last position of the context, whatever part of a path lies there.
static void a_full_context_ends_the_answer(void **state) {
    (void)state;
    static const char text[] = "One fish, two fish, red fish, blue fish. One cat, two cats, red cats, blue cats. ";
    const int32_t most = model.engine->n_context;
    int filled = 0;
    for (int32_t room = 2; room < 14; room++) {
        const ls_decode_options o = options("logitspec-paper", 12, 100);
        ls_ids prompt = {0}, tail = ids_of(text);
        while ((int32_t)(prompt.n + 2 * tail.n) < most - room - 8) ls_ids_push(&prompt, 'a');
        ls_ids_add(&prompt, tail.p, tail.n);
        ls_ids_add(&prompt, tail.p, tail.n);
        for (int i = 0; (int32_t)prompt.n < most - room; i++) ls_ids_push(&prompt, tail.p[i]);
        ls_session *s = session(&o);
        assert_int_equal(answer(s, &prompt), LS_FINISH_CONTEXT);
        assert_int_equal(ls_session_output(s)->n, room);
        filled += step->forward && step->n_emitted > 1;
        if (step->context_len + 1 == most) assert_false(step->forward); // nothing can follow: none is run
        ls_session_free(s);
        ls_ids_free(&prompt), ls_ids_free(&tail);
    }
    assert_true(filled > 3); // a drafted token took the last place
}

// How much of a text may be given out: not what could be the beginning of a stop string.
static size_t settled(const char *text, const char *const *stops) {
    const size_t n = strlen(text);
    size_t held = 0;
    for (; *stops; stops++)
        for (size_t k = 1; k < strlen(*stops) && k <= n; k++)
            if (!strncmp(text + n - k, *stops, k) && k > held) held = k;
    return n - held;
}

static void stop_strings_cut_the_text_where_they_begin(void **state) {
    (void)state;
    static const struct {
        const char *stops[3], *text; // of " fish, red fish, blue fish..."
    } cases[] = {
        {{" red", "sh, red"}, " fi"}, // of those that end together the longer one
        {{"fish, red fish, blue cat", "fish, red fish, blue"}, " "},
        {{"red", " fish, red"}, ""}, // from the first byte on
        {{"fish, ", "fish"}, " "},   // the one that is complete first
        {{"x", "fish, blue fish"}, " fish, red "},
    };
    static const char *const methods[] = {"plain", "logitspec-paper"};
    ls_ids prompt = ids_of("One fish, two");
    for (int m = 0; m < 2; m++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            ls_decode_options o = options(methods[m], 0, LENGTH);
            o.stops = cases[k].stops;
            ls_session *s = session(&o);
            begin(s, &prompt);
            do {
                next(s);
                const char *text = ls_session_text(s)->p;
                assert_int_equal(ls_session_settled(s), step->finish ? strlen(text) : settled(text, o.stops));
                assert_memory_equal(text, " fish, red fish, blue fish", ls_session_settled(s));
            } while (!step->finish);
            assert_int_equal(step->finish, LS_FINISH_STOP);
            assert_string_equal(ls_session_text(s)->p, cases[k].text);
            ls_session_free(s);
        }
    ls_ids_free(&prompt);
}

static bool refuses(void *ud, const char *stage, double fraction) {
    (void)ud, (void)stage, (void)fraction;
    return false;
}

// A turn that is answered again after the next prompt was cancelled gets the drafts that it had.
static void a_cancelled_prompt_leaves_no_trace(void **state) {
    (void)state;
    static const char *const methods[] = {"logitspec-paper", "logitspec", "suffix", "recycle"};
    ls_ids prompt = ids_of("One fish, two fish, red fish. One"), next_prompt = ids_of("two fish, blue fish");
    for (int m = 0; m < 4; m++) {
        int drafted[2] = {0};
        const ls_decode_options o = options(methods[m], 9, 40);
        ls_session *s = session(&o);
        ls_session_begin(s, prompt.p, (int32_t)prompt.n, NULL, NULL, NULL, NULL);
        for (int again = 0; again < 2; again++) {
            do {
                next(s);
                drafted[again] += step->tree.n;
            } while (!step->finish);
            if (again) break;
            assert_int_equal(ls_session_begin(s, next_prompt.p, (int32_t)next_prompt.n, refuses, NULL, NULL, NULL),
                             LS_E_CANCELLED);
            assert_int_equal(begin_at(s, 0, 0, prompt.p, prompt.n, NULL), LS_OK);
        }
        assert_int_equal(drafted[0], drafted[1]);
        ls_session_free(s);
    }
    ls_ids_free(&prompt);
    ls_ids_free(&next_prompt);
}

// Whatever ended the turns before: the conversation holds every prompt and every token that was emitted, once, but for
// end-of-sequence tokens, which the next prompt's frame brings back; also where turns are answered anew. What a
// recording of it says is the same.
static void conversations_hold_every_token_once(void **state) {
    (void)state;
    static const char *const methods[] = {"plain", "logitspec-paper", "logitspec", "pld"};
    ls_ids ask[3] = {ids_of("The end of the story."), ids_of("One fish, two"), ids_of("def fib")};
    ls_ids_push(&ask[0], ls_vocab_eos(model.vocab)); // so that the end can be drafted
    for (const char *p = "The end of the stor"; *p; p++) ls_ids_push(&ask[0], *p);
    int by_draft = 0, by_root = 0, owed = 0;
    for (int m = 0; m < 4; m++)
        for (int order = 0; order < 27; order++) {
            const ls_decode_options o = options(methods[m], m ? 9 : 0, 5);
            const int asked[3] = {order % 3, order / 3 % 3, order / 9};
            ls_session *s = session(&o);
            ls_ids want = {0};
            ls_turns recorded = {0};
            size_t mark[3]; // tokens before each turn
            for (int round = 0; round < 4; round++)
                for (int turn = round ? 3 - round : 0, first = turn; turn < 3; turn++) {
                    const ls_ids *q = &ask[asked[turn]];
                    if (round && turn == first) { // this one and those after it are forgotten
                        assert_int_equal(begin_at(s, turn, mark[turn], q->p, q->n, NULL), LS_OK);
                        want.n = mark[turn];
                    } else begin(s, q);
                    mark[turn] = want.n;
                    ls_ids_add(&want, q->p, q->n);
                    assert_ids(&ls_session_conversation(s)->context, want.p, want.n);
                    assert_int_equal(length_of(s), (int32_t)want.n);
                    const ls_trace_header header = {
                        .turn = (uint32_t)turn, .kept = m % 2 ? -1 : (int32_t)mark[turn], .prompt = want};
                    assert_int_equal(ls_turns_begin(&recorded, &header), turn);
                    do {
                        next(s);
                        ls_conversation_step(recorded.conversation, step);
                    } while (!step->finish);
                    assert_int_equal(step->turn, turn);
                    const bool ended = step->finish == LS_FINISH_EOS;
                    by_draft += ended && step->forward;
                    by_root += ended && !step->forward;
                    owed += !ended && !step->forward;
                    ls_ids_add(&want, ls_session_output(s)->p, ls_session_output(s)->n - ended);
                    const bool owes = !ended && !step->forward; // no forward was run for its last token
                    assert_ids(&ls_session_conversation(s)->context, want.p, want.n - owes);
                    assert_ids(&recorded.conversation->context, want.p, want.n - owes);
                    assert_int_equal(recorded.conversation->uncommitted, owes ? want.p[want.n - 1] : -1);
                }
            ls_turns_free(&recorded);
            ls_ids_free(&want);
            ls_session_free(s);
        }
    assert_true(by_draft > 3 && by_root > 3 && owed > 3);
    for (int i = 0; i < 3; i++) ls_ids_free(&ask[i]);
}

// Read as a chain of rows, a prompt leads to the same first token.
static void a_prompt_read_by_rows_is_read(void **state) {
    (void)state;
    static ls_knob_value knobs[64];
    ls_knob_defaults(knobs);
    for (size_t i = 0; i < ls_knob_count(); i++)
        if (!strcmp(ls_knob_at(i)->key, "logitspec.read_prompt")) knobs[i].number = 1000;
    const lst_sampling greedy = {.top_p = 1};
    for (int k = 0; k < 3; k++) {
        static const char *const prompts[] = {
            fish, "x",
            "Retrieval finds what followed the same words before. What followed before "
            "will often follow again. def fact(n):\n    if n < 2:\n        ret"};
        ls_ids prompt = ids_of(prompts[k]), want = prediction_after(&prompt, &greedy, 5);
        ls_decode_options o = options("logitspec", 4, 5);
        o.knobs = knobs;
        ls_session *s = session(&o);
        assert_int_equal(ls_session_calibrate(s, LS_COSTS_MEASURED, NULL, NULL, NULL), LS_OK);
        const ls_drafter *d = ls_session_drafter(s);
        const size_t knew = ls_memory_bytes(ls_drafter_memory, (void *)d);
        begin(s, &prompt);
        assert_true(ls_memory_bytes(ls_drafter_memory, (void *)d) > knew); // it was read by rows: they were learnt from
        do next(s);
        while (!step->finish);
        assert_ids(ls_session_output(s), want.p, want.n);
        assert_memory_equal(ls_session_conversation(s)->context.p, prompt.p, prompt.n * sizeof *prompt.p);
        ls_session_free(s);
        ls_ids_free(&prompt), ls_ids_free(&want);
    }
}

static ls_code refusal; // how the next forwards end

static ls_code refuse(ls_kv_cache *b, const int32_t *ids, const int32_t *parents, int32_t n, const lst_sampling *way,
                      lst_row *rows, ls_err *err) {
    (void)b, (void)ids, (void)parents, (void)n, (void)way, (void)rows;
    return ls_fail(err, refusal, "the device is gone");
}

// A step that failed ends the turn, one that was cancelled does not; what was committed before stands, and the
// conversation goes on.
static void a_failed_step_ends_the_turn(void **state) {
    (void)state;
    ls_ids prompt = ids_of(fish);
    const ls_decode_options o = options("logitspec-paper", 12, LENGTH);
    ls_ids want = prediction_after(&prompt, &o.sampling, LENGTH);
    ls_session *s = session(&o);
    ls_err err = {0};
    begin(s, &prompt);
    for (int i = 0; i < 4; i++) next(s);
    size_t n = ls_session_conversation(s)->context.n;
    ls_kv_cache *kv_cache = s->kv;
    ls_code (*forward)(ls_kv_cache *, const int32_t *, const int32_t *, int32_t, const lst_sampling *, lst_row *,
                       ls_err *) = kv_cache->forward_tree;
    kv_cache->forward_tree = refuse;
    refusal = LS_E_CANCELLED; // such a step did not happen
    assert_int_equal(ls_session_step(s, step, &err), LS_E_CANCELLED);
    kv_cache->forward_tree = forward;
    next(s);
    assert_ids(ls_session_output(s), want.p, ls_session_output(s)->n);
    n = ls_session_conversation(s)->context.n;
    kv_cache->forward_tree = refuse;
    refusal = LS_E_IO;
    assert_int_equal(ls_session_step(s, step, &err), LS_E_IO);
    assert_string_equal(err.msg, "the device is gone");
    kv_cache->forward_tree = forward;
    ls_session_stop(s, LS_FINISH_ERROR);
    assert_int_equal(ls_session_step(s, step, &err), LS_E_USAGE); // no turn is active
    assert_int_equal(ls_session_conversation(s)->context.n, n);
    assert_int_equal(length_of(s), (int32_t)n);
    begin(s, &prompt);
    assert_int_equal(ls_session_conversation(s)->context.n, n + prompt.n);
    next(s);
    ls_session_free(s);
    ls_ids_free(&prompt), ls_ids_free(&want);
}

// A drafter without estimates of its own: they follow what became of its drafts.
static void estimates_follow_what_was_accepted(void **state) {
    (void)state;
    const ls_decode_options o = options("pld", 8, 0);
    const ls_draft_setup place = {.tokenizer = "script", .n_vocab = 100};
    const int32_t text[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1};
    const int32_t none[] = {0}, all[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const ls_draft_state at = {text, 10, 2, NULL, NULL, 0, NULL};
    float said[2];
    for (int right = 0; right < 2; right++) {
        ls_drafting d = {0};
        ls_tree t = test_tree();
        assert_int_equal(ls_drafting_set(&d, &o, &place, text, 10, NULL), LS_OK);
        for (int i = 0; i < 100; i++) {
            ls_drafting_propose(&d, &at, NULL, 1000, &t);
            assert_int_equal(t.n, 8);
            ls_tree_mark(&t, right ? all : none, right ? 8 : 1);
            ls_drafting_learn(&d, &at, NULL, &t, right ? 8 : 1);
        }
        said[right] = t.nodes[1].est_p;
        ls_drafting_free(&d);
    }
    assert_true(said[0] < 0.1f && said[1] > 0.9f);
}

static int begin_tests(void **state) {
    step = ls_step_new();
    before = ls_step_new();
    return load(state);
}

static int end_tests(void **state) {
    ls_step_free(step);
    ls_step_free(before);
    return unload(state);
}

static ls_code refuse_to_read(ls_kv_cache *b, const int32_t *ids, int32_t n, const lst_sampling *way, lst_row *last,
                              ls_progress progress, void *ud, ls_err *err) {
    (void)b, (void)ids, (void)n, (void)way, (void)last, (void)progress, (void)ud;
    return ls_fail(err, refusal, "the device is gone");
}

enum { EDIT, NEXT, LOAD, LENT, RIVAL, OPERATIONS };

// The operation fails while it reads tokens; but a rival on the KV cache of s answers.
static void fails(ls_session *s, int operation, const ls_ids *ids, size_t kept) {
    ls_kv_cache *kv_cache = s->kv;
    ls_code (*prefill)(ls_kv_cache *, const int32_t *, int32_t, const lst_sampling *, lst_row *, ls_progress, void *,
                       ls_err *) = kv_cache->prefill;
    const ls_decode_options o = options("pld", 4, 5);
    ls_err err = {0};
    kv_cache->prefill = refuse_to_read;
    if (operation == EDIT) assert_int_equal(begin_at(s, 1, kept, ids->p, ids->n, NULL), refusal);
    if (operation == NEXT)
        assert_int_equal(ls_session_begin(s, ids->p, (int32_t)ids->n, NULL, NULL, NULL, &err), refusal);
    if (operation == LOAD) {
        ls_conversation *d = ls_conversation_new();
        ls_conversation_begin(d, 0, &(ls_next_prompt){.ids = *ids});
        assert_int_equal(ls_session_replace(s, &d, NULL, NULL, &err), refusal);
        ls_conversation_free(d);
    }
    if (operation == LENT || operation == RIVAL) {
        ls_session *rival;
        bool lent;
        model.engine->kv_bytes = (uint64_t)1 << 44; // no memory for another KV cache
        assert_int_equal(ls_session_rival(&rival, s, &o, &lent, &err), LS_OK);
        model.engine->kv_bytes = 0;
        assert_true(lent);
        if (operation == RIVAL) kv_cache->prefill = prefill;
        const ls_code code =
            ls_session_answer_too(rival, s, kept + ids->n, &(ls_ids){.p = ids->p, .n = 2}, NULL, NULL, &err);
        assert_int_equal(code, operation == RIVAL ? LS_OK : refusal);
        while (!code && ls_session_active(rival)) next(rival);
        ls_session_free(rival);
    }
    kv_cache->prefill = prefill;
}

// What fails or is cancelled leaves the conversation as it was: its tokens, its turns, and how it goes on.
static void what_fails_changes_nothing(void **state) {
    (void)state;
    ls_ids first = ids_of(fish), second = ids_of("def fib(n):");
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (int way = 0; way < 12; way++) { // ways to end on a root or within a path
            const ls_decode_options o = options(way % 2 ? "logitspec" : "ar", way % 2 ? 9 : 0, 3 + way / 2);
            ls_session *s[2] = {session(&o), session(&o)};
            ls_ids want = {0};
            refusal = way % 3 ? LS_E_CANCELLED : LS_E_IO;
            for (int k = 0; k < 2; k++) {
                const ls_conversation *d = ls_session_conversation(s[k]);
                for (int turn = 0; turn < 2; turn++) {
                    begin(s[k], turn ? &second : &first);
                    do next(s[k]);
                    while (!step->finish);
                }
                assert_int_equal(ls_conversation_last(d)->finish, LS_FINISH_LENGTH);
                const size_t n = d->context.n, kept = ls_conversation_last(d)->kept;
                const uint32_t steps = ls_conversation_last(d)->n_steps;
                if (k) {
                    fails(s[k], operation, &second, kept);
                    assert_int_equal(d->context.n, n);
                    assert_int_equal(d->n_turns, 2);
                    assert_int_equal(ls_conversation_last(d)->finish, LS_FINISH_LENGTH);
                    assert_int_equal(ls_conversation_last(d)->n_steps, steps);
                }
                if (way % 4 < 2) { // goes on, then the next turn
                    assert_int_equal(ls_session_go_on(s[k], NULL), LS_OK);
                    do next(s[k]);
                    while (!step->finish);
                    assert_int_equal(step->index + 1, ls_conversation_last(d)->n_steps);
                }
                begin(s[k], &first);
                do next(s[k]);
                while (!step->finish);
                assert_int_equal(length_of(s[k]), (int32_t)d->context.n);
                if (k) assert_ids(&d->context, want.p, want.n);
                else ls_ids_add(&want, d->context.p, d->context.n);
            }
            ls_ids_free(&want);
            ls_session_free(s[0]), ls_session_free(s[1]);
        }
    ls_ids_free(&first), ls_ids_free(&second);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_say_what_the_model_says),
        cmocka_unit_test(answers_have_the_length_that_was_asked_for),
        cmocka_unit_test(a_full_context_ends_the_answer),
        cmocka_unit_test(stop_strings_cut_the_text_where_they_begin),
        cmocka_unit_test(a_cancelled_prompt_leaves_no_trace),
        cmocka_unit_test(conversations_hold_every_token_once),
        cmocka_unit_test(a_prompt_read_by_rows_is_read),
        cmocka_unit_test(a_failed_step_ends_the_turn),
        cmocka_unit_test(what_fails_changes_nothing),
        cmocka_unit_test(estimates_follow_what_was_accepted),
    };
    return cmocka_run_group_tests_name("steps", tests, begin_tests, end_tests);
}
