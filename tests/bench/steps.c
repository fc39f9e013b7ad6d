// What a forward costs on this machine, by its rows, and where the time goes. steps MODEL DTYPE CONTEXT [ROUNDS]
// [WEIGHTS]: one JSON object.
//
// Sizes take turns, round by round; each figure is the least of all rounds, its parts those of that forward. Trees are
// binary: row i hangs off row (i - 1) / 2.
#include "base/mem.h"
#include "base/system.h"
#include "engine/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 12, MOST = 64 };
static const int32_t sizes[SIZES] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, MOST};
static const char *const names[LST_PARTS] = {"norms", "linear", "rotate", "attention", "activation",
                                             "head",  "rows",   "ranks",  "wait"};

int main(int argc, char **argv) {
    ls_err err = {0};
    ls_model model;
    ls_kv_cache *t;
    const int32_t context = argc > 3 ? atoi(argv[3]) : 0;
    const int rounds = argc > 4 ? atoi(argv[4]) : 30;
    if (context < 1 || context > 100000 || rounds < 1) {
        fprintf(stderr, "usage: steps MODEL DTYPE CONTEXT [ROUNDS] [WEIGHTS]\n");
        return 2;
    }
    const ls_model_options o = {
        .name = argv[1],
        .engine = {
            .device = "cpu", .dtype = argv[2], .weights = argc > 5 ? argv[5] : "auto", .context = context + MOST}};
    if (ls_model_load(&model, &o, &err) || model.engine->kv_cache(model.engine, 0, &t, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    const lst_sampling greedy = {.top_p = 1};
    static lst_row rows[MOST];
    int32_t ids[MOST], parents[MOST], *prompt = ls_malloc((size_t)context * sizeof *prompt);
    double best[SIZES], parts[SIZES][LST_PARTS], now[LST_PARTS];
    for (int32_t i = 0; i < context; i++)
        prompt[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)model.engine->n_vocab);
    for (int32_t i = 0; i < MOST; i++) ids[i] = prompt[i % context], parents[i] = i ? (i - 1) / 2 : -1;
    for (int i = 0; i < SIZES; i++) best[i] = INFINITY;
    const uint64_t start = ls_now_ns();
    if (t->prefill(t, prompt, context, &greedy, rows, NULL, NULL, &err) || t->parts(t, now, &err)) goto failed;
    const double prefill_ms = (double)(ls_now_ns() - start) / 1e6;
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < SIZES; i++) {
            memset(now, 0, sizeof now);
            const uint64_t begun = ls_now_ns();
            if (t->forward_tree(t, ids, parents, sizes[i], &greedy, rows, &err)) goto failed;
            const double ms = (double)(ls_now_ns() - begun) / 1e6;
            if (ms >= best[i]) continue;
            best[i] = ms;
            memcpy(parts[i], now, sizeof now);
        }
    printf("{\"dtype\": \"%s\", \"kernel\": \"%s\", \"context\": %d, \"prefill_ms\": %.2f, \"rows\": {", argv[2],
           model.engine->kernel, context, prefill_ms);
    for (int i = 0; i < SIZES; i++) {
        printf("%s\"%d\": {\"ms\": %.4f", i ? ", " : "", sizes[i], best[i]);
        for (int p = 0; p < LST_PARTS; p++) printf(", \"%s\": %.4f", names[p], parts[i][p] / 1e3);
        printf("}");
    }
    printf("}}\n");
    free(prompt);
    t->free(t);
    ls_model_free(&model);
    return 0;
failed:
    fprintf(stderr, "%s\n", err.msg);
    return 1;
}
