#include "decode/bigrams.h"
#include "base/mem.h"
#include "decode/session_state.h"
#include "spec/recall.h"

#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 64 }; // rows of a forward: the root, and tokens after it

// next[i]: the prediction after token from + i where an answer to a short prompt begins: in the place of an answer's
// tokens predictions are more like those of answers than behind nothing.
static ls_code ask(const ls_model *m, const ls_ids *prompt, int32_t from, int32_t end, ls_successor *next,
                   ls_progress progress, void *ud, int32_t *n, ls_err *err) {
    const lst_sampling greedy = {.top_p = 1};
    int32_t ids[TOGETHER] = {prompt->p[prompt->n - 1]}, parents[TOGETHER] = {-1};
    lst_row *rows = ls_malloc(TOGETHER * sizeof *rows);
    ls_kv_cache *kv;
    ls_code code = m->engine->kv_cache(m->engine, 0, &kv, err);
    if (code) kv = NULL;
    if (!code && prompt->n > 1)
        code = kv->prefill(kv, prompt->p, (int32_t)prompt->n - 1, &greedy, rows, NULL, NULL, err);
    for (int32_t at = from; !code && at < end && progress(ud, "asking what follows each token", at / (double)end);) {
        int32_t some = 0;
        for (; some + 1 < TOGETHER && at + some < end; some++) ids[some + 1] = at + some, parents[some + 1] = 0;
        code = kv->forward_tree(kv, ids, parents, some + 1, &greedy, rows, err);
        if (code) break;
        for (int32_t i = 0; i < some; i++) {
            ls_node node;
            ls_session_complete(&node, &rows[i + 1]);
            next[(*n)++] = ls_successors_of(&node);
        }
        at += some;
    }
    if (kv) kv->free(kv);
    free(rows);
    return code;
}

ls_code ls_bigrams_learn(const ls_model *m, ls_prompt_format format, const char *system, bool anew,
                         ls_progress progress, void *ud, int32_t *n, char **path, ls_err *err) {
    static const char text[] = "Tell me about it.";
    const ls_draft_setup place = {
        .tokenizer = m->name, .n_vocab = m->engine->n_vocab, .tokenizer_id = ls_vocab_id(m->vocab)};
    const int32_t size = ls_vocab_size(m->vocab), end = size < LS_BIGRAMS ? size : LS_BIGRAMS,
                  from = anew ? 0 : ls_bigrams_kept(&place);
    ls_successor *next = ls_malloc((size_t)end * sizeof *next);
    ls_ids prompt = {0};
    *path = NULL;
    *n = 0;
    ls_code code = ls_prompt_encode(m, format, system, text, strlen(text), &prompt, err);
    if (!code) code = ask(m, &prompt, from, end, next, progress, ud, n, err);
    if (code == LS_E_CANCELLED && *n) code = LS_OK; // an interrupt keeps what is there
    if (!code && !*n) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
    if (!code) code = ls_bigrams_write(next, from, *n, &place, path, err);
    *n += from;
    ls_ids_free(&prompt);
    free(next);
    return code;
}
