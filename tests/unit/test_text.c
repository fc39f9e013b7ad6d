// The tokenizer against Hugging Face (tests/vectors/gen_tokenizer.py), lossless decoding, streaming, chat frames.
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "engine/load.h"
#include "decode/conversation.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static ls_model model;
static ls_err why;

static int load(void **state) {
    (void)state;
    ls_model_load_text(&model, &(ls_model_options){.name = "default"}, &why);
    return 0;
}
static int unload(void **state) {
    (void)state;
    ls_model_free(&model);
    return 0;
}

static void need_model(void) {
    if (!model.vocab) {
        print_message("needs:model: %s\n", why.msg);
        skip();
    }
}

static ls_ids encode(const char *text, size_t n, bool special) {
    ls_ids ids = {0};
    ls_err err;
    assert_int_equal(ls_encode(model.vocab, text, n, special, &ids, &err), LS_OK);
    return ids;
}

static void ids_equal_the_reference(void **state) {
    (void)state;
    need_model();
    FILE *f = fopen("tests/vectors/tokenizer_smollm2.jsonl", "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0, n = 0;
    while (getline(&line, &cap, f) > 0) {
        json_error_t e;
        json_t *o = json_loads(line, JSON_ALLOW_NUL, &e), *text, *want;
        assert_non_null(o);
        text = json_object_get(o, "text");
        want = json_object_get(o, "ids");
        ls_ids got = encode(json_string_value(text), json_string_length(text), true);
        bool equal = got.n == json_array_size(want);
        for (size_t i = 0; equal && i < got.n; i++) equal = got.p[i] == json_integer_value(json_array_get(want, i));
        if (!equal) fail_msg("line %zu: %s", n + 1, line);
        ls_ids_free(&got);
        json_decref(o);
        n++;
    }
    assert_true(n >= 2000);
    free(line);
    fclose(f);
}

// Any bytes that the vocabulary can say come back as they went in, and streaming never gives half a character.
static void decoding_is_lossless(void **state) {
    (void)state;
    need_model();
    char bytes[256];
    int n_bytes = 0;
    for (int b = 0; b < 256; b++) {
        char c = (char)b;
        ls_ids one = encode(&c, 1, false);
        if (one.n) bytes[n_bytes++] = c;
        ls_ids_free(&one);
    }
    assert_true(n_bytes > 230); // the default model lacks 21
    for (uint64_t round = 0; round < 300; round++) {
        char text[64];
        size_t n = (size_t)(ls_uniform_at(round, 0) * sizeof text);
        for (size_t i = 0; i < n; i++) text[i] = bytes[(int)(ls_uniform_at(round, i + 1) * n_bytes)];
        ls_ids ids = encode(text, n, false);
        ls_buf back = {0}, shown = {0};
        ls_detok d = {0};
        for (size_t i = 0; i < ids.n; i++) {
            size_t len;
            const char *p = ls_vocab_bytes(model.vocab, ids.p[i], &len);
            ls_buf_add(&back, p, len);
            ls_detok_push(&d, p, len, &shown);
            assert_true(ls_utf8_valid(shown.n ? shown.p : "", shown.n));
        }
        assert_int_equal(back.n, n);
        if (n) assert_memory_equal(back.p, text, n);
        ls_ids_free(&ids);
        ls_buf_free(&back);
        ls_buf_free(&shown);
    }
}

static void special_tokens_only_where_asked(void **state) {
    (void)state;
    need_model();
    const char text[] = "a<|im_end|>b";
    ls_ids with = encode(text, sizeof text - 1, true), without = encode(text, sizeof text - 1, false);
    assert_int_equal(with.n, 3);
    assert_true(ls_vocab_is_special(model.vocab, with.p[1]));
    for (size_t i = 0; i < without.n; i++) assert_false(ls_vocab_is_special(model.vocab, without.p[i]));
    ls_ids_free(&with);
    ls_ids_free(&without);
}

static void chat_prompts(void **state) {
    (void)state;
    need_model();
    static const struct {
        const char *system, *want;
    } cases[] = {
        {NULL, "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
               "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {"Be brief.",
         "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
        {"", "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_ids got = {0}, want = encode(cases[i].want, strlen(cases[i].want), true);
        ls_err err;
        assert_int_equal(ls_prompt_encode(&model, LS_FORMAT_AUTO, cases[i].system, "Hi", 2, &got, &err), LS_OK);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.p, want.p, want.n * sizeof *want.p);
        ls_ids_free(&got);
        ls_ids_free(&want);
    }
}

static void long_text_in_linear_time(void **state) { // a run of one letter is one piece of a megabyte for BPE
    (void)state;
    need_model();
    ls_buf text = {0};
    for (int i = 0; i < 1 << 20; i++) ls_buf_char(&text, 'a');
    ls_ids ids = encode(text.p, text.n, false);
    size_t bytes = 0, len;
    for (size_t i = 0; i < ids.n; i++) {
        ls_vocab_bytes(model.vocab, ids.p[i], &len);
        bytes += len;
    }
    assert_int_equal(bytes, text.n);
    ls_ids_free(&ids);
    ls_buf_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_the_reference),         cmocka_unit_test(decoding_is_lossless),
        cmocka_unit_test(special_tokens_only_where_asked), cmocka_unit_test(chat_prompts),
        cmocka_unit_test(long_text_in_linear_time),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
