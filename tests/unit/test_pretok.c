// Pre-tokenizers by the names of GGUF files, against Hugging Face tokenizers (tests/vectors/gen_pretok.py).
// `test_pretok split NAME` splits JSON lines, each a list of one text, for that script's --check.
#include "base/mem.h"
#include "text/pretok.h"
#include "text/vocab.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static ls_code on_piece(void *lengths, const char *piece, size_t n, ls_err *err) {
    (void)piece;
    (void)err;
    ls_ids_push(lengths, (int32_t)n);
    return LS_OK;
}

static ls_pretok *open_named(const char *name) {
    ls_pretok *p = ls_pretok_new();
    ls_err err = {0};
    if (!ls_pretok_named(p, name, &err)) return p;
    fprintf(stderr, "%s\n", err.msg);
    ls_pretok_free(p);
    return NULL;
}

static void split(const ls_pretok *p, const char *text, size_t n, ls_ids *lengths) {
    ls_pretok_scratch scratch = {0};
    lengths->n = 0;
    if (ls_pretok_split(p, &scratch, text, n, true, on_piece, lengths, NULL)) abort();
    ls_pretok_scratch_free(&scratch);
}

static int split_lines(const char *name) {
    ls_pretok *p = open_named(name);
    char *line = NULL;
    size_t cap = 0;
    if (!p) return 1;
    while (getline(&line, &cap, stdin) > 0) {
        json_t *o = json_loads(line, JSON_ALLOW_NUL, NULL), *text = json_array_get(o, 0);
        ls_ids lengths = {0};
        split(p, json_string_value(text), json_string_length(text), &lengths);
        for (size_t i = 0; i < lengths.n; i++) printf("%d ", lengths.p[i]);
        puts("");
        ls_ids_free(&lengths);
        json_decref(o);
    }
    free(line);
    ls_pretok_free(p);
    return 0;
}

static json_t *vectors(void) {
    json_error_t e;
    json_t *o = json_load_file("tests/vectors/pretok.json", JSON_ALLOW_NUL, &e);
    if (!o) fail_msg("%s", e.text);
    return o;
}

static bool equal(const ls_ids *got, const json_t *want) {
    if (got->n != json_array_size(want)) return false;
    for (size_t i = 0; i < got->n; i++)
        if (got->p[i] != json_integer_value(json_array_get(want, i))) return false;
    return true;
}

static void pieces_equal_the_reference(void **state) {
    (void)state;
    json_t *all = vectors(), *texts = json_object_get(all, "texts"), *config, *name, *text;
    size_t i, k, t;
    ls_ids got = {0};
    json_array_foreach(json_object_get(all, "configs"), i, config) {
        json_array_foreach(json_object_get(config, "names"), k, name) {
            ls_pretok *p = open_named(json_string_value(name));
            assert_non_null(p);
            json_array_foreach(texts, t, text) {
                const json_t *s = json_object_get(text, "text");
                const size_t which = (size_t)json_integer_value(json_array_get(json_object_get(text, "of"), i));
                split(p, json_string_value(s), json_string_length(s), &got);
                if (!equal(&got, json_array_get(json_object_get(text, "splits"), which)))
                    fail_msg("%s: text %zu differs", json_string_value(name), t);
            }
            ls_pretok_free(p);
        }
    }
    ls_ids_free(&got);
    json_decref(all);
}

// Normalisation, tokens without merges and the first token, on a vocabulary of single bytes and two tokens more.
static void traits_equal_the_reference(void **state) {
    (void)state;
    json_t *all = vectors(), *config, *name;
    const json_t *list = json_object_get(all, "tokens"), *merge = json_array_get(json_object_get(all, "merges"), 0);
    const size_t n = json_array_size(list);
    ls_str *tokens = ls_calloc(n, sizeof *tokens);
    int32_t *types = ls_calloc(n, sizeof *types);
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(list, i);
        tokens[i] = (ls_str){json_string_value(s), json_string_length(s)};
        types[i] = 1;
    }
    const ls_str merges[] = {{json_string_value(merge), json_string_length(merge)}};
    size_t i, k;
    json_array_foreach(json_object_get(all, "configs"), i, config) {
        json_array_foreach(json_object_get(config, "names"), k, name) {
            ls_vocab *v = NULL;
            ls_err err = {0};
            ls_ids got = {0};
            const char *pre = json_string_value(name);
            if (ls_vocab_new(&v,
                             &(ls_vocab_source){.tokens = tokens,
                                                .n_tokens = n,
                                                .types = types,
                                                .merges = merges,
                                                .n_merges = 1,
                                                .pre = pre,
                                                .bos = -1,
                                                .eos = -1},
                             &err))
                fail_msg("%s", err.msg);
            for (size_t t = 0; t < 2; t++) {
                const json_t *s = json_array_get(json_object_get(all, "flag_texts"), t);
                got.n = 0;
                assert_int_equal(ls_encode(v, json_string_value(s), json_string_length(s), false, &got, &err), LS_OK);
                if (!equal(&got, json_array_get(json_object_get(config, "ids"), t))) fail_msg("%s: text %zu", pre, t);
            }
            if (json_is_true(json_object_get(config, "begins")) != !!(ls_pretok_traits(pre) & LS_PRE_BEGINS))
                fail_msg("%s: the first token", pre);
            ls_ids_free(&got);
            ls_vocab_free(v);
        }
    }
    free(tokens);
    free(types);
    json_decref(all);
}

static bool in_vectors(const json_t *all, const char *wanted) {
    const json_t *config, *name;
    size_t i, k;
    json_array_foreach(json_object_get(all, "configs"), i, config) json_array_foreach(
        json_object_get(config, "names"), k, name) if (!strcmp(json_string_value(name), wanted)) return true;
    return false;
}

// Every name of the table splits as the reference, or works on characters, or is refused in words.
static void no_name_is_untested(void **state) {
    (void)state;
    static const char all_names[] =
#define PRETOK(names, ...) names " "
#include "text/pretok.def"
#undef PRETOK
        ;
    json_t *all = vectors();
    int chars = 0, encoders = 0;
    const char *rest = all_names, *word;
    for (size_t n; (word = ls_next_word(&rest, " ", &n));) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)n, word);
        ls_pretok *p = ls_pretok_new();
        ls_err err = {0};
        assert_true(ls_str_among((ls_str){word, n}, rest) < 0); // it is there once
        if (ls_pretok_named(p, name, &err)) {
            assert_non_null(strstr(err.msg, "is for encoders"));
            encoders++;
        } else if (ls_pretok_traits(name) & LS_PRE_CHARS) chars++;
        else if (!in_vectors(all, name)) fail_msg("%s has no vectors", name);
        ls_pretok_free(p);
    }
    assert_int_equal(chars, 2);
    assert_int_equal(encoders, 12);
    ls_pretok *p = ls_pretok_new();
    ls_err err = {0};
    assert_int_equal(ls_pretok_named(p, "qwen", &err), LS_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "'qwen' is not among the "));
    ls_pretok_free(p);
    json_decref(all);
}

// What Oniguruma's expressions have and PCRE2's have not (tests/vectors/gen_regex.py).
static void expressions_equal_the_reference(void **state) {
    (void)state;
    json_t *all = json_load_file("tests/vectors/regex.json", 0, NULL), *texts = json_object_get(all, "texts"), *one,
           *want;
    size_t i, k, j;
    assert_true(json_array_size(json_object_get(all, "cases")) >= 100);
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        const char *e = json_string_value(json_array_get(one, 0));
        ls_pretok *p = ls_pretok_new();
        ls_err err = {0};
        if (ls_pretok_add_split(p, e, strlen(e), LS_REGEX_RUBY, LS_ISOLATED, false, &err))
            fail_msg("%s: %s", e, err.msg);
        json_array_foreach(json_array_get(one, 1), k, want) {
            const char *text = json_string_value(json_array_get(texts, k));
            ls_ids lengths = {0};
            split(p, text, strlen(text), &lengths);
            if (lengths.n != json_array_size(want)) fail_msg("%s: %zu pieces of '%s'", e, lengths.n, text);
            for (j = 0; j < lengths.n; j++)
                if ((size_t)lengths.p[j] != json_string_length(json_array_get(want, j)))
                    fail_msg("%s: piece %zu of '%s'", e, j, text);
            ls_ids_free(&lengths);
        }
        ls_pretok_free(p);
    }
    json_decref(all);
}

// A run of blanks takes a step each before an expression for line ends gives up; PCRE2 allows ten million.
static void too_many_steps_are_an_error(void **state) {
    (void)state;
    enum { N = 11000000 };
    ls_pretok *p = open_named("qwen2");
    ls_pretok_scratch scratch = {0};
    ls_buf text = {0};
    ls_ids lengths = {0};
    ls_err err = {0};
    memset(ls_buf_room(&text, N), ' ', N);
    assert_int_equal(ls_pretok_split(p, &scratch, text.p, N, true, on_piece, &lengths, &err), LS_E_RANGE);
    assert_string_equal(err.msg, "the tokenizer's expression takes too many steps in a text of 11000000 bytes");
    assert_int_equal(lengths.n, 0);
    ls_ids_free(&lengths);
    ls_buf_free(&text);
    ls_pretok_scratch_free(&scratch);
    ls_pretok_free(p);
}

static void long_texts_take_no_longer(void **state) { // than their length asks for: time grows with it, not its square
    (void)state;
    static const char *const units[] = {" ", "a", "aB", "=", "\u4e16", "1", "1\u00bd", "\n", "a ", "e\u0301"};
    json_t *all = vectors(), *config;
    ls_ids lengths = {0};
    size_t i;
    json_array_foreach(json_object_get(all, "configs"), i, config) {
        const char *name = json_string_value(json_array_get(json_object_get(config, "names"), 0));
        ls_pretok *p = open_named(name);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            ls_buf text = {0};
            size_t sum = 0;
            while (text.n < 1 << 16) ls_buf_str(&text, units[u]);
            const clock_t start = clock(); // of the processor
            split(p, text.p, text.n, &lengths);
            if ((double)(clock() - start) / CLOCKS_PER_SEC > 2) fail_msg("%s: '%s' takes long", name, units[u]);
            for (size_t k = 0; k < lengths.n; k++) sum += (size_t)lengths.p[k];
            assert_int_equal(sum, text.n);
            ls_buf_free(&text);
        }
        ls_pretok_free(p);
    }
    ls_ids_free(&lengths);
    json_decref(all);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "split")) return split_lines(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_equal_the_reference),      cmocka_unit_test(traits_equal_the_reference),
        cmocka_unit_test(expressions_equal_the_reference), cmocka_unit_test(no_name_is_untested),
        cmocka_unit_test(long_texts_take_no_longer),       cmocka_unit_test(too_many_steps_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
