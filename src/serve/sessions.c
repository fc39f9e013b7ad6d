#include "serve/sessions.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/system.h"

#include <stdlib.h>

enum { COPY_FROM = 32 }; // tokens: fewer are read again as fast as they are copied

static void drop(ls_sessions *s, int i) {
    ls_session_free(s->kept[i]->session);
    free(s->kept[i]);
    s->kept[i] = s->kept[--s->n];
}

// The least recently used one that no request has, except `but`; -1: there is no other.
static int oldest(const ls_sessions *s, int but) {
    int found = -1;
    for (int i = 0; i < s->n; i++)
        if (i != but && !s->kept[i]->busy && (found < 0 || s->kept[i]->used < s->kept[found]->used)) found = i;
    return found;
}

// Of the client's: the one that begins most like the prompt; of equal ones the last that was used. -1: there is none.
static int closest(const ls_sessions *s, int key, const ls_ids *prompt, size_t *tokens) {
    int found = -1;
    *tokens = 0;
    for (int i = 0; i < s->n; i++) {
        const ls_ids *context = &ls_session_conversation(s->kept[i]->session)->context;
        if (s->kept[i]->key != key) continue;
        const size_t n = ls_ids_common(context->p, context->n, prompt->p, prompt->n);
        if (found >= 0 && n < *tokens) continue;
        if (found >= 0 && n == *tokens && s->kept[i]->used < s->kept[found]->used) continue;
        found = i;
        *tokens = n;
    }
    return found;
}

static uint64_t bytes(const ls_sessions *s) {
    uint64_t n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->kept[i]->most * s->model->engine->kv_bytes + ls_session_bytes(s->kept[i]->session);
    return n;
}

// A new one, which knows what the client's last one has learnt. like: the closest one, which it shares `tokens` with;
// -1: none.
static ls_code make(ls_sessions *s, int key, int like, size_t tokens, const ls_decode_options *opt, int *out,
                    ls_err *err) {
    ls_session *made;
    ls_buf learnt = {0};
    uint64_t history = 0;
    ls_code code = ls_session_new(&made, s->model, opt, err);
    if (code) return code;
    code = ls_session_calibrate(made, LS_COSTS_AT_ONCE, NULL, NULL, err);
    if (!code && like >= 0) {
        ls_session_snapshot(s->kept[like]->session, &learnt);
        if (learnt.n) {
            ls_session_restore(made, &learnt);
            // the drafter of one that is being answered was shown a part of what its history has
            const uint64_t parts[] = {s->kept[like]->history, ls_now_ns()};
            history = s->kept[like]->busy ? ls_hash_bytes(parts, sizeof parts) : parts[0];
        }
        if (tokens >= COPY_FROM) code = ls_session_copy(made, s->kept[like]->session, tokens, err);
        ls_buf_free(&learnt);
    }
    if (code) {
        ls_session_free(made);
        return code;
    }
    s->kept = ls_realloc(s->kept, (size_t)(s->n + 1) * sizeof *s->kept);
    s->kept[s->n] = ls_calloc(1, sizeof **s->kept);
    *s->kept[s->n] = (ls_kept_session){.session = made, .key = key, .history = history};
    *out = s->n++;
    return LS_OK;
}

ls_code ls_sessions_take(ls_sessions *s, int key, const ls_ids *prompt, const ls_decode_options *opt,
                         ls_kept_session **out, ls_err *err) {
    size_t tokens = 0;
    ls_code code = LS_OK;
    for (int i = s->fresh ? s->n : 0; i-- > 0;)
        if (!s->kept[i]->busy) drop(s, i);
    for (int i = 0; i < s->n; i++) { // their last answers are known now
        const size_t n = ls_session_conversation(s->kept[i]->session)->context.n;
        if (n > s->kept[i]->most) s->kept[i]->most = n;
    }
    int at = s->fresh ? -1 : closest(s, key, prompt, &tokens);
    // a conversation that mostly differs stays for its own next request; of one that is being answered, the beginning
    // is copied
    const bool goes_on =
        at >= 0 && !s->kept[at]->busy && 2 * tokens >= ls_session_conversation(s->kept[at]->session)->context.n;
    if (!goes_on && s->n < s->max_kept) code = make(s, key, at, tokens, opt, &at, err);
    else if (!goes_on) {
        int old = oldest(s, at);
        if (old < 0) old = at;
        if (s->kept[old]->key != key) { // its memory is another client's
            drop(s, old);
            at = closest(s, key, prompt, &tokens); // the places have changed
            code = make(s, key, at, tokens, opt, &at, err);
        } else if (old != at) {
            if (tokens >= COPY_FROM) code = ls_session_copy(s->kept[old]->session, s->kept[at]->session, tokens, err);
            at = old;
        }
    }
    if (!code) code = ls_session_set(s->kept[at]->session, opt, err);
    if (code) return code;
    *out = s->kept[at];
    s->kept[at]->used = ++s->uses;
    s->kept[at]->busy = true;
    for (int old; bytes(s) > s->max_bytes && (old = oldest(s, -1)) >= 0;) drop(s, old);
    return LS_OK;
}

void ls_kept_show(ls_kept_session *k, const void *p, size_t n) {
    const uint64_t parts[] = {k->history, ls_hash_bytes(p, n)};
    k->history = ls_hash_bytes(parts, sizeof parts);
}

void ls_sessions_free(ls_sessions *s) {
    while (s->n) drop(s, 0);
    free(s->kept);
    s->kept = NULL;
}
