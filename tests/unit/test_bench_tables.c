// What a benchmark makes of results, on numbers that are made by hand: conventions, the file and back, two compared.
#include "base/file.h"
#include "base/mem.h"
#include "decode/suite.h"
#include "report/bench.h"
#include "report/parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { PROMPTS = 5 };

static ls_result result(uint64_t emitted, uint64_t steps, double us, double prefill_ms) {
    ls_result r = {.prefill_ms = prefill_ms, .finish = LS_FINISH_LENGTH, .turns = 1};
    r.stats.emitted = emitted;
    r.stats.steps = r.stats.forwards = steps;
    r.stats.context = 400 * steps; // 20 MB a step: 1 ms
    r.stats.total_us = us;
    r.turn = ls_calloc(1, sizeof *r.turn);
    r.turn[0] = (ls_result_turn){ls_strdup("\xff\"text\n"), 7, steps, emitted, us / 1e3, prefill_ms};
    for (uint64_t i = 0; i < steps; i++) ls_ids_push(&r.lengths, i ? 1 : (int32_t)(emitted - steps + 1));
    return r;
}

// "plain" and "x", which takes `faster` times less time.
static ls_bench bench(double faster) {
    ls_bench b = {.n = 2,
                  .n_prompts = PROMPTS,
                  .planned = PROMPTS,
                  .done = PROMPTS,
                  .max_tokens = 20,
                  .repeat = 1,
                  .exact = true};
    b.methods = ls_calloc(2, sizeof *b.methods);
    b.methods[0] = (ls_bench_method){"plain", "text", true};
    b.methods[1] = (ls_bench_method){"x", "text", false};
    b.prompts = ls_calloc(PROMPTS, sizeof *b.prompts);
#define TEXT(field, words)
#define NUMBER(field, words, unit) b.manifest.field = NAN;
#include "report/manifest.def"
    b.manifest.read_gb_per_s = 20;
    b.manifest.weight_mb = 100; // 5 ms
    b.manifest.kv_kb = 50;
    strcpy(b.judged, "plain");
    strcpy(b.against, "plain");
    b.manifest.threads = 2;
    ls_bench_begin(&b);
    for (size_t p = 0; p < PROMPTS; p++) {
        b.prompts[p] = (ls_bench_prompt){.name = ls_format("p%zu", p),
                                         .category = ls_strdup(p < 2 ? "math" : "qa"),
                                         .task = ls_strdup(p < 2 ? "mt_bench" : "qa")};
        memcpy(b.prompts[p].text, "0123456789abcdef", 17);
        const double us = 1000 * (double)(100 + 10 * p);
        *ls_bench_result(&b, p, 0) = result(10, 10, us, 30);
        *ls_bench_result(&b, p, 1) = result(10, 5, us / faster, 30);
        ls_result *plain = ls_bench_result(&b, p, 0);
        for (int i = 0; i < 2; i++) ls_result_judge(ls_bench_result(&b, p, i), plain, plain);
    }
    return b;
}

static void speedups_are_those_of_their_conventions(void **state) {
    (void)state;
    ls_bench b = bench(2);
    assert_true(b.plain == 0 && b.reference == 0);
    const ls_total t = ls_bench_total(&b, 1, NULL), qa = ls_bench_total(&b, 1, "qa");
    assert_float_equal(ls_total_speedup(&t), 2, 1e-12);
    assert_float_equal(ls_bench_over_plain(&b, &t, NULL).with_prompt, (600 + 150) / (300.0 + 150), 1e-12);
    assert_float_equal(ls_bench_over_plain(&b, &qa, "qa").with_prompt, (390 + 90) / (195.0 + 90), 1e-12);
    double with[2] = {0}, without[2] = {0};
    for (int p = 0; p < PROMPTS; p++)
        for (int i = 0; i < 2; i++) {
            const double ms = (100 + 10 * p) / (i ? 2.0 : 1);
            without[i] += 10 / ms;
            with[i] += 10 / (ms + 30);
        }
    assert_float_equal(ls_bench_over_plain(&b, &t, NULL).of_means, without[1] / without[0], 1e-12);
    assert_float_equal(ls_bench_over_plain(&b, &t, NULL).of_means_with_prompt, with[1] / with[0], 1e-12);
    assert_float_equal(ls_bench_of_limit(&b, &t), 25 * 6 / 300.0, 1e-12); // forwards of 6 ms at least, in 300 ms
    const char **names = ls_bench_categories(&b);
    assert_true(!strcmp(names[0], "mt_bench") && !strcmp(names[1], "math") && !strcmp(names[2], "qa") && !names[3]);
    free(names);
    ls_bench_result(&b, 3, 1)->first_difference = 4;
    assert_false(ls_bench_equal(&b));
    strcpy(b.methods[1].guarantee, "distribution"); // it guarantees no text
    assert_true(ls_bench_equal(&b));
    ls_bench_free(&b);
}

static void the_file_holds_all_of_it(void **state) {
    (void)state;
    char path[] = "/tmp/logitspec-bench-XXXXXX";
    ls_bench b = bench(2), back;
    ls_buf text = {0}, again = {0};
    ls_err err = {0};
    close(mkstemp(path));
    strcpy(b.manifest.model, "a \"model\"");
    ls_bench_leave_out(&b, "suite:3: no JSON");
    ls_ids_push(&b.resumed, 2);
    b.done = 4; // not complete
    ls_bench_json(&b, &text);
    assert_int_equal(ls_write_file(path, &text, &err), LS_OK);
    if (ls_bench_read(&back, path, &err)) fail_msg("%s", err.msg);
    assert_int_equal(back.planned, PROMPTS);
    assert_int_equal(back.done, 4);
    ls_bench_json(&back, &again);
    assert_int_equal(text.n, again.n);
    assert_memory_equal(text.p, again.p, text.n);
    ls_buf_free(&text), ls_buf_free(&again);
    ls_bench_free(&b), ls_bench_free(&back);
    unlink(path);
}

// A text that differs where an engine is not exact is listed with the gap of the reference's choice, and read again.
static void where_texts_begin_to_differ(void **state) {
    (void)state;
    static const double gaps[] = {2, 1.5, 0.000125, 1};
    ls_bench b = bench(2), back;
    ls_buf text = {0};
    ls_err err = {0};
    char path[] = "/tmp/logitspec-bench-XXXXXX";
    ls_result *plain = ls_bench_result(&b, 1, 0), *x = ls_bench_result(&b, 1, 1);
    b.exact = false;
    ls_ids_add(&plain->output, (int32_t[]){5, 6, 7, 8}, 4);
    ls_ids_add(&x->output, (int32_t[]){5, 6, 9}, 3);
    ls_buf_add(&plain->gaps, gaps, sizeof gaps);
    ls_result_judge(x, plain, plain);
    assert_int_equal(x->first_difference, 2);
    assert_true(x->gap == gaps[2]);
    strcpy(x->tokens[0], " the"), strcpy(x->tokens[1], "\xc3\xa9|");
    ls_bench_write(&b, LS_FORM_TEXT, &text);
    assert_non_null(strstr(text.p, "NOT EXACT: this engine's logits depend on the number of rows"));
    assert_non_null(
        strstr(text.p, "\ntexts differ in method                 token         gap plain             text\n"));
    assert_non_null(
        strstr(text.p, "p1              x                          2   0.0001250 ' the'            '\xc3\xa9|'\n"));
    assert_null(strstr(text.p, "p0 "));
    ls_buf_clear(&text);
    ls_bench_json(&b, &text);
    close(mkstemp(path));
    assert_int_equal(ls_write_file(path, &text, &err), LS_OK);
    if (ls_bench_read(&back, path, &err)) fail_msg("%s", err.msg);
    assert_true(ls_bench_result(&back, 1, 1)->gap == gaps[2] && isnan(ls_bench_result(&back, 0, 1)->gap));
    assert_string_equal(ls_bench_result(&back, 1, 1)->tokens[1], "\xc3\xa9|");
    ls_bench_free(&back);
    ls_buf_clear(&text);
    // a text that ends earlier; a method that is not meant to be equal
    plain->output.n = 3;
    x->output.n = 2;
    *x->tokens[1] = 0;
    ls_result_judge(x, plain, plain);
    ls_bench_write(&b, LS_FORM_MARKDOWN, &text);
    assert_non_null(strstr(text.p, "| p1 | x | 2 | 0.0001250 | ' the' | (end) |"));
    ls_buf_clear(&text);
    strcpy(b.methods[1].guarantee, "none");
    ls_bench_write(&b, LS_FORM_TEXT, &text);
    assert_null(strstr(text.p, "texts differ in"));
    ls_buf_free(&text);
    ls_bench_free(&b);
    unlink(path);
}

static bool says(const ls_bench *a, const ls_bench *b, const char *words) {
    ls_buf text = {0};
    ls_err err = {0};
    assert_int_equal(ls_bench_diff(a, b, &text, false, &err), LS_OK);
    const bool found = strstr(text.p, words) != NULL;
    ls_buf_free(&text);
    return found;
}

static void a_difference_is_one_that_the_prompts_agree_on(void **state) {
    (void)state;
    ls_bench a = bench(1.5), b = bench(1.6), c = bench(1.5);
    assert_true(says(&a, &b, "1.067 (1.067 - 1.067)  faster"));
    assert_true(says(&b, &a, "  slower"));
    assert_false(says(&a, &b, "  slower"));
    for (size_t p = 0; p < PROMPTS; p++) // faster here, slower there
        ls_bench_result(&c, p, 1)->against_us *= p % 2 ? 1.2 : 0.8;
    assert_false(says(&a, &c, "  faster") || says(&a, &c, "  slower"));
    assert_false(says(&a, &c, "other steps"));
    ls_bench_result(&c, 0, 1)->stats.steps++;
    assert_true(says(&a, &c, "other steps"));
    strcpy(c.against, "single-row forwards"); // speedups of two kinds are not compared
    assert_true(says(&a, &b, " (1.000 - 1.000)  no difference") && !says(&a, &c, " (1.000 - 1.000)  no difference"));
    for (size_t p = 0; p < PROMPTS; p++) // the machine is slower, and plain decoding with it
        for (int i = 0; i < 2; i++) {
            ls_result *r = ls_bench_result(&b, p, i);
            r->stats.total_us *= 2, r->plain_us *= 2, r->against_us *= 2;
        }
    assert_true(says(&a, &b, "0.533 (0.533 - 0.533)   1.067 (1.067 - 1.067)  faster"));
    ls_bench_free(&a), ls_bench_free(&b), ls_bench_free(&c);
}

static void a_suite_is_cut_by_its_tasks(void **state) {
    (void)state;
    char path[] = "/tmp/logitspec-suite-XXXXXX";
    ls_suite s;
    ls_err err = {0};
    ls_buf text = {0};
    close(mkstemp(path));
    static const char *const kinds[] = {"writing", "qa", "math", "stem", "qa", "rag"};
    for (int i = 0; i < 6; i++)
        ls_buf_fmt(&text, "{\"question_id\": %d, \"category\": \"%s\", \"turns\": [\"a\", \"b\", \"c\"]}\n", i,
                   kinds[i]);
    ls_buf_str(&text, "{\"id\": \"mine\", \"category\": \"math\", \"prompt\": \"x\"}\n"); // not Spec-Bench's
    assert_int_equal(ls_write_file(path, &text, &err), LS_OK);
    assert_int_equal(ls_suite_read(&s, path, true, &err), LS_OK);
    assert_string_equal(s.items[2].task, "mt_bench");
    assert_string_equal(s.items[2].category, "math");
    assert_string_equal(s.items[6].task, "math");
    ls_suite_cut(&s, 0, 1, 2);
    assert_int_equal(s.n, 4); // writing, qa, rag, mine
    assert_int_equal(s.n_turns, 7);
    assert_string_equal(s.items[2].name, "5");
    assert_int_equal(s.items[3].first, 6);
    ls_suite_cut(&s, 2, 0, 0);
    ls_suite_drop(&s, 0);
    assert_true(s.n == 1 && s.n_turns == 2 && !s.items[0].first && !strcmp(s.items[0].name, "1"));
    ls_suite_free(&s);
    ls_buf_free(&text);
    unlink(path);
}

// ---- tables and charts

static ls_table table(void) {
    ls_table t = {0};
    for (int i = 0; i < 2; i++) {
        ls_table_row(&t);
        ls_put(&t, NULL, "name", 0, "%s", i ? "=x" : "a,b");
        ls_put(&t, "method", NULL, -8, "%s", i ? "\xc3\xa9|" : "<b>");
        ls_put_whole(&t, "steps", "steps", 3, i ? -1 : 1234567);
        ls_put_number(&t, "share", "share", 9, LS_PERCENT + 1, i ? NAN : 0.25);
        ls_put(&t, "verdict", NULL, 0, "%s", i ? "slower" : "faster");
        ls_put_flag(&t, "same", i);
    }
    return t;
}

static void is(ls_buf *out, const char *want) {
    assert_string_equal(out->p, want);
    ls_buf_free(out);
}

static void a_table_says_the_same_in_every_form(void **state) {
    (void)state;
    ls_table t = table();
    ls_buf out = {0};
    assert_int_equal(ls_table_rows(&t), 2);
    ls_table_text(&t, &out);
    is(&out, "method     steps     share  verdict\n<b>      1234567     25.0%  faster\n\xc3\xa9|            -1         "
             "   slower\n");
    ls_table_markdown(&t, false, &out);
    is(&out, "| method | steps | share | verdict |\n|---|---:|---:|---|\n| &#60;b> | 1234567 | 25.0% | faster |\n"
             "| \xc3\xa9&#124; | -1 |  | slower |\n");
    ls_table_html(&t, &out);
    is(&out, "<div class=\"scroll\"><table>\n<tr><th>method</th><th>steps</th><th>share</th><th>verdict</th></tr>\n"
             "<tr><th>&#60;b&#62;</th><td>1234567</td><td>25.0%</td><td>faster</td></tr>\n"
             "<tr><th>\xc3\xa9|</th><td>-1</td><td></td><td>slower</td></tr>\n</table></div>\n");
    ls_table_csv(&t, true, "\r\n", &out);
    is(&out, "name,steps,share,same\r\n\"a,b\",1234567,0.25,0\r\n\"'=x\",-1,,1\r\n");
    ls_jsonw w = {.out = &out};
    ls_table_json(&t, &w);
    is(&out, "[{\"name\":\"a,b\",\"steps\":1234567,\"share\":0.25,\"same\":false},"
             "{\"name\":\"=x\",\"steps\":-1,\"share\":null,\"same\":true}]");
    ls_table_free(&t);
    ls_table_text(&t, &out); // no row, no text
    ls_table_markdown(&t, true, &out);
    ls_table_html(&t, &out);
    assert_int_equal(out.n, 0);
}

static void columns_are_as_wide_as_their_cells(void **state) {
    (void)state;
    static const char *const texts[] = {"e\xcc\x81\xcc\x82", "\xe6\x97\xa5\xe6\x9c\xac", "abcd"}; // 1, 4 and 4 cells
    ls_table t = {0};
    ls_buf out = {0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ls_table_row(&t);
        ls_put(&t, "", NULL, -1, "%s", texts[i]);
        ls_put(&t, "", NULL, 0, "|");
    }
    ls_table_text(&t, &out);
    is(&out, "e\xcc\x81\xcc\x82     |\n\xe6\x97\xa5\xe6\x9c\xac  |\nabcd  |\n");
    ls_table_free(&t);
}

static void a_fact_that_a_way_lacks_is_not_known(void **state) {
    (void)state;
    ls_report_turn turns[2] = {{.file = "a"}, {.file = "b"}};
    ls_report_group groups[2] = {{.label = "one"}, {.label = "two", .first_turn = 1}};
    groups[0].stats.experts_kept = (ls_ratio){3, 4};
    const ls_report r = {.turns = turns, .n_turns = 2, .groups = groups, .n_groups = 2};
    ls_table t = ls_facts_table(&r, false);
    ls_buf out = {0};
    ls_table_markdown(&t, false, &out);
    assert_non_null(strstr(out.p, "\n| experts in memory | 75.0% | - |\n"));
    ls_buf_free(&out);
    ls_table_free(&t);
}

static void every_shape_draws_every_point(void **state) {
    (void)state;
    for (ls_shape shape = LS_SHAPE_LINES; shape <= LS_SHAPE_STACK; shape++)
        for (int groups = 0; groups < 2; groups++) {
            const ls_chart_facts facts = {"name", shape, false, "title", "x", "value", "of", "caption"};
            ls_chart c = {.facts = &facts, .width = 480, .groups = groups, .level = 1};
            ls_buf out = {0};
            for (int i = 0; i < 3; i++)
                for (int k = 0; k < 4; k++) {
                    const char *const series[] = {"<a>", "b", "c"}, *const labels[] = {"1", "2", "4", "8"};
                    ls_chart_add_share(&c, series[i], labels[k], 1 << k, (uint64_t)(i + k), 7);
                }
            ls_chart_draw(&c, &out);
            int marks = 0;
            for (const char *p = out.p; (p = strstr(p, groups ? " data-of=" : " data-value=")); p++) marks++;
            assert_int_equal(marks, 12);
            assert_null(strstr(out.p, "<a>"));
            assert_null(strstr(out.p, "nan"));
            ls_buf_free(&out);
            ls_chart_free(&c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(speedups_are_those_of_their_conventions),
        cmocka_unit_test(the_file_holds_all_of_it),
        cmocka_unit_test(where_texts_begin_to_differ),
        cmocka_unit_test(a_difference_is_one_that_the_prompts_agree_on),
        cmocka_unit_test(a_suite_is_cut_by_its_tasks),
        cmocka_unit_test(a_table_says_the_same_in_every_form),
        cmocka_unit_test(columns_are_as_wide_as_their_cells),
        cmocka_unit_test(a_fact_that_a_way_lacks_is_not_known),
        cmocka_unit_test(every_shape_draws_every_point),
    };
    return cmocka_run_group_tests_name("bench tables", tests, NULL, NULL);
}
