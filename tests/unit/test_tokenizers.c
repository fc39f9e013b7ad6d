// Tokenizers of every family against the reference libraries (tests/vectors/gen_tokenizers.py), what makes a token
// trusted, and files that are not what they should be.
// `test_tokenizers encode FILE` encodes JSON lines, each a list of one text, for that script's --check.
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "run/vocab_gguf.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define FOLDER "tests/vectors/tokenizers/"

static bool ends_in(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static ls_code parse(ls_vocab **v, const char *path, const void *p, size_t n, ls_err *err) {
    if (ends_in(path, ".json")) return ls_tokenizer_json(v, p, n, NULL, 0, err);
    if (ends_in(path, ".model")) return ls_tokenizer_model(v, p, n, err);
    ls_gguf *g;
    ls_code code = ls_gguf_parse(&g, p, n, n, NULL, err);
    if (code) return code;
    code = ls_vocab_gguf(v, g, err);
    ls_gguf_free(g);
    return code;
}

static ls_vocab *open_vocab(const char *path) {
    ls_mapping m;
    ls_err err = {0};
    ls_vocab *v = NULL;
    if (ls_map_open(&m, path, &err) || parse(&v, path, m.p, m.n, &err)) fprintf(stderr, "%s: %s\n", path, err.msg);
    ls_map_close(&m);
    return v;
}

static int encode_lines(const char *path) {
    ls_vocab *v = open_vocab(path);
    char *line = NULL;
    size_t cap = 0;
    if (!v) return 1;
    while (getline(&line, &cap, stdin) > 0) {
        json_t *o = json_loads(line, JSON_ALLOW_NUL, NULL), *text = json_array_get(o, 0);
        ls_ids ids = {0};
        if (!text || ls_encode(v, json_string_value(text), json_string_length(text), true, &ids, NULL)) return 1;
        for (size_t i = 0; i < ids.n; i++) printf("%d ", ids.p[i]);
        puts("");
        ls_ids_free(&ids);
        json_decref(o);
    }
    free(line);
    ls_vocab_free(v);
    return 0;
}

static json_t *load_json(const char *path) {
    json_error_t e;
    json_t *o = json_load_file(path, JSON_ALLOW_NUL, &e);
    if (!o) fail_msg("%s: %s", path, e.text);
    return o;
}

static void ids_equal_the_reference(void **state) {
    (void)state;
    json_t *texts = load_json(FOLDER "texts.json");
    DIR *d = opendir(FOLDER);
    assert_non_null(d);
    int families = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!ends_in(e->d_name, ".json") && !ends_in(e->d_name, ".model") && !ends_in(e->d_name, ".gguf")) continue;
        if (!strcmp(e->d_name, "texts.json")) continue;
        char *path = ls_format(FOLDER "%s", e->d_name);
        char *ids_path = ls_format(FOLDER "%.*s.ids", (int)(strrchr(e->d_name, '.') - e->d_name), e->d_name);
        ls_vocab *v = open_vocab(path);
        assert_non_null(v);
        json_t *wanted = load_json(ids_path);
        assert_int_equal(json_array_size(wanted), json_array_size(texts));
        for (size_t i = 0; i < json_array_size(texts); i++) {
            json_t *text = json_array_get(texts, i), *want = json_array_get(wanted, i);
            if (json_is_null(want)) continue;
            ls_ids got = {0};
            assert_int_equal(ls_encode(v, json_string_value(text), json_string_length(text), true, &got, NULL), LS_OK);
            bool equal = got.n == json_array_size(want);
            for (size_t k = 0; equal && k < got.n; k++)
                equal = got.p[k] == json_integer_value(json_array_get(want, k));
            if (!equal) fail_msg("%s: text %zu differs", e->d_name, i);
            ls_ids_free(&got);
        }
        json_decref(wanted);
        ls_vocab_free(v);
        free(path);
        free(ids_path);
        families++;
    }
    closedir(d);
    json_decref(texts);
    assert_true(families >= 20);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "encode")) return encode_lines(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_equal_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
