// `report TRACE... [-o FILE]`: recordings as a page, a document, tables or plots.
#include "base/file.h"
#include "base/err.h"
#include "cli/commands.h"
#include "report/report.h"
#include "report/table.h"

#include <stdio.h>

static void (*const writers[LS_FORMS])(const ls_report *r, ls_buf *out) = {[LS_FORM_HTML] = ls_report_html,
                                                                           [LS_FORM_MARKDOWN] = ls_report_markdown,
                                                                           [LS_FORM_CSV] = ls_report_csv,
                                                                           [LS_FORM_JSON] = ls_report_json,
                                                                           [LS_FORM_SVG] = ls_report_svg};

static bool wanted(void *ud, const ls_step *step) {
    return ls_steps_has(ud, step->index);
}

static ls_code gather(const ls_command_line *c, ls_report *r, ls_err *err) {
    ls_code code = c->step ? ls_steps_check(c->step, 0, SIZE_MAX, err) : LS_OK;
    for (int i = 0; i < c->n_args && !code; i++)
        code = ls_report_add(r, c->args[i], c->step ? wanted : NULL, (char *)c->step, err);
    size_t least = SIZE_MAX, most = 0; // the steps of the turns, known only now; a turn may lack its first ones
    for (size_t i = 0; i < r->n_turns; i++)
        for (size_t k = 0; k < r->turns[i].n_steps; k++) {
            const size_t index = r->turns[i].steps[k].index;
            least = index < least ? index : least;
            most = index > most ? index : most;
        }
    if (!code && c->step && least <= most) code = ls_steps_check(c->step, least, most, err);
    return code ? code : ls_report_finish(r, err);
}

ls_code ls_cmd_report(const ls_command_line *c, ls_console *to, ls_err *err) {
    const ls_form form = c->out ? ls_form_of(c->out) : LS_FORM_MARKDOWN;
    ls_report r = {0};
    if (!c->n_args)
        return ls_fail(err, LS_E_USAGE, "usage: logitspec report TRACE... [-o FILE.html|.md|.csv|.json|.svg]");
    if (!writers[form])
        return ls_fail(err, LS_E_USAGE, "--out '%.200s': the name must end in .html, .md, .csv, .json or .svg", c->out);
    ls_gauge_reads();
    ls_code code = gather(c, &r, err);
    if (!code) writers[form](&r, &to->out);
    if (!code && ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
    if (!code && c->out) {
        code = ls_write_file(c->out, &to->out, err);
        ls_buf_clear(&to->out);
    }
    if (!code) ls_warn_of_gaps(&r.gaps, NULL);
    if (!code && c->out && !c->quiet)
        ls_say(0, "%s: %zu turn%s of %zu recording%s, %zu way%s to decode", c->out, r.n_turns, ls_plural(r.n_turns),
               r.n_files, ls_plural(r.n_files), r.n_groups, ls_plural(r.n_groups));
    ls_report_free(&r);
    return code;
}
