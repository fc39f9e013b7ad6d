#include "trace/turns.h"

#include <stdio.h>
#include <string.h>

void ls_turns_free(ls_turns *t) {
    ls_ids_free(&t->context);
    ls_ids_free(&t->starts);
}

size_t ls_turns_count(const ls_turns *t) {
    return t->starts.n / 2;
}

// Whether the prompt begins with the tokens that it keeps of the conversation; all of them if `kept` is not recorded.
static bool goes_on(const ls_turns *t, const ls_trace_header *h) {
    const size_t all = t->context.n + (t->uncommitted >= 0), kept = h->kept < 0 ? all : (size_t)h->kept,
                 committed = kept < t->context.n ? kept : t->context.n;
    return !strcmp(t->sha256, h->run.sha256) && !strcmp(t->model, h->run.model) && kept <= all && kept <= h->prompt.n &&
           !memcmp(t->context.p, h->prompt.p, committed * sizeof *t->context.p) &&
           (kept <= t->context.n || h->prompt.p[t->context.n] == t->uncommitted);
}

uint32_t ls_turns_begin(ls_turns *t, const ls_trace_header *h) {
    const size_t count = ls_turns_count(t), turn = h->turn - t->first;
    bool same = count && h->turn > t->first && turn <= count;
    if (same && turn < count) { // an earlier turn was edited: remove the later turns
        if (h->kept < 0) {
            t->context.n = (size_t)t->starts.p[2 * turn];
            t->uncommitted = t->starts.p[2 * turn + 1];
        }
        t->starts.n = 2 * turn;
    }
    same = same && goes_on(t, h);
    t->kept = !same ? 0 : h->kept >= 0 ? (size_t)h->kept : t->context.n + (t->uncommitted >= 0);
    if (!same) {
        t->context.n = t->starts.n = 0;
        t->uncommitted = -1;
        t->first = h->turn;
        snprintf(t->sha256, sizeof t->sha256, "%s", h->run.sha256);
        snprintf(t->model, sizeof t->model, "%s", h->run.model);
    }
    ls_ids_push(&t->starts, (int32_t)t->context.n);
    ls_ids_push(&t->starts, t->uncommitted);
    t->context.n = 0;
    ls_ids_add(&t->context, h->prompt.p, h->prompt.n);
    t->uncommitted = -1;
    return (uint32_t)ls_turns_count(t) - 1;
}

size_t ls_turns_begun(const ls_turns *t, const ls_trace_header *h) {
    return h->begun > 0 && (size_t)h->begun < h->prompt.n - t->kept ? (size_t)h->begun : 0;
}

void ls_turns_step(ls_turns *t, const ls_step *s) {
    const bool ends = s->finish == LS_FINISH_EOS; // the end-of-sequence token is emitted, but never committed
    if (t->uncommitted >= 0) {                    // the turn was interrupted there and continued
        ls_ids_push(&t->context, t->uncommitted);
        t->uncommitted = -1;
    }
    for (int i = 0; s->forward && i < s->n_emitted - ends; i++)
        ls_ids_push(&t->context, s->tree.nodes[s->path[i]].token);
    if (!s->forward && !ends) t->uncommitted = s->tree.nodes[0].token;
}
