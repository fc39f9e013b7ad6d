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

// ---- a conversation to go on with

typedef struct {
    ls_saved *v;
    const ls_model *model;
    ls_prompt_format format;
    const char *system;
    ls_ids output; // output tokens of the turn
    uint32_t turn;
    bool begun;
} reading;

static void end_turn(reading *g) {
    if (g->begun) ls_dialog_answer(g->v->dialog, g->model, NULL, g->output.p, g->output.n);
    g->output.n = 0;
    g->begun = false;
}

// If the current template renders the prompt differently, only the prompt's tokens are used.
static void begin_turn(reading *g, const ls_trace_header *h) {
    const size_t kept = g->v->turns.kept, begun = ls_turns_begun(&g->v->turns, h), more = h->prompt.n - kept - begun;
    const char *text = h->prompt_text.n ? h->prompt_text.p : "";
    ls_next_prompt p;
    end_turn(g);
    if (g->turn == 0) ls_dialog_cut(g->v->dialog, 0);
    if (ls_dialog_prompt(g->v->dialog, g->model, g->format, g->system, g->turn, text, h->prompt_text.n, &p, NULL) ||
        p.kept != kept || p.ids.n != more || (more && memcmp(p.ids.p, h->prompt.p + kept, more * sizeof *p.ids.p))) {
        ls_next_prompt_free(&p);
        p.kept = kept;
        ls_ids_add(&p.ids, h->prompt.p + kept, more);
    }
    ls_dialog_begin(g->v->dialog, g->turn, text, h->prompt_text.n, &p);
    ls_next_prompt_free(&p);
    ls_ids_add(&g->output, h->prompt.p + h->prompt.n - begun, begun);
    g->begun = true;
}

static void add_output(reading *g, const ls_step *s) {
    const int n = s->n_emitted - (s->finish == LS_FINISH_EOS);
    for (int i = 0; i < n; i++) ls_ids_push(&g->output, s->tree.nodes[s->path[i]].token);
}

static ls_code read_turns(reading *g, ls_trace_reader *r, const char *path, ls_err *err) {
    const ls_trace_header *h = ls_trace_read_header(r);
    const ls_model *model = g->model;
    ls_saved *v = g->v;
    ls_stats stats = {0};
    ls_trace_line line;
    bool ours = false, ended = true;
    ls_code code;
    while (!(code = ls_trace_read_next(r, &line, err)) && line != LS_TRACE_NONE) {
        if (line == LS_TRACE_HEADER) {
            g->turn = ls_turns_begin(&v->turns, h);
            ours = h->run.tokenizer_id == ls_vocab_id(model->vocab) && h->run.n_vocab <= model->engine->n_vocab;
            stats = (ls_stats){0};
            if (ours) begin_turn(g, h);
        }
        if (line == LS_TRACE_STEP) {
            ls_turns_step(&v->turns, ls_trace_read_step(r));
            ls_stats_add(&stats, ls_trace_read_step(r));
            add_output(g, ls_trace_read_step(r));
        }
        ended = line == LS_TRACE_END;
        if (ours) ls_conversation_copy(v->kept, r, line, g->turn);
    }
    if (code) return code;
    if (!ls_turns_count(&v->turns)) return ls_fail(err, LS_E_RANGE, "%s: the file has no conversation", path);
    if (!ours)
        return ls_fail(err, LS_E_USAGE, "%s: the conversation is with %s, which has another vocabulary", path,
                       h->run.model);
    const ls_run_sink keeps = ls_conversation_sink(v->kept);
    if (!ended) keeps.end(keeps.ud, g->turn, LS_FINISH_INTERRUPTED, &stats); // the recording ends within the turn
    end_turn(g);
    return LS_OK;
}

ls_code ls_saved_read(ls_saved *out, const char *path, const ls_model *model, ls_prompt_format format,
                      const char *system, bool (*stop)(void *ud), void *ud, ls_err *err) {
    ls_trace_reader *r;
    reading g = {.v = out, .model = model, .format = format, .system = system};
    *out = (ls_saved){0};
    ls_code code = ls_trace_read_open(&r, path, err);
    if (code) return code;
    ls_trace_read_stop(r, stop, ud);
    out->dialog = ls_dialog_new();
    if (ls_conversation_new(&out->kept, model->vocab, err)) code = ls_err_prefix(err, "%s", path);
    else code = read_turns(&g, r, path, err);
    ls_trace_read_close(r);
    ls_ids_free(&g.output);
    if (code) ls_saved_free(out);
    return code;
}

void ls_saved_free(ls_saved *v) {
    ls_conversation_free(v->kept);
    ls_dialog_free(v->dialog);
    ls_turns_free(&v->turns);
    *v = (ls_saved){0};
}
