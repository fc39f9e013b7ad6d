// `lab --suite FILE -o DIR` records many ways to decode and writes a page of figures; `lab DIR` writes the page from
// existing recordings. Runs alternate prompt by prompt, so that other load on the machine affects all of them alike.
// Every conversation gets a new, empty drafter: a recording does not depend on earlier ones, and an interrupted lab
// continues with the same counts. Recordings are written between the runs, outside the timed steps.
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/comparison.h"
#include "cli/lab_plan.h"
#include "report/lab.h"
#include "report/report.h"
#include "trace/conversation_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *dir;
    ls_lab_plan plan;
    ls_suite suite;
    ls_model model;
    ls_run here;               // this model on this machine
    size_t all, kept, decoded; // recordings: in the plan, already present, newly made
} recorder;

// ---- existing recordings

// Of the settings that change the output or the speed.
static bool same_settings(const ls_trace_header *h, const char *const *config) {
    for (; *config; config += 2)
        if (!ls_begins_among(config[0], "trace. ui. model.name model.offline") &&
            strcmp(ls_trace_config(h, config[0]), config[1]))
            return false;
    return true;
}

static bool same_prompts(const ls_report *r, const ls_suite_item *item) {
    bool same = r->n_turns <= item->n_turns;
    for (size_t i = 0; i < r->n_turns && same; i++) {
        const ls_buf *prompt = &r->turns[i].header.prompt_text;
        same = prompt->n == item->turns[i].n && (!prompt->n || !memcmp(prompt->p, item->turns[i].p, prompt->n));
    }
    return same;
}

// *is: whether the file is a complete recording of this run. LS_E_UNSUPPORTED: it is of another model.
static ls_code is_recorded(const recorder *k, size_t run, size_t item, const char *path, bool *is, ls_err *err) {
    ls_report r = {0};
    *is = false;
    if (access(path, F_OK)) return LS_OK;
    ls_code code = ls_report_add(&r, path, NULL, NULL, err);
    const ls_trace_header *h = r.n_turns ? &r.turns[0].header : NULL;
    if (h && (strcmp(h->run.sha256, k->here.sha256) || strcmp(h->run.model, k->here.model))) {
        *err = (ls_err){0};
        code =
            ls_fail(err, LS_E_UNSUPPORTED, "%s was recorded with another model (%s; this is %s): name another folder",
                    path, h->run.model, k->here.model);
    } else if (code == LS_E_PARSE) { // it is damaged: it is recorded again
        *err = (ls_err){0};
        code = LS_OK;
    } else if (!code)
        *is = h && !ls_lab_other_source(&h->run, &k->here) && same_settings(h, k->plan.c[run].setup.s.config) &&
              same_prompts(&r, &k->suite.items[item]) && ls_report_is_whole(&r);
    ls_report_free(&r);
    return code;
}

// ---- recording

static ls_code record_one(recorder *k, size_t run, size_t item, const char *path, ls_err *err) {
    const ls_setup *setup = &k->plan.c[run].setup.s;
    ls_session *session = NULL;
    ls_conversation_log *log;
    ls_result result = {0};
    ls_code code = ls_conversation_log_new(&log, k->model.vocab, err);
    const ls_run_sink sink = ls_conversation_log_sink(log);
    if (!code) code = ls_session_new(&session, &k->model, &setup->decode, err);
    if (!code) code = ls_session_calibrate(session, LS_COSTS_MEASURED, ls_gauge_show, NULL, err);
    if (!code) code = ls_item_run(session, &k->model, setup, &k->suite.items[item], &sink, &result, err);
    if (!code) {
        ls_make_folders(path);
        code = ls_conversation_log_save(log, path, err);
    }
    if (code && code != LS_E_CANCELLED)
        ls_err_prefix(err, "%s, prompt %s", k->plan.index.runs[run].word, k->suite.items[item].name);
    ls_result_free(&result);
    ls_conversation_log_free(log);
    ls_session_free(session);
    return code;
}

static ls_code record_or_keep(recorder *k, size_t run, size_t item, ls_err *err) {
    const ls_lab_run *r = &k->plan.index.runs[run];
    const size_t before = k->kept + k->decoded;
    char *stage = ls_format("recording %s at temperature %g, prompt %zu of %zu", r->word, r->temperature, item + 1,
                            k->suite.n),
         *path = ls_lab_trace_path(k->dir, r, item);
    bool is = false;
    ls_code code = ls_gauge_show(NULL, stage, (double)before / (double)k->all)
                       ? is_recorded(k, run, item, path, &is, err)
                       : ls_fail(err, LS_E_CANCELLED, "interrupted");
    if (!code && !is) code = record_one(k, run, item, path, err);
    k->kept += !code && is;
    k->decoded += !code && !is;
    free(path);
    free(stage);
    return code;
}

static ls_code make_folder(const char *dir, ls_err *err) {
    struct stat st;
    if (!mkdir(dir, 0777)) return LS_OK;
    if (errno != EEXIST) return ls_fail(err, LS_E_IO, "cannot make the folder %s: %s", dir, strerror(errno));
    if (stat(dir, &st)) return ls_fail(err, LS_E_IO, "cannot read %s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return ls_fail(err, LS_E_IO, "%s is a file: name a folder", dir);
    return LS_OK;
}

static ls_code write_index(recorder *k, ls_err *err) {
    char *inside = ls_format("%s/traces/", k->dir);
    ls_make_folders(inside);
    free(inside);
    for (size_t i = 0; i < k->suite.n; i++)
        ls_lab_index_item(&k->plan.index, k->suite.items[i].name, k->suite.items[i].category);
    return ls_lab_index_write(&k->plan.index, k->dir, err);
}

// Loads the model and fills *costs with the measured cost of forwards.
static ls_code load(recorder *k, const ls_options *o, ls_cost_curve *costs, ls_err *err) {
    ls_run_setup setup;
    ls_session *s = NULL;
    ls_run_setup_init(&setup, o);
    ls_gauge_watch(&setup.s.model.engine);
    ls_code code = ls_model_load(&k->model, &setup.s.model, err);
    if (!code) code = ls_session_new(&s, &k->model, &setup.s.decode, err);
    if (!code) code = ls_session_calibrate(s, LS_COSTS_MEASURED, ls_gauge_show, NULL, err);
    if (!code) {
        ls_run_describe(&k->here, &k->model, s, &setup.s.decode);
        *costs = *ls_session_costs(s);
    }
    ls_session_free(s);
    ls_run_setup_free(&setup);
    return code;
}

// Whether the user set decode.max_tokens, in any layer above the shipped defaults.
static bool is_asked_for(const ls_options *o) {
    const char *origin = o->origin[LS_OPT_max_tokens];
    char *shipped = ls_data_path("configs/default.yaml");
    const bool is = strcmp(origin, "default") && strncmp(origin, shipped, strlen(shipped));
    free(shipped);
    return is;
}

// Chooses the tokens per turn: the user's number, else that of the existing lab, else as many as time allows. Then
// makes the plan again with this number.
static ls_code settle_tokens(recorder *k, const ls_command_line *c, const ls_cost_curve *costs, ls_err *err) {
    ls_lab_index before;
    int32_t tokens = c->options.max_tokens;
    if (!is_asked_for(&c->options)) {
        if (ls_lab_index_read(&before, k->dir, NULL)) tokens = ls_lab_plan_tokens(&k->plan, costs);
        else {
            tokens = before.max_tokens;
            ls_lab_index_free(&before);
        }
    }
    ls_lab_plan_free(&k->plan);
    return ls_lab_plan_make(&k->plan, c->methods, &c->options, tokens, err);
}

// Records into folder k->dir, which is created. A recording appears in the folder when it is complete. A recording of
// the same model, machine and settings is kept, so that an interrupted lab continues. LS_E_UNSUPPORTED: the folder has
// recordings of another model.
static ls_code record(recorder *k, const ls_command_line *c, ls_err *err) {
    ls_cost_curve costs;
    ls_code code = ls_suite_read(&k->suite, c->suite, true, err);
    if (!code && k->suite.n > LS_LAB_MOST_ITEMS)
        code = ls_fail(err, LS_E_RANGE, "the suite %s has %zu conversations; a lab takes at most %d", c->suite,
                       k->suite.n, LS_LAB_MOST_ITEMS);
    if (!code) code = ls_lab_plan_make(&k->plan, c->methods, &c->options, c->options.max_tokens, err);
    if (!code) code = make_folder(k->dir, err);
    if (!code) code = load(k, &c->options, &costs, err);
    if (!code) code = settle_tokens(k, c, &costs, err);
    if (!code) code = write_index(k, err);
    k->all = k->plan.n * k->suite.n;
    for (size_t item = 0; item < k->suite.n && !code; item++)
        for (size_t j = 0; j < k->plan.n && !code; j++) // each run goes first equally often
            code = record_or_keep(k, (item + j) % k->plan.n, item, err);
    ls_suite_free(&k->suite);
    ls_model_free(&k->model);
    ls_lab_plan_free(&k->plan);
    return code;
}

// ---- the page and its files

static ls_code write_as(const char *dir, const char *name, const char *ending, const ls_buf *text, ls_err *err) {
    char *path = ls_format("%s/%s.%s", dir, name, ending);
    const ls_code code = ls_write_file(path, text, err);
    free(path);
    return code;
}

// NAME.png of NAME.svg.
static ls_code convert(const char *dir, const char *name, ls_err *err) {
    char *svg = ls_format("%s/%s.svg", dir, name), *png = ls_format("%s/%s.png", dir, name);
    char *const arguments[] = {"rsvg-convert", "--zoom=2", "--background-color=white", "--output", png, svg, NULL};
    ls_code code = ls_run_program(arguments, "--png needs this program (Debian: apt-get install librsvg2-bin)", err);
    if (code == LS_E_IO && !err->code) code = ls_fail(err, code, "%s was not written: rsvg-convert failed", png);
    if (code == LS_E_CANCELLED) ls_fail(err, code, "interrupted");
    free(svg);
    free(png);
    return code;
}

static ls_code write_figure(const ls_lab *lab, ls_lab_figure f, const char *dir, bool png, ls_err *err) {
    ls_chart c = ls_lab_chart(lab, f);
    ls_table t = ls_chart_table(&c);
    ls_buf svg = {0}, csv = {0};
    ls_code code = LS_OK;
    if (c.n) {
        ls_chart_file(&c, 1, "lab", &svg);
        ls_table_csv(&t, true, "\r\n", &csv);
        code = write_as(dir, c.facts->name, "svg", &svg, err);
        if (!code) code = write_as(dir, c.facts->name, "csv", &csv, err);
        if (!code && png) code = convert(dir, c.facts->name, err);
    }
    ls_buf_free(&svg);
    ls_buf_free(&csv);
    ls_table_free(&t);
    ls_chart_free(&c);
    return code;
}

static ls_code write_all(const ls_lab *lab, const char *dir, bool png, ls_err *err) {
    ls_buf page = {0}, csv = {0};
    ls_table totals = ls_lab_totals(lab);
    ls_code code = LS_OK;
    for (ls_lab_figure f = 0; f < LS_FIGURES && !code; f++) code = write_figure(lab, f, dir, png, err);
    ls_table_csv(&totals, true, "\r\n", &csv);
    ls_lab_page(lab, &page);
    if (!code) code = write_as(dir, "main", "csv", &csv, err);
    if (!code) code = write_as(dir, "index", "html", &page, err); // last: if the page exists, all its files do
    ls_table_free(&totals);
    ls_buf_free(&csv);
    ls_buf_free(&page);
    return code;
}

// ---- the command

static void left_out(void *ud, const char *path) {
    (void)ud;
    ls_gauge_clear();
    ls_warn("%s: skipped, the recording is incomplete or damaged", path);
}

ls_code ls_cmd_lab(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_lab lab = {0};
    const bool records = c->suite && c->out && !c->n_args;
    const char *dir = records ? c->out : c->n_args ? c->args[0] : NULL, *page = c->out ? c->out : dir;
    const ls_lab_listener listener = {ls_gauge_show, left_out, NULL};
    recorder k = {.dir = dir};
    ls_code code = LS_OK;
    ls_gauge_reads();
    if (!records && (c->suite || c->n_args != 1))
        code = ls_fail(err, LS_E_USAGE,
                       "usage: logitspec lab --suite FILE -o DIR, or logitspec lab DIR for existing recordings");
    if (!code && records && (code = record(&k, c, err)) == LS_E_CANCELLED)
        ls_fail(err, code, "interrupted after %zu of %zu recordings; they are kept, and the same command continues",
                k.kept + k.decoded, k.all);
    if (!code) code = ls_lab_read(&lab, dir, &listener, err);
    if (!code) code = write_all(&lab, page, c->png, err);
    if (!code && !c->quiet) {
        if (records)
            ls_say(0, "%zu recording%s made, %zu %s there already", k.decoded, k.decoded == 1 ? " was" : "s were",
                   k.kept, k.kept == 1 ? "was" : "were");
        ls_say(0, "%s/index.html: %zu recording%s, %zu prompt%s, %zu way%s to decode", page, lab.n_there,
               ls_plural(lab.n_there), lab.index.n_items, ls_plural(lab.index.n_items), lab.index.n_runs,
               ls_plural(lab.index.n_runs));
    }
    if (lab.different && lab.machine.exact) to->status = LS_EXIT_DIFFER;
    ls_lab_free(&lab);
    return code;
}
