// What the lab counts, against plain counts of the same steps; the list of its recordings; which recordings it takes.
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/lab_plan.h"
#include "recorded.h"
#include "report/lab.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static uint64_t counter;

static int below(int n) {
    return (int)(ls_uniform_at(9, counter++) * n);
}

// ---- distances

static void ranks_of_later_tokens_are_counted(void **state) {
    (void)state;
    enum { N = 300, TOP = 5, KINDS = 8 };
    ls_lab_position *p = ls_calloc(N, sizeof *p);
    ls_lab_distances d = {0};
    for (int i = 0; i < N; i++) {
        p[i].token = below(KINDS);
        p[i].n_top = (int16_t)(below(10) ? TOP : 0); // some were not kept
        for (int k = 0; k < p[i].n_top; k++) p[i].top[k] = (p[i].token + 3 * k) % KINDS;
    }
    ls_lab_count_distances(&d, p, N);
    for (int distance = 2; distance <= 4; distance++) {
        uint64_t of = 0, rank[TOP] = {0}, beyond = 0;
        for (int later = distance - 1; later < N; later++) { // the root is at distance 1 of its own logits
            const ls_lab_position *at = &p[later - (distance - 1)];
            bool found = false;
            for (int k = 0; k < at->n_top; k++)
                if (at->top[k] == p[later].token) rank[k]++, found = true;
            of += at->n_top > 0;
            beyond += at->n_top > 0 && !found;
        }
        assert_int_equal(d.of[distance - 2], of);
        for (int k = 0; k < TOP; k++) assert_int_equal(d.rank[distance - 2][k], rank[k]);
        assert_int_equal(d.rank[distance - 2][LS_MAX_TOP], beyond);
        assert_true(beyond > 0 && rank[1] > 0);
    }
    ls_lab_distances none = {0};
    ls_lab_count_distances(&none, p, 1); // the only token of an output has none behind it
    assert_int_equal(none.of[0] + none.of[1] + none.of[2], 0);
    free(p);
}

// ---- trees

// A tree of random shape with estimates, and a random path that is accepted.
static void grow(ls_step *s) {
    ls_step_start(s, (ls_step){.forward = true, .n_path = 1, .n_emitted = 1});
    s->path[0] = 0;
    s->tree.n = s->rows = (int16_t)(2 + below(40));
    s->tree.nodes[0] = (ls_node){.parent = -1, .branch = -1};
    for (int i = 1; i < s->tree.n; i++) {
        const int16_t parent = (int16_t)below(i < 12 ? 1 + i / 3 : i);
        const int16_t branch = parent ? s->tree.nodes[parent].branch : (int16_t)s->tree.n_branches++;
        s->tree.nodes[i] = (ls_node){.token = i,
                                     .parent = parent,
                                     .depth = (int16_t)(s->tree.nodes[parent].depth + 1),
                                     .branch = branch,
                                     .est_p = below(5) ? (float)below(4) / 4 : NAN};
        if (!parent)
            s->tree.branches[branch] = (ls_branch){.rank = (int16_t)(below(3) - 1), .match_n = (int16_t)below(5)};
        if (parent == s->path[s->n_path - 1] && below(2)) s->path[s->n_path++] = i;
    }
    ls_tree_mark(&s->tree, s->path, s->n_path);
    s->n_emitted = (int16_t)(1 + below(s->n_path)); // the turn may end within the path
}

// The place of row i among its siblings, by taking the best one away again and again.
static int slow_place(const ls_step *s, int i) {
    bool taken[LS_MAX_ROWS] = {0};
    for (int place = 0;; place++) {
        int best = -1;
        for (int k = 1; k < s->tree.n; k++) {
            if (taken[k] || s->tree.nodes[k].parent != s->tree.nodes[i].parent) continue;
            if (best < 0 || s->tree.nodes[k].est_p > s->tree.nodes[best].est_p) best = k;
        }
        if (best == i) return place;
        taken[best] = true;
    }
}

static void hits_are_counted_by_path(void **state) {
    (void)state;
    typedef struct {
        char way[64];
        uint64_t tested, accepted;
    } slow;
    slow *want = ls_calloc(20000, sizeof *want);
    int n_want = 0;
    ls_lab_hits *h = ls_calloc(1, sizeof *h);
    ls_step *s = ls_step_new();
    for (int round = 0; round < 500; round++) {
        grow(s);
        for (int i = 1; i < s->tree.n; i++)
            if (isnan(s->tree.nodes[i].est_p)) s->tree.nodes[i].est_p = 0; // what has none stands by its row, below
        ls_lab_count_hits(h, s);
        for (int i = 1; i < s->tree.n; i++) {
            const int parent = s->tree.nodes[i].parent;
            if (s->tree.nodes[parent].state != LS_NODE_ACCEPTED) continue;
            char way[64] = "";
            bool inside = s->tree.nodes[i].depth <= LS_LAB_DEPTH;
            for (int k = i; k > 0 && inside; k = s->tree.nodes[k].parent) {
                char longer[64];
                const int place = slow_place(s, k);
                inside = place < LS_LAB_PLACES;
                snprintf(longer, sizeof longer, "%d%s%.40s", place + 1, *way ? "." : "", way);
                snprintf(way, sizeof way, "%s", longer);
            }
            if (!inside) continue;
            int at = 0;
            while (at < n_want && strcmp(want[at].way, way)) at++;
            if (at == n_want) snprintf(want[n_want++].way, sizeof want->way, "%s", way);
            want[at].tested++;
            want[at].accepted += s->tree.nodes[i].state == LS_NODE_ACCEPTED;
        }
    }
    assert_int_equal(h->trees, 500);
    const ls_lab lab = {.hits = *h};
    ls_chart d = ls_lab_chart(&lab, LS_FIGURE_HITS);
    assert_int_equal(d.n, 1);
    assert_int_equal(d.series[0].n, n_want);
    assert_true(n_want > 20);
    for (size_t k = 0; k < d.series[0].n; k++) {
        const ls_point *p = &d.series[0].points[k];
        int at = 0;
        while (at < n_want && strcmp(want[at].way, p->label)) at++;
        assert_true(at < n_want);
        assert_int_equal(p->n, want[at].tested);
        assert_true(p->count == (double)want[at].accepted);
        assert_true(p->x == (double)(1 + strlen(p->label)) / 2);
    }
    // without an estimate: by row
    *h = (ls_lab_hits){0};
    ls_step_start(s, (ls_step){.forward = true, .n_path = 2, .n_emitted = 2, .rows = 3});
    s->path[1] = 2;
    s->tree.n = 3, s->tree.n_branches = 2;
    s->tree.branches[0] = s->tree.branches[1] = (ls_branch){0};
    s->tree.nodes[0] = (ls_node){.parent = -1, .branch = -1};
    for (int i = 1; i < 3; i++)
        s->tree.nodes[i] = (ls_node){.token = i, .depth = 1, .branch = (int16_t)(i - 1), .est_p = NAN};
    ls_tree_mark(&s->tree, s->path, s->n_path);
    ls_lab_count_hits(h, s);
    assert_int_equal(h->node[0].tested, 1);
    assert_int_equal(h->node[0].accepted, 0);
    assert_int_equal(h->node[1].accepted, 1);
    ls_chart_free(&d);
    ls_step_free(s);
    free(h);
    free(want);
}

static void matches_are_counted_by_length(void **state) {
    (void)state;
    ls_lab_matches m = {0}, want = {0};
    ls_step *s = ls_step_new();
    for (int round = 0; round < 500; round++) {
        grow(s);
        ls_lab_count_matches(&m, s);
        for (int b = 0; b < s->tree.n_branches; b++) {
            uint64_t accepted = 0;
            for (int k = 1; k < s->n_path && k < s->n_emitted; k++) // emitted ones
                accepted += s->tree.nodes[s->path[k]].branch == b;
            const int n = s->tree.branches[b].match_n;
            if (n > 3) continue; // longer than any that the paper looks up
            ls_lab_match *to = s->tree.branches[b].rank < 0 ? &want.root[n] : &want.guess[n];
            to->branches++;
            to->helped += accepted > 0;
            to->accepted += accepted;
        }
    }
    assert_memory_equal(&m, &want, sizeof m);
    assert_true(m.root[2].helped > 0 && m.guess[3].accepted > m.guess[3].helped);
    ls_step_free(s);
}

// ---- costs

static void a_row_breaks_even_at_its_share_of_the_cost(void **state) {
    (void)state;
    ls_lab *lab = ls_calloc(1, sizeof *lab);
    for (int i = 0; i < LS_COST_SIZES; i++) lab->machine.costs.base_ms[i] = 2.0 + 0.5 * (ls_cost_rows[i] - 1);
    lab->forwards[1] = (ls_lab_forwards){.n = 40, .us = 40 * 4e3};
    lab->forwards[9] = (ls_lab_forwards){.n = 20, .us = 20 * 10e3};
    lab->forwards[10] = (ls_lab_forwards){.n = 19, .us = 19 * 10e3}; // too few to be shown
    ls_chart d = ls_lab_chart(lab, LS_FIGURE_BREAK_EVEN), ms = ls_lab_chart(lab, LS_FIGURE_COST);
    assert_int_equal(d.n, 2);
    assert_int_equal(d.series[0].n, LS_COST_SIZES);
    for (int i = 0; i < LS_COST_SIZES; i++) {
        assert_true(fabs(d.series[0].points[i].value - (2.0 + 0.5 * (ls_cost_rows[i] - 1)) / 2.0) < 1e-12);
        assert_true(ms.series[0].points[i].value == lab->machine.costs.base_ms[i]);
    }
    assert_int_equal(d.series[1].n, 2);
    assert_true(d.series[1].points[0].value == 1 && d.series[1].points[1].value == 2.5);
    assert_true(d.series[1].points[1].x == 9 && d.series[1].points[1].n == 20);
    assert_true(ms.series[1].points[0].value == 4 && ms.series[1].points[1].value == 10);
    ls_chart_free(&d);
    ls_chart_free(&ms);
    free(lab);
}

// Forwards of up to 64 rows take `ms` each.
static int32_t tokens_at(const ls_lab_plan *p, double ms) {
    ls_cost_curve z = {.cost_context = 100};
    for (int i = 0; i < LS_COST_SIZES; i++) z.base_ms[i] = ms;
    return ls_lab_plan_tokens(p, &z);
}

static void turns_are_as_long_as_time_allows(void **state) {
    (void)state;
    ls_options o;
    ls_lab_plan p;
    ls_err err;
    ls_options_init(&o);
    assert_int_equal(ls_lab_plan_make(&p, "pld", &o, 33, &err), LS_OK);
    assert_int_equal(p.n, p.index.n_runs);
    assert_int_equal(p.index.max_tokens, 33);
    for (size_t i = 0; i < p.n; i++) { // what a word says is what is decoded
        assert_int_equal(p.c[i].setup.s.decode.max_tokens, 33);
        assert_true(p.c[i].setup.s.decode.sampling.temperature == p.index.runs[i].temperature);
        assert_int_equal(p.c[i].setup.s.decode.sampling.seed, 1); // another call can go on
    }
    assert_int_equal(tokens_at(&p, 0.01), 64);
    assert_int_equal(tokens_at(&p, 1000), 16);
    assert_int_equal(tokens_at(&p, 0), 64); // not measured
    // beyond 64 rows in proportion: so many steps of a prompt take forty seconds
    double rows = 0;
    for (size_t i = 0; i < p.n; i++) {
        const int32_t max_rows = p.c[i].setup.s.decode.max_rows, n = max_rows ? max_rows : p.c[i].method->rows;
        rows += (n > 64 && !(p.c[i].method->sized && !max_rows) ? n / 64.0 : 1) / (p.c[i].method->drafter ? 1.4 : 1);
    }
    assert_in_range(tokens_at(&p, 40e3 / rows / 31.5), 31, 31);
    ls_lab_plan_free(&p);
    ls_options_free(&o);
}

// ---- the list

static char folder[40];

static int make_folder(void **state) {
    char traces[64];
    snprintf(folder, sizeof folder, "/tmp/lab-%d", (int)getpid());
    snprintf(traces, sizeof traces, "%s/traces", folder);
    if (mkdir(folder, 0700) || mkdir(traces, 0700)) return -1;
    return recorded_set_up(state);
}

static int remove_folder(void **state) {
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return recorded_tear_down(state) || system(command) != 0;
}

static void place(ls_lab_index *x, ls_lab_use use, const char *word, double temperature, double at) {
    ls_lab_place p = {.use = use, .series = "a \"line\"", .label = "one", .x = at};
    ls_lab_index_place(x, word, temperature, &p);
}

static void the_list_survives_its_file(void **state) {
    (void)state;
    ls_lab_index x = {0}, y;
    ls_err err;
    place(&x, LS_LAB_MAIN, "plain", 0, 0);
    place(&x, LS_LAB_CAPACITY, "pld:8", 0, 8);
    place(&x, LS_LAB_TEMPERATURE, "pld:8", 0.6, 0.6);
    place(&x, LS_LAB_HITS, "pld:8", 0, -1); // the same run again
    ls_lab_index_item(&x, "first", "");
    ls_lab_index_item(&x, "\xc3\xa9 \"2\"", "writing");
    assert_int_equal(x.n_runs, 3);
    x.max_tokens = 77;
    assert_int_equal(ls_lab_index_write(&x, folder, &err), LS_OK);
    assert_int_equal(ls_lab_index_read(&y, folder, &err), LS_OK);
    assert_int_equal(y.n_runs, 3);
    assert_int_equal(y.max_tokens, 77);
    assert_int_equal(y.runs[1].n_places, 2);
    assert_int_equal(ls_lab_run_place(&y.runs[1], LS_LAB_HITS)->x, -1);
    assert_null(ls_lab_run_place(&y.runs[1], LS_LAB_TEMPERATURE));
    assert_true(y.runs[2].temperature == 0.6);
    assert_string_equal(y.runs[0].places[0].series, "a \"line\"");
    assert_string_equal(y.items[1].name, "\xc3\xa9 \"2\"");
    assert_string_equal(y.items[1].category, "writing");
    // a path for each run, whatever the word holds
    const char *const words[] = {"a:1", "a/1", "a~1", "a%3A1", "../../a", "..", "a+b=1", "dir/x.yaml"};
    enum { WORDS = sizeof words / sizeof *words };
    char *paths[WORDS];
    for (int i = 0; i < WORDS; i++) {
        ls_lab_run r = {.temperature = 0};
        snprintf(r.word, sizeof r.word, "%s", words[i]);
        paths[i] = ls_lab_trace_path("d", &r, 41);
        assert_ptr_equal(strchr(paths[i] + strlen("d/traces/"), '/'), strrchr(paths[i], '/')); // one folder
        for (int k = 0; k < i; k++) assert_string_not_equal(paths[i], paths[k]);
    }
    assert_string_equal(paths[5], "d/traces/%2E./0042.jsonl.zst");
    assert_string_equal(paths[0], "d/traces/a~1/0042.jsonl.zst");
    for (int i = 0; i < WORDS; i++) free(paths[i]);
    ls_lab_index_free(&x);
    ls_lab_index_free(&y);
}

static void a_list_that_is_none_is_refused(void **state) {
    (void)state;
    static const char first[] = "{\"format\":\"logitspec-lab\",\"version\":1,\"max_tokens\":9}\n";
    static const char run[] = "{\"type\":\"run\",\"word\":\"plain\",\"temperature\":0,\"shown\":"
                              "[{\"use\":\"main\",\"series\":\"\",\"label\":\"\",\"x\":0}]}\n";
    static const char item[] = "{\"type\":\"item\",\"name\":\"1\",\"category\":\"\"}\n";
    const struct {
        const char *text[4];
        ls_code code;
        const char *says;
    } cases[] = {
        {{first, run, item}, LS_OK, ""},
        {{run, item}, LS_E_PARSE, ":1: the first line"},
        {{"{\"format\":\"logitspec-lab\",\"version\":2}\n", run, item}, LS_E_UNSUPPORTED, "version 2"},
        {{first, "{\"type\":", item}, LS_E_PARSE, ":2"},
        {{first, "{\"type\":\"run\",\"word\":7,\"temperature\":0,\"shown\":[]}\n", item}, LS_E_PARSE, ":2: word"},
        {{first, "{\"type\":\"run\",\"word\":\"plain\",\"temperature\":-1,\"shown\":[]}\n"}, LS_E_PARSE, "temperature"},
        {{first, run, "{\"type\":\"item\",\"name\":\"1\"}\n"}, LS_E_PARSE, ":3: category"},
        {{first, item}, LS_E_RANGE, "no run"},
        {{first, run}, LS_E_RANGE, "no conversation"},
        {{""}, LS_E_RANGE, "no run"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_lab_index x;
        ls_err err = {0};
        ls_buf text = {0};
        char *name = ls_format("%s/traces/lab.jsonl", folder);
        for (int k = 0; k < 4 && cases[i].text[k]; k++) ls_buf_str(&text, cases[i].text[k]);
        assert_int_equal(ls_write_file(name, &text, &err), LS_OK);
        assert_int_equal(ls_lab_index_read(&x, folder, &err), cases[i].code);
        assert_non_null(strstr(err.msg, cases[i].says));
        ls_lab_index_free(&x);
        ls_buf_free(&text);
        free(name);
    }
}

// ---- recordings

static void hear(void *ud, const char *text) {
    ls_buf_str(ud, text);
}

// Records the way of run r of the list, as its item 1.
static void record_run(const ls_lab_index *x, size_t r, const char *prompt, int32_t max_rows) {
    char *name = ls_lab_trace_path(folder, &x->runs[r], 0), *slash = strrchr(name, '/');
    char method[LS_LAB_WORD];
    *slash = 0;
    mkdir(name, 0700);
    *slash = '/';
    assert_true(strlen(name) < sizeof path);
    strcpy(path, name);
    snprintf(method, sizeof method, "%.*s", (int)strcspn(x->runs[r].word, ":"), x->runs[r].word);
    record(prompt, options(method, max_rows, 60), 2);
    free(name);
}

// ... as plain text without its last line, the end of the last turn.
static void record_without_end(const ls_lab_index *x, size_t r) {
    char *name = ls_lab_trace_path(folder, &x->runs[r], 0);
    ls_err err = {0};
    snprintf(path, sizeof path, "%s/plain.jsonl", folder);
    record("One fish, two", options("logitspec-paper", 9, 60), 2);
    ls_buf text = slurp();
    for (text.n--; text.p[text.n - 1] != '\n';) text.n--;
    assert_int_equal(ls_write_file(name, &text, &err), LS_OK);
    ls_buf_free(&text);
    free(name);
}

static void recordings_give_the_counts_of_their_steps(void **state) {
    (void)state;
    ls_lab_index x = {.max_tokens = 60};
    ls_lab *lab = ls_calloc(1, sizeof *lab);
    ls_err err = {0};
    ls_buf said = {0};
    const ls_lab_listener listener = {NULL, hear, &said};
    place(&x, LS_LAB_MAIN, "plain", 0, 0);
    place(&x, LS_LAB_DISTANCE, "plain", 0, 0);
    place(&x, LS_LAB_CAPACITY, "logitspec-paper:9", 0, 9);
    place(&x, LS_LAB_RETRIEVAL, "logitspec-paper:9", 0, 0);
    place(&x, LS_LAB_HITS, "pld:5", 0, 0);
    ls_lab_index_item(&x, "1", "words");
    ls_lab_index_item(&x, "2", "words"); // was never recorded
    assert_int_equal(ls_lab_index_write(&x, folder, &err), LS_OK);
    record_run(&x, 0, "One fish, two", 1);
    // token by token over both turns, which are apart
    uint64_t of[3] = {0}, near[3] = {0};
    for (int i = 0; i < n_steps; i++)
        for (int k = 0; k < 3; k++) {
            if (i + k + 1 >= n_steps || steps[i + k + 1]->turn != steps[i]->turn) continue;
            of[k]++;
            for (int r = 0; r < 8 && r < steps[i]->n_top; r++)
                near[k] += steps[i]->top[r].id == steps[i + k + 1]->tree.nodes[0].token;
        }
    record_run(&x, 1, "One fish, two", 9);
    uint64_t rows[10] = {0}, branches = 0, tokens = 0, forwards = 0;
    const int paper_steps = n_steps;
    for (int i = 0; i < n_steps; i++) {
        tokens += (uint64_t)steps[i]->n_emitted;
        if (!steps[i]->forward) continue;
        rows[steps[i]->rows]++;
        forwards++;
        for (int b = 0; b < steps[i]->tree.n_branches; b++) branches += steps[i]->tree.branches[b].rank < 0;
    }
    assert_int_equal(ls_lab_read(lab, folder, &listener, &err), LS_OK);
    assert_int_equal(said.n, 0);
    assert_int_equal(lab->n_there, 2);
    for (int k = 0; k < 3; k++) {
        uint64_t best = 0;
        for (int r = 0; r < 8; r++) best += lab->distances.rank[k][r];
        assert_int_equal(lab->distances.of[k], of[k]);
        assert_int_equal(best, near[k]);
        assert_true(best > 0);
    }
    uint64_t found = 0;
    for (int n = 0; n < LS_LAB_MATCHES; n++) found += lab->matches.root[n].branches;
    assert_int_equal(found, branches);
    assert_true(branches > 0 && forwards > 0);
    assert_int_equal(lab->forwards[9].n, rows[9]);
    assert_int_equal(lab->hits.trees, 0); // pld was not recorded
    assert_int_equal(lab->exact, 1);
    assert_int_equal(lab->different, 0);
    const ls_total t = ls_bench_total(&lab->b, 1, "words");
    assert_int_equal(t.prompts, 1);
    assert_int_equal(t.turns, 2);
    assert_int_equal(t.steps, paper_steps);
    assert_int_equal(t.emitted, tokens);
    assert_int_equal(ls_bench_total(&lab->b, 1, "others").prompts, 0);
    ls_chart d = ls_lab_chart(lab, LS_FIGURE_CAPACITY);
    assert_int_equal(d.n, 1);
    assert_true(d.series[0].points[0].value == (double)tokens / (double)paper_steps);
    ls_chart_free(&d);
    ls_lab_free(lab);

    // one that is cut short is left out, and named
    record_run(&x, 1, "One fish, two", 9);
    assert_int_equal(truncate(path, 600), 0);
    assert_int_equal(ls_lab_read(lab, folder, &listener, &err), LS_OK);
    assert_int_equal(lab->n_there, 1);
    assert_int_equal(lab->n_left_out, 1);
    assert_non_null(strstr(said.p, "/logitspec-paper~9/0001.jsonl.zst"));
    ls_lab_free(lab);

    record_without_end(&x, 1);
    assert_int_equal(ls_lab_read(lab, folder, &listener, &err), LS_OK);
    assert_true(lab->n_there == 1 && lab->n_left_out == 1);
    ls_lab_free(lab);

    // one of another method, or of another model, is refused
    record_run(&x, 1, "One fish, two", 9);
    unlink(path);
    record_run(&x, 2, "One fish, two", 5);
    char *theirs = ls_lab_trace_path(folder, &x.runs[1], 0);
    assert_int_equal(rename(path, theirs), 0);
    assert_int_equal(ls_lab_read(lab, folder, &listener, &err), LS_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "not recorded with logitspec-paper:9"));
    strcpy(model.name, "another");
    record_run(&x, 1, "One fish, two", 9);
    strcpy(model.name, "script");
    assert_int_equal(ls_lab_read(lab, folder, &listener, &err), LS_E_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "another model"));
    unlink(theirs);
    free(theirs);
    ls_lab_index_free(&x);
    ls_buf_free(&said);
    free(lab);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_later_tokens_are_counted),
        cmocka_unit_test(hits_are_counted_by_path),
        cmocka_unit_test(matches_are_counted_by_length),
        cmocka_unit_test(a_row_breaks_even_at_its_share_of_the_cost),
        cmocka_unit_test(turns_are_as_long_as_time_allows),
        cmocka_unit_test(the_list_survives_its_file),
        cmocka_unit_test(a_list_that_is_none_is_refused),
        cmocka_unit_test(recordings_give_the_counts_of_their_steps),
    };
    return cmocka_run_group_tests_name("lab", tests, make_folder, remove_folder);
}
