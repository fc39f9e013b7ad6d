// The page of a lab and the table of its methods.
#include "base/system.h"
#include "base/mem.h"
#include "base/err.h"
#include "report/lab.h"
#include "report/markup.h"

#include <stdlib.h>

static const char style[] =
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(30em,100%),1fr));gap:2em 2.5em}"
    "figure svg.plot{width:100%;min-width:22rem}figcaption{max-width:44em}summary{font-size:.85em}"
    "th:first-child,td{white-space:nowrap}.facts{margin:.4em 0}";

static void main_tables(const ls_lab *lab, ls_buf *out) {
    int *main = ls_calloc(lab->index.n_runs, sizeof *main), n = 0;
    for (int r = 0; r < lab->b.n; r++)
        if (ls_lab_run_place(&lab->index.runs[r], LS_LAB_MAIN)) main[n++] = r;
    if (n) {
        ls_bench view = ls_bench_view(&lab->b, main, n);
        ls_bench_tables(&view, LS_FORM_HTML, out);
        ls_bench_view_free(&view);
    }
    free(main);
}

static void put_total(ls_table *t, const char *word, const char *category, const ls_total *o) {
    static const char *const counts[] = {"prompts", "turns",           "steps",     "tokens",
                                         "drafts",  "drafts_accepted", "different", "not_chosen"};
    const uint64_t count[] = {o->prompts, o->turns,    o->steps,     o->emitted,
                              o->drafted, o->accepted, o->different, o->lossy};
    ls_table_row(t);
    ls_put(t, NULL, "method", 0, "%s", word);
    ls_put(t, NULL, "category", 0, "%s", category ? category : "all");
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) ls_put_whole(t, NULL, counts[i], 0, (int64_t)count[i]);
    ls_put_number(t, NULL, "mat", 0, 0, ls_per((double)o->emitted, o->steps));
    ls_put_number(t, NULL, "speedup", 0, 0, ls_total_speedup(o));
    ls_put_number(t, NULL, "speedup_low", 0, 0, o->low);
    ls_put_number(t, NULL, "speedup_high", 0, 0, o->high);
    ls_put_number(t, NULL, "tokens_per_s", 0, 0, ls_tokens_per_s(o->emitted, o->decode_us));
    ls_put_number(t, NULL, "tokens_per_s_with_prompt", 0, 0,
                  ls_tokens_per_s(o->emitted, o->decode_us + 1e3 * o->prefill_ms));
    ls_put_number(t, NULL, "decode_ms", 0, 0, o->decode_us / 1e3);
    ls_put_number(t, NULL, "prefill_ms", 0, 0, o->prefill_ms);
}

ls_table ls_lab_totals(const ls_lab *lab) {
    const char **names = ls_bench_categories(&lab->b);
    ls_table t = {0};
    for (int r = 0; r < lab->b.n; r++)
        for (int c = -1; ls_lab_run_place(&lab->index.runs[r], LS_LAB_MAIN) && (c < 0 || names[c]); c++) {
            const char *category = c < 0 ? NULL : names[c];
            const ls_total part = ls_bench_total(&lab->b, r, category);
            put_total(&t, lab->index.runs[r].word, category, &part);
        }
    free(names);
    return t;
}

static void figure(const ls_lab *lab, ls_lab_figure f, ls_buf *out) {
    ls_chart c = ls_lab_chart(lab, f);
    if (f == LS_FIGURE_EXPERTS && !c.n) return; // no mixture
    const char *name = c.facts->name;
    ls_chart_figure(&c, out);
    if (c.n) {
        ls_table t = ls_chart_table(&c);
        ls_buf_str(out, "<details><summary>the numbers</summary>");
        ls_table_show(&t, LS_FORM_HTML, out);
        ls_buf_fmt(out,
                   "</details>\n<p class=\"note\"><a href=\"%s.csv\">%s.csv</a>, <a href=\"%s.svg\">%s.svg</a></p>\n",
                   name, name, name, name);
    }
    ls_buf_str(out, "</figure>\n");
    ls_chart_free(&c);
}

static void facts(const ls_lab *lab, ls_buf *out) {
    const ls_lab_index *x = &lab->index;
    const size_t all = x->n_runs * x->n_items;
    const ls_run *m = &lab->machine;
    ls_page_text(
        out, "facts",
        "%s, %s on %s, %d thread%s (%s). %zu prompt%s, at most %d new tokens per turn, %zu variants; recorded by "
        "%s, seed "
        "%llu.",
        m->model, m->dtype, m->device, m->threads, ls_plural(m->threads), m->kernel, x->n_items, ls_plural(x->n_items),
        x->max_tokens, x->n_runs, m->program, (unsigned long long)lab->seed);
    if (lab->n_there < all)
        ls_page_text(out, "warn", "The numbers are from %zu of %zu recordings%s.", lab->n_there, all,
                     lab->n_left_out ? "; some recordings are incomplete or damaged and were skipped" : "");
    size_t disturbed = 0;
    for (size_t i = 0; i < all; i++)
        disturbed += lab->b.results[i].turns && ls_result_noise(&lab->b.results[i]) > LS_BUSY;
    if (disturbed)
        ls_page_text(
            out, "warn",
            "The machine was busy with other work while %zu of %zu answers were recorded: the tokens are correct, but "
            "times and speedups would differ on an idle machine.",
            disturbed, lab->n_there);
    if (lab->b.plain >= 0)
        ls_page_text(out, lab->different ? "warn" : "facts",
                     "Of %llu greedy answers by exact methods, %llu equal plain decoding's token for token.",
                     (unsigned long long)lab->exact, (unsigned long long)(lab->exact - lab->different));
    ls_page_text(
        out, "note",
        "Runs alternated prompt by prompt, so that other work on the machine affects them equally. Each conversation "
        "began with an empty drafter, so methods that remember earlier answers (recycle, suffix, cacheback) gain less "
        "here than in a long session. Numbers are sums over the prompts that both the variant and plain decoding "
        "answered.");
}

void ls_lab_page(const ls_lab *lab, ls_buf *out) {
    ls_page_begin(out, "logitspec lab", style);
    facts(lab, out);
    ls_page_tag(out, "h2", "Methods");
    main_tables(lab, out);
    ls_page_text(
        out, "note",
        "MAT: emitted tokens / decode steps. speedup: the time of plain decoding / the method's time, without "
        "prefill; its 95%% interval is by 2,000 resamplings of the prompts, if there are at least three. output: "
        "whether "
        "all tokens equal those of plain decoding. By category the intervals are in the data.");
    ls_buf_str(out, "<p class=\"note\"><a href=\"main.csv\">main.csv</a></p>\n");
    ls_page_tag(out, "h2", "Figures");
    ls_buf_str(out, "<div class=\"figures\">\n");
    for (ls_lab_figure f = 0; f < LS_FIGURES; f++) figure(lab, f, out);
    ls_buf_str(out, "</div>\n");
    ls_page_end(out);
}
