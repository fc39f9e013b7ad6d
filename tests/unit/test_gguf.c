// The GGUF reader: what a good file says, one clear error for each kind of bad one, and no crash on any bytes.
#include "base/buf.h"
#include "base/rng.h"
#include "model/gguf.h"
#include "model/hparams_read.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void u32(ls_buf *b, uint32_t v) {
    ls_buf_add(b, &v, 4);
}
static void u64(ls_buf *b, uint64_t v) {
    ls_buf_add(b, &v, 8);
}
static void str(ls_buf *b, const char *s) {
    u64(b, strlen(s));
    ls_buf_str(b, s);
}

enum { U32 = 4, F32 = 6, STRING = 8, ARRAY = 9 };

static void key_u32(ls_buf *b, const char *key, uint32_t v) {
    str(b, key);
    u32(b, U32);
    u32(b, v);
}

static void tensor(ls_buf *b, const char *name, int type, uint64_t d0, uint64_t d1, uint64_t offset) {
    str(b, name);
    u32(b, d1 ? 2 : 1);
    u64(b, d0);
    if (d1) u64(b, d1);
    u32(b, (uint32_t)type);
    u64(b, offset);
}

typedef struct {
    uint64_t n_tensors, n_keys, offset2, d0;
    int type;
    const char *name2;
} variant;
static const variant good = {2, 4, 256, 32, LS_GGML_F32, "b"};

// Two tensors, "a" of 32 x 2 f32 (256 bytes) and "b" of 32 q8_0 (34 bytes).
static ls_buf make(variant v) {
    ls_buf b = {0};
    ls_buf_str(&b, "GGUF");
    u32(&b, 3);
    u64(&b, v.n_tensors);
    u64(&b, v.n_keys);
    key_u32(&b, "n", 7);
    str(&b, "s");
    u32(&b, STRING);
    str(&b, "text");
    str(&b, "list");
    u32(&b, ARRAY);
    u32(&b, STRING);
    u64(&b, 2);
    str(&b, "x");
    str(&b, "yy");
    str(&b, "f");
    u32(&b, F32);
    float f = 0.5f;
    ls_buf_add(&b, &f, 4);
    tensor(&b, "a", v.type, v.d0, 2, 0);
    tensor(&b, v.name2, LS_GGML_Q8_0, 32, 0, v.offset2);
    while (b.n % 32) ls_buf_char(&b, 0);
    for (int i = 0; i < 256 + 34; i++) ls_buf_char(&b, (char)i);
    return b;
}

static void a_good_file(void **state) {
    (void)state;
    ls_buf b = make(good);
    ls_gguf *g;
    ls_err err = {0};
    if (ls_gguf_parse(&g, (const unsigned char *)b.p, b.n, b.n, NULL, &err)) fail_msg("%s", err.msg);
    uint32_t n;
    float f;
    ls_str s, *list;
    size_t count;
    assert_int_equal(ls_gguf_u32(g, "n", &n, &err), LS_OK);
    assert_int_equal(n, 7);
    assert_int_equal(ls_gguf_f32(g, "f", &f, &err), LS_OK);
    assert_true(f == 0.5f);
    assert_int_equal(ls_gguf_str(g, "s", &s, &err), LS_OK);
    assert_int_equal(s.n, 4);
    assert_int_equal(ls_gguf_str_array(g, "list", &list, &count, &err), LS_OK);
    assert_int_equal(count, 2);
    assert_memory_equal(list[1].p, "yy", 2);
    free(list);
    assert_int_equal(ls_gguf_u32(g, "s", &n, &err), LS_E_PARSE);
    assert_int_equal(ls_gguf_u32(g, "absent", &n, &err), LS_E_PARSE);
    const ls_gguf_tensor *t = &g->tensors[1];
    assert_memory_equal(t->name.p, "b", t->name.n);
    assert_int_equal(t->n_bytes, 34);
    assert_int_equal(t->offset + 34, b.n);
    ls_gguf_free(g);
    ls_buf_free(&b);
}

static void each_lie_is_named(void **state) {
    (void)state;
    static const struct {
        variant v;
        const char *part; // of the message
    } cases[] = {
        {{2, 4, 224, 32, LS_GGML_F32, "b"}, "overlap"},
        {{2, 4, 1 << 20, 32, LS_GGML_F32, "b"}, "'b'"},
        {{2, 4, UINT64_MAX - 31, 32, LS_GGML_F32, "b"}, "'b'"},
        {{2, 4, 257, 32, LS_GGML_F32, "b"}, "'b'"},
        {{2, 4, 256, UINT64_C(1) << 62, LS_GGML_F32, "b"}, "'a'"},
        {{2, 4, 256, 0, LS_GGML_F32, "b"}, "'a'"},
        {{2, 4, 256, 31, LS_GGML_Q8_0, "b"}, "'a'"},
        {{2, 4, 256, 32, 77, "b"}, "'a'"},
        {{2, 4, 256, 32, LS_GGML_I64, "b"}, "'a' has type"}, // a draft head's d2t alone
        {{2, 4, 256, 32, LS_GGML_F32, "a"}, "'a'"},
        {{UINT64_MAX, 4, 256, 32, LS_GGML_F32, "b"}, "tensors"},
        {{2, UINT64_MAX, 256, 32, LS_GGML_F32, "b"}, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_buf b = make(cases[i].v);
        ls_gguf *g = NULL;
        ls_err err = {0};
        if (!ls_gguf_parse(&g, (const unsigned char *)b.p, b.n, b.n, NULL, &err)) fail_msg("case %zu was accepted", i);
        assert_null(g);
        assert_true(*err.msg);
        assert_null(strchr(err.msg, '\n'));
        if (!strstr(err.msg, cases[i].part)) fail_msg("case %zu: %s", i, err.msg);
        ls_buf_free(&b);
    }
}

static void key_f32(ls_buf *b, const char *key, float v) {
    str(b, key);
    u32(b, F32);
    ls_buf_add(b, &v, sizeof v);
}

// A model whose metadata hold these numbers and this type of rotary scaling ("": none).
static ls_hparams hparams_of(const char *arch, const char *const keys[2], const float values[2], const char *type) {
    ls_buf b = {0}, name = {0};
    const char *const sizes[] = {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                                 "context_length"};
    const int n_keys = (keys[0] != NULL) + (keys[1] != NULL) + (*type != 0);
    ls_buf_str(&b, "GGUF");
    u32(&b, 3);
    u64(&b, 0);
    u64(&b, 7 + (uint64_t)n_keys);
    str(&b, "general.architecture");
    u32(&b, STRING);
    str(&b, arch);
    for (int i = 0; i < 6; i++) {
        ls_buf_clear(&name);
        ls_buf_fmt(&name, "%s.%s", arch, i < 5 ? sizes[i] : "attention.layer_norm_rms_epsilon");
        if (i < 5) key_u32(&b, name.p, (uint32_t[]){2, 64, 64, 2, 512}[i]);
        else key_f32(&b, name.p, 1e-5f);
    }
    for (int i = 0; i < 2; i++)
        if (keys[i]) {
            ls_buf_clear(&name);
            ls_buf_fmt(&name, "%s.%s", arch, keys[i]);
            key_f32(&b, name.p, values[i]);
        }
    if (*type) {
        ls_buf_clear(&name);
        ls_buf_fmt(&name, "%s.rope.scaling.type", arch);
        str(&b, name.p);
        u32(&b, STRING);
        str(&b, type);
    }
    while (b.n % 32) ls_buf_char(&b, 0);
    ls_gguf *g;
    ls_err err = {0};
    ls_hparams h = {0};
    if (ls_gguf_parse(&g, (const unsigned char *)b.p, b.n, b.n, NULL, &err) || ls_hparams_gguf(&h, g, NULL, &err))
        fail_msg("%s", err.msg);
    ls_gguf_free(g);
    ls_buf_free(&b);
    ls_buf_free(&name);
    return h;
}

// As llama.cpp reads them: the factor by its first name too, 0 is no scaling, and a factor needs no type.
static void rotary_scaling_by_every_key(void **state) {
    (void)state;
    static const struct {
        const char *arch, *keys[2], *type;
        float values[2], want;
        int kind;
    } cases[] = {
        {"llama", {NULL, NULL}, "", {0, 0}, 1, 0},
        {"llama", {"rope.scaling.factor", NULL}, "linear", {4, 0}, 0.25f, 0},
        {"llama", {"rope.scaling.factor", NULL}, "", {4, 0}, 0.25f, 0},
        {"llama", {"rope.scaling.factor", NULL}, "none", {4, 0}, 1, 0},
        {"llama", {"rope.scaling.factor", NULL}, "linear", {0, 0}, 1, 0},
        {"llama", {"rope.scale_linear", NULL}, "", {4, 0}, 0.25f, 0},
        {"llama", {"rope.scale_linear", "rope.scaling.factor"}, "", {4, 2}, 0.5f, 0},
        {"gemma3", {"rope.scaling.factor", NULL}, "linear", {8, 0}, 0.125f, 0},
        {"gemma3", {"rope.scaling.factor", NULL}, "linear", {8, 0}, 1, 1}, // local layers are never scaled
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_hparams h = hparams_of(cases[i].arch, cases[i].keys, cases[i].values, cases[i].type);
        assert_float_equal(h.rope_freq[cases[i].kind][0], cases[i].want, 1e-6);
    }
}

static void caps_and_a_window_that_the_file_leaves_out(void **state) {
    (void)state;
    ls_hparams h = hparams_of("gemma2", (const char *const[]){NULL, NULL}, (float[]){0, 0}, "");
    assert_float_equal(h.attn_softcap, 50, 0);
    assert_float_equal(h.logit_softcap, 30, 0);
    assert_int_equal(h.window, 4096);
    assert_true(h.local[0] && !h.local[1]);
    h = hparams_of("gemma2", (const char *const[]){"attn_logit_softcapping", "final_logit_softcapping"},
                   (float[]){20, 10}, "");
    assert_float_equal(h.attn_softcap, 20, 0);
    assert_float_equal(h.logit_softcap, 10, 0);
    h = hparams_of("llama", (const char *const[]){NULL, NULL}, (float[]){0, 0}, "");
    assert_float_equal(h.attn_softcap + h.logit_softcap, 0, 0);
    assert_int_equal(h.window, 0);
}

// Parses a private copy, so that a read beyond its end is seen by the sanitizer.
static void try_bytes(const char *p, size_t n) {
    unsigned char *copy = malloc(n ? n : 1);
    memcpy(copy, p, n);
    ls_gguf *g = NULL;
    ls_err err = {0};
    if (!ls_gguf_parse(&g, copy, n, n, NULL, &err)) {
        unsigned sum = 0;
        for (int i = 0; i < g->n_tensors; i++) {
            const ls_gguf_tensor *t = &g->tensors[i];
            assert_true(t->offset <= n && t->n_bytes <= n - t->offset);
            if (t->n_bytes) sum += copy[t->offset + t->n_bytes - 1];
        }
        assert_true(sum <= 255u * (unsigned)g->n_tensors); // the bytes are read
        ls_hparams hp;
        ls_hparams_gguf(&hp, g, NULL, &err);
        ls_gguf_free(g);
    } else assert_true(*err.msg);
    free(copy);
}

static void no_bytes_crash_it(void **state) {
    (void)state;
    ls_buf b = make(good);
    for (size_t n = 0; n <= b.n; n++) try_bytes(b.p, n);
    for (uint64_t round = 0; round < 20000; round++) {
        char *copy = malloc(b.n);
        memcpy(copy, b.p, b.n);
        int changes = 1 + (int)(ls_uniform_at(1, round * 16) * 4);
        for (int i = 0; i < changes; i++) {
            size_t at = (size_t)(ls_uniform_at(1, round * 16 + 2 * (uint64_t)i + 1) * (double)(b.n - 290));
            static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff, 3, 8, 9, 32};
            copy[at] = (char)values[(size_t)(ls_uniform_at(1, round * 16 + 2 * (uint64_t)i + 2) * sizeof values)];
        }
        try_bytes(copy, b.n);
        free(copy);
    }
    ls_buf_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_good_file), cmocka_unit_test(each_lie_is_named),
                                       cmocka_unit_test(rotary_scaling_by_every_key),
                                       cmocka_unit_test(caps_and_a_window_that_the_file_leaves_out),
                                       cmocka_unit_test(no_bytes_crash_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
