#include "report/report.h"
#include "base/mem.h"
#include "base/err.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void free_trees(ls_report_tree *t, size_t n) {
    for (size_t i = 0; i < n; i++) ls_step_free(t[i].step);
}

void ls_report_free(ls_report *r) {
    for (size_t i = 0; i < r->n_turns; i++) {
        ls_report_turn *t = &r->turns[i];
        ls_trace_header_free(&t->header);
        free(t->file);
        free(t->text);
        free(t->steps);
    }
    for (size_t i = 0; i < r->n_groups; i++) {
        ls_report_group *g = &r->groups[i];
        free_trees(g->worst, (size_t)g->n_worst);
        free_trees(g->best, (size_t)g->n_best);
        free(g->key);
        free(g->label);
    }
    for (size_t i = 0; i < r->n_prompts; i++) free(r->prompts[i].turns);
    for (size_t i = 0; i < r->n_vocabularies; i++) {
        ls_tokens_free(&r->vocabularies[i]->tokens);
        free(r->vocabularies[i]);
    }
    free_trees(r->asked, r->n_asked);
    free(r->asked);
    free(r->turns);
    free(r->groups);
    free(r->prompts);
    free(r->vocabularies);
    *r = (ls_report){0};
}

// ---- reading

static ls_tokens *vocabulary(ls_report *r, uint64_t tokenizer) {
    for (size_t i = 0; i < r->n_vocabularies; i++)
        if (r->vocabularies[i]->tokenizer == tokenizer) return &r->vocabularies[i]->tokens;
    r->vocabularies = ls_realloc(r->vocabularies, (r->n_vocabularies + 1) * sizeof *r->vocabularies);
    ls_report_vocabulary *v = r->vocabularies[r->n_vocabularies++] = ls_calloc(1, sizeof *v);
    v->tokenizer = tokenizer;
    return &v->tokens;
}

// Settings that do not affect decoding, and therefore not the groups.
static bool is_incidental(const char *key) {
    return ls_begins_among(key,
                           "trace. ui. prompt. decode.seed decode.max_tokens decode.stop model.name model.offline");
}

static size_t group_of(ls_report *r, const ls_trace_header *h) {
    ls_buf key = {0};
    ls_buf_fmt(&key, "%s\n%s\n%s\n%s\n%s\n%d\n%s\n%s\n", h->run.model, h->run.sha256, h->run.device, h->run.dtype,
               h->run.kernel, h->run.threads, h->run.method, h->acceptance);
    for (const char *k = NULL, *v; ls_trace_next_setting(&h->config, &k, &v);)
        if (!is_incidental(k)) ls_buf_fmt(&key, "%s=%s\n", k, v);
    for (size_t i = 0; i < r->n_groups; i++)
        if (!strcmp(r->groups[i].key, key.p)) return ls_buf_free(&key), i;
    r->groups = ls_realloc(r->groups, (r->n_groups + 1) * sizeof *r->groups);
    r->groups[r->n_groups] =
        (ls_report_group){.key = key.p, .first_turn = r->n_turns, .guarantee = ls_trace_guarantee(h)};
    return r->n_groups++;
}

static void begin_turn(ls_report *r, const char *file, const ls_trace_header *h) {
    const size_t group = group_of(r, h);
    r->turns = ls_realloc(r->turns, (r->n_turns + 1) * sizeof *r->turns);
    ls_report_turn *t = &r->turns[r->n_turns++];
    *t = (ls_report_turn){.file = ls_strdup(file), .header = *h, .group = group};
    t->header.prompt = (ls_ids){0};
    t->header.prompt_text = t->header.config = (ls_buf){0};
    ls_ids_add(&t->header.prompt, h->prompt.p, h->prompt.n);
    ls_buf_add(&t->header.prompt_text, h->prompt_text.p, h->prompt_text.n);
    ls_buf_add(&t->header.config, h->config.p, h->config.n);
    t->tokens = vocabulary(r, h->run.tokenizer_id);
    r->groups[group].n_turns++;
    r->groups[group].prefill_ms += isfinite(h->prefill_ms) ? h->prefill_ms : 0;
}

static void add_text(ls_report_turn *t, const ls_step *s) {
    int lossy[LS_MAX_ROWS], n_lossy = ls_step_lossy(s, lossy), at_lossy = 0;
    for (int i = 0; i < s->n_emitted; i++) {
        const ls_node *n = &s->tree.nodes[s->path[i]];
        t->text = ls_grown(t->text, t->n_text, sizeof *t->text);
        const bool is_lossy = at_lossy < n_lossy && lossy[at_lossy] == i;
        at_lossy += is_lossy;
        t->text[t->n_text++] =
            (ls_report_token){n->draft, n->p, (uint32_t)t->n_steps, .corrected = s->corrected && i == 0, is_lossy};
    }
}

// Keeps the step if its gain times sign is among the `most` greatest. list is sorted, greatest first.
static void keep(ls_report_tree *list, int *n, int most, double sign, ls_report_tree t, const ls_step *s) {
    int at = *n;
    while (at > 0 && sign * t.gain_us > sign * list[at - 1].gain_us) at--;
    if (at == most) return;
    if (*n == most) ls_step_free(list[--*n].step);
    memmove(&list[at + 1], &list[at], (size_t)(*n - at) * sizeof *list);
    t.step = ls_step_share(s);
    list[at] = t;
    ++*n;
}

static void add_estimates(ls_report_group *g, const ls_step *s) {
    if (!ls_step_described(s)) return;
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        if (n->state == LS_NODE_NOT_REACHED || !(n->est_p >= 0 && n->est_p <= 1)) continue;
        int bin = (int)(n->est_p * LS_REPORT_BINS);
        if (bin == LS_REPORT_BINS) bin--;
        g->estimated[bin].of++;
        g->estimated[bin].n += n->state == LS_NODE_ACCEPTED;
        g->estimate_sum[bin] += (double)n->est_p;
    }
}

static void add_step(ls_report *r, const ls_step *s, bool asked) {
    ls_report_turn *t = &r->turns[r->n_turns - 1];
    ls_report_group *g = &r->groups[t->group];
    add_text(t, s);
    t->steps = ls_grown(t->steps, t->n_steps, sizeof *t->steps);
    t->steps[t->n_steps++] = (ls_report_step){.index = s->index,
                                              .context_len = s->context_len,
                                              .output_pos = s->output_pos,
                                              .root = s->tree.nodes[0].token,
                                              .asked_rows = s->asked_rows,
                                              .rows = s->rows,
                                              .probes = s->probes,
                                              .n_emitted = s->n_emitted,
                                              .n_plain = (int16_t)ls_plain_forwards(s),
                                              .forward = s->forward,
                                              .corrected = s->corrected,
                                              .draft_us = (float)s->t_draft_us,
                                              .forward_us = (float)s->t_forward_us,
                                              .verify_us = (float)s->t_verify_us,
                                              .commit_us = (float)s->t_commit_us,
                                              .total_us = (float)s->t_total_us,
                                              .plain_us = (float)ls_step_plain_us(s)};
    ls_stats_add(&t->stats, s);
    ls_stats_add(&g->stats, s);
    add_estimates(g, s);
    ls_report_tree tree = {.turn = r->n_turns - 1, .gain_us = ls_step_gain_us(s)};
    if (asked) {
        r->asked = ls_realloc(r->asked, (r->n_asked + 1) * sizeof *r->asked);
        tree.step = ls_step_share(s);
        r->asked[r->n_asked++] = tree;
    }
    if (isnan(tree.gain_us) || !s->forward || s->rows == 1)
        return; // a step without a draft is neither a gain nor a loss
    if (tree.gain_us < 0) keep(g->worst, &g->n_worst, LS_REPORT_WORST, -1, tree, s);
    else keep(g->best, &g->n_best, LS_REPORT_BEST, 1, tree, s);
}

ls_code ls_report_add(ls_report *r, const char *path, bool (*each)(void *ud, const ls_step *step), void *ud,
                      ls_err *err) {
    ls_trace_reader *reader;
    ls_code code = ls_trace_read_open(&reader, path, err);
    if (code) return code;
    ls_trace_line kind;
    while (!(code = ls_trace_read_next(reader, &kind, err)) && kind != LS_TRACE_NONE) {
        const ls_trace_header *h = ls_trace_read_header(reader);
        const ls_step *s = ls_trace_read_step(reader);
        if (kind == LS_TRACE_HEADER) begin_turn(r, path, h);
        if (kind == LS_TRACE_TOKENS) {
            ls_event *e = ls_trace_read_tokens(reader);
            ls_tokens_learn(vocabulary(r, h->run.tokenizer_id), e);
            ls_event_free(e);
        }
        if (kind == LS_TRACE_STEP) add_step(r, s, each && each(ud, s));
        if (kind == LS_TRACE_END) r->turns[r->n_turns - 1].finish = ls_trace_read_finish(reader);
    }
    r->n_files++;
    ls_trace_read_gaps(reader, &r->gaps);
    ls_trace_read_close(reader);
    return code;
}

bool ls_report_is_whole(const ls_report *r) {
    bool whole = r->n_turns && !r->gaps.torn && !r->gaps.lost;
    for (size_t i = 0; i < r->n_turns; i++) whole &= r->turns[i].finish != LS_GOING;
    return whole;
}

// ---- after the last trace

static const char *setting(const ls_report *r, size_t group, const char *key) {
    return ls_trace_config(&r->turns[r->groups[group].first_turn].header, key);
}

static bool differs(const ls_report *r, const char *key) {
    const char *first = "";
    for (size_t i = 0; i < r->n_groups; i++) {
        const char *v = setting(r, i, key); // "": the program did not know the key yet
        if (*v && *first && strcmp(v, first)) return true;
        if (*v) first = v;
    }
    return false;
}

// Whether one of the first n groups has this label.
static bool is_label(const ls_report *r, size_t n, const char *label) {
    for (size_t i = 0; i < n; i++)
        if (!strcmp(r->groups[i].label, label)) return true;
    return false;
}

// Labels a group with its method and with the settings in which the groups differ.
static void name_groups(ls_report *r) {
    for (size_t i = 0; i < r->n_groups; i++) {
        const ls_trace_header *h = &r->turns[r->groups[i].first_turn].header, *h0 = &r->turns[0].header;
        ls_buf b = {0};
        ls_buf_str(&b, h->run.method);
        if (strcmp(setting(r, i, "decode.max_rows"), "auto") && *setting(r, i, "decode.max_rows"))
            ls_buf_fmt(&b, ":%s", setting(r, i, "decode.max_rows"));
        if (strcmp(setting(r, i, "decode.sizing"), "default") && *setting(r, i, "decode.sizing"))
            ls_buf_fmt(&b, "/%s", setting(r, i, "decode.sizing"));
        if (strcmp(h->acceptance, "exact")) ls_buf_fmt(&b, "@%s", h->acceptance);
        for (const char *k = NULL, *v; ls_trace_next_setting(&h->config, &k, &v);) // knobs of this method
            if (!strncmp(k, h->run.method, strlen(h->run.method)) && k[strlen(h->run.method)] == '.' && differs(r, k))
                ls_buf_fmt(&b, "+%s=%s", k + strlen(h->run.method) + 1, v);
        for (const char *k = NULL, *v; ls_trace_next_setting(&h->config, &k, &v);) // ... and of its draft model
            if (*h->run.draft_model && !strncmp(k, "draft.", 6) && *v && differs(r, k))
                ls_buf_fmt(&b, "+%s=%s", k + 6, v);
        if (differs(r, "decode.temperature")) ls_buf_fmt(&b, " T=%s", setting(r, i, "decode.temperature"));
        bool model = false, dtype = false, device = false, threads = false;
        for (size_t j = 0; j < r->n_turns; j++) {
            const ls_trace_header *o = &r->turns[j].header;
            model |= strcmp(o->run.model, h0->run.model) != 0 || strcmp(o->run.sha256, h0->run.sha256) != 0;
            dtype |= strcmp(o->run.dtype, h0->run.dtype) != 0;
            device |= strcmp(o->run.device, h0->run.device) != 0 || strcmp(o->run.kernel, h0->run.kernel) != 0;
            threads |= o->run.threads != h0->run.threads;
        }
        if (model) ls_buf_fmt(&b, " %s", h->run.model);
        if (dtype) ls_buf_fmt(&b, " %s", h->run.dtype);
        if (device) ls_buf_fmt(&b, " %s", h->run.device);
        if (threads) ls_buf_fmt(&b, " %d thread%s", h->run.threads, ls_plural(h->run.threads));
        const size_t bare = b.n; // charts find the series of a group by its label: each has its own
        for (size_t number = 2; is_label(r, i, b.p); number++) {
            b.n = bare;
            ls_buf_fmt(&b, " #%zu", number);
        }
        r->groups[i].label = b.p;
    }
}

static bool same_prompt(const ls_trace_header *a, const ls_trace_header *b) {
    return a->run.tokenizer_id == b->run.tokenizer_id && a->prompt.n == b->prompt.n &&
           !memcmp(a->prompt.p, b->prompt.p, a->prompt.n * sizeof *a->prompt.p);
}

static void add_to_prompt(ls_report *r, size_t turn) {
    ls_report_turn *t = &r->turns[turn];
    size_t at = 0;
    while (at < r->n_prompts && !same_prompt(&r->turns[r->prompts[at].turns[0]].header, &t->header)) at++;
    if (at == r->n_prompts) {
        r->prompts = ls_realloc(r->prompts, (r->n_prompts + 1) * sizeof *r->prompts);
        r->prompts[r->n_prompts++] = (ls_report_prompt){.text = t->header.prompt_text.n ? t->header.prompt_text.p : ""};
    }
    ls_report_prompt *p = &r->prompts[at];
    p->turns = ls_realloc(p->turns, (p->n_turns + 1) * sizeof *p->turns);
    size_t place = p->n_turns++;
    for (; place > 0 && r->turns[p->turns[place - 1]].group > t->group; place--) p->turns[place] = p->turns[place - 1];
    p->turns[place] = turn;
    t->prompt = at;
}

size_t ls_report_same_text(const ls_report_turn *a, const ls_report_turn *b) {
    size_t n = 0;
    while (n < a->n_text && n < b->n_text && a->text[n].draft.token == b->text[n].draft.token) n++;
    return n;
}

// The first group's turn of the same prompt, if both ended.
static void compare_with_first(ls_report *r) {
    for (size_t i = 0; i < r->n_prompts; i++) {
        const ls_report_prompt *p = &r->prompts[i];
        const ls_report_turn *first = &r->turns[p->turns[0]];
        if (first->group != 0 || !first->finish) continue;
        for (size_t k = 1; k < p->n_turns; k++) {
            const ls_report_turn *t = &r->turns[p->turns[k]];
            ls_report_group *g = &r->groups[t->group];
            if (t->group == 0 || !t->finish) continue;
            g->shared++;
            g->equal += t->n_text == first->n_text && ls_report_same_text(first, t) == t->n_text;
            g->shared_us += t->stats.total_us;
            g->first_us += first->stats.total_us;
        }
    }
}

ls_code ls_report_finish(ls_report *r, ls_err *err) {
    size_t steps = 0;
    for (size_t i = 0; i < r->n_turns; i++) steps += r->turns[i].n_steps;
    if (!steps) return ls_fail(err, LS_E_RANGE, "the trace%s no step", r->n_files == 1 ? " holds" : "s hold");
    name_groups(r);
    for (size_t i = 0; i < r->n_turns; i++) add_to_prompt(r, i);
    compare_with_first(r);
    return LS_OK;
}
