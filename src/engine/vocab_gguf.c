#include "engine/load.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/gguf.h"
#include "text/pretok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
    ls_vocab_source src;
    ls_str *tokens, *merges; // of src
    int32_t *types;
    bool add_bos, add_eos;
    ls_buf variables;
} common;

// An id outside the vocabulary, which some files use for "none", means the default id, as in llama.cpp; -1: none.
static ls_code token_id(const ls_gguf *g, const char *key, size_t n_tokens, int32_t otherwise, int32_t *id,
                        ls_err *err) {
    uint32_t x = UINT32_MAX;
    *id = (size_t)otherwise < n_tokens ? otherwise : -1;
    const ls_code code = ls_gguf_has(g, key) ? ls_gguf_u32(g, key, &x, err) : LS_OK;
    if (!code && x < n_tokens) *id = (int32_t)x;
    return code;
}

static ls_code flag(const ls_gguf *g, const char *key, bool *v, ls_err *err) { // keeps *v if the file has no such key
    return ls_gguf_has(g, key) ? ls_gguf_bool(g, key, v, err) : LS_OK;
}

// The special tokens for chat templates. llama.cpp always passes bos_token and eos_token; transformers also passes the
// others.
static ls_code variables(common *c, const ls_gguf *g, ls_err *err) {
    static const char *const names[][2] = {
        {"tokenizer.ggml.bos_token_id", "bos_token"},       {"tokenizer.ggml.eos_token_id", "eos_token"},
        {"tokenizer.ggml.unknown_token_id", "unk_token"},   {"tokenizer.ggml.padding_token_id", "pad_token"},
        {"tokenizer.ggml.seperator_token_id", "sep_token"}, {"tokenizer.ggml.cls_token_id", "cls_token"},
        {"tokenizer.ggml.mask_token_id", "mask_token"},
    };
    ls_jsonw w = {.out = &c->variables};
    ls_code code = LS_OK;
    int32_t id;
    ls_jw_open(&w, '{');
    for (size_t i = 0; i < sizeof names / sizeof *names && !code; i++) {
        const int32_t otherwise = i == 0 ? c->src.bos : i == 1 ? c->src.eos : -1;
        if ((code = token_id(g, names[i][0], c->src.n_tokens, otherwise, &id, err)) || (id < 0 && i > 1)) continue;
        ls_jw_key(&w, names[i][1]);
        ls_jw_strn(&w, id < 0 ? "" : c->tokens[id].p, id < 0 ? 0 : c->tokens[id].n);
    }
    ls_jw_close(&w, '}');
    ls_buf_char(&c->variables, 0);
    return code;
}

// Tokens that llama.cpp treats as control tokens by their text, regardless of the file: ends of answers and of turns,
// and the marks of code infilling. This program does so only if the file types them as normal tokens: Gemma's </s> is
// HTML, which users write and answers show.
static bool looks_like_control(ls_str t) {
    static const char texts[] =
        "<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> "
        "<|endoftext|> </s> <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> "
        "<end_of_utterance> <eos> <turn|> <|tool_response> "
        "<\uff5cend\u2581of\u2581sentence\uff5c> [e~[ <|fim_prefix|> <fim-prefix> <fim_prefix> "
        "<\uff5cfim\u2581begin\uff5c> <PRE> <|code_prefix|> <|prefix|> <|fim_suffix|> "
        "<fim-suffix> <fim_suffix> <\uff5cfim\u2581hole\uff5c> <SUF> <|code_suffix|> <|suffix|> "
        "<|fim_middle|> <fim-middle> <fim_middle> <\uff5cfim\u2581end\uff5c> <MID> "
        "<|code_middle|> <|middle|> <|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] <|fim_repo|> "
        "<|repo_name|> <fim-repo> <REPO> <reponame> <|file_sep|>";
    return t.n >= 4 && strchr("<[_", *t.p) && ls_str_among(t, texts) >= 0;
}

// Types of all tokens. Without types in the file, and for unknown numbers, the type is normal.
static ls_code token_types(common *c, const ls_gguf *g, ls_err *err) {
    static const char key[] = "tokenizer.ggml.token_type";
    size_t n = c->src.n_tokens;
    const bool has = ls_gguf_has(g, key);
    const ls_code code = has ? ls_gguf_i32_array(g, key, &c->types, &n, err) : LS_OK;
    if (code) return code;
    if (n < c->src.n_tokens)
        return ls_fail(err, LS_E_PARSE, "the file has %zu tokens but %zu token types", c->src.n_tokens, n);
    if (!has) c->types = ls_calloc(c->src.n_tokens, sizeof *c->types);
    for (size_t i = 0; i < c->src.n_tokens; i++) {
        int32_t *type = &c->types[i];
        if (*type < LS_NORMAL || *type > LS_BYTE) *type = LS_NORMAL;
        if (*type == LS_NORMAL && looks_like_control(c->tokens[i])) *type = LS_CONTROL;
    }
    return LS_OK;
}

// bos, eos: of files that name none.
static ls_code read_common(common *c, const ls_gguf *g, int32_t bos, int32_t eos, ls_err *err) {
    ls_code code;
    if ((code = ls_gguf_str_array(g, "tokenizer.ggml.tokens", &c->tokens, &c->src.n_tokens, err)) ||
        (code = token_types(c, g, err)) ||
        (code = token_id(g, "tokenizer.ggml.bos_token_id", c->src.n_tokens, bos, &c->src.bos, err)) ||
        (code = token_id(g, "tokenizer.ggml.eos_token_id", c->src.n_tokens, eos, &c->src.eos, err)) ||
        (code = flag(g, "tokenizer.ggml.add_bos_token", &c->add_bos, err)) ||
        (code = flag(g, "tokenizer.ggml.add_eos_token", &c->add_eos, err)) || (code = variables(c, g, err)))
        return code;
    return LS_OK;
}

static ls_code make(ls_vocab **out, common *c, ls_err *err) {
    c->src.tokens = c->tokens;
    c->src.types = c->types;
    c->src.bare = !c->add_bos;
    c->src.ended = c->add_eos;
    c->src.variables = c->variables.p;
    return ls_vocab_new(out, &c->src, err);
}

static ls_code with_merges(ls_vocab **out, common *c, const ls_gguf *g, bool gemma, ls_err *err) {
    char pre_name[64] = "gpt-2";
    ls_str pre;
    ls_code code;
    if (gemma) snprintf(pre_name, sizeof pre_name, "gemma4"); // regardless of tokenizer.ggml.pre
    else if (ls_gguf_has(g, "tokenizer.ggml.pre")) {
        if ((code = ls_gguf_str(g, "tokenizer.ggml.pre", &pre, err))) return code;
        snprintf(pre_name, sizeof pre_name, "%.*s", (int)(pre.n < 63 ? pre.n : 63), pre.p);
    }
    if (gemma) c->add_bos = true; // regardless of the file
    else if (!ls_gguf_has(g, "tokenizer.ggml.add_bos_token")) c->add_bos = ls_pretok_traits(pre_name) & LS_PRE_BEGINS;
    if ((code = ls_gguf_str_array(g, "tokenizer.ggml.merges", &c->merges, &c->src.n_merges, err))) return code;
    c->src.merges = c->merges;
    c->src.pre = pre_name;
    return make(out, c, err);
}

// Tokens that are cut out of a text before the rest is tokenized. A GGUF file has no flags for stripping: llama.cpp
// strips the space after Phi-3's tokens, which it detects by the model's name. If the tokenizer puts a space in front
// of a text, user-defined symbols belong to these tokens, because a space also follows each of them.
static size_t added_tokens(const common *c, const ls_gguf *g, bool spaced, ls_added *out) {
    static const char *const kept[] = {"<unk>", "<s>", "<|endoftext|>"};
    ls_str name = {"", 0};
    ls_gguf_str(g, "general.name", &name, NULL);
    bool strips = false;
    size_t n = 0;
    for (size_t i = 0; i + 4 <= name.n; i++)
        strips |= !strncasecmp(name.p + i, "phi3", 4) || (i + 5 <= name.n && !strncasecmp(name.p + i, "phi-3", 5));
    for (size_t i = 0; i < c->src.n_tokens; i++) {
        const ls_str t = c->tokens[i];
        const bool user = c->types[i] == LS_USER_DEFINED;
        if (!t.n || (user ? (!spaced && !strips) || memchr(t.p, ' ', t.n)
                          : c->types[i] != LS_CONTROL && c->types[i] != LS_UNKNOWN))
            continue;
        bool strip = strips;
        for (size_t k = 0; k < 3; k++) strip &= !ls_str_is(t, kept[k]);
        out[n++] = (ls_added){.id = (int32_t)i, .special = !user, .rstrip = strip};
    }
    return n;
}

static ls_code sentencepiece(ls_vocab **out, common *c, const ls_gguf *g, bool unigram, ls_err *err) {
    if (!ls_gguf_has(g, "tokenizer.ggml.add_bos_token")) c->add_bos = !unigram;
    if (!ls_gguf_has(g, "tokenizer.ggml.add_eos_token")) c->add_eos = unigram;
    ls_sentencepiece_rules rules = {.dummy_prefix = true, .remove_extra = unigram, .escape = true};
    bool byte_fallback = !unigram;
    float *scores = NULL;
    int32_t *map = NULL;
    size_t n_scores = c->src.n_tokens, n_map = 0;
    ls_code code;
    if ((ls_gguf_has(g, "tokenizer.ggml.scores") &&
         (code = ls_gguf_f32_array(g, "tokenizer.ggml.scores", &scores, &n_scores, err))) ||
        (code = flag(g, "tokenizer.ggml.add_space_prefix", &rules.dummy_prefix, err)) ||
        (code = flag(g, "tokenizer.ggml.remove_extra_whitespaces", &rules.remove_extra, err)) ||
        (ls_gguf_has(g, "tokenizer.ggml.precompiled_charsmap") &&
         (code = ls_gguf_i32_array(g, "tokenizer.ggml.precompiled_charsmap", &map, &n_map, err)))) {
    } else if (n_scores < c->src.n_tokens)
        code = ls_fail(err, LS_E_PARSE, "the file has %zu tokens but %zu scores", c->src.n_tokens, n_scores);
    else {
        double *wide = ls_calloc(c->src.n_tokens, sizeof *wide);
        unsigned char *bytes = ls_calloc(n_map, 1);
        ls_added *added = ls_calloc(c->src.n_tokens, sizeof *added);
        for (size_t i = 0; i < c->src.n_tokens; i++) {
            wide[i] = scores ? (double)scores[i] : 0;
            byte_fallback |= c->types[i] == LS_BYTE;
        }
        for (size_t i = 0; i < n_map; i++) bytes[i] = (unsigned char)map[i];
        rules.charsmap = bytes;
        rules.n_charsmap = n_map;
        c->src.unigram = unigram;
        c->src.byte_fallback = byte_fallback;
        c->src.rules = rules;
        c->src.scores = wide;
        c->src.added = added;
        c->src.n_added = added_tokens(c, g, rules.dummy_prefix, added);
        code = make(out, c, err);
        free(wide);
        free(bytes);
        free(added);
    }
    free(scores);
    free(map);
    return code;
}

ls_code ls_vocab_gguf(ls_vocab **out, const ls_gguf *g, ls_err *err) {
    ls_str kind;
    common c = {0};
    *out = NULL;
    ls_code code = ls_gguf_str(g, "tokenizer.ggml.model", &kind, err);
    if (code) return code;
    // gemma4: llama.cpp's name for Gemma's tokenizer where it is stored with merges instead of scores
    const bool bytes = ls_str_is(kind, "gpt2"), gemma = ls_str_is(kind, "gemma4"), llama = ls_str_is(kind, "llama"),
               t5 = ls_str_is(kind, "t5");
    if (ls_str_is(kind, "bert"))
        code =
            ls_fail(err, LS_E_UNSUPPORTED, "tokenizer 'bert' (WordPiece) is for encoders; only decoders are supported");
    else if (ls_str_is(kind, "none") || ls_str_is(kind, "no_vocab"))
        code = ls_fail(err, LS_E_UNSUPPORTED, "the file has no vocabulary (tokenizer '%.*s')", (int)kind.n, kind.p);
    else if (!bytes && !gemma && !llama && !t5)
        code = ls_fail(err, LS_E_UNSUPPORTED, "tokenizer '%.*s' is not supported (supported: gpt2, gemma4, llama, t5)",
                       (int)(kind.n < 64 ? kind.n : 64), kind.p);
    if (!code) code = read_common(&c, g, llama ? 1 : -1, llama ? 2 : t5 ? 1 : -1, err);
    if (!code) code = llama || t5 ? sentencepiece(out, &c, g, t5, err) : with_merges(out, &c, g, gemma, err);
    static const char *const ends[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
    for (size_t i = 0; i < 2 && !code; i++) {
        int32_t id;
        code = token_id(g, ends[i], c.src.n_tokens, -1, &id, err);
        if (!code) ls_vocab_add_end(*out, id);
    }
    if (code) {
        ls_vocab_free(*out);
        *out = NULL;
    }
    free(c.tokens);
    free(c.types);
    free(c.merges);
    ls_buf_free(&c.variables);
    return code;
}
