#include "decode/tokens.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ID = 1 << 24, SPARE = 1024 };

void ls_tokens_learn(ls_tokens *t, const ls_event *e) {
    for (int32_t i = 0; i < e->tokens.n; i++) {
        const int32_t id = e->tokens.ids[i], from = i ? e->tokens.ends[i - 1] : 0;
        if (id < 0 || id > MOST_ID) continue;
        if (id >= t->n) {
            const int32_t n = 2 * t->n > id + SPARE && t->n <= MOST_ID / 2 ? 2 * t->n : id + SPARE;
            t->p = ls_realloc(t->p, (size_t)n * sizeof *t->p);
            memset(t->p + t->n, 0, (size_t)(n - t->n) * sizeof *t->p);
            t->n = n;
        }
        free(t->p[id].bytes);
        t->p[id] = (ls_token){ls_strndup(e->tokens.bytes + from, (size_t)(e->tokens.ends[i] - from)),
                              e->tokens.ends[i] - from, e->tokens.special[i]};
    }
}

void ls_tokens_free(ls_tokens *t) {
    for (int32_t i = 0; i < t->n; i++) free(t->p[i].bytes);
    free(t->p);
    *t = (ls_tokens){0};
}

const ls_token *ls_token_of(const ls_tokens *t, int32_t id) {
    static const ls_token unknown = {.bytes = "?", .n = 1};
    return id >= 0 && id < t->n && t->p[id].bytes ? &t->p[id] : &unknown;
}
