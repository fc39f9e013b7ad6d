// Tokenizers that come in other files than tokenizer.json: GPT-2's vocab.json and merges.txt, and Mistral's
// tekken.json. Both are written as a tokenizer.json, as transformers and mistral-common build them.
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Qwen2Converter of transformers 4.57.
static const char qwen2_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                                    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static void add_split(ls_buf *out, const char *pattern, size_t n, bool prefix_space) {
    ls_jsonw w = {.out = out};
    ls_buf_str(
        out,
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\","
        "\"invert\":false,\"pattern\":{\"Regex\":");
    ls_jw_strn(&w, pattern, n);
    ls_buf_fmt(out, "}},{\"type\":\"ByteLevel\",\"add_prefix_space\":%s,\"use_regex\":false}]}",
               prefix_space ? "true" : "false");
}

// Lines of merges.txt; the first may be "#version: ...".
static void add_merges(ls_jsonw *w, ls_str text) {
    ls_jw_field_open(w, "merges", '[');
    for (size_t at = 0; at < text.n;) {
        const char *line = text.p + at, *end = memchr(line, '\n', text.n - at);
        size_t n = end ? (size_t)(end - line) : text.n - at;
        const bool version = !at && n >= 8 && !memcmp(line, "#version", 8);
        at += n + 1;
        if (n && line[n - 1] == '\r') n--;
        if (!version && n) ls_jw_strn(w, line, n);
    }
    ls_jw_close(w, ']');
}

ls_code ls_tokenizer_merges(ls_vocab **out, ls_str vocab, ls_str merges, const ls_tokenizer_files *beside,
                            ls_err *err) {
    ls_tokenizer_config config;
    ls_buf text = {0};
    ls_jsonw w = {.out = &text};
    *out = NULL;
    ls_code code = ls_tokenizer_config_read(&config, beside, err);
    const char *class = config.class ? config.class : "GPT2Tokenizer";
    const bool qwen = !strcmp(class, "Qwen2Tokenizer");
    if (!code && !qwen && strcmp(class, "GPT2Tokenizer") != 0 && strcmp(class, "PreTrainedTokenizer") != 0)
        code =
            ls_fail(err, LS_E_UNSUPPORTED,
                    "a %s of vocab.json and merges.txt is not supported (supported: GPT2Tokenizer, Qwen2Tokenizer, and "
                    "any with tokenizer.json)",
                    class);
    ls_buf_str(&text, "{\"added_tokens\":[],");
    if (qwen) ls_buf_str(&text, "\"normalizer\":{\"type\":\"NFC\"},");
    if (qwen) add_split(&text, qwen2_pattern, sizeof qwen2_pattern - 1, config.prefix_space > 0);
    else ls_buf_str(&text, "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}");
    ls_buf_str(&text, ",\"model\":{\"type\":\"BPE\",");
    add_merges(&w, merges);
    ls_buf_str(&text, ",\"vocab\":");
    ls_buf_add(&text, vocab.p, vocab.n); // JSON already; anything else is found when it is read
    ls_buf_str(&text, "}}");
    if (!code) code = ls_tokenizer_document(out, (ls_str){text.p, text.n}, "vocab.json", beside, true, err);
    ls_tokenizer_config_free(&config);
    ls_buf_free(&text);
    return code;
}

// ---- tekken.json. Reference: mistral-common's Tekkenizer: ids of special tokens come first, then those of the
// vocabulary by rank, cut to default_vocab_size; pieces are joined by the rank of what they become.

typedef struct {
    const ls_json *doc, *vocab, *special;
    int64_t n_special, n; // n: of the vocabulary that is used
    ls_buf bytes;
    size_t *starts;  // [n + 1]
    ls_map by_bytes; // hash -> rank
    uint32_t alphabet[256];
    ls_err *err;
} tekken;

static ls_str token_of(const tekken *t, int32_t rank) {
    return (ls_str){t->bytes.p + t->starts[rank], t->starts[rank + 1] - t->starts[rank]};
}

static int32_t rank_of(const tekken *t, const char *p, size_t n) {
    int32_t rank;
    if (!ls_map_get(&t->by_bytes, ls_hash_name(p, n), &rank)) return -1;
    return ls_str_same(token_of(t, rank), (ls_str){p, n}) ? rank : -1;
}

static ls_code read_tekken(tekken *t) {
    const ls_json *config = ls_json_get(t->doc, "config");
    int64_t size = 0;
    t->vocab = ls_json_get(t->doc, "vocab");
    t->special = ls_json_get(t->doc, "special_tokens");
    const int64_t listed = (int64_t)ls_json_size(t->vocab), named = (int64_t)ls_json_size(t->special);
    if (!ls_json_int(ls_json_get(config, "default_vocab_size"), &size) ||
        !ls_json_int(ls_json_get(config, "default_num_special_tokens"), &t->n_special) || t->n_special < named ||
        t->n_special > 1 << 16 || size <= t->n_special || size > listed + t->n_special)
        return ls_fail(
            t->err, LS_E_PARSE,
            "tekken.json: 'config' and the lists disagree: %lld tokens and %lld special tokens, expected %lld",
            (long long)listed, (long long)named, (long long)size);
    t->n = size - t->n_special;
    t->starts = ls_calloc((size_t)t->n + 1, sizeof *t->starts);
    for (int64_t i = 0; i < t->n; i++) {
        const ls_json *one = ls_json_at(t->vocab, (size_t)i);
        int64_t rank = -1;
        size_t n = 0;
        const char *p = ls_json_str(ls_json_get(one, "token_bytes"), &n);
        if (!p || !ls_json_int(ls_json_get(one, "rank"), &rank) || rank != i ||
            !ls_buf_unbase64(&t->bytes, (ls_str){p, n}) || t->bytes.n == t->starts[i])
            return ls_fail(t->err, LS_E_PARSE, "tekken.json: entry %lld of 'vocab' is not a token with that rank",
                           (long long)i);
        t->starts[i + 1] = t->bytes.n;
        ls_map_at(&t->by_bytes, ls_hash_name(t->bytes.p + t->starts[i], t->bytes.n - t->starts[i]), (int32_t)i);
    }
    return LS_OK;
}

static void spell(const tekken *t, ls_str bytes, ls_buf *out) {
    char one[4];
    ls_buf_clear(out);
    for (size_t i = 0; i < bytes.n; i++)
        ls_buf_add(out, one, (size_t)ls_utf8_encode(t->alphabet[(unsigned char)bytes.p[i]], one));
}

typedef struct {
    int32_t left, right;
} pair;

static int by_ranks(const void *a, const void *b) {
    const pair *x = a, *y = b;
    return x->left != y->left ? (x->left > y->left) - (x->left < y->left)
                              : (x->right > y->right) - (x->right < y->right);
}

static void add_tekken_merges(const tekken *t, ls_jsonw *w) {
    ls_buf left = {0}, right = {0};
    pair *pairs = NULL;
    ls_jw_field_open(w, "merges", '[');
    for (int32_t i = 0; i < t->n; i++) {
        const ls_str s = token_of(t, i);
        size_t n = 0;
        pairs = ls_realloc(pairs, (s.n + 1) * sizeof *pairs);
        for (size_t cut = 1; cut < s.n; cut++) {
            const pair p = {rank_of(t, s.p, cut), rank_of(t, s.p + cut, s.n - cut)};
            if (p.left >= 0 && p.right >= 0) pairs[n++] = p;
        }
        if (n > 1) qsort(pairs, n, sizeof *pairs, by_ranks);
        for (size_t k = 0; k < n; k++) {
            spell(t, token_of(t, pairs[k].left), &left);
            spell(t, token_of(t, pairs[k].right), &right);
            ls_jw_open(w, '[');
            ls_jw_strn(w, left.p, left.n);
            ls_jw_strn(w, right.p, right.n);
            ls_jw_close(w, ']');
        }
    }
    ls_jw_close(w, ']');
    free(pairs);
    ls_buf_free(&left);
    ls_buf_free(&right);
}

static void add_special(const tekken *t, ls_jsonw *w) {
    static const char *const usual[] = {"<unk>",
                                        "<s>",
                                        "</s>",
                                        "[INST]",
                                        "[/INST]",
                                        "[AVAILABLE_TOOLS]",
                                        "[/AVAILABLE_TOOLS]",
                                        "[TOOL_RESULTS]",
                                        "[/TOOL_RESULTS]",
                                        "[TOOL_CALLS]",
                                        "[IMG]",
                                        "<pad>",
                                        "[IMG_BREAK]",
                                        "[IMG_END]",
                                        "[PREFIX]",
                                        "[MIDDLE]",
                                        "[SUFFIX]",
                                        "[SYSTEM_PROMPT]",
                                        "[/SYSTEM_PROMPT]",
                                        "[TOOL_CONTENT]"};
    const bool listed = ls_json_size(t->special) > 0;
    ls_jw_field_open(w, "added_tokens", '[');
    for (int64_t i = 0; i < t->n_special; i++) {
        const ls_json *one = ls_json_at(t->special, (size_t)i);
        char filler[40];
        snprintf(filler, sizeof filler, "<SPECIAL_%lld>", (long long)i);
        const char *text = one ? ls_json_str(ls_json_get(one, "token_str"), NULL) : NULL;
        if (!text && !listed && (size_t)i < sizeof usual / sizeof *usual) text = usual[i];
        ls_jw_open(w, '{');
        ls_jw_field_int(w, "id", i);
        ls_jw_field_str(w, "content", text ? text : filler);
        ls_jw_field_bool(w, "special", true); // none of them may come from a user's text
        ls_jw_field_bool(w, "normalized", false);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
}

static void write_tekken(const tekken *t, const char *pattern, size_t n_pattern, ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_buf spelled = {0};
    ls_jw_open(&w, '{');
    add_special(t, &w);
    ls_buf_char(out, ',');
    add_split(out, pattern, n_pattern, false);
    ls_jw_field_open(&w, "model", '{');
    ls_jw_field_str(&w, "type", "BPE");
    ls_jw_field_bool(&w, "ignore_merges", true);
    ls_jw_field_open(&w, "vocab", '{');
    for (int32_t i = 0; i < t->n; i++) {
        spell(t, token_of(t, i), &spelled);
        ls_jw_any_key(&w, spelled.p, spelled.n);
        ls_jw_int(&w, t->n_special + i);
    }
    ls_jw_close(&w, '}');
    add_tekken_merges(t, &w);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, '}');
    ls_buf_free(&spelled);
}

ls_code ls_tokenizer_tekken(ls_vocab **out, ls_str text, const ls_tokenizer_files *beside, ls_err *err) {
    static const char names[] = "{\"tokenizer_class\":\"LlamaTokenizer\",\"bos_token\":\"<s>\",\"eos_token\":\"</s>\","
                                "\"unk_token\":\"<unk>\",\"pad_token\":\"<pad>\"}";
    tekken t = {.err = err};
    ls_json *doc = NULL;
    ls_buf written = {0};
    size_t n = 0;
    *out = NULL;
    ls_byte_alphabet(t.alphabet);
    ls_code code = ls_json_parse(&doc, text.p, text.n, "tekken.json", err);
    t.doc = doc;
    if (!code) code = read_tekken(&t);
    const char *pattern = ls_json_str(ls_json_get(ls_json_get(doc, "config"), "pattern"), &n);
    if (!code && !pattern) code = ls_fail(err, LS_E_PARSE, "tekken.json has no pattern");
    if (!code) {
        ls_tokenizer_files files = *beside;
        if (!files.config.n) files.config = (ls_str){names, sizeof names - 1};
        write_tekken(&t, pattern, n, &written);
        code = ls_tokenizer_document(out, (ls_str){written.p, written.n}, "tekken.json", &files, false, err);
    }
    ls_json_free(doc);
    ls_buf_free(&written);
    ls_buf_free(&t.bytes);
    ls_map_free(&t.by_bytes);
    free(t.starts);
    return code;
}
