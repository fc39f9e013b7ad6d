// Tokenizers of every family against the reference libraries (tests/vectors/gen_tokenizers.py), what makes a token
// trusted, and files that are not what they should be.
// `test_tokenizers encode FILE` encodes JSON lines, each a list of one text, for that script's --check.
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "engine/load.h"
#include "model/gguf.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#define FOLDER "tests/vectors/tokenizers/"

static bool ends_in(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && !strcmp(s + n - m, end);
}

static ls_code parse(ls_vocab **v, const char *path, const void *p, size_t n, ls_err *err) {
    const ls_tokenizer_files alone = {0};
    if (ends_in(path, ".json")) return ls_tokenizer_json(v, (ls_str){p, n}, &alone, err);
    if (ends_in(path, ".model")) return ls_tokenizer_model(v, (ls_str){p, n}, &alone, err);
    ls_gguf *g;
    ls_code code = ls_gguf_parse(&g, p, n, n, NULL, err);
    if (code) return code;
    code = ls_vocab_gguf(v, g, err);
    ls_gguf_free(g);
    return code;
}

static ls_vocab *open_vocab(const char *path) {
    ls_buf m = {0};
    ls_err err = {0};
    ls_vocab *v = NULL;
    if (ls_read_file(&m, path, SIZE_MAX, &err) || parse(&v, path, m.p, m.n, &err))
        fprintf(stderr, "%s: %s\n", path, err.msg);
    ls_buf_free(&m);
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
            for (size_t k = 0; equal && k < got.n; k++) equal = got.p[k] == json_integer_value(json_array_get(want, k));
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

// ---- small tokenizers, written out

#define BYTES                                                                                                          \
    "{\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"                         \
    "{\"id\":7,\"content\":\"<think>\",\"special\":false,\"normalized\":false}],"                                      \
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true},"                         \
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}" \
    "},"                                                                                                               \
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]},"                                                                   \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"<\":4,\"s\":5},"                  \
    "\"merges\":[[\"a\",\"b\"]]}}"

static ls_vocab *from_json(const char *text, const char *config) {
    ls_vocab *v = NULL;
    ls_err err = {0};
    const ls_tokenizer_files beside = {.config = {config, config ? strlen(config) : 0}};
    if (ls_tokenizer_json(&v, (ls_str){text, strlen(text)}, &beside, &err)) fail_msg("%s", err.msg);
    return v;
}

typedef struct {
    const char *p;
    size_t n;
    bool trusted;
} part;

static void expect_parts(const ls_vocab *v, const part *parts, size_t n, const int32_t *want, size_t n_want) {
    ls_ids got = {0};
    ls_marked text = {0};
    for (size_t i = 0; i < n; i++) ls_marked_add(&text, parts[i].p, parts[i].n, parts[i].trusted ? 0 : LS_MARK_TEXT);
    assert_int_equal(ls_encode_marked(v, &text, 0, &got, NULL), LS_OK);
    ls_marked_free(&text);
    assert_int_equal(got.n, n_want);
    if (n_want) assert_memory_equal(got.p, want, n_want * sizeof *want);
    ls_ids_free(&got);
}
#define EXPECT(v, parts, ...)                                                                                          \
    expect_parts(v, parts, sizeof(parts) / sizeof *(parts), (const int32_t[]){__VA_ARGS__},                            \
                 sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))
#define PART(s, trusted)                                                                                               \
    { s, sizeof(s) - 1, trusted }

// A user-defined symbol of blanks is the same symbol with plain blanks (GGUF) and with U+2581 (tokenizer.model), in
// both kinds of model.
static void symbols_of_blanks_have_two_spellings(void **state) {
    (void)state;
#define TOKEN(text)                                                                                                    \
    { text, sizeof(text) - 1 }
    const ls_str tokens[][7] = {
        {TOKEN("<unk>"), TOKEN("a"), TOKEN("b"), TOKEN("\u2581"), TOKEN("  "), TOKEN("   "), TOKEN("a b")},
        {TOKEN("<unk>"), TOKEN("a"), TOKEN("b"), TOKEN("\u2581"), TOKEN("\u2581\u2581"), TOKEN("\u2581\u2581\u2581"),
         TOKEN("a\u2581b")}};
    const int32_t types[] = {2, 1, 1, 1, 4, 4, 4};
    const double scores[] = {0, -1, -2, -3, 0, 0, 0};
    for (int i = 0; i < 4; i++) {
        const ls_vocab_source src = {.tokens = tokens[i / 2],
                                     .types = types,
                                     .scores = scores,
                                     .n_tokens = 7,
                                     .unigram = i % 2,
                                     .rules.escape = true,
                                     .bos = -1,
                                     .eos = -1};
        ls_vocab *v;
        ls_err err = {0};
        if (ls_vocab_new(&v, &src, &err)) fail_msg("%s", err.msg);
        EXPECT(v, ((const part[]){PART("a  b", false)}), 1, 4, 2);
        EXPECT(v, ((const part[]){PART("b   b", false)}), 2, 5, 2);
        EXPECT(v, ((const part[]){PART("b b", false)}), 2, 3, 2);
        EXPECT(v, ((const part[]){PART("ba b", false)}), 2, 6);
        ls_vocab_free(v);
    }
}

// Merges are searched at every cut of a token.
static void tekken_with_a_long_token_is_refused(void **state) {
    (void)state;
    const ls_tokenizer_files nothing = {0};
    ls_buf text = {0};
    ls_vocab *v;
    ls_err err = {0};
    ls_buf_str(&text, "{\"config\":{\"pattern\":\".\",\"default_vocab_size\":2,\"default_num_special_tokens\":1},"
                      "\"vocab\":[{\"rank\":0,\"token_bytes\":\"");
    for (int i = 0; i < 1000000; i++) ls_buf_str(&text, "QUFB");
    ls_buf_str(&text, "\"}]}");
    assert_int_equal(ls_tokenizer_tekken(&v, (ls_str){text.p, text.n}, &nothing, &err), LS_E_UNSUPPORTED);
    assert_string_equal(err.msg, "tekken.json: entry 0 of 'vocab' is longer than 1024 bytes");
    ls_buf_free(&text);
}

// A symbol beyond the embedding's rows is text of smaller pieces, in both kinds of model.
static void symbols_without_a_row_are_text(void **state) {
    (void)state;
    const ls_str tokens[] = {TOKEN("<unk>"), TOKEN("a"), TOKEN("b"), TOKEN("ab")};
    const int32_t types[] = {2, 1, 1, 4};
    const double scores[] = {0, -1, -2, 0};
    const ls_added added = {.id = 3};
    for (int i = 0; i < 2; i++) {
        const ls_vocab_source src = {.tokens = tokens,
                                     .types = types,
                                     .scores = scores,
                                     .n_tokens = 4,
                                     .unigram = i,
                                     .added = &added,
                                     .n_added = 1,
                                     .bos = -1,
                                     .eos = -1};
        ls_vocab *v;
        assert_int_equal(ls_vocab_new(&v, &src, NULL), LS_OK);
        EXPECT(v, ((const part[]){PART("bab", false)}), 2, 3);
        assert_int_equal(ls_vocab_pad(v, 3, NULL), LS_OK);
        EXPECT(v, ((const part[]){PART("bab", false)}), 2, 1, 2);
        ls_vocab_free(v);
    }
}

static void parts_are_one_text(void **state) {
    (void)state;
    ls_vocab *v = from_json(BYTES, "{}"); // the configuration's add_prefix_space is false unless it says otherwise
    const part joined[] = {PART("a", true), PART("b", false)};
    EXPECT(v, joined, 2);
    const part trusted[] = {PART("<s>a", true), PART("b<s>", true)};
    EXPECT(v, trusted, 6, 2, 6);
    const part mixed[] = {PART("<s>", false), PART("<s>", true), PART("<s", true), PART(">", false)};
    EXPECT(v, mixed, 4, 5, 6, 4, 5);
    const part straddling[] = {PART("<", false), PART("s>b", true)};
    EXPECT(v, straddling, 4, 5, 1);
    const part plain[] = {PART("a<think>b", false)}; // not special: found anywhere
    EXPECT(v, plain, 0, 7, 1);
    const part empty[] = {PART("", true), PART("", false)};
    expect_parts(v, empty, 2, NULL, 0);
    ls_vocab_free(v);
    v = from_json(BYTES, NULL); // without a configuration the file's own flag holds
    EXPECT(v, joined, 3, 2);
    ls_vocab_free(v);
}

static int32_t first_of(const ls_ids *ids) {
    return ids->n ? ids->p[0] : -1;
}

static void configurations_are_believed(void **state) {
    (void)state;
    ls_vocab *v =
        from_json(BYTES, "{\"eos_token\":{\"content\":\"<s>\"},\"bos_token\":\"<s>\",\"add_bos_token\":false}");
    assert_int_equal(first_of(ls_vocab_prefix(v)), 6); // only some classes read add_bos_token
    assert_string_equal(ls_vocab_variables(v), "{\"bos_token\":\"<s>\",\"eos_token\":\"<s>\"}");
    assert_int_equal(ls_vocab_eos(v), 6);
    assert_true(ls_vocab_is_end(v, 6));
    assert_false(ls_vocab_is_end(v, 7));
    ls_vocab_add_end(v, 7);
    ls_vocab_add_end(v, 99);
    assert_true(ls_vocab_is_end(v, 7));
    assert_false(ls_vocab_is_end(v, 99));
    assert_true(ls_vocab_is_special(v, 6));
    assert_false(ls_vocab_is_special(v, 7));
    assert_int_equal(ls_vocab_special(v, "<s>", 3), 6);
    assert_int_equal(ls_vocab_special(v, "<think>", 7), -1);
    ls_vocab_free(v);
    v = from_json(BYTES, "{\"tokenizer_class\":\"LlamaTokenizerFast\",\"bos_token\":\"<s>\",\"add_bos_token\":false,"
                         "\"eos_token\":null,\"unk_token\":null,"
                         "\"added_tokens_decoder\":{\"7\":{\"content\":\"<think>\",\"special\":true,\"rstrip\":true},"
                         "\"9\":{\"content\":\"<new>\",\"special\":true}}}");
    assert_string_equal(ls_vocab_variables(v), "{\"bos_token\":\"<s>\"}"); // whether or not raw text begins with it
    assert_int_equal(first_of(ls_vocab_prefix(v)), -1);
    assert_int_equal(ls_vocab_eos(v), -1);
    assert_int_equal(ls_vocab_size(v), 10);
    assert_true(ls_vocab_is_special(v, 7));
    const part text[] = {PART("a<think> \tb<new>", true)};
    EXPECT(v, text, 0, 7, 1, 9);
    ls_err err;
    size_t n;
    assert_int_equal(ls_vocab_pad(v, 5, &err), LS_E_PARSE); // not only added tokens would be without a row
    assert_int_equal(ls_vocab_pad(v, 12, &err), LS_OK);
    assert_int_equal(ls_vocab_size(v), 12);
    assert_true(ls_vocab_is_special(v, 11));
    ls_vocab_bytes(v, 11, &n);
    assert_int_equal(n, 0);
    ls_vocab_bytes(v, 8, &n); // an id that no token has
    assert_int_equal(n, 0);
    ls_vocab_free(v);
}

// What stands beside a tokenizer and cannot be what it says is named.
static void configurations_that_cannot_be(void **state) {
    (void)state;
    static const struct {
        const char *config, *special_map, *added, *says;
    } cases[] = {
        {"[1]", "", "", "tokenizer_config.json is not an object"},
        {"{", "", "", "tokenizer_config.json:1:1: not JSON"},
        {"{\"bos_token\":[\"a\"]}", "", "", "'bos_token' is not a token"},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"a\"}}}", "", "", "the invalid id 'x'"},
        {"{\"added_tokens_decoder\":{\"9\":{}}}", "", "", "9 has no 'content'"},
        {"{\"added_tokens_decoder\":{\"999999\":{\"content\":\"z\"}}}", "", "", "the invalid id 999999"},
        {"", "7", "", "special_tokens_map.json:1:1: not JSON"},
        {"", "", "{\"z\":-1}", "added_tokens.json: 'z' has an invalid id"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_tokenizer_files beside = {.config = {cases[i].config, strlen(cases[i].config)},
                                           .special_map = {cases[i].special_map, strlen(cases[i].special_map)},
                                           .added = {cases[i].added, strlen(cases[i].added)}};
        ls_vocab *v = NULL;
        ls_err err = {0};
        assert_int_equal(ls_tokenizer_json(&v, (ls_str){BYTES, strlen(BYTES)}, &beside, &err), LS_E_PARSE);
        assert_null(v);
        if (!strstr(err.msg, cases[i].says)) fail_msg("%zu: %s", i, err.msg);
    }
}

// An added token that the embedding has no row for is as if it were not there.
static void added_tokens_without_a_row(void **state) {
    (void)state;
    ls_err err;
    ls_vocab *v;
    ls_ids ids = {0};
    v = open_vocab("tests/vectors/tokenizers/qwen2.json");
    assert_int_equal(ls_vocab_size(v), 565);
    assert_int_equal(ls_vocab_special(v, "<|im_end|>", 10), 562);
    assert_int_equal(ls_vocab_pad(v, 559, &err), LS_E_PARSE);
    assert_int_equal(ls_vocab_pad(v, 562, &err), LS_OK);
    assert_int_equal(ls_vocab_special(v, "<|im_end|>", 10), -1);
    assert_int_equal(ls_vocab_special(v, "<|im_start|>", 12), 561);
    assert_int_equal(ls_encode(v, "<|im_start|>a<|im_end|><think>", 30, true, &ids, &err), LS_OK);
    assert_int_equal(ids.p[0], 561);
    for (size_t i = 1; i < ids.n; i++) assert_in_range(ids.p[i], 0, 559);
    ls_ids_free(&ids);
    ls_vocab_free(v);
}

// Bytes of all ids together are the text again, and bytes that are no UTF-8 do what vocab.h says.
static void bytes_of_tokens(void **state) {
    (void)state;
    static const struct {
        const char *file, *text, *want;
    } cases[] = {
        {"qwen2.json", "a \xff\xfe\xc3 b\x80", "a \xff\xfe\xc3 b\x80"},
        {"llama2.json", "a \xff\xc3 b", " a \uFFFD\uFFFD b"},
        {"sp_llama.model", "a \xff\xc3 b", " a \uFFFD\uFFFD b"},
        {"sp_llama.gguf", "Gr\u00fc\u00dfe, \u4e16\u754c \U0001F600\n", " Gr\u00fc\u00dfe, \u4e16\u754c \U0001F600\n"},
        {"gemma.json", "a  b\n\nc\u1234", "a  b\n\nc\u1234"},
        {"mistral.json", "[INST] a[/INST]", "[INST] a[/INST]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = ls_format(FOLDER "%s", cases[i].file);
        ls_vocab *v = open_vocab(path);
        ls_ids ids = {0};
        ls_buf back = {0};
        assert_non_null(v);
        assert_int_equal(ls_encode(v, cases[i].text, strlen(cases[i].text), true, &ids, NULL), LS_OK);
        for (size_t k = 0; k < ids.n; k++) {
            size_t n;
            const char *p = ls_vocab_bytes(v, ids.p[k], &n);
            ls_buf_add(&back, p, n);
        }
        assert_string_equal(back.p, cases[i].want);
        ls_ids_free(&ids);
        ls_buf_free(&back);
        ls_vocab_free(v);
        free(path);
    }
}

static void first_tokens(void **state) {
    (void)state;
    static const struct {
        const char *file;
        int32_t prefix, eos;
    } cases[] = {
        {"llama2.json", 1, -1},  {"sp_llama.model", 1, 2}, {"sp_unigram.model", -1, 2},
        {"sp_llama.gguf", 1, 2}, {"qwen2.gguf", -1, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = ls_format(FOLDER "%s", cases[i].file);
        ls_vocab *v = open_vocab(path);
        assert_non_null(v);
        assert_int_equal(first_of(ls_vocab_prefix(v)), cases[i].prefix);
        assert_int_equal(ls_vocab_eos(v), cases[i].eos);
        ls_vocab_free(v);
        free(path);
    }
}

static void what_is_not_supported_is_named(void **state) {
    (void)state;
    const ls_tokenizer_files alone = {0};
    static const struct {
        const char *text;
        ls_code code;
        const char *says;
    } cases[] = {
        {"", LS_E_PARSE, "is empty"},
        {"[]", LS_E_UNSUPPORTED, "BPE, Unigram"},
        {"{\"model\":{\"type\":\"WordPiece\"}}", LS_E_UNSUPPORTED, "'WordPiece' is for encoders"},
        {"{\"model\":{\"type\":\"WordLevel\"}}", LS_E_UNSUPPORTED, "'WordLevel' is not supported"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Sequence\","
         "\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[0-9]\"},"
         "\"behavior\":"
         "\"Isolated\"}]}}",
         LS_E_UNSUPPORTED, "after ByteLevel"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", LS_E_PARSE, "no tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}}}", LS_E_PARSE, "no merges"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", LS_E_PARSE, "merge 0"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", LS_E_PARSE, "two tokens"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]}}", LS_E_PARSE, "invalid id"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":\"BertNormalizer\"}"
         "}",
         LS_E_UNSUPPORTED, "'BertNormalizer'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Fancy\"}}",
         LS_E_UNSUPPORTED, "'Fancy'"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Split\","
         "\"pattern\":{\"Regex\":\"a\\\\hb\"},\"behavior\":\"Isolated\"}}",
         LS_E_UNSUPPORTED, "an escape"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]],\"unk_id\":7}}", LS_E_PARSE, "outside its vocabulary"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",null]],\"unk_id\":0}}", LS_E_PARSE, "finite score"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_vocab *v = NULL;
        ls_err err = {0};
        assert_int_equal(ls_tokenizer_json(&v, (ls_str){cases[i].text, strlen(cases[i].text)}, &alone, &err),
                         cases[i].code);
        assert_null(v);
        if (!strstr(err.msg, cases[i].says)) fail_msg("%zu: %s", i, err.msg);
    }
    const ls_str token = {"a", 1};
    const int32_t type = 1;
    ls_vocab *v = NULL;
    ls_err err = {0};
    const ls_vocab_source source = {.tokens = &token, .n_tokens = 1, .types = &type, .pre = "new"};
    assert_int_equal(ls_vocab_new(&v, &source, &err), LS_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "pre-tokenizer 'new' is not among"));
}

static void expect_harmless(const char *path, const char *p, size_t n) {
    static const char text[] = "The quick \u2581brown <s>fox</s> 123 \xff\u3042";
    ls_vocab *v = NULL;
    ls_err err = {0};
    ls_ids ids = {0};
    if (parse(&v, path, p, n, &err)) {
        assert_true(*err.msg && !v);
        assert_true(ends_in(path, ".gguf") || !strchr(err.msg, '\n')); // GGUF's own errors quote names
        return;
    }
    ls_encode(v, text, sizeof text - 1, true, &ids, NULL);
    for (size_t i = 0; i < ids.n; i++) assert_in_range(ids.p[i], 0, ls_vocab_size(v) - 1);
    ls_ids_free(&ids);
    ls_vocab_free(v);
}

static void rules_cannot_make_a_text_endless(void **state) {
    (void)state;
    ls_buf json = {0};
    ls_ids ids = {0};
    ls_err err = {0};
    ls_buf_str(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"normalizer\":{\"type\":"
                      "\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 30; i++)
        ls_buf_fmt(&json, "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"}",
                   i ? "," : "");
    ls_buf_str(&json, "]}}");
    ls_vocab *v = from_json(json.p, NULL);
    assert_int_equal(ls_encode(v, "aaaa", 4, true, &ids, &err), LS_E_RANGE);
    assert_int_equal(ids.n, 0);
    ls_vocab_free(v);
    ls_buf_free(&json);
}

// Cut off anywhere and with bytes changed: one error line or a vocabulary that works, never a crash.
static void damaged_files(void **state) {
    (void)state;
    static const char *const files[] = {"sp_llama.model", "sp_unigram.model", "qwen2.gguf", "sp_llama.gguf", "t5.json"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char *path = ls_format(FOLDER "%s", files[f]);
        ls_buf m = {0};
        assert_int_equal(ls_read_file(&m, path, SIZE_MAX, NULL), LS_OK);
        for (uint64_t round = 0; round < 60; round++) {
            char *copy = ls_malloc(m.n);
            size_t n = m.n;
            memcpy(copy, m.p, m.n);
            if (round % 2) n = (size_t)(ls_uniform_at(round, 0) * (double)n);
            for (uint64_t k = 1; k < round; k++)
                copy[(size_t)(ls_uniform_at(round, 2 * k) * (double)m.n)] =
                    (char)(ls_uniform_at(round, 2 * k + 1) * 256);
            expect_harmless(path, copy, n);
            free(copy);
        }
        ls_buf_free(&m);
        free(path);
    }
}

static bool second_time(void *ud) {
    return ++*(int *)ud == 2;
}

static void long_text_in_linear_time(void **state) { // one piece of a megabyte
    (void)state;
    static const char *const files[] = {"llama3.json", "llama2.json", "sp_llama.model", "sp_unigram.model"};
    static const char *const units[] = {" ", "a", "ab", "=", "\u4e16", "A", "<|", "1"};
    int stopped[sizeof files / sizeof *files] = {0};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char *path = ls_format(FOLDER "%s", files[f]);
        ls_vocab *v = open_vocab(path);
        for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
            ls_buf text = {0};
            ls_ids ids = {0};
            while (text.n < 1 << 20) ls_buf_str(&text, units[u]);
            assert_int_equal(ls_encode(v, text.p, text.n, true, &ids, NULL), LS_OK);
            const size_t n = ids.n;
            int asked = 0;
            ls_vocab_stop(v, second_time, &asked);
            const ls_code code = ls_encode(v, text.p, text.n, true, &ids, NULL);
            assert_int_equal(code, asked == 2 ? LS_E_CANCELLED : LS_OK); // a long run of blanks is few steps
            assert_int_equal(ids.n, code ? n : 2 * n);                   // what was there before stays
            stopped[f] += code != LS_OK;
            ls_vocab_stop(v, NULL, NULL);
            ls_buf_free(&text);
            ls_ids_free(&ids);
        }
        assert_in_range(stopped[f], 2, sizeof units / sizeof *units); // few merges: few steps
        ls_vocab_free(v);
        free(path);
    }
}

// Lists that a file holds are read in time that is proportional to them, not to their square.
static void long_lists_are_read_at_once(void **state) {
    (void)state;
    enum { MANY = 60000 };
    ls_buf text = {0}, config = {0};
    ls_err err = {0};
    ls_vocab *v = NULL;
    ls_buf_str(&text,
               "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]},\"pre_tokenizer\":{\"type\":"
               "\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},\"added_tokens\":[");
    ls_buf_str(&config, "{\"additional_special_tokens\":[");
    for (int i = 0; i < MANY; i++) {
        ls_buf_fmt(&text, "%s{\"id\":%d,\"content\":\"<t%d>\",\"special\":true}", i ? "," : "", i + 2, i);
        ls_buf_fmt(&config, "%s\"<t%d>\"", i ? "," : "", MANY - 1 - i);
    }
    ls_buf_str(&text, "]}");
    ls_buf_str(&config, "]}");
    const clock_t start = clock(); // of the processor
    const ls_tokenizer_files beside = {.config = {config.p, config.n}};
    if (ls_tokenizer_json(&v, (ls_str){text.p, text.n}, &beside, &err)) fail_msg("%s", err.msg);
    assert_int_equal(ls_vocab_size(v), MANY + 2);
    for (int i = 0; i < ls_vocab_size(v); i++) ls_vocab_add_end(v, i);
    for (int i = 0; i < ls_vocab_size(v); i++) assert_true(ls_vocab_is_end(v, i));
    assert_false(ls_vocab_is_end(v, -1) || ls_vocab_is_end(v, MANY + 2));
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 3);
    ls_vocab_free(v);
    ls_buf_free(&text);
    ls_buf_free(&config);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "encode")) return encode_lines(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_lists_are_read_at_once),
        cmocka_unit_test(ids_equal_the_reference),
        cmocka_unit_test(symbols_of_blanks_have_two_spellings),
        cmocka_unit_test(symbols_without_a_row_are_text),
        cmocka_unit_test(tekken_with_a_long_token_is_refused),
        cmocka_unit_test(parts_are_one_text),
        cmocka_unit_test(configurations_are_believed),
        cmocka_unit_test(configurations_that_cannot_be),
        cmocka_unit_test(added_tokens_without_a_row),
        cmocka_unit_test(bytes_of_tokens),
        cmocka_unit_test(first_tokens),
        cmocka_unit_test(what_is_not_supported_is_named),
        cmocka_unit_test(rules_cannot_make_a_text_endless),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(long_text_in_linear_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
