// `bench` and `compare`: the same prompts with several methods on one engine, to compare outputs and speed; files of
// such results.
#include "base/file.h"
#include "base/mem.h"
#include "base/err.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "cli/comparison.h"
#include "cli/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- forms of the results

static ls_code check_form(const char *path, int methods, ls_err *err) {
    const ls_form form = ls_form_of(path);
    if (form == LS_FORM_TEXT || form == LS_FORM_SVG || form == LS_FORM_CAST)
        return ls_fail(err, LS_E_USAGE,
                       "-o %.80s: the name must end in .json, .md, .csv, .html or .jsonl (Spec-Bench answers)", path);
    if (form == LS_FORM_JSONL && methods != 1)
        return ls_fail(err, LS_E_USAGE, "-o %.80s: Spec-Bench output holds one method; select it with --methods", path);
    return LS_OK;
}

// Writes the results to -o and to standard output.
static ls_code present(const ls_bench *b, const ls_command_line *c, ls_err *err) {
    ls_buf out = {0};
    if (c->out) {
        ls_code code = check_form(c->out, b->n, err);
        if (!code) {
            ls_bench_write(b, ls_form_of(c->out), &out);
            code = ls_write_file(c->out, &out, err);
        }
        ls_buf_free(&out);
        if (code || (c->quiet && !c->json)) return code;
    }
    ls_bench_write(b, c->json ? LS_FORM_JSON : LS_FORM_TEXT, &out);
    if (!c->json) ls_wrap(&out, 0, ls_columns(STDOUT_FILENO), 2);
    ls_print(&out);
    return LS_OK;
}

// ---- what is measured

typedef struct {
    const ls_command_line *c;
    ls_comparison k;
    ls_bench earlier; // results in the file of --resume
} work;

static ls_code read_prompts(work *w, ls_err *err) {
    const ls_command_line *c = w->c;
    int32_t limit, of_each, turns;
    ls_code code = ls_count_read("--limit", c->limit, 1, INT32_MAX, &limit, err);
    if (!code) code = ls_count_read("--per-category", c->per_category, 1, INT32_MAX, &of_each, err);
    if (!code) code = ls_count_read("--turns", c->turns, 1, INT32_MAX, &turns, err);
    if (!code) code = ls_count_read("--repeat", c->repeat, 1, 1000, &w->k.repeat, err);
    if (code) return code;
    if (c->suite && !c->prompt && !c->prompt_file && !c->strict)
        code = ls_suite_read(&w->k.suite, c->suite, false, err);
    else code = ls_comparison_prompts(&w->k, c, err);
    if (!code) ls_suite_cut(&w->k.suite, (size_t)limit, (size_t)of_each, (size_t)turns);
    w->k.lenient = c->suite && !c->strict;
    for (size_t i = 0; i < w->k.suite.n_left_out; i++) ls_bench_leave_out(&w->earlier, w->k.suite.left_out[i]);
    for (size_t i = 0; i < w->earlier.n_left_out; i++) ls_warn("left out: %s", w->earlier.left_out[i]);
    return code;
}

// A hash of settings, methods and prompts: with machine and model, all that results depend on.
static void sum_up(work *w) {
    ls_buf all = {0};
    for (int i = 0; i < w->k.n; i++) {
        ls_buf_fmt(&all, "%s\n", w->k.c[i].label);
        for (int o = 0; o < ls_options_count(); o++) {
            const char *key = ls_options_key(o);
            if (!strncmp(key, "ui.", 3)) continue;
            ls_buf_fmt(&all, "%s=", key);
            ls_options_value(&w->k.c[i].options, o, &all);
            ls_buf_char(&all, '\n');
        }
    }
    ls_buf_fmt(&all, "%d\n", w->k.repeat);
    for (size_t p = 0; p < w->k.suite.n; p++) {
        const ls_suite_item *item = &w->k.suite.items[p];
        ls_buf_fmt(&all, "%s %s %zu\n", item->name, item->category, item->n_turns);
        ls_suite_text(item, &all);
    }
    ls_sha256_hex(all.p, all.n, w->k.b.settings);
    ls_buf_free(&all);
}

// ---- continuing an earlier file

static ls_code read_earlier(work *w, ls_err *err) {
    const char *path = w->c->out;
    if (!path || !ls_ends_with(path, ".json"))
        return ls_fail(err, LS_E_USAGE, "--resume needs -o FILE.json, the file to continue");
    if (access(path, F_OK) && errno == ENOENT) return LS_OK;
    ls_bench_free(&w->earlier); // the file lists the skipped prompts, too
    const ls_code code = ls_bench_read(&w->earlier, path, err);
    if (code) return code;
    if (strcmp(w->earlier.settings, w->k.b.settings))
        return ls_fail(err, LS_E_RANGE,
                       "%s has other settings, methods or prompts: repeat its command, or name another file", path);
    for (size_t p = 0; p < w->earlier.done; p++) { // drops prompts that the earlier run skipped
        while (p < w->k.suite.n && strcmp(w->k.suite.items[p].name, w->earlier.prompts[p].name))
            ls_suite_drop(&w->k.suite, p);
        if (p == w->k.suite.n)
            return ls_fail(err, LS_E_PARSE, "%s and the suite have different prompts or another order of prompts",
                           path);
    }
    return LS_OK;
}

static bool same_work(const ls_bench *b, const ls_bench *from) {
    const ls_manifest *x = &b->manifest, *y = &from->manifest;
    bool same = from->n == b->n && !strcmp(x->sha256, y->sha256) && !strcmp(x->dtype, y->dtype) &&
                !strcmp(x->device, y->device) && !strcmp(x->kernel, y->kernel) && !strcmp(x->commit, y->commit) &&
                !strcmp(x->version, y->version) && !strcmp(x->processor, y->processor) && x->threads == y->threads &&
                (from->done == from->planned || !strcmp(x->memory, y->memory)); // with it the rest would be measured
    for (int i = 0; i < b->n && same; i++) same = !strcmp(b->methods[i].label, from->methods[i].label);
    return same;
}

static ls_code take_earlier(work *w, ls_err *err) {
    ls_bench *b = &w->k.b, *from = &w->earlier;
    if (from->done && !same_work(b, from))
        return ls_fail(err, LS_E_RANGE,
                       "%s was measured with another program, model, arithmetic, machine, number of threads or file of "
                       "bigrams: name another file",
                       w->c->out);
    for (size_t i = 0; i < from->n_left_out; i++) ls_bench_leave_out(b, from->left_out[i]);
    for (size_t p = 0; p < from->done; p++)
        for (int i = 0; i < b->n; i++) {
            *ls_bench_result(b, p, i) = *ls_bench_result(from, p, i);
            *ls_bench_result(from, p, i) = (ls_result){0};
        }
    ls_ids_add(&b->resumed, from->resumed.p, from->resumed.n);
    b->done = from->done;
    b->disturbed = from->disturbed;
    if (b->done && from->done == from->planned) b->manifest = from->manifest; // complete: measures nothing
    return LS_OK;
}

static ls_code run_all(work *w, ls_err *err) {
    const ls_command_line *c = w->c;
    const char *list = c->methods ? c->methods : "plain,logitspec,logitspec-paper";
    ls_options base; // one seed for all methods, and the same in every benchmark (so that --resume works)
    ls_manifest *m = &w->k.b.manifest;
    ls_options_copy(&base, &c->options);
    if (!base.seed.set) base.seed = (ls_opt_SEED){true, 1};
    ls_code code = ls_variants_read(&w->k.c, &w->k.n, "--methods", list, &base, err);
    ls_options_free(&base);
    if (code) return code;
    if (c->out && (code = check_form(c->out, w->k.n, err))) return code;
    if ((code = read_prompts(w, err))) return code;
    sum_up(w);
    if (c->resume && (code = read_earlier(w, err))) return code;
    ls_cpu_wait waits = ls_machine_begin(m);
    if ((code = ls_comparison_open(&w->k, err))) return code;
    ls_machine_model(m, &w->k.model, c->suite != NULL); // a single prompt should start at once
    // with the costs of the first method that has any, another run sizes trees alike
    for (int i = w->k.n - 1; i >= 0; i--) {
        const ls_cost_curve *z = ls_session_costs(w->k.sessions[i]);
        if (z->base_ms[0] > 0) ls_cost_text(z, m->costs);
        const ls_drafter *d = ls_session_drafter(w->k.sessions[i]);
        if (d && d->began) snprintf(m->memory, sizeof m->memory, "%016" PRIx64, d->began);
    }
    if ((code = take_earlier(w, err))) return code;
    if (c->out && ls_form_of(c->out) == LS_FORM_JSON) w->k.file = c->out;
    const size_t first = w->k.b.done;
    code = ls_comparison_run(&w->k, err);
    if (w->k.b.done > first) ls_machine_end(m, &waits);
    return code;
}

ls_code ls_cmd_compare(const ls_command_line *c, ls_console *to, ls_err *err) {
    work w = {.c = c};
    ls_gauge_reads();
    ls_code code = run_all(&w, err);
    if (w.k.b.done) { // prints complete results even after an error
        const ls_code shown = present(&w.k.b, c, code ? NULL : err);
        if (!code) code = shown;
    } else if (!code) code = ls_fail(err, LS_E_RANGE, "the suite has no prompt that fits the context");
    if (w.k.b.exact && !ls_bench_equal(&w.k.b)) to->status = LS_EXIT_DIFFER;
    ls_bench_free(&w.earlier);
    ls_comparison_free(&w.k);
    return code;
}

// ---- result files

// Presents the methods of --methods alone.
static ls_code present_some(const ls_bench *b, const ls_command_line *c, ls_err *err) {
    int *of = ls_calloc((size_t)b->n, sizeof *of), n = 0;
    ls_code code = LS_OK;
    for (const char *at = c->methods; *at && !code;) {
        const size_t length = strcspn(at, ",");
        int i = 0;
        while (i < b->n && (strlen(b->methods[i].label) != length || strncmp(b->methods[i].label, at, length))) i++;
        for (int k = 0; k < n; k++)
            if (of[k] == i) i = b->n;
        if (i == b->n)
            code = ls_fail(err, LS_E_RANGE, "--methods: '%.*s' is not in the file, or is named twice", (int)length, at);
        else of[n++] = i;
        at += length + (at[length] == ',');
    }
    if (!code && !n) code = ls_fail(err, LS_E_USAGE, "--methods: the list is empty");
    if (!code) {
        ls_bench some = ls_bench_view(b, of, n);
        code = present(&some, c, err);
        ls_bench_view_free(&some);
    }
    free(of);
    return code;
}

static ls_code show_file(const ls_command_line *c, ls_console *to, ls_err *err) {
    (void)to;
    ls_bench b;
    if (c->suite || c->prompt || c->prompt_file)
        return ls_fail(err, LS_E_USAGE, "'bench show' takes no prompts: it prints the results of a file");
    ls_code code = ls_bench_read(&b, c->args[1], err);
    if (!code) code = (c->methods ? present_some : present)(&b, c, err);
    ls_bench_free(&b);
    return code;
}

static ls_code compare_files(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_bench a, b = {0};
    ls_code code = ls_bench_read(&a, c->args[1], err);
    if (!code) code = ls_bench_read(&b, c->args[2], err);
    if (!code) code = ls_bench_diff(&a, &b, &to->out, c->json, err);
    if (!c->json) ls_wrap(&to->out, 0, ls_columns(STDOUT_FILENO), 2);
    ls_bench_free(&a);
    ls_bench_free(&b);
    return code;
}

// ---- `bench` by its first word

ls_code ls_cmd_bench(const ls_command_line *c, ls_console *to, ls_err *err) {
    static const struct {
        const char *word;
        int files; // number of file arguments
        ls_code (*run)(const ls_command_line *c, ls_console *to, ls_err *err);
        bool prompts; // takes the flags of prompts and methods
    } parts[] = {{"forward", 0, ls_bench_forward, false},
                 {"methods", 0, ls_cmd_compare, true},
                 {"show", 1, show_file, true},
                 {"diff", 2, compare_files, false},
                 {"limits", 0, ls_bench_limits, false}};
    const char *word = c->n_args ? c->args[0] : "forward";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strcmp(word, parts[i].word)) continue;
        const int files = c->n_args > 1 ? c->n_args - 1 : 0;
        if (files != parts[i].files)
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes %s", word,
                           parts[i].files == 2 ? "two files of 'bench methods -o FILE.json'"
                           : parts[i].files    ? "one file of 'bench methods -o FILE.json'"
                                               : "no file");
        if (!parts[i].prompts && (c->suite || c->methods || c->prompt || c->prompt_file))
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes no prompts and no methods; use 'bench methods'", word);
        if (parts[i].run != ls_cmd_compare &&
            (c->limit || c->per_category || c->turns || c->repeat || c->resume || c->strict))
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes no flags of a suite; use 'bench methods'", word);
        if (parts[i].run != ls_bench_forward && (c->contexts || c->rows))
            return ls_fail(err, LS_E_USAGE, "only 'bench forward' takes --contexts and --rows");
        if (c->out && (parts[i].run == ls_bench_limits || parts[i].run == compare_files))
            return ls_fail(err, LS_E_USAGE, "'bench %s' takes no -o; to write a file, append > FILE", word);
        return parts[i].run(c, to, err);
    }
    return ls_fail(err, LS_E_USAGE, "unknown 'bench %s': expected forward, methods, show, diff or limits", word);
}
