#include "run/session.h"
#include "base/clock.h"
#include "base/mem.h"
#include "run/ar_cost.h"
#include "run/costs.h"
#include "run/prompt.h"
#include "run/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct ls_session {
    ls_model *model;
    ls_backend *b;
    // settings
    ls_drafting drafting;
    ls_accept accept;
    int32_t max_tokens;
    lst_sampling sampling;
    ls_ids stop_ends; // end of each stop string in stop_bytes
    ls_buf stop_bytes;
    // conversation
    ls_ids context, output;
    ls_buf text;
    ls_detok detok;
    bool started, active;
    int32_t uncommitted; // a turn's last token when it ended the turn without a forward; -1: none
    ls_ids starts;       // of each turn: tokens committed before it, and the uncommitted one
    lst_row last;        // row that predicts the next root
    bool corrected;      // that row's draft children were all rejected
    uint32_t turn, step;
    ls_cost_curve costs;
    ls_ar_cost ar;
    double host_us; // smoothed host work of a step
    ls_tree tree;
    lst_row rows[LST_MAX_ROWS];
    int32_t row_top_id[LST_MAX_ROWS][LS_SUCCESSORS]; // of the verified rows, for the drafter
    float row_top_p[LST_MAX_ROWS][LS_SUCCESSORS];
};
_Static_assert(LST_ROW_TOP >= LS_SUCCESSORS, "a row's best tokens are what is remembered");

static double us_since(uint64_t start) {
    return (double)(ls_now_ns() - start) / 1e3;
}

ls_code ls_session_set(ls_session *s, const ls_decode_options *opt, ls_err *err) {
    const ls_draft_setup place = {
        .tokenizer = s->model->name, .n_vocab = s->b->n_vocab, .tokenizer_id = ls_vocab_id(s->model->vocab)};
    const ls_code code = ls_drafting_set(&s->drafting, opt, &place, s->context.p, s->context.n, err);
    if (code) return code;
    s->accept = opt->accept;
    s->max_tokens = opt->max_tokens;
    s->sampling = opt->sampling;
    s->stop_ends.n = 0;
    ls_buf_clear(&s->stop_bytes);
    for (const char *const *p = opt->stops; p && *p; p++) {
        ls_buf_str(&s->stop_bytes, *p);
        ls_ids_push(&s->stop_ends, (int32_t)s->stop_bytes.n);
    }
    return LS_OK;
}

ls_code ls_session_new(ls_session **out, ls_model *model, const ls_decode_options *opt, ls_err *err) {
    *out = NULL;
    ls_session *s = ls_calloc(1, sizeof *s);
    s->model = model;
    s->b = model->backend;
    s->uncommitted = -1;
    ls_code code = ls_session_set(s, opt, err);
    if (code) ls_session_free(s);
    else *out = s;
    return code;
}

void ls_session_free(ls_session *s) {
    if (!s) return;
    ls_drafting_free(&s->drafting);
    ls_ids_free(&s->stop_ends);
    ls_buf_free(&s->stop_bytes);
    ls_ids_free(&s->context);
    ls_ids_free(&s->output);
    ls_ids_free(&s->starts);
    ls_buf_free(&s->text);
    free(s);
}

void ls_session_reset(ls_session *s) {
    s->b->rewind(s->b, 0, NULL);
    s->context.n = s->output.n = s->starts.n = 0;
    ls_buf_clear(&s->text);
    s->detok = (ls_detok){0};
    s->started = s->active = s->corrected = false;
    s->turn = s->step = 0;
    s->uncommitted = -1;
    ls_drafting_observe(&s->drafting, s->context.p, 0, true);
}

const ls_cost_curve *ls_session_costs(const ls_session *s) {
    return &s->costs;
}
const ls_drafter *ls_session_drafter(const ls_session *s) {
    return s->drafting.drafter;
}
const ls_ids *ls_session_context(const ls_session *s) {
    return &s->context;
}
const ls_ids *ls_session_output(const ls_session *s) {
    return &s->output;
}
const ls_buf *ls_session_text(const ls_session *s) {
    return &s->text;
}
bool ls_session_started(const ls_session *s) {
    return s->started;
}

ls_code ls_session_calibrate(ls_session *s, ls_progress progress, void *ud, ls_err *err) {
    return ls_costs_get(&s->costs, s->model, false, progress, ud, err);
}

// Whether the drafter is to learn from the prompt's rows: what they cost more than reading alone, against what plain
// decoding of the answer would take.
static bool rows_of_prompt_pay(const ls_session *s, size_t n) {
    enum { ANSWER = 256 }; // tokens that are expected at most
    const ls_drafter *d = s->drafting.drafter;
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1], answer = s->max_tokens < ANSWER ? s->max_tokens : ANSWER;
    if (!d || !d->read || d->read_share <= 0 || s->costs.base_ms[0] <= 0) return false;
    const double more = s->costs.base_ms[LS_COST_SIZES - 1] / most - s->costs.prefill_ms;
    return more * (double)n <= d->read_share * answer * s->costs.base_ms[0];
}

static void rows_best(ls_session *s, int32_t n) { // what drafters and acceptance rules read of the rows
    for (int32_t i = 0; i < n; i++)
        for (int j = 0; j < LS_SUCCESSORS; j++) {
            s->row_top_id[i][j] = s->rows[i].top_id[j];
            s->row_top_p[i][j] = expf(s->rows[i].top_logit[j] - s->rows[i].lse);
        }
}

// Reads context[from..) as chains of rows, each of which tells the drafter what the target said after it.
static ls_code read_rows(ls_session *s, size_t from, ls_progress progress, void *ud, ls_err *err) {
    int32_t parents[LST_MAX_ROWS], path[LST_MAX_ROWS];
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1];
    ls_code code = LS_OK;
    for (int32_t i = 0; i < most; i++) parents[i] = i - 1, path[i] = i;
    for (size_t at = from; at < s->context.n && !code;) {
        const size_t left = s->context.n - at;
        const int32_t n = left < (size_t)most ? (int32_t)left : most;
        if (progress && !progress(ud, "prefill", (double)(at - from) / (double)(s->context.n - from)))
            code = ls_fail(err, LS_E_CANCELLED, "reading the prompt was cancelled");
        if (!code) code = s->b->forward_tree(s->b, s->context.p + at, parents, n, &s->sampling, s->rows, err);
        if (!code) code = s->b->keep_path(s->b, path, n, err);
        if (code) break;
        rows_best(s, n);
        s->drafting.drafter->read(s->drafting.drafter, s->context.p, at, (size_t)n,
                                  (const int32_t(*)[LS_SUCCESSORS])s->row_top_id,
                                  (const float(*)[LS_SUCCESSORS])s->row_top_p);
        s->last = s->rows[n - 1];
        at += (size_t)n;
    }
    if (code) s->b->rewind(s->b, (int32_t)from, NULL);
    return code;
}

ls_code ls_session_begin(ls_session *s, const int32_t *ids, int32_t n, ls_progress progress, void *ud,
                         double *prefill_ms, ls_err *err) {
    if (n < 1) return ls_fail(err, LS_E_RANGE, "the prompt is empty");
    if (n + (s->uncommitted >= 0) >= s->b->n_context - (int32_t)s->context.n)
        return ls_fail(err, LS_E_RANGE, "the prompt has %d tokens; %d of the context's %d are left: shorten it%s", n,
                       s->b->n_context - (int32_t)s->context.n, s->b->n_context,
                       s->started ? " or start a new conversation" : "");
    ls_code code = ls_prompt_fits(s->b, n, err);
    if (code) return code;
    // a token that ended the previous turn without a forward belongs to the conversation
    size_t committed = s->context.n;
    const int32_t before[2] = {(int32_t)committed, s->uncommitted};
    if (s->uncommitted >= 0) ls_ids_push(&s->context, s->uncommitted);
    ls_ids_add(&s->context, ids, (size_t)n);
    uint64_t start = ls_now_ns();
    const size_t more = s->context.n - committed;
    code = rows_of_prompt_pay(s, more) ? read_rows(s, committed, progress, ud, err)
                                       : s->b->prefill(s->b, s->context.p + committed, (int32_t)more, &s->sampling,
                                                       &s->last, progress, ud, err);
    if (code) {
        s->context.n = committed;
        return code;
    }
    s->uncommitted = -1;
    ls_ids_add(&s->starts, before, 2);
    if (prefill_ms) *prefill_ms = us_since(start) / 1e3;
    ls_drafting_observe(&s->drafting, s->context.p, s->context.n, false);
    if (s->started) s->turn++;
    s->output.n = 0;
    ls_buf_clear(&s->text);
    s->detok = (ls_detok){0};
    s->step = 0;
    s->corrected = false;
    s->started = s->active = true;
    return LS_OK;
}

// ---- another past

typedef struct {
    ls_ids context, starts;
    int32_t uncommitted;
} past;

static past past_of(const ls_session *s) {
    past p = {.uncommitted = s->uncommitted};
    ls_ids_add(&p.context, s->context.p, s->context.n);
    ls_ids_add(&p.starts, s->starts.p, s->starts.n);
    return p;
}

static void past_free(past *p) {
    ls_ids_free(&p->context);
    ls_ids_free(&p->starts);
}

// The engine has the first n_read tokens of the conversation; it reads the rest.
static ls_code read_rest(ls_session *s, size_t n_read, ls_progress progress, void *ud, ls_err *err) {
    lst_row last;
    const ls_code code = s->b->rewind(s->b, (int32_t)n_read, err);
    if (code || n_read == s->context.n) return code;
    return s->b->prefill(s->b, s->context.p + n_read, (int32_t)(s->context.n - n_read), &s->sampling, &last, progress,
                         ud, err);
}

static ls_code take_past(ls_session *s, const past *p, size_t n_read, ls_progress progress, void *ud, ls_err *err) {
    s->context.n = s->starts.n = s->output.n = 0;
    ls_ids_add(&s->context, p->context.p, p->context.n);
    ls_ids_add(&s->starts, p->starts.p, p->starts.n);
    s->uncommitted = p->uncommitted;
    ls_buf_clear(&s->text);
    s->turn = p->starts.n ? (uint32_t)(p->starts.n / 2) - 1 : 0;
    s->started = p->starts.n > 0;
    s->active = s->corrected = false;
    const ls_code code = read_rest(s, n_read, progress, ud, err);
    ls_drafting_observe(&s->drafting, s->context.p, s->context.n, true);
    return code;
}

static void bring_back(ls_session *s, const past *p, size_t n_read) {
    if (take_past(s, p, n_read, NULL, NULL, NULL)) ls_session_reset(s);
}

ls_code ls_session_edit(ls_session *s, uint32_t turn, const int32_t *ids, int32_t n, ls_progress progress, void *ud,
                        double *prefill_ms, ls_err *err) {
    if (s->active || 2 * (size_t)turn >= s->starts.n) return ls_fail(err, LS_E_RANGE, "there is no such turn");
    past before = past_of(s);
    const size_t kept = (size_t)s->starts.p[2 * turn];
    const past until = {.context = {.p = before.context.p, .n = kept},
                        .starts = {.p = before.starts.p, .n = 2 * (size_t)turn},
                        .uncommitted = s->starts.p[2 * turn + 1]};
    ls_code code = take_past(s, &until, kept, NULL, NULL, err);
    if (!code) code = ls_session_begin(s, ids, n, progress, ud, prefill_ms, err);
    if (code) bring_back(s, &before, kept);
    past_free(&before);
    return code;
}

ls_code ls_session_restore(ls_session *s, const ls_ids *context, int32_t uncommitted, const ls_ids *starts,
                           ls_progress progress, void *ud, ls_err *err) {
    if (context->n < 1 || context->n + 1 >= (size_t)s->b->n_context)
        return ls_fail(err, LS_E_RANGE, "the conversation has %zu tokens, the context %d", context->n, s->b->n_context);
    ls_code code = ls_prompt_fits(s->b, (int32_t)context->n, err);
    if (code) return code;
    past before = past_of(s);
    const past wanted = {.context = *context, .starts = *starts, .uncommitted = uncommitted};
    code = take_past(s, &wanted, 0, progress, ud, err);
    if (code) bring_back(s, &before, 0);
    past_free(&before);
    return code;
}

ls_code ls_session_reload(ls_session *s, ls_progress progress, void *ud, ls_err *err) {
    return read_rest(s, 0, progress, ud, err);
}

void ls_session_warm(ls_session *s) {
    const int32_t parent = -1;
    lst_row row;
    if (s->active && (int32_t)s->context.n + 1 < s->b->n_context)
        s->b->forward_tree(s->b, &s->last.chosen, &parent, 1, &s->sampling, &row, NULL);
}

static void record_last(const ls_session *s, ls_step *out, const int32_t *ids, const float *logits, int32_t n) {
    out->n_top = (int16_t)(n < LS_MAX_TOP ? n : LS_MAX_TOP);
    for (int32_t i = 0; i < out->n_top; i++) out->top[i] = (ls_top_entry){ids[i], logits[i]};
    out->top_lse = s->last.lse;
    out->top_entropy = s->last.entropy;
}

static void record_root(const ls_session *s, ls_step *out) {
    out->n_nodes = out->rows = 1;
    ls_node *root = &out->nodes[0];
    *root = (ls_node){.token = s->last.chosen,
                      .parent = -1,
                      .branch = -1,
                      .from = LS_FROM_ROOT,
                      .match_pos = -1,
                      .target = -1,
                      .est_p = NAN,
                      .target_p = NAN,
                      .entropy = NAN,
                      .lse = NAN};
    root->p = expf(s->last.chosen_logit - s->last.lse);
    for (int i = 0; i < LS_ROW_TOP; i++) root->top[i].id = -1;
    out->n_path = 1;
    out->path[0] = 0;
}

static void record_tree(const ls_session *s, ls_step *out, const int32_t *path, int32_t n_path) {
    const ls_tree *t = &s->tree;
    out->n_nodes = out->rows = (int16_t)t->n;
    out->n_path = (int16_t)n_path;
    for (int32_t i = 0; i < n_path; i++) out->path[i] = (int16_t)path[i];
    for (int32_t i = 0; i < t->n; i++) {
        const lst_row *r = &s->rows[i];
        ls_node *node = &out->nodes[i];
        *node = (ls_node){.token = t->token[i],
                          .parent = (int16_t)t->parent[i],
                          .depth = (int16_t)t->depth[i],
                          .branch = t->branch[i],
                          .from = t->from[i],
                          .state = LS_NODE_NOT_REACHED,
                          .match_n = t->match_n[i],
                          .match_pos = t->match_pos[i],
                          .est_p = t->est[i],
                          .p = expf(r->parent_logit - r->parent_lse),
                          .target = r->chosen,
                          .target_p = expf(r->chosen_logit - r->lse),
                          .entropy = r->entropy,
                          .lse = r->lse};
        for (int j = 0; j < LS_ROW_TOP; j++) node->top[j] = (ls_top_entry){r->top_id[j], r->top_logit[j]};
    }
    for (int32_t i = 0; i < n_path; i++) out->nodes[path[i]].state = LS_NODE_ACCEPTED;
    for (int32_t i = 1; i < t->n; i++)
        if (out->nodes[i].state != LS_NODE_ACCEPTED && out->nodes[t->parent[i]].state == LS_NODE_ACCEPTED)
            out->nodes[i].state = LS_NODE_REJECTED;
    out->n_branches = (int16_t)t->n_branches;
    for (int32_t i = 0; i < t->n_branches; i++) {
        const ls_tree_branch *b = &t->branches[i];
        out->branches[i] = (ls_branch){b->rank, b->match_n, b->match_pos, b->found, b->first_row, b->n_rows, 0};
        for (int32_t r = b->first_row; r < b->first_row + b->n_rows; r++)
            out->branches[i].accepted =
                (int16_t)(out->branches[i].accepted + (out->nodes[r].state == LS_NODE_ACCEPTED));
    }
}

// Position where the first stop string begins in the text, or -1. Only what the last token could have
// completed is searched.
static long find_stop(const ls_session *s, size_t before) {
    long found = -1;
    for (size_t i = 0; i < s->stop_ends.n; i++) {
        size_t from = i ? (size_t)s->stop_ends.p[i - 1] : 0, len = (size_t)s->stop_ends.p[i] - from;
        if (!len || s->text.n < len) continue;
        for (size_t at = before > len ? before - len : 0; at + len <= s->text.n; at++)
            if (!memcmp(s->text.p + at, s->stop_bytes.p + from, len)) {
                if (found < 0 || (long)at < found) found = (long)at;
                break;
            }
    }
    return found;
}

// Emits tokens until something ends the turn. Returns how many were emitted; *finish says why it stopped.
static int32_t emit(ls_session *s, const int32_t *ids, int32_t n, ls_finish *finish) {
    for (int32_t i = 0; i < n; i++) {
        ls_ids_push(&s->output, ids[i]);
        if (ls_vocab_is_end(s->model->vocab, ids[i])) {
            *finish = LS_FINISH_EOS;
            return i + 1;
        }
        if (!ls_vocab_is_special(s->model->vocab, ids[i])) {
            size_t before = s->text.n, len;
            const char *bytes = ls_vocab_bytes(s->model->vocab, ids[i], &len);
            ls_detok_push(&s->detok, bytes, len, &s->text);
            long stop = find_stop(s, before);
            if (stop >= 0) {
                s->text.n = (size_t)stop;
                s->text.p[stop] = 0;
                s->detok = (ls_detok){0};
                *finish = LS_FINISH_STOP;
                return i + 1;
            }
        }
        if ((int64_t)s->output.n >= s->max_tokens) {
            *finish = LS_FINISH_LENGTH;
            return i + 1;
        }
    }
    return n;
}

size_t ls_session_settled(const ls_session *s) {
    size_t held = 0;
    for (size_t i = 0; s->active && i < s->stop_ends.n; i++) {
        size_t from = i ? (size_t)s->stop_ends.p[i - 1] : 0, len = (size_t)s->stop_ends.p[i] - from;
        for (size_t n = len ? len - 1 : 0; n > held; n--)
            if (n <= s->text.n && !memcmp(s->text.p + s->text.n - n, s->stop_bytes.p + from, n)) held = n;
    }
    return s->text.n - held;
}

void ls_session_stop(ls_session *s) {
    if (!s->active) return;
    ls_detok_flush(&s->detok, &s->text);
    s->active = false;
}

static void finish_step(ls_session *s, ls_step *out, ls_finish finish, uint64_t start) {
    out->finish = (uint8_t)finish;
    if (finish) ls_session_stop(s);
    out->t_total_us = us_since(start);
    s->step++;
}

// The path whose rows stand. Fills what drafters and acceptance rules read of the rows.
static int32_t verify(ls_session *s, int32_t *path) {
    int32_t chosen[LST_MAX_ROWS];
    float p[LST_MAX_ROWS], entropy[LST_MAX_ROWS];
    for (int32_t i = 0; i < s->tree.n; i++) {
        const lst_row *r = &s->rows[i];
        chosen[i] = r->chosen;
        p[i] = expf(r->parent_logit - r->parent_lse);
        entropy[i] = r->entropy;
    }
    rows_best(s, s->tree.n);
    return ls_accept_path(&s->accept, &s->tree,
                          &(ls_accept_rows){chosen, p, entropy, (const int32_t(*)[LS_SUCCESSORS])s->row_top_id,
                                            (const float(*)[LS_SUCCESSORS])s->row_top_p},
                          path);
}

static ls_code decode_step(ls_session *s, ls_step *out, ls_err *err) {
    ls_code code;
    const int32_t context = (int32_t)s->context.n, root = s->last.chosen;
    const ls_drafter *drafter = s->drafting.drafter; // NULL: plain decoding
    int32_t top_ids[LST_MAX_ROWS];
    float top_logits[LST_MAX_ROWS];
    const bool ends_on_root = ls_vocab_is_end(s->model->vocab, root) || (int64_t)s->output.n + 1 >= s->max_tokens ||
                              context + 1 >= s->b->n_context;
    if (!ends_on_root && ls_ar_due(&s->ar, context) && drafter) {
        if ((code = ls_ar_probe(&s->ar, s->b, root, &s->sampling, s->host_us, err))) return code;
        ls_cost_observe(&s->costs, 1, context, (s->ar.us - s->host_us) / 1e3);
    }
    uint64_t start = ls_now_ns();
    *out = (ls_step){.turn = s->turn,
                     .index = s->step,
                     .context_len = context,
                     .output_pos = (int32_t)s->output.n,
                     .corrected = s->corrected,
                     .exact = s->b->exact && !ls_accept_is_lossy(&s->accept),
                     .ar_us = s->ar.us};
    out->budget = (int16_t)ls_drafting_rows(&s->drafting);
    int32_t n_top = out->budget > LS_MAX_TOP ? out->budget : LS_MAX_TOP;
    if (n_top > s->b->n_vocab) n_top = s->b->n_vocab;
    if ((code = s->b->row_top(s->b, -1, n_top, top_ids, top_logits, err))) return code;
    record_last(s, out, top_ids, top_logits, n_top);
    record_root(s, out);
    if (drafter) out->pool_size = drafter->pool_size(drafter);
    ls_finish finish = LS_GOING;
    if (ends_on_root) { // nothing follows this token, so no forward is run for it
        emit(s, &root, 1, &finish);
        if (!finish) finish = LS_FINISH_CONTEXT;
        if (finish != LS_FINISH_EOS) s->uncommitted = root;
        out->n_emitted = 1;
        finish_step(s, out, finish, start);
        return LS_OK;
    }
    float top_p[LST_MAX_ROWS];
    for (int32_t i = 0; i < n_top; i++) top_p[i] = expf(top_logits[i] - s->last.lse);
    const ls_draft_state state = {s->context.p, s->context.n, root, top_ids, top_p, n_top, NULL};
    out->budget = (int16_t)ls_drafting_propose(&s->drafting, &state, &s->costs, s->b->n_context - context, &s->tree);
    out->t_draft_us = drafter ? us_since(start) : 0;

    uint64_t t = ls_now_ns();
    if ((code = s->b->forward_tree(s->b, s->tree.token, s->tree.parent, s->tree.n, &s->sampling, s->rows, err)))
        return code;
    out->forward = true;
    out->t_forward_us = us_since(t);
    out->t_device_us = s->b->device_us(s->b);

    t = ls_now_ns();
    int32_t path[LST_MAX_ROWS], ids[LST_MAX_ROWS];
    const int32_t n_path = verify(s, path);
    record_tree(s, out, path, n_path);
    for (int32_t i = 0; i < n_path; i++) ids[i] = s->tree.token[path[i]];
    int32_t n_emitted = emit(s, ids, n_path, &finish);
    out->n_emitted = (int16_t)n_emitted;
    out->t_verify_us = us_since(t);

    t = ls_now_ns();
    // the end-of-sequence token is emitted but not committed: the next turn's frame brings it back
    int32_t n_keep = finish == LS_FINISH_EOS ? n_emitted - 1 : n_emitted;
    if ((code = s->b->keep_path(s->b, path, n_keep, err))) return code;
    // not while the next forward runs: a draft that does not know the step before it costs 5% of MAT with 16 rows and
    // 11% with 32 (18 prompts), more than these microseconds
    ls_drafting_learn(&s->drafting, &(ls_draft_result){s->context.p, s->context.n, &s->tree, path, n_path,
                                                       (const int32_t(*)[LS_SUCCESSORS])s->row_top_id,
                                                       (const float(*)[LS_SUCCESSORS])s->row_top_p});
    ls_ids_add(&s->context, ids, (size_t)n_keep);
    ls_drafting_observe(&s->drafting, s->context.p, s->context.n, false);
    s->last = s->rows[path[n_keep - 1]];
    s->corrected = false;
    for (int32_t i = 1; i < s->tree.n; i++) s->corrected |= s->tree.parent[i] == path[n_path - 1];
    if (!finish && (int32_t)s->context.n >= s->b->n_context) finish = LS_FINISH_CONTEXT;
    out->t_commit_us = us_since(t);
    finish_step(s, out, finish, start);
    ls_cost_observe(&s->costs, s->tree.n, context, out->t_forward_us / 1e3);
    double host = out->t_total_us - out->t_forward_us;
    ls_ar_bound(&s->ar, out->t_total_us);
    s->host_us = s->host_us > 0 ? 0.9 * s->host_us + 0.1 * host : host;
    out->ar_us = drafter ? s->ar.us : out->t_total_us; // now known, if it was not; a plain step is its own baseline
    out->ar_us = ls_step_plain_us(out);
    return LS_OK;
}

ls_code ls_session_step(ls_session *s, ls_step *out, ls_err *err) {
    if (!s->active) return ls_fail(err, LS_E_USAGE, "no turn is active");
    ls_code code = decode_step(s, out, err);
    if (code && code != LS_E_CANCELLED) s->active = false; // a step that was cancelled did not happen
    return code;
}
