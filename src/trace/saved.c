#include "trace/saved.h"

#include <stdio.h>

static ls_code read_turns(ls_saved *v, ls_trace_reader *r, const char *path, const ls_model *model, ls_err *err) {
    const ls_trace_header *h = ls_trace_read_header(r);
    ls_stats stats = {0};
    ls_trace_line line;
    bool ours = false, ended = true;
    uint32_t turn = 0;
    ls_code code;
    while (!(code = ls_trace_read_next(r, &line, err)) && line != LS_TRACE_NONE) {
        if (line == LS_TRACE_HEADER) {
            turn = ls_turns_begin(&v->turns, h);
            ours = h->tokenizer_id == ls_vocab_id(model->vocab) && h->run.n_vocab <= model->engine->n_vocab;
            stats = (ls_stats){0};
        }
        if (line == LS_TRACE_STEP) {
            ls_turns_step(&v->turns, ls_trace_read_step(r));
            ls_stats_add(&stats, ls_trace_read_step(r));
        }
        ended = line == LS_TRACE_END;
        if (ours) ls_conversation_copy(v->kept, r, line, turn);
    }
    if (code) return code;
    if (!ls_turns_count(&v->turns)) return ls_fail(err, LS_E_RANGE, "%s: there is no conversation in it", path);
    if (!ours)
        return ls_fail(err, LS_E_USAGE, "%s: a conversation with %s, whose vocabulary is another", path, h->run.model);
    if (!ended) ls_conversation_end(v->kept, turn, LS_FINISH_INTERRUPTED, &stats); // the recording was cut
    return LS_OK;
}

ls_code ls_saved_read(ls_saved *out, const char *path, const ls_model *model, bool (*stop)(void *ud), void *ud,
                      ls_err *err) {
    ls_trace_reader *r;
    *out = (ls_saved){0};
    ls_code code = ls_trace_read_open(&r, path, err);
    if (code) return code;
    ls_trace_read_stop(r, stop, ud);
    out->kept = ls_conversation_new(model->vocab);
    code = read_turns(out, r, path, model, err);
    ls_trace_read_close(r);
    if (code) ls_saved_free(out);
    return code;
}

void ls_saved_free(ls_saved *v) {
    ls_conversation_free(v->kept);
    ls_turns_free(&v->turns);
    *v = (ls_saved){0};
}
