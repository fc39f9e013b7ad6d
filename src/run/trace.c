#include "run/trace.h"
#include "base/jsonw.h"
#include "base/mem.h"
#include "base/sink.h"
#include "run/seen.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_trace {
    ls_sink *sink;         // NULL: in memory
    ls_conversation *kept; // there
    ls_ids marks;          // of each of its turns: how many ids were seen before it
    uint32_t first;        // the number that its first turn has in its header: a recording may begin later than its
                           // conversation
    char *path;
    ls_trace_level level;
    const ls_vocab *vocab;
    ls_seen seen; // ids whose bytes were written
    ls_buf line;
    ls_jsonw w;
    bool reported;
};

ls_code ls_trace_open(ls_trace **out, const char *path, ls_trace_level level, ls_progress go_on, void *ud,
                      ls_err *err) {
    ls_sink *sink;
    *out = NULL;
    const ls_code code = ls_sink_open(&sink, path, go_on, ud, err);
    if (code) return code;
    ls_trace *t = ls_calloc(1, sizeof *t);
    t->sink = sink;
    t->path = ls_strdup(path);
    t->level = level;
    t->w.out = &t->line;
    *out = t;
    return LS_OK;
}

ls_trace *ls_trace_open_memory(const ls_vocab *vocab) {
    ls_trace *t = ls_calloc(1, sizeof *t);
    t->kept = ls_conversation_new();
    t->level = LS_LEVEL_FULL;
    t->vocab = vocab;
    t->w.out = &t->line;
    ls_seen_init(&t->seen, ls_vocab_size(vocab));
    return t;
}

ls_conversation *ls_trace_conversation(const ls_trace *t) {
    return t->kept;
}

void ls_trace_cut(ls_trace *t, uint32_t turn) {
    if (turn >= t->marks.n) return;
    ls_conversation_cut(t->kept, turn);
    ls_seen_cut(&t->seen, (size_t)t->marks.p[turn]);
    t->marks.n = turn;
}

static void begin_kept(ls_trace *t, uint32_t turn) {
    ls_trace_cut(t, turn);
    ls_ids_push(&t->marks, (int32_t)t->seen.order.n);
    ls_conversation_begin(t->kept);
}

bool ls_trace_failed(ls_trace *t, ls_err *err) {
    const int error = t->sink && !t->reported ? ls_sink_error(t->sink) : 0;
    if (!error) return false;
    t->reported = true;
    ls_fail(err, LS_E_IO, "the trace %s ends here: %s", t->path, ls_write_reason(error));
    return true;
}

bool ls_trace_close(ls_trace *t, ls_err *err) {
    if (!t) return true;
    uint64_t dropped;
    const int error = ls_sink_close(t->sink, &dropped);
    if (error && t->reported) // perhaps on a screen that is gone by now: the reason once more
        ls_fail(err, LS_E_IO, "the trace %s lacks the last %" PRIu64 " bytes: %s", t->path, dropped,
                ls_write_reason(error));
    else if (error)
        ls_fail(err, LS_E_IO, "the trace %s is not whole: %s; %" PRIu64 " bytes were dropped", t->path,
                ls_write_reason(error), dropped);
    ls_buf_free(&t->line);
    ls_conversation_free(t->kept);
    ls_ids_free(&t->marks);
    ls_seen_free(&t->seen);
    free(t->path);
    free(t);
    return !error;
}

static void begin_line(ls_trace *t, const char *type) {
    ls_buf_clear(&t->line);
    t->w.comma = false;
    ls_jw_open(&t->w, '{');
    ls_jw_key(&t->w, "type");
    ls_jw_str(&t->w, type);
}

static void put(ls_trace *t, const char *line, size_t n) {
    if (t->sink) ls_sink_put(t->sink, line, n);
    else ls_conversation_add(t->kept, line, n);
}

static void end_line(ls_trace *t) {
    ls_jw_close(&t->w, '}');
    ls_buf_char(&t->line, '\n');
    put(t, t->line.p, t->line.n);
}

static void write_tokens(ls_trace *t, ls_ids *fresh) {
    if (fresh->n) {
        begin_line(t, "tokens");
        ls_jw_key(&t->w, "bytes");
        ls_jw_open(&t->w, '{');
        for (size_t i = 0; i < fresh->n; i++) {
            char key[16];
            size_t len;
            const char *bytes = ls_vocab_bytes(t->vocab, fresh->p[i], &len);
            snprintf(key, sizeof key, "%d", fresh->p[i]);
            ls_jw_key(&t->w, key);
            ls_jw_base64(&t->w, bytes, len);
        }
        ls_jw_close(&t->w, '}');
        ls_jw_key(&t->w, "special");
        ls_jw_open(&t->w, '[');
        for (size_t i = 0; i < fresh->n; i++)
            if (ls_vocab_is_special(t->vocab, fresh->p[i])) ls_jw_int(&t->w, fresh->p[i]);
        ls_jw_close(&t->w, ']');
        end_line(t);
    }
    ls_ids_free(fresh);
}

static void write_calibration(ls_jsonw *w, const ls_cost_curve *z) {
    ls_jw_key(w, "calibration");
    if (z->base_ms[0] <= 0) {
        ls_jw_null(w);
        return;
    }
    ls_jw_open(w, '{');
    ls_jw_field_int(w, "context_len", z->cost_context);
    ls_jw_key(w, "rows");
    ls_jw_ids(w, ls_cost_rows, LS_COST_SIZES);
    ls_jw_key(w, "ms");
    ls_jw_open(w, '[');
    for (int i = 0; i < LS_COST_SIZES; i++) ls_jw_num(w, z->base_ms[i], 5);
    ls_jw_close(w, ']');
    ls_jw_field_num(w, "slope_ms", z->slope_ms, 5);
    ls_jw_close(w, '}');
}

void ls_trace_begin(ls_trace *t, const ls_model *m, const ls_session *s, const ls_decode_options *opt,
                    const char *const *config, uint32_t turn, const char *text, double prefill_ms) {
    ls_jsonw *w = &t->w;
    const ls_engine *b = m->engine;
    const ls_ids *context = ls_session_context(s);
    char tokenizer[20];
    t->vocab = m->vocab;
    if (t->kept) {
        if (turn == 0) t->first = 0;
        begin_kept(t, turn);
    } else if (turn == 0 || !t->seen.known)
        ls_seen_init(&t->seen, ls_vocab_size(m->vocab)); // a conversation stands alone
    begin_line(t, "header");
    ls_jw_field_str(w, "format", "logitspec-trace");
    ls_jw_field_int(w, "version", 1);
    ls_jw_field_str(w, "program", "logitspec " LS_VERSION);
    ls_jw_field_str(w, "level", ls_trace_level_name(t->level));
    ls_jw_key(w, "model");
    ls_jw_open(w, '{');
    ls_jw_field_str(w, "name", m->name);
    ls_jw_field_str(w, "sha256", m->sha256);
    ls_jw_field_int(w, "vocab", b->n_vocab);
    ls_jw_field_int(w, "context", b->n_context);
    ls_jw_field_int(w, "eos", ls_vocab_eos(m->vocab));
    snprintf(tokenizer, sizeof tokenizer, "%016" PRIx64, ls_vocab_id(m->vocab));
    ls_jw_field_str(w, "tokenizer", tokenizer);
    ls_jw_close(w, '}');
    ls_jw_key(w, "backend");
    ls_jw_open(w, '{');
    ls_jw_field_str(w, "device", b->device);
    ls_jw_field_str(w, "dtype", b->dtype);
    ls_jw_field_str(w, "kernel", b->kernel);
    ls_jw_field_str(w, "version", b->version);
    ls_jw_field_int(w, "threads", b->threads);
    ls_jw_field_bool(w, "exact", b->exact);
    ls_jw_close(w, '}');
    char rule[64];
    ls_jw_field_str(w, "method", opt->method);
    ls_accept_write(&opt->accept, rule, sizeof rule);
    ls_jw_field_str(w, "acceptance", rule);
    ls_jw_key(w, "seed");
    ls_jw_u64(w, opt->sampling.seed);
    ls_jw_key(w, "config");
    ls_jw_open(w, '{');
    for (; config && config[0]; config += 2) ls_jw_field_str(w, config[0], config[1]);
    ls_jw_close(w, '}');
    ls_jw_field_int(w, "turn", t->first + turn);
    ls_jw_field_str(w, "prompt_text", text);
    ls_jw_key(w, "prompt_ids");
    ls_jw_ids(w, context->p, context->n);
    ls_jw_field_num(w, "prefill_ms", prefill_ms, 6);
    write_calibration(w, ls_session_costs(s));
    end_line(t);
    ls_ids fresh = {0};
    ls_seen_ids(&t->seen, context->p, context->n, &fresh);
    write_tokens(t, &fresh);
}

enum { DIGITS = 9 }; // a float survives; so a replay draws what the run drew

static void write_top(ls_jsonw *w, const ls_top_entry *top, int n) {
    ls_jw_key(w, "top");
    ls_jw_open(w, '[');
    for (int i = 0; i < n && top[i].id >= 0; i++) {
        ls_jw_open(w, '[');
        ls_jw_int(w, top[i].id);
        ls_jw_num(w, (double)top[i].logit, DIGITS);
        ls_jw_close(w, ']');
    }
    ls_jw_close(w, ']');
}

static void write_node(const ls_trace *t, ls_jsonw *w, const ls_node *n, int parent) {
    const bool steps = t->level == LS_LEVEL_STEPS;
    ls_jw_open(w, '{');
    ls_jw_field_int(w, "token", n->token);
    ls_jw_field_int(w, "parent", parent);
    ls_jw_field_int(w, "depth", n->depth);
    ls_jw_field_int(w, "branch", steps ? -1 : n->branch);
    ls_jw_field_str(w, "source", ls_from_name(n->from));
    ls_jw_field_int(w, "rank", n->rank);
    ls_jw_field_int(w, "match_n", n->match_n);
    ls_jw_field_int(w, "match_pos", n->match_pos);
    ls_jw_field_str(w, "state", ls_node_state_name(n->state));
    ls_jw_field_int(w, "target", n->target);
    if (!steps) {
        ls_jw_field_num(w, "est_p", (double)n->est_p, DIGITS);
        ls_jw_field_num(w, "p", (double)n->p, DIGITS);
        ls_jw_field_num(w, "target_p", (double)n->target_p, DIGITS);
        ls_jw_field_num(w, "entropy", (double)n->entropy, DIGITS);
    }
    if (t->level == LS_LEVEL_FULL) {
        ls_jw_field_num(w, "lse", (double)n->lse, DIGITS);
        write_top(w, n->top, LS_ROW_TOP);
    }
    ls_jw_close(w, '}');
}

static void write_branches(ls_jsonw *w, const ls_step *s) {
    ls_jw_key(w, "branches");
    ls_jw_open(w, '[');
    for (int i = 0; i < s->tree.n_branches; i++) {
        const ls_branch *b = &s->tree.branches[i];
        ls_jw_open(w, '{');
        ls_jw_field_int(w, "rank", b->rank);
        ls_jw_field_int(w, "match_n", b->match_n);
        ls_jw_field_int(w, "match_pos", b->match_pos);
        ls_jw_field_int(w, "found", b->found);
        ls_jw_field_int(w, "first_node", b->first_node);
        ls_jw_field_int(w, "n_nodes", b->n_nodes);
        ls_jw_field_int(w, "accepted", b->accepted);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
}

static void write_tree(const ls_trace *t, ls_jsonw *w, const ls_step *s) {
    const bool all = t->level > LS_LEVEL_STEPS;
    if (all) write_branches(w, s);
    ls_jw_key(w, "nodes");
    ls_jw_open(w, '[');
    for (int i = 0; i < (all ? s->tree.n : s->n_path); i++)
        if (all) write_node(t, w, &s->tree.nodes[i], s->tree.nodes[i].parent);
        else write_node(t, w, &s->tree.nodes[s->path[i]], i - 1);
    ls_jw_close(w, ']');
    ls_jw_key(w, "path");
    ls_jw_open(w, '[');
    for (int i = 0; i < s->n_path; i++) ls_jw_int(w, all ? s->path[i] : i);
    ls_jw_close(w, ']');
}

// The ids that the step's line will use, as far as they are new.
static void note_ids(ls_trace *t, const ls_step *s, ls_ids *fresh) {
    if (t->level == LS_LEVEL_FULL) {
        ls_seen_step(&t->seen, s, fresh);
        return;
    }
    const bool all = t->level == LS_LEVEL_NODES;
    for (int i = 0; all && i < s->n_top && i < LS_ROW_TOP; i++) ls_seen_ids(&t->seen, &s->top[i].id, 1, fresh);
    for (int i = 0; i < (all ? s->tree.n : s->n_path); i++) {
        const ls_node *n = &s->tree.nodes[all ? i : s->path[i]];
        ls_seen_ids(&t->seen, (const int32_t[]){n->token, n->target}, 2, fresh);
    }
}

void ls_trace_step(ls_trace *t, const ls_step *s) {
    ls_jsonw *w = &t->w;
    ls_ids fresh = {0};
    note_ids(t, s, &fresh);
    write_tokens(t, &fresh);
    begin_line(t, "step");
    ls_jw_field_int(w, "turn", t->first + s->turn);
    ls_jw_field_int(w, "index", s->index);
    ls_jw_field_int(w, "context_len", s->context_len);
    ls_jw_field_int(w, "output_pos", s->output_pos);
    ls_jw_field_int(w, "budget", s->budget);
    ls_jw_field_int(w, "rows", s->rows);
    ls_jw_field_bool(w, "forward", s->forward);
    ls_jw_field_bool(w, "corrected", s->corrected);
    ls_jw_field_int(w, "root", s->tree.nodes[0].token);
    if (t->level > LS_LEVEL_STEPS) {
        ls_jw_key(w, "last");
        ls_jw_open(w, '{');
        ls_jw_field_num(w, "lse", (double)s->top_lse, DIGITS);
        ls_jw_field_num(w, "entropy", (double)s->top_entropy, DIGITS);
        write_top(w, s->top, t->level == LS_LEVEL_FULL || s->n_top < LS_ROW_TOP ? s->n_top : LS_ROW_TOP);
        ls_jw_close(w, '}');
    }
    write_tree(t, w, s);
    ls_jw_key(w, "emitted");
    ls_jw_open(w, '[');
    for (int i = 0; i < s->n_emitted; i++) ls_jw_int(w, s->tree.nodes[s->path[i]].token);
    ls_jw_close(w, ']');
    ls_jw_key(w, "us");
    ls_jw_open(w, '{');
    ls_jw_field_num(w, "draft", s->t_draft_us, DIGITS);
    ls_jw_field_num(w, "forward", s->t_forward_us, DIGITS);
    ls_jw_field_num(w, "verify", s->t_verify_us, DIGITS);
    ls_jw_field_num(w, "commit", s->t_commit_us, DIGITS);
    ls_jw_field_num(w, "total", s->t_total_us, DIGITS);
    if (s->t_device_us > 0) ls_jw_field_num(w, "device", s->t_device_us, DIGITS);
    ls_jw_close(w, '}');
    ls_jw_field_num(w, "ar_us", s->ar_us > 0 ? s->ar_us : NAN, DIGITS);
    ls_jw_field_int(w, "pool_size", s->pool_size);
    ls_jw_field_str(w, "finish", ls_finish_name(s->finish));
    end_line(t);
}

void ls_trace_end(ls_trace *t, uint32_t turn, ls_finish reason, const ls_stats *st) {
    ls_jsonw *w = &t->w;
    begin_line(t, "end");
    ls_jw_field_int(w, "turn", t->first + turn);
    ls_jw_field_str(w, "reason", ls_finish_name(reason));
    ls_jw_key(w, "totals");
    ls_jw_open(w, '{');
    ls_jw_field_int(w, "steps", (int64_t)st->steps);
    ls_jw_field_int(w, "emitted", (int64_t)st->emitted);
    ls_jw_field_int(w, "draft_verified", (int64_t)st->drafted);
    ls_jw_field_int(w, "draft_accepted", (int64_t)st->accepted);
    ls_jw_field_num(w, "mat", st->steps ? ls_stats_mat(st) : NAN, 6);
    ls_jw_field_num(w, "decode_ms", st->total_us / 1e3, 7);
    ls_jw_field_num(w, "tokens_per_s", st->total_us > 0 ? ls_stats_tokens_per_s(st) : NAN, 6);
    ls_jw_field_num(w, "ar_tokens_per_s", st->ar_us > 0 ? ls_stats_ar_tokens_per_s(st) : NAN, 6);
    ls_jw_field_num(w, "speedup", st->ar_us > 0 ? ls_stats_speedup(st) : NAN, 6);
    ls_jw_close(w, '}');
    end_line(t);
}

void ls_trace_copy(ls_trace *t, const ls_trace_reader *r, ls_trace_line kind, uint32_t turn) {
    ls_ids fresh = {0};
    const ls_trace_header *h = ls_trace_read_header(r);
    size_t n;
    const char *line = ls_trace_read_text(r, &n);
    switch (kind) {
    case LS_TRACE_HEADER:
        if (turn == 0) t->first = h->turn;
        begin_kept(t, turn);
        ls_seen_ids(&t->seen, h->prompt.p, h->prompt.n, &fresh);
        break;
    case LS_TRACE_STEP: ls_seen_step(&t->seen, ls_trace_read_step(r), &fresh); break;
    case LS_TRACE_TOKENS: // of a turn that may be cut: they come from the vocabulary where they are needed
    case LS_TRACE_NONE: return;
    case LS_TRACE_END:
    case LS_TRACE_OTHER: break;
    }
    if (kind != LS_TRACE_HEADER) write_tokens(t, &fresh);
    put(t, line, n);
    put(t, "\n", 1);
    if (kind == LS_TRACE_HEADER) write_tokens(t, &fresh);
}
