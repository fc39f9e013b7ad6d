// gpt-oss writes answers in channels: what is shown and kept of them, with its chat template (tests/vectors/chat) and a
// vocabulary of the bytes and its special tokens.
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "decode/answer.h"
#include "decode/conversation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define ANALYSIS "<|channel|>analysis<|message|>"
#define FINAL "<|channel|>final<|message|>"
#define NEXT "<|end|><|start|>assistant"

static const char *const special[] = {"<|start|>", "<|end|>",       "<|message|>",     "<|channel|>",  "<|return|>",
                                      "<|call|>",  "<|constrain|>", "<|startoftext|>", "<|endoftext|>"};
enum { SPECIAL = sizeof special / sizeof *special, RETURN = 256 + 4, CALL = 256 + 5 };
static ls_model model;

static int set_up(void **state) {
    (void)state;
    char spell[256][4];
    uint32_t cp_of[256];
    ls_str tokens[256 + SPECIAL];
    int32_t types[256 + SPECIAL];
    ls_err err = {0};
    ls_byte_alphabet(cp_of);
    for (uint32_t b = 0; b < 256; b++)
        tokens[b] = (ls_str){spell[b], (size_t)ls_utf8_encode(cp_of[b], spell[b])}, types[b] = 1;
    for (int i = 0; i < SPECIAL; i++) tokens[256 + i] = (ls_str){special[i], strlen(special[i])}, types[256 + i] = 3;
    const ls_vocab_source source = {
        .tokens = tokens, .n_tokens = 256 + SPECIAL, .types = types, .pre = "gpt-2", .bos = -1, .eos = RETURN};
    if (ls_vocab_new(&model.vocab, &source, &err)) fail_msg("%s", err.msg);
    ls_vocab_add_end(model.vocab, CALL);
    ls_buf text = {0};
    FILE *f = fopen("tests/vectors/chat/gpt-oss.jinja", "r");
    assert_non_null(f);
    assert_int_equal(ls_read_all(&text, f, "gpt-oss.jinja", 1 << 16, &err), LS_OK);
    fclose(f);
    if (ls_chat_new(&model.chat, model.vocab, text.p, text.n, &err)) fail_msg("%s", err.msg);
    assert_int_equal(ls_chat_end(model.chat), RETURN);
    ls_buf_free(&text);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    ls_chat_free(model.chat);
    ls_vocab_free(model.vocab);
    return 0;
}

static ls_ids ids_of(const char *text) {
    ls_ids ids = {0};
    assert_int_equal(ls_encode(model.vocab, text, strlen(text), true, &ids, NULL), LS_OK);
    return ids;
}

static const struct {
    const char *tokens, *text;
    bool kept; // the next prompt continues these tokens
} answers[] = {
    {FINAL "Hello", "Hello", true},
    {FINAL, "", true},
    {"", "", true},
    {ANALYSIS "the user greets" NEXT FINAL "Hello", "Hello", false},
    {ANALYSIS "\xe4\xb8\xad final" NEXT ANALYSIS "more" NEXT FINAL "\xe4\xb8\xad", "\xe4\xb8\xad", false},
    {ANALYSIS "cut while it thin", "", false},
    {ANALYSIS "x" NEXT "<|channel|>fin", "", false},
    {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}", "", false},
    {"<|channel|>final <|constrain|>json<|message|>{}", "{}", false},
    {"<|channel|>finally<|message|>no", "", false},
    {"no channel", "no channel", false},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

// In steps of any number of tokens.
static void the_answer_is_the_final_channel(void **state) {
    (void)state;
    for (int i = 0; i < ANSWERS; i++)
        for (uint64_t round = 0; round < 20; round++) {
            ls_ids ids = ids_of(answers[i].tokens);
            ls_answer a = {0};
            ls_finish finish = LS_GOING;
            ls_answer_ends(&a, 1000, NULL);
            ls_answer_begin(&a);
            for (size_t at = 0, n; at < ids.n; at += n) {
                n = 1 + (size_t)(ls_uniform_at(round, at) * 5);
                n = n < ids.n - at ? n : ids.n - at;
                assert_int_equal(ls_answer_add(&a, model.vocab, ids.p + at, (int32_t)n, &finish), n);
                assert_int_equal(finish, LS_GOING);
            }
            ls_answer_flush(&a);
            assert_string_equal(a.text.p ? a.text.p : "", answers[i].text);
            ls_answer again = {0};
            ls_answer_take(&again, model.vocab, ids.p, ids.n, 0);
            assert_string_equal(again.text.p ? again.text.p : "", answers[i].text);
            ls_answer_free(&a), ls_answer_free(&again);
            ls_ids_free(&ids);
        }
}

// Stop strings and the limit count; thinking does not hold a stop string.
static void what_ends_an_answer(void **state) {
    (void)state;
    static const char *const stops[] = {"STOP", NULL};
    static const struct {
        const char *tokens;
        ls_finish finish;
        const char *text;
    } cases[] = {{ANALYSIS "STOP" NEXT FINAL "ab<|return|>", LS_FINISH_EOS, "ab"},
                 {ANALYSIS "x" NEXT FINAL "abSTOP", LS_FINISH_STOP, "ab"},
                 {"<|channel|>commentary to=functions.f<|message|>{}<|call|>", LS_FINISH_EOS, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_ids ids = ids_of(cases[i].tokens);
        ls_answer a = {0};
        ls_finish finish = LS_GOING;
        ls_answer_ends(&a, 1000, stops);
        ls_answer_begin(&a);
        assert_int_equal(ls_answer_add(&a, model.vocab, ids.p, (int32_t)ids.n, &finish), ids.n);
        assert_int_equal(finish, cases[i].finish);
        assert_string_equal(a.text.p ? a.text.p : "", cases[i].text);
        ls_answer_free(&a);
        ls_ids_free(&ids);
    }
}

// After each answer the tokens are those of the template's text of the whole conversation, and an answer without
// thinking is not read again.
static void the_next_prompt_drops_thinking(void **state) {
    (void)state;
    int kept = 0;
    for (uint64_t round = 0; round < 60; round++) {
        ls_conversation *d = ls_conversation_new();
        ls_jinja_message messages[9];
        size_t n = 0;
        int last = -1;
        for (uint64_t turn = 0; turn < 4; turn++) {
            ls_next_prompt p;
            ls_err err = {0};
            ls_marked want = {0};
            ls_ids ids = {0};
            const size_t before = ls_conversation_tokens(d);
            if (ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, turn, "say <|end|>", 11, &p, &err))
                fail_msg("%s", err.msg);
            if (last >= 0) assert_int_equal(p.kept == before, answers[last].kept);
            kept += turn && p.kept == before;
            ls_conversation_begin(d, turn, &p);
            ls_next_prompt_free(&p);
            messages[n++] = (ls_jinja_message){"user", {"say <|end|>", 11}};
            assert_int_equal(ls_chat_render(model.chat, messages, n, true, &want, NULL), LS_OK);
            assert_int_equal(ls_encode_marked(model.vocab, &want, 0, &ids, NULL), LS_OK);
            assert_int_equal(ids.n, d->context.n);
            assert_memory_equal(ids.p, d->context.p, ids.n * sizeof *ids.p);
            ls_ids_free(&ids);
            ls_marked_free(&want);
            last = (int)(ls_uniform_at(round, turn) * ANSWERS);
            ids = ids_of(answers[last].tokens);
            ls_ids_add(&d->context, ids.p, ids.n);
            ls_ids_free(&ids);
            ls_conversation_end(d, model.vocab, NULL, LS_FINISH_EOS);
            assert_int_equal(ls_conversation_last(d)->answer.n, strlen(answers[last].text));
            messages[n++] = (ls_jinja_message){"assistant", {answers[last].text, strlen(answers[last].text)}};
        }
        ls_conversation_free(d);
    }
    assert_true(kept > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_answer_is_the_final_channel),
        cmocka_unit_test(what_ends_an_answer),
        cmocka_unit_test(the_next_prompt_drops_thinking),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
