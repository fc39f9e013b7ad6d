// The page of a lab and the table of its methods.
#include "base/mem.h"
#include "base/system.h"
#include "report/lab_figures.h"
#include "report/markup.h"
#include "report/page.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(30em,100%),1fr));gap:2em 2.5em}"
    "figure svg.plot{width:100%;min-width:22rem}figcaption{max-width:44em}summary{font-size:.85em}"
    "#main th:first-child,#main td{white-space:nowrap}.facts{margin:.4em 0}"
    ".sub{color:var(--soft);font-size:.85em;display:block}";

static void cell(const ls_total *t, bool plain, ls_buf *out) {
    ls_buf_fmt(out, "<td title=\"%llu token%s in %llu step%s, %llu prompt%s\">", (unsigned long long)t->emitted,
               ls_plural(t->emitted), (unsigned long long)t->steps, ls_plural(t->steps), (unsigned long long)t->prompts,
               ls_plural(t->prompts));
    if (!t->steps) ls_buf_str(out, "-");
    else {
        ls_buf_fmt(out, "<b>%.2f</b>", (double)t->emitted / (double)t->steps);
        if (!plain && isfinite(ls_total_speedup(t))) ls_buf_fmt(out, " &#215;%.2f", ls_total_speedup(t));
        ls_buf_str(out, "<span class=\"sub\">");
        if (!plain && isfinite(t->low)) ls_buf_fmt(out, "%.2f - %.2f", t->low, t->high);
        else ls_buf_fmt(out, "%llu step%s", (unsigned long long)t->steps, ls_plural(t->steps));
        ls_buf_str(out, "</span>");
    }
    ls_buf_str(out, "</td>");
}

static double rate(double tokens, double us) {
    return us > 0 ? 1e6 * tokens / us : NAN;
}

static void equality(const ls_lab *lab, size_t run, const ls_total *t, ls_buf *out) {
    if ((int)run == lab->ar) ls_buf_str(out, "reference");
    else if (lab->ar < 0) ls_buf_str(out, "no plain decoding for comparison");
    else if (lab->lossy[run])
        ls_buf_fmt(out, "LOSSY: %llu of %llu tokens not the target's choice", (unsigned long long)t->loose,
                   (unsigned long long)t->emitted);
    else
        ls_buf_fmt(out, "%s%llu of %llu", t->different ? "DIFFERS: equal " : "",
                   (unsigned long long)(t->prompts - t->different), (unsigned long long)t->prompts);
}

static void head(const char *name, size_t n, const char *what, ls_buf *out) {
    ls_buf_str(out, "<th>");
    ls_markup_str(out, name);
    ls_buf_fmt(out, "<span class=\"sub\">%zu %s</span></th>", n, what);
}

static void main_table(const ls_lab *lab, ls_buf *out) {
    const char **names = ls_lab_categories(lab);
    const ls_lab_index *x = &lab->index;
    ls_buf_str(out, "<div class=\"scroll\"><table id=\"main\"><tr><th></th>");
    head("all", x->n_items, "prompts", out);
    for (int c = 0; names[c]; c++) {
        size_t n = 0;
        for (size_t i = 0; i < x->n_items; i++) n += !strcmp(x->items[i].category, names[c]);
        head(names[c], n, "prompts", out);
    }
    ls_buf_str(out, "<th>tokens/s<span class=\"sub\">with prefill</span></th><th>answers equal</th></tr>\n");
    for (size_t r = 0; r < x->n_runs; r++) {
        const ls_total all = ls_lab_total(lab, r, NULL, true);
        if (!ls_lab_run_place(&x->runs[r], LS_LAB_MAIN) || !all.steps) continue;
        ls_buf_str(out, "<tr><th>");
        ls_markup_str(out, x->runs[r].word);
        ls_buf_str(out, "</th>");
        cell(&all, (int)r == lab->ar, out);
        for (int c = 0; names[c]; c++) {
            const ls_total t = ls_lab_total(lab, r, names[c], true);
            cell(&t, (int)r == lab->ar, out);
        }
        ls_buf_fmt(out, "<td>%.1f<span class=\"sub\">%.1f</span></td><td>", rate((double)all.emitted, all.decode_us),
                   rate((double)all.emitted, all.decode_us + 1e3 * all.prefill_ms));
        equality(lab, r, &all, out);
        ls_buf_str(out, "</td></tr>\n");
    }
    ls_buf_str(out, "</table></div>\n");
    free(names);
}

void ls_lab_main_csv(const ls_lab *lab, ls_buf *out) {
    const char **names = ls_lab_categories(lab);
    const ls_lab_index *x = &lab->index;
    ls_buf_str(out,
               "method,category,prompts,turns,steps,tokens,drafts,drafts_accepted,different,not_chosen,mat,speedup,"
               "speedup_low,speedup_high,tokens_per_s,tokens_per_s_with_prompt,decode_ms,prefill_ms\r\n");
    for (size_t r = 0; r < x->n_runs; r++)
        for (int c = -1; ls_lab_run_place(&x->runs[r], LS_LAB_MAIN) && (c < 0 || names[c]); c++) {
            const ls_total t = ls_lab_total(lab, r, c < 0 ? NULL : names[c], true);
            const uint64_t counts[] = {t.prompts, t.turns,    t.steps,     t.emitted,
                                       t.drafted, t.accepted, t.different, t.loose};
            const double v[] = {ls_per((double)t.emitted, t.steps),
                                ls_total_speedup(&t),
                                t.low,
                                t.high,
                                rate((double)t.emitted, t.decode_us),
                                rate((double)t.emitted, t.decode_us + 1e3 * t.prefill_ms),
                                t.decode_us / 1e3,
                                t.prefill_ms};
            ls_csv_str(out, x->runs[r].word);
            ls_buf_char(out, ',');
            ls_csv_str(out, c < 0 ? "all" : names[c]);
            for (int i = 0; i < 8; i++) ls_buf_fmt(out, ",%llu", (unsigned long long)counts[i]);
            for (int i = 0; i < 8; i++) ls_csv_number(out, v[i]);
            ls_buf_str(out, "\r\n");
        }
    free(names);
}

static void figure(const ls_lab *lab, ls_lab_figure f, ls_buf *out) {
    const ls_lab_figure_facts *a = &ls_lab_figures[f];
    ls_lab_data d = ls_lab_data_of(lab, f);
    ls_buf_str(out, "<figure>");
    ls_page_tag(out, "h3", a->title);
    ls_buf_str(out, "<div class=\"scroll\">");
    if (d.n) ls_lab_draw(&d, f, out);
    else ls_buf_str(out, "<p class=\"note\">not in these recordings</p>\n");
    ls_buf_str(out, "</div>\n");
    ls_page_tag(out, "figcaption", a->caption);
    if (d.n) {
        ls_lab_table(&d, f, out);
        ls_buf_fmt(out, "<p class=\"note\"><a href=\"%s.csv\">%s.csv</a>, <a href=\"%s.svg\">%s.svg</a></p>\n", a->name,
                   a->name, a->name, a->name);
    }
    ls_buf_str(out, "</figure>\n");
    ls_lab_data_free(&d);
}

static void say(ls_buf *out, const char *class, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(ls_buf *out, const char *class, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *text = ls_format_list(fmt, ap);
    va_end(ap);
    ls_buf_fmt(out, "<p class=\"%s\">", class);
    ls_markup_str(out, text);
    ls_buf_str(out, "</p>\n");
    free(text);
}

static void facts(const ls_lab *lab, ls_buf *out) {
    const ls_lab_index *x = &lab->index;
    const size_t all = x->n_runs * x->n_items;
    const ls_run *m = &lab->machine;
    say(out, "facts",
        "%s, %s on %s, %d thread%s (%s). %zu prompt%s, at most %d new tokens per turn, %zu contenders; recorded by "
        "%s, seed "
        "%llu.",
        m->model, m->dtype, m->device, m->threads, ls_plural(m->threads), m->kernel, x->n_items, ls_plural(x->n_items),
        x->max_tokens, x->n_runs, m->program, (unsigned long long)lab->seed);
    if (lab->n_there < all)
        say(out, "warn", "The numbers are from %zu of %zu recordings%s.", lab->n_there, all,
            lab->n_left_out ? "; some recordings are incomplete or damaged and were skipped" : "");
    size_t disturbed = 0;
    for (size_t i = 0; i < x->n_runs * x->n_items; i++)
        disturbed += lab->answers[i].there && ls_result_noise(&lab->answers[i].result) > LS_BUSY;
    if (disturbed)
        say(out, "warn",
            "The machine was busy with other work while %zu of %zu answers were recorded: the tokens are correct, but "
            "times and speedups would differ on an idle machine.",
            disturbed, lab->n_there);
    if (lab->ar >= 0)
        say(out, lab->different ? "warn" : "facts",
            "Of %llu greedy answers by exact methods, %llu equal plain decoding's token for token.",
            (unsigned long long)lab->exact, (unsigned long long)(lab->exact - lab->different));
    say(out, "note",
        "Runs alternated prompt by prompt, so that other work on the machine affects them equally. Each conversation "
        "began with an empty drafter, so methods that remember earlier answers (recycle, suffix, cacheback) gain less "
        "here than in a long session. Numbers are sums over the prompts that both the contender and plain decoding "
        "answered.");
}

void ls_lab_page(const ls_lab *lab, ls_buf *out) {
    ls_page_begin(out, "logitspec lab", style);
    facts(lab, out);
    ls_page_tag(out, "h2", "Methods");
    main_table(lab, out);
    say(out, "note",
        "Bold: MAT, emitted tokens / decode steps. \u00d7: speedup, the time of plain decoding (ar, measured in turn "
        "on "
        "the same prompts) / the method's time, without prefill. Below the speedup: its 95%% interval by 2,000 "
        "resamplings of the prompts, if there are at least three. tokens/s: of decoding, and below it with prefill. "
        "answers equal: prompts whose tokens all equal those of plain decoding.");
    ls_buf_str(out, "<p class=\"note\"><a href=\"main.csv\">main.csv</a></p>\n");
    ls_page_tag(out, "h2", "Figures");
    ls_buf_str(out, "<div class=\"figures\">\n");
    for (ls_lab_figure f = 0; f < LS_FIGURES; f++) figure(lab, f, out);
    ls_buf_str(out, "</div>\n");
    ls_page_end(out);
}
