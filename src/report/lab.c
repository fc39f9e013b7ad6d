#include "report/lab.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "decode/suite.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ls_lab_free(ls_lab *lab) {
    for (size_t i = 0; lab->answers && i < lab->index.n_runs * lab->index.n_items; i++)
        ls_result_free(&lab->answers[i].result);
    free(lab->answers);
    free(lab->lossy);
    free(lab->sampled);
    free(lab->prompts);
    ls_lab_index_free(&lab->index);
    *lab = (ls_lab){0};
}

const ls_lab_answer *ls_lab_answer_of(const ls_lab *lab, size_t run, size_t item) {
    return &lab->answers[run * lab->index.n_items + item];
}

const char *ls_lab_other_source(const ls_run *a, const ls_run *b) {
    if (strcmp(a->sha256, b->sha256) || strcmp(a->model, b->model)) return "another model";
    if (strcmp(a->device, b->device) || strcmp(a->kernel, b->kernel)) return "another machine or other kernels";
    if (strcmp(a->dtype, b->dtype)) return "another arithmetic";
    return a->threads != b->threads ? "another number of threads" : NULL;
}

// ---- one recording

// The contribution of one recording, kept separate until the recording is known to be complete.
typedef struct {
    ls_result result;
    ls_lab_position *output; // of the turn
    size_t n_output, cap_output;
    ls_lab_distances distances;
    ls_lab_matches matches;
    ls_lab_hits hits;
    ls_lab_forwards forwards[LS_MAX_ROWS + 1];
    ls_buf asked; // the prompts, each followed by a NUL
    bool lossy, sampled;
    bool ended, cut; // ended: the last turn that began; cut: another one did not
} reading;

static void add_step(reading *g, const ls_step *s) {
    ls_stats_add(&g->result.stats, s);
    for (int i = 0; i < s->n_emitted; i++) {
        const int32_t token = s->tree.nodes[s->path[i]].token;
        if (g->n_output == g->cap_output) {
            g->cap_output = 2 * g->cap_output + 64;
            g->output = ls_realloc(g->output, g->cap_output * sizeof *g->output);
        }
        ls_lab_position *p = &g->output[g->n_output++];
        p->token = token;
        p->n_top = i ? 0 : s->n_top;
        for (int k = 0; k < p->n_top; k++) p->top[k] = s->top[k].id;
        ls_ids_push(&g->result.output, token);
    }
    if (!s->forward) return;
    g->forwards[ls_step_forwarded(s)].n++;
    g->forwards[ls_step_forwarded(s)].us += s->t_forward_us;
    ls_lab_count_matches(&g->matches, s);
    ls_lab_count_hits(&g->hits, s);
}

static double temperature(const ls_trace_header *h) {
    return strtod(ls_trace_config(h, "decode.temperature"), NULL);
}

static bool ends_in(const char *text, const char *ending) {
    const size_t n = strlen(text), m = strlen(ending);
    return n > m && !strcmp(text + n - m, ending);
}

static bool is_way(const ls_trace_header *h, const ls_lab_run *r) {
    const size_t n = strcspn(r->word, ":/@+");
    if (ends_in(r->word, ".yaml") || ends_in(r->word, ".yml")) return true; // a file of settings may name any method
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

static ls_code read_trace(ls_lab *lab, const ls_lab_run *run, const char *path, reading *g, ls_err *err) {
    ls_trace_reader *reader;
    ls_code code = ls_trace_read_open(&reader, path, err);
    if (code) return code;
    for (;;) {
        ls_trace_line kind;
        if ((code = ls_trace_read_next(reader, &kind, err)) || kind == LS_TRACE_NONE) break;
        const ls_trace_header *h = ls_trace_read_header(reader);
        if (kind == LS_TRACE_HEADER) {
            if ((code = check_header(lab, run, h, path, err))) break;
            g->lossy = ls_trace_promise(h) == LS_PROMISE_NONE;
            g->sampled = temperature(h) > 0;
            ls_buf_add(&g->asked, h->prompt_text.p, h->prompt_text.n);
            ls_buf_char(&g->asked, 0);
            g->cut |= g->result.turns && !g->ended;
            g->ended = false;
            g->result.turns++;
            g->result.prefill_ms += isfinite(h->prefill_ms) ? h->prefill_ms : 0;
        } else if (kind == LS_TRACE_STEP) add_step(g, ls_trace_read_step(reader));
        else if (kind == LS_TRACE_END) {
            g->ended = true;
            g->result.finish = ls_trace_read_finish(reader);
            ls_lab_count_distances(&g->distances, g->output, g->n_output);
            g->n_output = 0;
        }
    }
    g->cut |= ls_trace_read_torn(reader) || !g->ended;
    ls_trace_read_close(reader);
    return code;
}

static void add_matches(ls_lab_match *to, const ls_lab_match *from) {
    for (int i = 0; i < LS_LAB_MATCHES; i++) {
        to[i].branches += from[i].branches;
        to[i].helped += from[i].helped;
        to[i].accepted += from[i].accepted;
    }
}

static void add_counts(ls_lab *lab, const ls_lab_run *run, const reading *g) {
    for (int i = 0; i <= LS_MAX_ROWS; i++) {
        lab->forwards[i].n += g->forwards[i].n;
        lab->forwards[i].us += g->forwards[i].us;
    }
    for (int k = 0; k < LS_LAB_DISTANCES && ls_lab_run_place(run, LS_LAB_DISTANCE); k++) {
        lab->distances.of[k] += g->distances.of[k];
        for (int r = 0; r <= LS_MAX_TOP; r++) lab->distances.rank[k][r] += g->distances.rank[k][r];
    }
    if (ls_lab_run_place(run, LS_LAB_RETRIEVAL)) {
        add_matches(lab->matches.root, g->matches.root);
        add_matches(lab->matches.guess, g->matches.guess);
    }
    if (!ls_lab_run_place(run, LS_LAB_HITS)) return;
    lab->hits.trees += g->hits.trees;
    for (int i = 0; i < LS_LAB_HIT_NODES; i++) {
        lab->hits.node[i].tested += g->hits.node[i].tested;
        lab->hits.node[i].accepted += g->hits.node[i].accepted;
    }
}

static void leave_out(ls_lab *lab, const char *path, const ls_lab_listener *l) {
    char *text = ls_format("%s: skipped, the recording is incomplete or damaged", path);
    if (l->left_out) l->left_out(l->ud, text);
    free(text);
    lab->n_left_out++;
}

// Adds the recording to the lab.
static ls_code take(ls_lab *lab, size_t run, size_t item, const char *path, const reading *g, ls_err *err) {
    const uint64_t prompts = ls_hash_bytes(g->asked.p, g->asked.n);
    if (lab->prompts[item] && lab->prompts[item] != prompts)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "%s: the prompts differ from the earlier recordings of %s; record it again", path,
                       lab->index.items[item].name);
    lab->prompts[item] = prompts;
    lab->lossy[run] |= g->lossy;
    lab->sampled[run] |= g->sampled;
    lab->answers[run * lab->index.n_items + item] = (ls_lab_answer){true, g->result};
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
    ls_code code = read_trace(lab, r, path, g, err);
    const bool whole = !code && !g->cut;
    if (whole) code = take(lab, run, item, path, g, err);
    else if (!code || code == LS_E_PARSE) {
        leave_out(lab, path, l);
        code = LS_OK;
    }
    if (!whole || code) ls_result_free(&g->result);
    ls_buf_free(&g->asked);
    free(g->output);
    free(g);
    free(path);
    return code;
}

// ---- all of them

static void judge(ls_lab *lab) {
    const ls_lab_index *x = &lab->index;
    lab->ar = -1;
    for (size_t r = 0; r < x->n_runs; r++)
        if (!strcmp(x->runs[r].word, "ar") && !(x->runs[r].temperature > 0)) lab->ar = (int)r;
    for (size_t r = 0; r < x->n_runs; r++)
        for (size_t i = 0; i < x->n_items; i++) {
            ls_lab_answer *a = &lab->answers[r * x->n_items + i];
            const ls_lab_answer *ar = lab->ar < 0 ? NULL : ls_lab_answer_of(lab, (size_t)lab->ar, i);
            if (!a->there) continue;
            const ls_result *plain = ar && ar->there && !lab->sampled[r] ? &ar->result : NULL;
            ls_result_judge(&a->result, plain, plain);
            if (!plain || lab->lossy[r] || (int)r == lab->ar) continue;
            lab->exact++;
            lab->different += a->result.first_difference >= 0;
        }
}

ls_code ls_lab_read(ls_lab *lab, const char *dir, const ls_lab_listener *l, ls_err *err) {
    *lab = (ls_lab){.ar = -1};
    ls_code code = ls_lab_index_read(&lab->index, dir, err);
    if (code) return code;
    const size_t n = lab->index.n_runs * lab->index.n_items;
    lab->answers = ls_calloc(n, sizeof *lab->answers);
    lab->lossy = ls_calloc(lab->index.n_runs, sizeof *lab->lossy);
    lab->sampled = ls_calloc(lab->index.n_runs, sizeof *lab->sampled);
    lab->prompts = ls_calloc(lab->index.n_items, sizeof *lab->prompts);
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

ls_total ls_lab_total(const ls_lab *lab, size_t run, const char *category, bool interval) {
    const ls_lab_index *x = &lab->index;
    const ls_result **members = ls_calloc(x->n_items, sizeof *members);
    size_t n = 0;
    for (size_t i = 0; i < x->n_items; i++) {
        const ls_lab_answer *a = ls_lab_answer_of(lab, run, i);
        if (!a->there || (lab->ar >= 0 && !ls_lab_answer_of(lab, (size_t)lab->ar, i)->there)) continue;
        if (!category || !strcmp(category, x->items[i].category)) members[n++] = &a->result;
    }
    const ls_total t = ls_total_of(members, n, interval);
    free(members);
    return t;
}

const char **ls_lab_categories(const ls_lab *lab) {
    const char **out = ls_calloc(lab->index.n_items + 1, sizeof *out);
    for (size_t i = 0; i < lab->index.n_items; i++) out[i] = lab->index.items[i].category;
    ls_suite_distinct(out, lab->index.n_items);
    return out;
}
