// tokenizer.json, tokenizer.model and GGUF vocabularies: any bytes are a vocabulary or one clear error,
// and whatever a vocabulary holds, text becomes ids of it.
#include "base/mem.h"
#include "engine/load.h"
#include "model/gguf.h"
#include "tests/fuzz/input.h"

static ls_code parse(ls_vocab **v, const char *p, size_t n, ls_err *err) {
#define TEXT(text)                                                                                                     \
    { text, sizeof(text) - 1 }
    static const ls_tokenizer_files beside[] = {
        {.config = TEXT("{\"eos_token\":\"</s>\",\"tokenizer_class\":\"LlamaTokenizer\",\"bos_token\":\"<s>\"}")},
        {.usual_class = "GemmaTokenizer"},
        {.config = TEXT("{\"legacy\":false,\"add_eos_token\":true,\"tokenizer_class\":\"LlamaTokenizer\"}"),
         .special_map = TEXT("{\"pad_token\":{\"content\":\"a\",\"lstrip\":true},\"image_token\":\"<new>\"}"),
         .added = TEXT("{\"<new>\":900,\"b\":3}")},
        {.config = {NULL, 0}}};
    const ls_str text = {p, n};
    static const ls_str merges = TEXT("#version: 0.2\na b\nab c\n");
    if (n && *p == '{' && n % 5 == 4) return ls_tokenizer_tekken(v, text, &beside[n % 4], err);
    if (n && *p == '{' && n % 5 == 3) return ls_tokenizer_merges(v, text, merges, &beside[3], err);
    if (n && *p == '{') return ls_tokenizer_json(v, text, &beside[n % 4], err);
    if (n < 4 || memcmp(p, "GGUF", 4)) return ls_tokenizer_model(v, text, &beside[n % 4], err);
    ls_gguf *g;
    bool more;
    ls_code code = ls_gguf_parse(&g, (const unsigned char *)p, n, n, &more, err);
    if (code) return code;
    code = ls_vocab_gguf(v, g, err);
    ls_gguf_free(g);
    return code;
}

static void encode(const ls_vocab *v, const char *text, size_t n) {
    const size_t third = n / 3;
    ls_marked marked = {0};
    ls_marked_add(&marked, text, third, 0);
    ls_marked_add(&marked, text + third, third, LS_MARK_TEXT);
    ls_marked_add(&marked, text + 2 * third, n - 2 * third, 0);
    ls_ids ids = {0};
    ls_buf shown = {0};
    ls_detok d = {0};
    ls_err err = {0};
    if (ls_encode_marked(v, &marked, 0, &ids, &err) && err.code != LS_E_RANGE) abort(); // rules that make it too long
    ls_marked_free(&marked);
    for (size_t i = 0; i < ids.n; i++) {
        size_t len;
        if (ids.p[i] < 0 || ids.p[i] >= ls_vocab_size(v)) abort();
        const char *p = ls_vocab_bytes(v, ids.p[i], &len);
        ls_detok_push(&d, p, len, &shown);
    }
    ls_detok_flush(&d, &shown);
    ls_buf_free(&shown);
    ls_ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char text[] = "The <s>quick</s> 'LL \xe2\x96\x81\xe2\x96\x81"
                               "fox  jumps\r\n\t12345 e\xcc\x81 \xef\xac\x81\xe4\xb8\x96 \xff\xc3 [INST]<think> a_b";
    char *copy = ls_malloc(n); // its end is the allocation's
    ls_vocab *v = NULL;
    ls_err err = {0};
    if (n) memcpy(copy, data, n);
    if (parse(&v, copy, n, &err)) {
        EXPECT(!v && *err.msg);
    } else {
        encode(v, text, sizeof text - 1);
        encode(v, copy, n < 2000 ? n : 2000);
        if (ls_vocab_pad(v, ls_vocab_size(v) + 3, &err)) abort();
        ls_vocab_id(v);
        ls_vocab_free(v);
    }
    free(copy);
    return 0;
}
