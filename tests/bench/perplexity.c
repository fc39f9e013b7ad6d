// Perplexity of the default model on a text, for each dtype: what an arithmetic costs in quality.
// perplexity MODEL TEXT DTYPE...: one JSON object a line. The dtype "cuda" is the GPU's arithmetic.
//
// The text is cut into pieces of at most 512 tokens. Each piece is decoded as chains of 64 rows; a row says how likely
// its own token was (parent_logit - parent_lse). Perplexity = exp(mean of -log p) over every token but each piece's
// first.
#include "base/file.h"
#include "engine/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 512, CHAIN = 64 };

static double negative_log_p(ls_kv_cache *b, const int32_t *ids, int32_t n, ls_err *err) {
    const lst_sampling greedy = {.top_p = 1};
    static lst_row rows[CHAIN];
    int32_t chain[CHAIN], parents[CHAIN];
    for (int32_t i = 0; i < CHAIN; i++) chain[i] = i, parents[i] = i - 1;
    double sum = 0;
    if (b->rewind(b, 0, err) || b->prefill(b, ids, 1, &greedy, rows, NULL, NULL, err)) return NAN;
    for (int32_t at = 1; at < n; at += CHAIN) {
        const int32_t m = n - at < CHAIN ? n - at : CHAIN;
        if (b->forward_tree(b, ids + at, parents, m, &greedy, rows, err) || b->keep_path(b, chain, m, err)) return NAN;
        for (int32_t i = 0; i < m; i++) sum += (double)rows[i].parent_lse - (double)rows[i].parent_logit;
    }
    return sum;
}

int main(int argc, char **argv) {
    ls_err err = {0};
    ls_buf text = {0};
    FILE *f = argc < 4 ? NULL : fopen(argv[2], "r");
    if (!f || ls_read_all(&text, f, argv[2], 64 << 20, &err)) {
        fprintf(stderr, "usage: perplexity MODEL TEXT DTYPE... (TEXT: a readable file)\n");
        return 2;
    }
    fclose(f);
    for (int a = 3; a < argc; a++) {
        ls_model model;
        ls_ids ids = {0};
        ls_kv_cache *kv_cache;
        const bool gpu = !strcmp(argv[a], "cuda");
        const ls_model_options o = {
            .name = argv[1],
            .engine = {.device = gpu ? "cuda" : "cpu", .dtype = gpu ? "auto" : argv[a], .weights = "auto"}};
        if (ls_model_load(&model, &o, &err) || ls_encode(model.vocab, text.p, text.n, false, &ids, &err) ||
            model.engine->kv_cache(model.engine, 0, &kv_cache, &err)) {
            fprintf(stderr, "%s\n", err.msg);
            return 1;
        }
        double sum = 0;
        size_t tokens = 0;
        for (size_t at = 0; at + 1 < ids.n; at += PIECE) {
            const int32_t n = (int32_t)(ids.n - at < PIECE ? ids.n - at : PIECE);
            sum += negative_log_p(kv_cache, ids.p + at, n, &err);
            tokens += (size_t)n - 1;
        }
        printf("{\"dtype\": \"%s\", \"kernel\": \"%s\", \"tokens\": %zu, \"perplexity\": %.6f}\n", argv[a],
               model.engine->kernel, tokens, exp(sum / (double)tokens));
        fflush(stdout);
        ls_ids_free(&ids);
        kv_cache->free(kv_cache);
        ls_model_free(&model);
    }
    ls_buf_free(&text);
    return 0;
}
