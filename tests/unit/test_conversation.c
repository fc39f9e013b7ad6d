// Conversations turn by turn: the tokens so far always say what the chat template writes of the whole conversation,
// also where it rewrites earlier turns.
#include "decode/conversation.h"
#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define USER "<|im_start|>user\n{{ m.content }}<|im_end|>\n"
#define EACH "{% for m in messages %}"
#define PROMPT "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

static const char *const templates[] = {
    EACH "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n" PROMPT,
    // thinking is dropped from earlier turns
    EACH "{% if m.role == 'assistant' %}<|im_start|>assistant\n{{ m.content.split('</t>')[-1] }}<|im_end|>\n"
         "{% else %}" USER "{% endif %}" PROMPT,
    // the system message moves to the latest turn; answers are trimmed
    EACH "{% if loop.last %}[{{ messages[0].content }}]{% endif %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}"
         "<|im_end|>\n" PROMPT,
    // only the last three messages are told
    "{% for m in messages[-3:] %}" USER PROMPT,
};
enum { TEMPLATES = sizeof templates / sizeof *templates };
static ls_model model;

static void with_template(int i) {
    ls_err err = {0};
    ls_chat_free(model.chat);
    if (ls_chat_new(&model.chat, model.vocab, templates[i], strlen(templates[i]), &err)) fail_msg("%s", err.msg);
}

static ls_buf spelled(const ls_ids *ids) {
    ls_buf text = {0};
    for (size_t i = 0; i < ids->n; i++) {
        size_t n;
        const char *p = ls_vocab_bytes(model.vocab, ids->p[i], &n);
        ls_buf_add(&text, p, n);
    }
    ls_buf_char(&text, 0);
    return text;
}

// A prompt begins. Returns how many tokens it kept.
static size_t read_prompt(ls_conversation *d, size_t turn, const char *system, const char *text) {
    ls_next_prompt p;
    ls_err err = {0};
    if (ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, system, turn, text, strlen(text), &p, &err))
        fail_msg("%s", err.msg);
    assert_true(p.kept <= ls_conversation_tokens(d) && p.ids.n > 0);
    ls_conversation_begin(d, turn, &p);
    assert_int_equal(ls_conversation_tokens(d), p.kept + p.ids.n);
    const size_t kept = p.kept;
    ls_next_prompt_free(&p);
    return kept;
}

static void answer(ls_conversation *d, const char *text, const ls_buf *told) {
    assert_int_equal(ls_encode(model.vocab, text, strlen(text), true, &d->context, NULL), LS_OK);
    ls_conversation_end(d, model.vocab, told, LS_FINISH_LENGTH);
}

static const char *const said[] = {"one", " two ", "<|im_end|>", "", "a\nb", "three"}, *const answers[] = {
                                                                                           "yes",     "<t>hm</t>so",
                                                                                           " no ",    "",
                                                                                           "a\nb",    "x<|im_end|>y",
                                                                                           "\xff\xfe"};
enum { SAID = sizeof said / sizeof *said, ANSWERS = sizeof answers / sizeof *answers };

static void tokens_say_what_the_template_writes(void **state) {
    (void)state;
    size_t kept_all = 0, rewritten = 0;
    for (uint64_t round = 0; round < 400; round++) {
        const int kind = (int)(round % TEMPLATES);
        ls_conversation *d = ls_conversation_new();
        ls_buf text[12] = {0}; // what was said, in turns
        size_t turns = 0;
        with_template(kind);
        for (uint64_t k = 0; k < 6; k++) {
            // a turn is answered anew now and then
            const size_t turn = turns && ls_uniform_at(round, 3 * k) < 0.2
                                    ? (size_t)(ls_uniform_at(round, 50 + k) * (double)turns)
                                    : turns;
            const char *user = said[(int)(ls_uniform_at(round, 3 * k + 1) * SAID)],
                       *reply = answers[(int)(ls_uniform_at(round, 3 * k + 2) * ANSWERS)];
            const size_t before = ls_conversation_tokens(d);
            const bool next = turn == turns && turn;
            const size_t kept = read_prompt(d, turn, round % 3 ? "S" : NULL, user);
            kept_all += next && kept == before;
            rewritten += next && kept < before;
            // the reference: all messages at once
            ls_jinja_message messages[14];
            size_t n = 0;
            if (round % 3) messages[n++] = (ls_jinja_message){"system", {"S", 1}};
            for (size_t i = 0; i < 2 * turn; i++)
                messages[n++] = (ls_jinja_message){i % 2 ? "assistant" : "user", {text[i].p, text[i].n}};
            messages[n++] = (ls_jinja_message){"user", {user, strlen(user)}};
            ls_marked want = {0};
            assert_int_equal(ls_chat_render(model.chat, messages, n, true, &want, NULL), LS_OK);
            ls_buf got = spelled(&d->context);
            if (got.n - 1 != want.text.n || memcmp(got.p, want.text.p, want.text.n))
                fail_msg("template %d, turn %zu: '%s' is not '%s'", kind, turn, got.p, want.text.p);
            ls_marked_free(&want);
            ls_buf_free(&got);
            ls_ids ids = {0};
            answer(d, reply, NULL);
            assert_int_equal(ls_encode(model.vocab, reply, strlen(reply), true, &ids, NULL), LS_OK);
            ls_buf_clear(&text[2 * turn]), ls_buf_clear(&text[2 * turn + 1]);
            ls_buf_add(&text[2 * turn], user, strlen(user));
            // an answer's text has no special tokens
            for (size_t i = 0; i < ids.n; i++) {
                size_t len;
                const char *p = ls_vocab_bytes(model.vocab, ids.p[i], &len);
                if (!ls_vocab_is_special(model.vocab, ids.p[i])) ls_buf_add(&text[2 * turn + 1], p, len);
            }
            ls_ids_free(&ids);
            turns = turn + 1;
        }
        for (int i = 0; i < 12; i++) ls_buf_free(&text[i]);
        ls_conversation_free(d);
    }
    assert_true(kept_all > 100 && rewritten > 100);
}

// What was read and written is not read again where the template keeps it: answers stay the tokens that they were.
static void answers_keep_their_tokens(void **state) {
    (void)state;
    with_template(0);
    ls_conversation *d = ls_conversation_new();
    read_prompt(d, 0, NULL, "one");
    const size_t prompt = ls_conversation_tokens(d);
    answer(d, "abc", NULL);
    const size_t all = ls_conversation_tokens(d);
    ls_next_prompt p;
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 1, "two", 3, &p, NULL), LS_OK);
    assert_int_equal(p.kept, all);
    ls_next_prompt_free(&p);
    with_template(1); // of another template's text nothing is kept but what is the same
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 1, "two", 3, &p, NULL), LS_OK);
    assert_int_equal(p.kept, all);
    ls_next_prompt_free(&p);
    with_template(0);
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 0, "one", 3, &p, NULL), LS_OK);
    assert_true(p.kept == 0 && p.ids.n == prompt); // once more: it is read, for an answer needs its last row
    ls_next_prompt_free(&p);
    // an answer that was cut before a stop string is not what its tokens say: it is read again
    read_prompt(d, 1, NULL, "two");
    const size_t second = ls_conversation_tokens(d);
    ls_buf cut = {0};
    ls_buf_str(&cut, "ab");
    answer(d, "abSTOP", &cut);
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 2, "x", 1, &p, NULL), LS_OK);
    assert_int_equal(p.kept, second);
    ls_next_prompt_free(&p);
    // one that was interrupted within a character keeps its tokens: only its text waits for the rest
    read_prompt(d, 2, NULL, "three");
    answer(d, "ab\xe4\xb8", &cut);
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 3, "x", 1, &p, NULL), LS_OK);
    assert_int_equal(p.kept, ls_conversation_tokens(d));
    ls_next_prompt_free(&p);
    ls_buf_free(&cut);
    ls_conversation_free(d);
}

// Where only the tokens so far are known, they stay, and the prompt is what follows an answer.
static void an_unknown_past_stays(void **state) {
    (void)state;
    with_template(1);
    ls_conversation *d = ls_conversation_new();
    ls_next_prompt p = {.text = {"one", 3}};
    for (int32_t i = 0; i < 9; i++) ls_ids_push(&p.ids, 'a' + i);
    ls_conversation_begin(d, 0, &p);
    ls_next_prompt_free(&p);
    answer(d, "<t>hm</t>so", NULL);
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_CHAT, NULL, 1, "two", 3, &p, NULL), LS_OK);
    assert_int_equal(p.kept, ls_conversation_tokens(d));
    ls_buf text = spelled(&p.ids);
    assert_string_equal(text.p, "<|im_end|>\n<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n");
    ls_buf_free(&text);
    ls_next_prompt_free(&p);
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_RAW, NULL, 1, "two", 3, &p, NULL), LS_OK);
    assert_true(p.kept == ls_conversation_tokens(d) && p.ids.n == 3);
    ls_next_prompt_free(&p);
    ls_chat *chat = model.chat; // without a template a prompt begins a new text, unless it is to go on
    model.chat = NULL;
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_AUTO, NULL, 1, "two", 3, &p, NULL), LS_OK);
    assert_true(p.kept == 0 && p.ids.n >= 3);
    ls_next_prompt_free(&p);
    assert_int_equal(ls_conversation_prompt(d, &model, LS_FORMAT_RAW, NULL, 1, "two", 3, &p, NULL), LS_OK);
    assert_true(p.kept == ls_conversation_tokens(d) && p.ids.n == 3);
    ls_next_prompt_free(&p);
    model.chat = chat;
    ls_conversation_free(d);
}

static int set_up(void **state) {
    (void)state;
    const ls_model_options o = {.name = "script", .engine = {.device = "cpu", .dtype = "auto"}};
    return ls_model_load(&model, &o, NULL) != LS_OK;
}

static int tear_down(void **state) {
    (void)state;
    ls_model_free(&model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_say_what_the_template_writes),
                                       cmocka_unit_test(answers_keep_their_tokens),
                                       cmocka_unit_test(an_unknown_past_stays)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
