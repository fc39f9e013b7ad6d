#include "trace/saved.h"

#include <string.h>

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
    code = ls_conversation_new(&out->kept, model->vocab, err);
    if (!code) code = read_turns(&g, r, path, err);
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
