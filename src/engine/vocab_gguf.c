#include "engine/vocab_gguf.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "text/pretok.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_str *tokens, *merges;
    int32_t *types;
    size_t n_tokens, n_merges;
    int32_t bos, eos; // -1: none
    bool add_bos, add_eos;
    ls_buf variables;
} common;

static bool is(ls_str s, const char *name) {
    return s.n == strlen(name) && !memcmp(s.p, name, s.n);
}

static ls_code token_id(const ls_gguf *g, const char *key, size_t n_tokens, int32_t *id, ls_err *err) {
    uint32_t x;
    *id = -1;
    if (!ls_gguf_has(g, key)) return LS_OK;
    ls_code code = ls_gguf_u32(g, key, &x, err);
    if (code) return code;
    if (x >= n_tokens) // some files say "none" so
        return x == UINT32_MAX ? LS_OK
                               : ls_fail(err, LS_E_PARSE, "%s is %u, outside the vocabulary of %zu", key, x, n_tokens);
    *id = (int32_t)x;
    return LS_OK;
}

static ls_code flag(const ls_gguf *g, const char *key, bool *v, ls_err *err) { // keeps *v where the file says nothing
    return ls_gguf_has(g, key) ? ls_gguf_bool(g, key, v, err) : LS_OK;
}

// What chat templates are given. llama.cpp gives them bos_token and eos_token always, transformers also the others.
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
        if ((code = token_id(g, names[i][0], c->n_tokens, &id, err)) || (id < 0 && i > 1)) continue;
        ls_jw_key(&w, names[i][1]);
        ls_jw_strn(&w, id < 0 ? "" : c->tokens[id].p, id < 0 ? 0 : c->tokens[id].n);
    }
    ls_jw_close(&w, '}');
    ls_buf_char(&c->variables, 0);
    return code;
}

static ls_code read_common(common *c, const ls_gguf *g, ls_err *err) {
    size_t n_types = 0;
    ls_code code;
    if ((code = ls_gguf_str_array(g, "tokenizer.ggml.tokens", &c->tokens, &c->n_tokens, err)) ||
        (code = ls_gguf_i32_array(g, "tokenizer.ggml.token_type", &c->types, &n_types, err)) ||
        (code = token_id(g, "tokenizer.ggml.bos_token_id", c->n_tokens, &c->bos, err)) ||
        (code = token_id(g, "tokenizer.ggml.eos_token_id", c->n_tokens, &c->eos, err)) ||
        (code = flag(g, "tokenizer.ggml.add_bos_token", &c->add_bos, err)) ||
        (code = flag(g, "tokenizer.ggml.add_eos_token", &c->add_eos, err)) || (code = variables(c, g, err)))
        return code;
    if (n_types != c->n_tokens)
        return ls_fail(err, LS_E_PARSE, "the file has %zu tokens but %zu token types", c->n_tokens, n_types);
    return LS_OK;
}

static ls_code with_merges(ls_vocab **out, common *c, const ls_gguf *g, bool gemma, ls_err *err) {
    char pre_name[64] = "gpt-2";
    ls_str pre;
    ls_code code;
    if (gemma) snprintf(pre_name, sizeof pre_name, "gemma4"); // whatever tokenizer.ggml.pre says
    else if (ls_gguf_has(g, "tokenizer.ggml.pre")) {
        if ((code = ls_gguf_str(g, "tokenizer.ggml.pre", &pre, err))) return code;
        snprintf(pre_name, sizeof pre_name, "%.*s", (int)(pre.n < 63 ? pre.n : 63), pre.p);
    }
    if (!ls_gguf_has(g, "tokenizer.ggml.add_bos_token")) c->add_bos = ls_pretok_traits(pre_name) & LS_PRE_BEGINS;
    if ((code = ls_gguf_str_array(g, "tokenizer.ggml.merges", &c->merges, &c->n_merges, err))) return code;
    return ls_vocab_new(out,
                        &(ls_vocab_source){c->tokens, c->n_tokens, c->types, c->merges, c->n_merges, pre_name, c->bos,
                                           c->eos, !c->add_bos, c->add_eos, c->variables.p},
                        err);
}

static ls_code sentencepiece(ls_vocab **out, common *c, const ls_gguf *g, bool unigram, ls_err *err) {
    if (!ls_gguf_has(g, "tokenizer.ggml.add_bos_token")) c->add_bos = !unigram;
    if (!ls_gguf_has(g, "tokenizer.ggml.add_eos_token")) c->add_eos = unigram;
    ls_sentencepiece_source src = {
        .tokens = c->tokens,
        .types = c->types,
        .n_tokens = c->n_tokens,
        .unigram = unigram,
        .dummy_prefix = true,
        .remove_extra = unigram,
        .escape = true,
        .bos = c->bos,
        .eos = c->eos,
        .bare = !c->add_bos,
        .ended = c->add_eos,
        .variables = c->variables.p,
    };
    float *scores = NULL;
    int32_t *map = NULL;
    size_t n_scores = 0, n_map = 0;
    ls_code code;
    if ((code = ls_gguf_f32_array(g, "tokenizer.ggml.scores", &scores, &n_scores, err)) ||
        (code = flag(g, "tokenizer.ggml.add_space_prefix", &src.dummy_prefix, err)) ||
        (code = flag(g, "tokenizer.ggml.remove_extra_whitespaces", &src.remove_extra, err)) ||
        (ls_gguf_has(g, "tokenizer.ggml.precompiled_charsmap") &&
         (code = ls_gguf_i32_array(g, "tokenizer.ggml.precompiled_charsmap", &map, &n_map, err)))) {
    } else if (n_scores != c->n_tokens)
        code = ls_fail(err, LS_E_PARSE, "the file has %zu tokens but %zu scores", c->n_tokens, n_scores);
    else {
        double *wide = ls_calloc(n_scores, sizeof *wide);
        unsigned char *bytes = ls_calloc(n_map, 1);
        for (size_t i = 0; i < n_scores; i++) {
            wide[i] = (double)scores[i];
            src.byte_fallback = src.byte_fallback || c->types[i] == 6;
        }
        for (size_t i = 0; i < n_map; i++) bytes[i] = (unsigned char)map[i];
        src.scores = wide;
        src.charsmap = bytes;
        src.n_charsmap = n_map;
        code = ls_vocab_new_sentencepiece(out, &src, err);
        free(wide);
        free(bytes);
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
    const bool bytes = is(kind, "gpt2"), gemma = is(kind, "gemma4"), llama = is(kind, "llama"), t5 = is(kind, "t5");
    if (is(kind, "bert"))
        code = ls_fail(err, LS_E_UNSUPPORTED,
                       "tokenizer 'bert' is WordPiece, an encoder's vocabulary: this program runs decoders");
    else if (is(kind, "none") || is(kind, "no_vocab"))
        code = ls_fail(err, LS_E_UNSUPPORTED, "the file says that it has no vocabulary (tokenizer '%.*s')", (int)kind.n,
                       kind.p);
    else if (!bytes && !gemma && !llama && !t5)
        code = ls_fail(err, LS_E_UNSUPPORTED, "tokenizer '%.*s' is not supported (supported: gpt2, gemma4, llama, t5)",
                       (int)(kind.n < 64 ? kind.n : 64), kind.p);
    if (!code) code = read_common(&c, g, err);
    if (!code) code = llama || t5 ? sentencepiece(out, &c, g, t5, err) : with_merges(out, &c, g, gemma, err);
    if (!code) {
        static const char *const ends[] = {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
        for (size_t i = 0; i < 2 && !code; i++) {
            int32_t id;
            code = token_id(g, ends[i], c.n_tokens, &id, err);
            if (!code) ls_vocab_add_end(*out, id);
        }
        if (code) {
            ls_vocab_free(*out);
            *out = NULL;
        }
    }
    free(c.tokens);
    free(c.types);
    free(c.merges);
    ls_buf_free(&c.variables);
    return code;
}
