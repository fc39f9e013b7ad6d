// `lab --suite FILE -o DIR` records many ways to decode and writes a page of figures; `lab DIR` writes the page from
// existing recordings.
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/lab_record.h"
#include "cli/run_program.h"
#include "report/lab.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

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

static void left_out(void *gauge, const char *text) {
    ls_gauge_clear(gauge);
    ls_warn("%s", text);
}

ls_code ls_cmd_lab(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_lab_recorded done = {0};
    ls_lab lab = {0};
    const bool records = c->suite && c->out && !c->n_args;
    const char *dir = records ? c->out : c->n_args ? c->args[0] : NULL, *page = c->out ? c->out : dir;
    const ls_lab_listener listener = {ls_gauge_show, left_out, &to->gauge};
    ls_code code = LS_OK;
    ls_gauge_reads(&to->gauge);
    if (!records && (c->suite || c->n_args != 1))
        code = ls_fail(err, LS_E_USAGE,
                       "usage: logitspec lab --suite FILE -o DIR, or logitspec lab DIR for existing recordings");
    if (!code && records && (code = ls_lab_record(c, dir, &to->gauge, &done, err)) == LS_E_CANCELLED)
        ls_fail(err, code, "interrupted after %zu of %zu recordings; they are kept, and the same command continues",
                done.kept + done.decoded, done.all);
    if (!code) code = ls_lab_read(&lab, dir, &listener, err);
    if (!code) code = write_all(&lab, page, c->png, err);
    ls_gauge_clear(&to->gauge);
    if (!code && !c->quiet) {
        if (records)
            ls_say(0, "%zu recording%s made, %zu %s there already", done.decoded, done.decoded == 1 ? " was" : "s were",
                   done.kept, done.kept == 1 ? "was" : "were");
        ls_say(0, "%s/index.html: %zu recording%s, %zu prompt%s, %zu way%s to decode", page, lab.n_there,
               ls_plural(lab.n_there), lab.index.n_items, ls_plural(lab.index.n_items), lab.index.n_runs,
               ls_plural(lab.index.n_runs));
    }
    if (lab.different && lab.machine.exact) to->status = LS_EXIT_DIFFER;
    ls_lab_free(&lab);
    return code;
}
