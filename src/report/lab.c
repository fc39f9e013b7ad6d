#include "report/lab.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "report/report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ls_lab_free(ls_lab *lab) {
    ls_bench_free(&lab->b);
    free(lab->sampled);
    free(lab->prompts);
    ls_lab_index_free(&lab->index);
    *lab = (ls_lab){0};
}

const char *ls_lab_other_source(const ls_run *a, const ls_run *b) {
    if (strcmp(a->sha256, b->sha256) || strcmp(a->model, b->model)) return "another model";
    if (strcmp(a->device, b->device) || strcmp(a->kernel, b->kernel)) return "another machine or other kernels";
    if (strcmp(a->dtype, b->dtype)) return "another arithmetic";
    return a->threads != b->threads ? "another number of threads" : NULL;
}

// ---- counts of steps

void ls_lab_count_distances(ls_lab_distances *d, const ls_lab_position *output, size_t n) {
    for (int k = 0; k < LS_LAB_DISTANCES; k++)
        for (size_t i = 0; i + (size_t)k + 1 < n; i++) {
            const int32_t later = output[i + (size_t)k + 1].token;
            int rank = 0;
            if (!output[i].n_top) continue;
            while (rank < output[i].n_top && output[i].top[rank] != later) rank++;
            d->of[k]++;
            d->rank[k][rank < output[i].n_top ? rank : LS_MAX_TOP]++;
        }
}

void ls_lab_count_matches(ls_lab_matches *m, const ls_step *s) {
    if (!s->forward || !ls_step_described(s)) return;
    const int emitted = ls_step_accepted(s); // the path may continue after the end of the turn
    uint64_t accepted[LS_MAX_ROWS] = {0};
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        if (n->state == LS_NODE_ACCEPTED && n->depth <= emitted) accepted[n->branch]++;
    }
    for (int b = 0; b < s->tree.n_branches; b++) {
        const ls_branch *branch = &s->tree.branches[b];
        if (branch->match_n >= LS_LAB_MATCHES) continue;
        ls_lab_match *to = &(branch->rank < 0 ? m->root : m->guess)[branch->match_n];
        to->branches++;
        to->helped += accepted[b] > 0;
        to->accepted += accepted[b];
    }
}

int ls_lab_hit_child(int parent) {
    const int first = (parent + 1) * LS_LAB_PLACES;
    return first < LS_LAB_HIT_NODES ? first : -1;
}

// Whether row a comes before its sibling b.
static bool likelier(const ls_step *s, int a, int b) {
    const float x = s->tree.nodes[a].est_p, y = s->tree.nodes[b].est_p;
    if (isnan(x) || isnan(y) || x == y) return a < b;
    return x > y;
}

void ls_lab_count_hits(ls_lab_hits *h, const ls_step *s) {
    if (!s->forward || s->tree.n < 2 || !ls_step_described(s)) return;
    int where[LS_MAX_ROWS]; // of each row's path; -2: outside
    h->trees++;
    where[0] = -1;
    for (int i = 1; i < s->tree.n; i++) {
        const ls_node *n = &s->tree.nodes[i];
        int place = 0;
        for (int k = 1; k < s->tree.n; k++)
            place += k != i && s->tree.nodes[k].parent == n->parent && likelier(s, k, i);
        const int first = where[n->parent] == -2 ? -1 : ls_lab_hit_child(where[n->parent]);
        where[i] = first < 0 || place >= LS_LAB_PLACES ? -2 : first + place;
        if (where[i] == -2 || n->state == LS_NODE_NOT_REACHED) continue;
        h->node[where[i]].tested++;
        h->node[where[i]].accepted += n->state == LS_NODE_ACCEPTED;
    }
}

// ---- one recording

// The contribution of one recording, kept separate until the recording is known to be complete.
typedef struct {
    ls_result result;
    ls_lab_position *output; // of all turns
    size_t n_output;
    ls_lab_distances distances;
    ls_lab_matches matches;
    ls_lab_hits hits;
    ls_lab_forwards forwards[LS_MAX_ROWS + 1];
    ls_buf asked; // the prompts, each followed by a NUL
    bool lossy, sampled, whole;
} reading;

static bool count_step(void *ud, const ls_step *s) {
    reading *g = ud;
    ls_stats_add(&g->result.stats, s);
    for (int i = 0; i < s->n_emitted; i++) {
        g->output = ls_grown(g->output, g->n_output, sizeof *g->output);
        ls_lab_position *p = &g->output[g->n_output++];
        p->token = s->tree.nodes[s->path[i]].token;
        p->n_top = i ? 0 : s->n_top;
        for (int k = 0; k < p->n_top; k++) p->top[k] = s->top[k].id;
        ls_ids_push(&g->result.output, p->token);
    }
    if (!s->forward) return false;
    g->forwards[ls_step_forwarded(s)].n++;
    g->forwards[ls_step_forwarded(s)].us += s->t_forward_us;
    g->forwards[ls_step_forwarded(s)].experts.n += (uint64_t)s->experts;
    g->forwards[ls_step_forwarded(s)].experts.of += s->experts > 0;
    ls_lab_count_matches(&g->matches, s);
    ls_lab_count_hits(&g->hits, s);
    return false;
}

static double temperature(const ls_trace_header *h) {
    return strtod(ls_trace_config(h, "decode.temperature"), NULL);
}

static bool is_way(const ls_trace_header *h, const ls_lab_run *r) {
    const size_t n = strcspn(r->word, ":/@+");
    if (ls_ends_with(r->word, ".yaml") || ls_ends_with(r->word, ".yml"))
        return true; // a file of settings may name any method
    return strlen(h->run.method) == n && !strncmp(h->run.method, r->word, n) && temperature(h) == r->temperature;
}

static ls_code check_header(ls_lab *lab, const ls_lab_run *run, const ls_trace_header *h, const char *path,
                            ls_err *err) {
    const char *tokens = ls_trace_config(h, "decode.max_tokens");
    if (!*lab->machine.program) { // all others must be like the first
        lab->machine = h->run;
        lab->seed = h->seed;
    }
    const char *other = ls_lab_other_source(&lab->machine, &h->run);
    if (other)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "%s: recorded with %s (%s on %s), unlike the recordings before it (%s on %s); remove it", path,
                       other, h->run.model, h->run.kernel, lab->machine.model, lab->machine.kernel);
    if (!is_way(h, run)) return ls_fail(err, LS_E_UNSUPPORTED, "%s: not recorded with %s; remove it", path, run->word);
    if (*tokens && strtol(tokens, NULL, 10) != lab->index.max_tokens)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: max_tokens is %s, but this lab uses %d; record it again", path,
                       tokens, lab->index.max_tokens);
    return LS_OK;
}

static ls_code read_recording(ls_lab *lab, const ls_lab_run *run, const char *path, reading *g, ls_err *err) {
    ls_report r = {0};
    const ls_lab_position *output = NULL;
    ls_code code = ls_report_add(&r, path, count_step, g, err);
    g->whole = !code && ls_report_is_whole(&r);
    for (size_t i = 0; i < r.n_turns && !code; i++) {
        const ls_report_turn *t = &r.turns[i];
        code = check_header(lab, run, &t->header, path, err);
        g->lossy |= ls_trace_guarantee(&t->header) == LS_LOSSY;
        lab->b.exact &= t->header.run.exact;
        g->sampled |= temperature(&t->header) > 0;
        ls_buf_add(&g->asked, t->header.prompt_text.p, t->header.prompt_text.n);
        ls_buf_char(&g->asked, 0);
        g->result.turns++;
        g->result.prefill_ms += isfinite(t->header.prefill_ms) ? t->header.prefill_ms : 0;
        g->result.finish = t->finish;
        output = output ? output : g->output;
        ls_lab_count_distances(&g->distances, output, t->n_text);
        output += t->n_text;
    }
    ls_report_free(&r);
    return code;
}

static void add(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++) ((uint64_t *)to)[i] += ((const uint64_t *)from)[i];
}

static void add_counts(ls_lab *lab, const ls_lab_run *run, const reading *g) {
    for (int i = 0; i <= LS_MAX_ROWS; i++) {
        lab->forwards[i].n += g->forwards[i].n;
        lab->forwards[i].us += g->forwards[i].us;
        lab->forwards[i].experts.n += g->forwards[i].experts.n;
        lab->forwards[i].experts.of += g->forwards[i].experts.of;
    }
    if (ls_lab_run_place(run, LS_LAB_DISTANCE)) add(&lab->distances, &g->distances, sizeof g->distances);
    if (ls_lab_run_place(run, LS_LAB_RETRIEVAL)) add(&lab->matches, &g->matches, sizeof g->matches);
    if (ls_lab_run_place(run, LS_LAB_HITS)) add(&lab->hits, &g->hits, sizeof g->hits);
}

// Adds the recording to the lab.
static ls_code take(ls_lab *lab, size_t run, size_t item, const char *path, const reading *g, ls_err *err) {
    const uint64_t prompts = ls_hash_bytes(g->asked.p, g->asked.n);
    if (lab->prompts[item] && lab->prompts[item] != prompts)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "%s: the prompts differ from the earlier recordings of %s; record it again", path,
                       lab->index.items[item].name);
    lab->prompts[item] = prompts;
    if (g->lossy) snprintf(lab->b.methods[run].guarantee, sizeof lab->b.methods->guarantee, "none");
    lab->sampled[run] |= g->sampled;
    *ls_bench_result(&lab->b, item, (int)run) = g->result;
    lab->n_there++;
    add_counts(lab, &lab->index.runs[run], g);
    return LS_OK;
}

static ls_code add_recording(ls_lab *lab, const char *dir, size_t run, size_t item, const ls_lab_listener *l,
                             ls_err *err) {
    const ls_lab_run *r = &lab->index.runs[run];
    char *path = ls_lab_trace_path(dir, r, item);
    if (access(path, F_OK) && ls_is_missing(errno)) { // the lab was stopped before this recording
        free(path);
        return LS_OK;
    }
    reading *g = ls_calloc(1, sizeof *g);
    ls_code code = read_recording(lab, r, path, g, err);
    const bool taken = !code && g->whole && !(code = take(lab, run, item, path, g, err));
    if (!taken) ls_result_free(&g->result);
    if (!g->whole && (!code || code == LS_E_PARSE)) {
        if (l->left_out) l->left_out(l->ud, path);
        lab->n_left_out++;
        code = LS_OK;
    }
    ls_buf_free(&g->asked);
    free(g->output);
    free(g);
    free(path);
    return code;
}

// ---- all of them

static void judge(ls_lab *lab) {
    ls_bench *b = &lab->b;
    for (size_t p = 0; p < b->done; p++)
        for (int i = 0; i < b->n; i++) {
            ls_result *r = ls_bench_result(b, p, i), *own = b->plain < 0 ? NULL : ls_bench_result(b, p, b->plain);
            if (!r->turns) continue;
            const ls_result *plain = own && own->turns && !lab->sampled[i] ? own : NULL;
            ls_result_judge(r, plain, plain);
            if (!plain || !strcmp(b->methods[i].guarantee, "none") || i == b->plain) continue;
            lab->exact++;
            lab->different += r->first_difference >= 0;
        }
}

static void begin(ls_lab *lab) {
    const ls_lab_index *x = &lab->index;
    ls_bench *b = &lab->b;
    *b = (ls_bench){
        .exact = true, .n = (int)x->n_runs, .n_prompts = x->n_items, .planned = x->n_items, .done = x->n_items};
    b->methods = ls_calloc(x->n_runs, sizeof *b->methods);
    b->prompts = ls_calloc(x->n_items, sizeof *b->prompts);
    for (size_t i = 0; i < x->n_runs; i++) {
        ls_bench_method *m = &b->methods[i];
        m->plain = !strcmp(x->runs[i].word, "plain") && !(x->runs[i].temperature > 0);
        snprintf(m->label, sizeof m->label, "%s", x->runs[i].word);
        snprintf(m->guarantee, sizeof m->guarantee, "text");
    }
    for (size_t i = 0; i < x->n_items; i++)
        b->prompts[i] = (ls_bench_prompt){.name = ls_strdup(x->items[i].name),
                                          .category = ls_strdup(x->items[i].category),
                                          .task = ls_strdup(x->items[i].category)};
    ls_bench_begin(b);
    if (b->plain >= 0) snprintf(b->judged, sizeof b->judged, "plain");
    snprintf(b->against, sizeof b->against, "%s", b->plain >= 0 ? "plain" : "single-row forwards");
    lab->sampled = ls_calloc(x->n_runs, sizeof *lab->sampled);
    lab->prompts = ls_calloc(x->n_items, sizeof *lab->prompts);
}

ls_code ls_lab_read(ls_lab *lab, const char *dir, const ls_lab_listener *l, ls_err *err) {
    *lab = (ls_lab){0};
    ls_code code = ls_lab_index_read(&lab->index, dir, err);
    if (code) return code;
    const size_t n = lab->index.n_runs * lab->index.n_items;
    begin(lab);
    for (size_t i = 0; i < n && !code; i++) {
        if (l->progress && !l->progress(l->ud, "reading recordings", (double)i / (double)n))
            code = ls_fail(err, LS_E_CANCELLED, "interrupted");
        else code = add_recording(lab, dir, i / lab->index.n_items, i % lab->index.n_items, l, err);
    }
    if (!code && !lab->n_there)
        code = ls_fail(err, LS_E_RANGE, "%s has no complete recording; run logitspec lab --suite FILE -o %s", dir, dir);
    if (!code) judge(lab);
    else ls_lab_free(lab);
    return code;
}
