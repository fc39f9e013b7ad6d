// The report as one page for reading or printing; it needs no script and no network.
#include "base/colour.h"
#include "base/err.h"
#include "base/utf8.h"
#include "report/parts.h"
#include "report/markup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(34em,100%),1fr));gap:1em}"
    ".figures svg{min-width:33rem}"
    ".sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(22em,100%),1fr));gap:1.2em}"
    ".text{white-space:pre-wrap;font:14px/1.6 ui-monospace,monospace;border-left:3px solid "
    "#8884;"
    "padding-left:.8em}"
    ".prompt{white-space:pre-wrap;color:var(--soft);max-height:12em;overflow:auto}"
    ".text span:hover{outline:1px solid}"
    ".c{font-weight:700}.l{outline:2px solid var(--bad)}"
    "[data-special]::after{content:attr(data-special);color:var(--soft)}"
    ".key{display:inline-block;border:.4em solid}"
    ".of{color:var(--soft);font-size:.85em;min-width:15em}"
    "@media print{body{max-width:none;font-size:11px}details{break-inside:avoid}.prompt{max-height:none}}";

// Tokens have the colours that they have on the screen.
static void kind_styles(ls_buf *out) {
    for (int dark = 0; dark < 2; dark++) {
        if (dark) ls_buf_str(out, "@media(prefers-color-scheme:dark){");
        for (const ls_kind_facts *k = ls_source_kinds + 1; k < ls_source_kinds + LS_KIND_COUNT; k++) {
            const unsigned c = ls_rgb256(dark ? k->dark : k->light);
            ls_buf_fmt(out, ".%s{background:#%06x2a;border-bottom:2px %s #%06x}", k->html_class, c, k->html_line, c);
        }
    }
    ls_buf_str(out, "}");
}

// ---- tables

static void summary(const ls_report *r, ls_buf *out) {
    ls_table t = ls_facts_table(r, true);
    t.id = "summary", t.last = "of";
    for (size_t g = 0; g < r->n_groups; g++) t.columns[g + 1].color = ls_chart_color(g);
    ls_page_tag(out, "h2", "Summary");
    ls_table_show(&t, LS_FORM_HTML, out);
}

static void configuration(const ls_report *r, ls_buf *out) {
    ls_table differing = ls_settings_table(r, true), equal = ls_settings_table(r, false);
    ls_page_tag(out, "h2", "Configuration");
    ls_table_show(&differing, LS_FORM_HTML, out);
    ls_buf_fmt(out, "<details><summary>%s</summary>", r->n_groups > 1 ? "the same everywhere" : "all keys");
    ls_table_show(&equal, LS_FORM_HTML, out);
    ls_buf_str(out, "</details>\n");
}

// ---- text

static const char *class_of(const ls_report_token *t) {
    if (t->draft.from != LS_SOURCE_ROOT) return ls_source_kinds[ls_sources[t->draft.from].kind].html_class;
    return t->corrected ? "c" : NULL;
}

static void hover(const ls_report_turn *turn, size_t at, ls_buf *out) {
    const ls_report_token *t = &turn->text[at];
    const ls_draft *d = &t->draft;
    ls_buf b = {0};
    ls_buf_fmt(&b, "token %zu (id %d), step %u", at, d->token, turn->steps[t->step].index);
    if (d->depth == 0)
        ls_buf_fmt(&b, ": root%s",
                   t->corrected ? ", the target's choice instead of a rejected draft" : ", the target's choice");
    else {
        ls_buf_fmt(&b, ", depth %d: %s", d->depth, ls_sources[d->from].label);
        if (d->rank >= 0) ls_buf_fmt(&b, ", rank %d", d->rank);
        if (d->match_n) ls_buf_fmt(&b, ", %d-gram", d->match_n);
        if (d->match_pos >= 0) ls_buf_fmt(&b, " at %d", d->match_pos);
        if (!isnan(d->est_p)) ls_buf_fmt(&b, ", estimated %.3f", (double)d->est_p);
    }
    if (!isnan(t->p)) ls_buf_fmt(&b, ", p %.3f", (double)t->p);
    if (t->lossy) ls_buf_str(&b, "; LOSSY: the target chose another token");
    ls_markup(out, b.p, b.n);
    ls_buf_free(&b);
}

// A character may be split between two tokens: its bytes are kept until it is complete.
static void answer(const ls_report_turn *turn, ls_buf *out) {
    ls_buf wait = {0};
    uint32_t before = 0;
    ls_buf_str(out, "<div class=\"text\">");
    for (size_t i = 0; i < turn->n_text; i++) {
        const ls_report_token *t = &turn->text[i];
        const ls_token *token = ls_token_of(turn->tokens, t->draft.token);
        const char *class = class_of(t);
        if (!token->special) ls_buf_add(&wait, token->bytes, (size_t)token->n); // special tokens are not text
        size_t whole = 0;
        for (int len; whole < wait.n && (len = ls_utf8_decode(wait.p + whole, wait.n - whole, NULL)) != 0;)
            whole += len > 0 ? (size_t)len : 1;
        if (i + 1 == turn->n_text) whole = wait.n;
        ls_buf_fmt(out, "<span data-id=\"%d\"", t->draft.token);
        if (class || t->lossy) ls_buf_fmt(out, " class=\"%s%s\"", class ? class : "", t->lossy ? " l" : "");
        if (token->special) {
            ls_buf_str(out, " data-special=\"");
            ls_markup(out, token->bytes, (size_t)token->n);
            ls_buf_char(out, '"');
        }
        ls_buf_str(out, " title=\"");
        hover(turn, i, out);
        ls_buf_str(out, "\">");
        ls_markup_after(out, wait.p, whole, &before);
        ls_buf_str(out, "</span>");
        if (whole) memmove(wait.p, wait.p + whole, wait.n -= whole); // an answer may begin with a token without text
    }
    ls_buf_str(out, "</div>\n");
    ls_buf_free(&wait);
}

static void turn_facts(const ls_report_turn *t, ls_buf *out) {
    const ls_stats *st = &t->stats;
    ls_buf_str(out, "<p class=\"note\">");
    ls_markup_fmt(out, "%s, turn %u: %llu token%s in %llu step%s, MAT %.2f; %llu of %llu drafts accepted; %.1f ms",
                  t->file, t->header.turn + 1, (unsigned long long)st->emitted, ls_plural(st->emitted),
                  (unsigned long long)st->steps, ls_plural(st->steps), ls_stats_mat(st),
                  (unsigned long long)st->accepted, (unsigned long long)st->drafted, st->total_us / 1e3);
    if (st->plain_us > 0) ls_markup_fmt(out, " (%s x plain)", ls_stats_speedup_text(st, false).s);
    ls_markup_fmt(out, "; ended by %s", t->finish ? ls_finish_name(t->finish) : "the end of the recording");
    ls_buf_str(out, "</p>\n");
}

static void texts(const ls_report *r, ls_buf *out) {
    ls_buf_fmt(out,
               "<h2>Text</h2>\n<p class=\"note\">Point at a token to see its source: %s; "
               "<span class=\"c\">the target's choice instead of a rejected draft</span>; ",
               ls_source_kinds[LS_KIND_ROOT].legend);
    for (const ls_kind_facts *k = ls_source_kinds + 1; k < ls_source_kinds + LS_KIND_COUNT; k++)
        ls_buf_fmt(out, "<span class=\"%s\">%s</span>; ", k->html_class, k->legend);
    ls_buf_str(out, "<span class=\"l\">accepted by a lossy rule, not the target's choice</span>.</p>\n");
    for (size_t i = 0; i < r->n_prompts; i++) {
        const ls_report_prompt *p = &r->prompts[i];
        ls_buf_fmt(out, "<details class=\"turn\"%s><summary>", r->n_prompts == 1 ? " open" : "");
        const size_t n = strlen(p->text), shown = strcspn(p->text, "\n");
        ls_markup_fmt(out, "%zu. ", i + 1);
        size_t cut = shown < 100 ? shown : 100;
        while (cut && ((unsigned char)p->text[cut] & 0xC0) == 0x80) cut--;
        ls_markup(out, p->text, cut);
        ls_buf_str(out, cut < n ? " …</summary>\n<div class=\"prompt\">" : "</summary>\n<div class=\"prompt\">");
        if (cut < n) ls_markup(out, p->text, n);
        ls_buf_str(out, "</div>\n<div class=\"sides\">\n");
        for (size_t k = 0; k < p->n_turns; k++) {
            const ls_report_turn *t = &r->turns[p->turns[k]];
            ls_buf_fmt(out, "<section data-turn=\"%zu\">", p->turns[k]);
            if (r->n_groups > 1) ls_page_tag(out, "h3", r->groups[t->group].label);
            turn_facts(t, out);
            answer(t, out);
            ls_buf_str(out, "</section>\n");
        }
        ls_buf_str(out, "</div></details>\n");
    }
}

// ---- steps

static void tree(const ls_report *r, const ls_report_tree *t, ls_buf *out) {
    const ls_report_turn *turn = &r->turns[t->turn];
    ls_buf why = {0};
    ls_report_explain(r, t, &why);
    ls_buf_str(out, "<details class=\"step\"><summary>");
    ls_markup_fmt(out, "%s, step %u", turn->file, t->step->index);
    if (turn->header.turn) ls_markup_fmt(out, " of turn %u", turn->header.turn + 1);
    if (!isnan(t->gain_us)) ls_markup_fmt(out, " (%+.2f ms)", t->gain_us / 1e3);
    ls_buf_str(out, "</summary>\n<p>");
    ls_markup(out, why.p, why.n);
    ls_buf_str(out, "</p>\n<div class=\"scroll\">");
    if (!ls_step_described(t->step))
        ls_buf_str(out, "<p class=\"note\">The recording has only the accepted tokens of this step.</p>");
    ls_tree_draw(r, t, out);
    ls_buf_str(out, "</div></details>\n");
    ls_buf_free(&why);
}

static void steps(const ls_report *r, ls_buf *out) {
    bool any = r->n_asked > 0;
    for (size_t g = 0; g < r->n_groups; g++) any |= r->groups[g].n_worst || r->groups[g].n_best;
    if (!any) return;
    ls_buf_str(
        out, "<h2>Steps</h2>\n<p class=\"note\">● accepted, ✗ rejected, ○ not reached. In brackets: time gained (+) or "
             "lost (-) against plain decoding of the same tokens.</p>\n");
    if (r->n_asked) ls_buf_str(out, "<h3>Selected steps</h3>\n");
    for (size_t i = 0; i < r->n_asked; i++) tree(r, &r->asked[i], out);
    for (size_t g = 0; g < r->n_groups; g++) {
        const ls_report_group *o = &r->groups[g];
        for (int which = 0; which < 2; which++) {
            const int n = which ? o->n_best : o->n_worst;
            if (!n) continue;
            ls_buf_str(out, "<h3>");
            if (r->n_groups > 1) ls_markup_fmt(out, "%s: ", o->label);
            ls_buf_fmt(out, "%s</h3>\n", which ? "most gained" : "most lost");
            for (int i = 0; i < n; i++) tree(r, which ? &o->best[i] : &o->worst[i], out);
        }
    }
}

static void figures(const ls_report *r, ls_buf *out) {
    ls_buf_str(out, "<h2>Plots</h2>\n<div class=\"figures\">\n");
    for (ls_plot p = 0; p < LS_PLOTS; p++) {
        ls_chart c = ls_report_chart(r, p);
        if (p == LS_PLOT_EXPERTS && !c.n) continue; // no mixture
        ls_chart_figure(&c, out);
        ls_buf_str(out, "</figure>\n");
        ls_chart_free(&c);
    }
    ls_buf_str(out, "</div>\n");
}

void ls_report_html(const ls_report *r, ls_buf *out) {
    bool lossy = false;
    for (size_t g = 0; g < r->n_groups; g++) lossy |= r->groups[g].guarantee == LS_LOSSY;
    ls_buf look = {0};
    ls_buf_str(&look, style);
    kind_styles(&look);
    ls_page_begin(out, "logitspec report", look.p);
    ls_buf_free(&look);
    ls_buf_str(out, "<p>");
    ls_markup_fmt(out, "%zu turn%s in %zu recording%s, %zu prompt%s", r->n_turns, ls_plural(r->n_turns), r->n_files,
                  ls_plural(r->n_files), r->n_prompts, ls_plural(r->n_prompts));
    if (r->n_groups > 1) ls_markup_fmt(out, ", decoded in %zu ways", r->n_groups);
    ls_markup_fmt(out, "; recorded by %s", r->turns[0].header.run.program);
    ls_buf_str(out, "</p>\n");
    ls_buf gaps = {0};
    ls_trace_gaps_text(&r->gaps, &gaps);
    if (gaps.n) ls_page_text(out, "warn", "Incomplete: %s.", gaps.p);
    ls_buf_free(&gaps);
    if (lossy) ls_page_text(out, "warn", "LOSSY: a rule accepted drafts that the target did not choose.");
    ls_buf busy = {0};
    ls_report_busy(r, &busy);
    if (busy.n) ls_buf_fmt(out, "<p class=\"warn\">%s</p>\n", busy.p);
    ls_buf_free(&busy);
    summary(r, out);
    figures(r, out);
    texts(r, out);
    steps(r, out);
    configuration(r, out);
    ls_page_end(out);
}
