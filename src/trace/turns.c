#include "trace/turns.h"

#include <stdio.h>
#include <string.h>

void ls_turns_free(ls_turns *t) {
    ls_conversation_free(t->conversation);
    t->conversation = NULL;
}

// Whether the prompt begins with the first n tokens of the conversation.
static bool goes_on(const ls_turns *t, const ls_trace_header *h, size_t n) {
    const ls_conversation *d = t->conversation;
    const size_t committed = n < d->context.n ? n : d->context.n;
    return !strcmp(t->sha256, h->run.sha256) && !strcmp(t->model, h->run.model) && n <= ls_conversation_tokens(d) &&
           n <= h->prompt.n && !memcmp(d->context.p, h->prompt.p, committed * sizeof *h->prompt.p) &&
           (n == committed || h->prompt.p[committed] == d->uncommitted);
}

// What a header adds to the conversation. *turn: its index. Without recorded numbers the prompt keeps all tokens before
// it.
static ls_next_prompt prompt_of(ls_turns *t, const ls_trace_header *h, size_t *turn) {
    if (!t->conversation) t->conversation = ls_conversation_new();
    const ls_conversation *d = t->conversation;
    ls_next_prompt p = {.text = {h->prompt_text.n ? h->prompt_text.p : "", h->prompt_text.n}};
    *turn = h->turn - t->first;
    if (d->n_turns && h->turn > t->first && *turn <= d->n_turns) {
        p.kept = h->kept >= 0 ? (size_t)h->kept : *turn < d->n_turns ? d->turns[*turn].kept : ls_conversation_tokens(d);
        if (!goes_on(t, h, p.kept)) *turn = 0;
    } else *turn = 0;
    if (*turn == 0) { // another conversation
        p.kept = 0;
        t->first = h->turn;
        snprintf(t->sha256, sizeof t->sha256, "%s", h->run.sha256);
        snprintf(t->model, sizeof t->model, "%s", h->run.model);
        ls_conversation_clear(t->conversation);
    }
    ls_ids_add(&p.ids, h->prompt.p + p.kept, h->prompt.n - p.kept);
    if (h->begun > 0 && (size_t)h->begun < p.ids.n) p.n_begun = (size_t)h->begun;
    return p;
}

uint32_t ls_turns_begin(ls_turns *t, const ls_trace_header *h) {
    size_t turn;
    ls_next_prompt p = prompt_of(t, h, &turn);
    ls_conversation_begin(t->conversation, turn, &p);
    ls_next_prompt_free(&p);
    return (uint32_t)turn;
}

// ---- a conversation to go on with

typedef struct {
    ls_turns turns;
    const ls_model *model;
    ls_prompt_format format;
    const char *system;
    bool ours; // the last turn has tokens of this vocabulary
} reading;

static void end_turn(reading *g, ls_finish finish) {
    if (g->ours && ls_conversation_last(g->turns.conversation)->finish == LS_GOING)
        ls_conversation_end(g->turns.conversation, g->model->vocab, NULL, finish);
}

// Takes the template's text of the prompt, unless the current template renders it differently.
static void render(const reading *g, size_t turn, ls_next_prompt *p) {
    ls_next_prompt now;
    if (ls_conversation_prompt(g->turns.conversation, g->model, g->format, g->system, turn, p->text.p, p->text.n, &now,
                               NULL))
        return;
    if (now.kept == p->kept && now.ids.n + p->n_begun == p->ids.n &&
        (!now.ids.n || !memcmp(now.ids.p, p->ids.p, now.ids.n * sizeof *p->ids.p))) {
        p->whole = now.whole;
        now.whole = (ls_buf){0};
    }
    ls_next_prompt_free(&now);
}

static size_t begin_turn(reading *g, const ls_trace_header *h) {
    size_t turn;
    end_turn(g, LS_FINISH_INTERRUPTED);
    ls_next_prompt p = prompt_of(&g->turns, h, &turn);
    g->ours = h->run.tokenizer_id == ls_vocab_id(g->model->vocab) && h->run.n_vocab <= g->model->engine->n_vocab;
    if (g->ours) render(g, turn, &p);
    ls_conversation_begin(g->turns.conversation, turn, &p);
    ls_next_prompt_free(&p);
    return turn;
}

static ls_code read_turns(reading *g, ls_saved *v, ls_trace_reader *r, const char *path, ls_err *err) {
    const ls_trace_header *h = ls_trace_read_header(r);
    const ls_run_sink keeps = ls_conversation_log_sink(v->log);
    ls_trace_line line;
    size_t turn = 0;
    ls_code code;
    while (!(code = ls_trace_read_next(r, &line, err)) && line != LS_TRACE_NONE) {
        if (line == LS_TRACE_HEADER) {
            turn = begin_turn(g, h);
            v->stats = (ls_stats){0};
        }
        if (line == LS_TRACE_STEP) {
            ls_conversation_step(g->turns.conversation, ls_trace_read_step(r));
            ls_stats_add(&v->stats, ls_trace_read_step(r));
        }
        if (line == LS_TRACE_END) end_turn(g, ls_trace_read_finish(r));
        if (g->ours) ls_conversation_log_copy(v->log, r, line, (uint32_t)turn);
    }
    if (code) return code;
    if (!g->turns.conversation) return ls_fail(err, LS_E_RANGE, "%s: the file has no conversation", path);
    if (!g->ours)
        return ls_fail(err, LS_E_USAGE, "%s: the conversation is with %s, which has another vocabulary", path,
                       h->run.model);
    for (size_t i = 0; i < g->turns.conversation->context.n; i++)
        if (g->turns.conversation->context.p[i] < 0)
            return ls_fail(err, LS_E_PARSE, "%s: the last answer lacks steps, so it cannot be continued", path);
    if (ls_conversation_last(g->turns.conversation)->finish == LS_GOING) { // the recording ends within the turn
        end_turn(g, LS_FINISH_INTERRUPTED);
        keeps.end(keeps.ud, (uint32_t)turn, LS_FINISH_INTERRUPTED, &v->stats);
    }
    return LS_OK;
}

ls_code ls_saved_read(ls_saved *out, const char *path, const ls_model *model, ls_prompt_format format,
                      const char *system, bool (*stop)(void *ud), void *ud, ls_err *err) {
    ls_trace_reader *r;
    reading g = {.model = model, .format = format, .system = system};
    *out = (ls_saved){0};
    ls_code code = ls_trace_read_open(&r, path, err);
    if (code) return code;
    ls_trace_read_stop(r, stop, ud);
    if (ls_conversation_log_new(&out->log, model->vocab, err)) code = ls_err_prefix(err, "%s", path);
    else code = read_turns(&g, out, r, path, err);
    ls_trace_read_gaps(r, &out->gaps);
    ls_trace_read_close(r);
    out->conversation = g.turns.conversation;
    if (code) ls_saved_free(out);
    return code;
}

void ls_saved_free(ls_saved *v) {
    ls_conversation_log_free(v->log);
    ls_conversation_free(v->conversation);
    *v = (ls_saved){0};
}
