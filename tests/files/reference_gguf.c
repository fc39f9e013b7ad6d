// What llama.cpp makes of one GGUF file: the ids of texts, and with a number of tokens also its greedy continuation of
// the first. Built by check.py against the llama.cpp of `make bench-peers`.
//   reference_gguf FILE TOKENS TEXT...   -> {"raw":[[...],...],"greedy":[...]}; exit 1: the file is refused
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096 };

static void quiet(enum ggml_log_level level, const char *text, void *ud) {
    (void)ud;
    if (level >= GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static void print_ids(const llama_token *ids, int n) {
    printf("[");
    for (int i = 0; i < n; i++) printf("%s%d", i ? "," : "", ids[i]);
    printf("]");
}

static int best(const float *logits, int n) {
    int at = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

int main(int argc, char **argv) {
    static llama_token ids[MOST], first[MOST];
    int n_first = 0;
    if (argc < 4) return 2;
    llama_log_set(quiet, NULL);
    struct llama_model_params mp = llama_model_default_params();
    const int n_tokens = atoi(argv[2]);
    mp.vocab_only = n_tokens == 0;
    struct llama_model *m = llama_model_load_from_file(argv[1], mp);
    if (!m) return 1;
    const struct llama_vocab *v = llama_model_get_vocab(m);
    printf("{\"raw\":[");
    for (int i = 3; i < argc; i++) {
        const int n = llama_tokenize(v, argv[i], (int)strlen(argv[i]), ids, MOST, true, true);
        if (n < 0) return 1;
        if (i == 3) memcpy(first, ids, sizeof ids), n_first = n;
        printf("%s", i > 3 ? "," : "");
        print_ids(ids, n);
    }
    printf("]");
    if (n_tokens) {
        struct llama_context_params cp = llama_context_default_params();
        cp.n_ctx = 512;
        cp.n_batch = 512;
        cp.n_threads = cp.n_threads_batch = 1;
        cp.type_k = cp.type_v = GGML_TYPE_F32;
        cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
        struct llama_context *c = llama_init_from_model(m, cp);
        if (!c || llama_decode(c, llama_batch_get_one(first, n_first))) return 1;
        for (int i = 0; i < n_tokens; i++) {
            ids[i] = best(llama_get_logits_ith(c, -1), llama_vocab_n_tokens(v));
            if (i + 1 < n_tokens && llama_decode(c, llama_batch_get_one(&ids[i], 1))) return 1;
        }
        printf(",\"greedy\":");
        print_ids(ids, n_tokens);
    }
    puts("}");
    fflush(stdout);
    _Exit(0);
}
