// What traces lie in: sinks that write behind one's back, lines of plain and compressed files, the index, levels, and
// the numbers that are written.
#include "base/json.h"
#include "base/io.h"
#include "base/mem.h"
#include "recorded.h"
#include "decode/stats.h"
#include "trace/trace_events.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static double written(double v, int digits, ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_buf_clear(out);
    ls_jw_num(&w, v, digits);
    return strtod(out->p, NULL);
}

static void numbers_come_back(void **state) {
    (void)state;
    ls_buf b = {0};
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 300000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const uint32_t bits = (uint32_t)x;
        float f;
        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f)) continue;
        const float back = (float)written((double)f, 9, &b);
        if (memcmp(&back, &f, sizeof f)) fail_msg("%.9g became %s", (double)f, b.p);
        // as near as printf, in as many digits
        const int digits = 1 + (int)(x >> 40) % 9;
        const double v = ldexp((double)(int32_t)(x >> 32), (int)(x >> 20) % 40 - 40);
        char text[40];
        snprintf(text, sizeof text, "%.*g", digits, v);
        const double unit = v == 0 ? 1 : pow(10, floor(log10(fabs(v))) + 1 - digits);
        if (fabs(written(v, digits, &b) - v) > 0.500001 * unit) fail_msg("%.17g (%s) became %s", v, text, b.p);
        if (b.n > strlen(text)) fail_msg("%s became the longer %s", text, b.p);
    }
    static const struct {
        double v;
        int digits;
        const char *text;
    } cases[] = {{0, 9, "0"},
                 {-0.0, 9, "-0"},
                 {1, 9, "1"},
                 {10, 1, "1e+01"},
                 {999.9996, 6, "1000"},
                 {0.0001, 5, "0.0001"},
                 {-2.5, 3, "-2.5"},
                 {1e-5, 4, "1e-05"},
                 {123456789, 9, "123456789"},
                 {9.99999e-5, 3, "0.0001"},
                 {0.1, 9, "0.1"},
                 {1.0 / 3, 3, "0.333"},
                 {(double)NAN, 9, "null"},
                 {(double)INFINITY, 9, "null"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        written(cases[i].v, cases[i].digits, &b);
        assert_string_equal(b.p, cases[i].text);
    }
    ls_buf_free(&b);
}

static ls_buf pack(const char *p, size_t n, size_t piece, bool end) {
    ls_zst_encoder *z = ls_zst_encoder_new();
    ls_buf out = {0};
    for (size_t at = 0; at < n; at += piece)
        ls_zst_encode(z, p + at, piece < n - at ? piece : n - at, end && at + piece >= n, &out);
    ls_zst_encoder_free(z);
    return out;
}

// Every line of a file; fails where there are other ones than n lines "0".."n-1".
static ls_code count_lines(size_t n, size_t *got, ls_err *err) {
    ls_lines *l;
    ls_line line;
    char want[32];
    *got = 0;
    ls_code code = ls_lines_open(&l, path, err);
    uint64_t offset = 0;
    while (!code && !(code = ls_lines_next(l, &line, err)) && line.p) {
        snprintf(want, sizeof want, "line %zu", *got);
        if (line.n != strlen(want) || memcmp(line.p, want, line.n)) break;
        assert_int_equal(line.number, *got + 1);
        assert_int_equal(line.offset, offset);
        offset += line.n + 1;
        ++*got;
    }
    ls_lines_close(l);
    assert_true(*got <= n);
    return code;
}

static void lines_of_plain_and_compressed_files(void **state) {
    (void)state;
    enum { LINES = 30000 };
    ls_buf text = {0};
    size_t got;
    ls_err err;
    for (int i = 0; i < LINES; i++) ls_buf_fmt(&text, "line %d\n", i);
    spill(text.p, text.n);
    assert_int_equal(count_lines(LINES, &got, &err), LS_OK);
    assert_int_equal(got, LINES);
    ls_buf packed = pack(text.p, text.n, 5000, true);
    assert_true(packed.n < text.n / 2);
    spill(packed.p, packed.n);
    assert_int_equal(count_lines(LINES, &got, &err), LS_OK);
    assert_int_equal(got, LINES);
    ls_buf two = {0}; // one stream behind the other: `cat a.zst b.zst`
    ls_buf first = pack(text.p, 700, 700, true), rest = pack(text.p + 700, text.n - 700, 1 << 14, true);
    ls_buf_add(&two, first.p, first.n);
    ls_buf_add(&two, rest.p, rest.n);
    spill(two.p, two.n);
    assert_int_equal(count_lines(LINES, &got, &err), LS_OK);
    assert_int_equal(got, LINES);
    spill(packed.p, packed.n - packed.n / 3); // cut: what was flushed before is all there
    assert_int_equal(count_lines(LINES, &got, &err), LS_OK);
    assert_in_range(got, LINES / 2, LINES - 1);
    packed.p[packed.n / 2] ^= 0x55;
    spill(packed.p, packed.n);
    ls_lines *l;
    ls_line line;
    ls_code code;
    assert_int_equal(ls_lines_open(&l, path, &err), LS_OK);
    while (!(code = ls_lines_next(l, &line, &err)) && line.p) {
    } // the checksum is at the end
    ls_lines_close(l);
    assert_int_equal(code, LS_E_PARSE);
    assert_non_null(strstr(err.msg, "the Zstandard stream is incomplete"));
    ls_buf_free(&text), ls_buf_free(&packed), ls_buf_free(&two), ls_buf_free(&first), ls_buf_free(&rest);
}

static void a_line_without_end_is_refused(void **state) {
    (void)state;
    enum { SIZE = 40 << 20 };
    char *p = ls_calloc(SIZE, 1);
    memset(p, 'x', SIZE);
    ls_buf packed = pack(p, SIZE, SIZE, true); // a few kilobytes: memory must not follow what they unpack to
    free(p);
    assert_true(packed.n < 100000);
    spill(packed.p, packed.n);
    ls_buf_free(&packed);
    size_t got;
    ls_err err;
    assert_int_equal(count_lines(1, &got, &err), LS_E_PARSE);
    assert_non_null(strstr(err.msg, ":1: the line is longer than 16 MiB"));
}

static void sinks_write_all_and_say_what_failed(void **state) {
    (void)state;
    ls_sink *s;
    ls_err err;
    uint64_t dropped;
    ls_buf text = {0};
    spill("before", 6);
    assert_int_equal(ls_sink_open(&s, path, NULL, NULL, &err), LS_OK);
    assert_int_equal(ls_sink_close(s, &dropped), 0);
    assert_int_equal(dropped, 0);
    ls_buf old = slurp();
    assert_string_equal(old.p, "before"); // nothing was written: nothing is lost
    ls_buf_free(&old);
    for (int i = 0; i < 20000; i++) ls_buf_fmt(&text, "line %d\n", i);
    assert_int_equal(ls_sink_open(&s, path, NULL, NULL, &err), LS_OK);
    for (size_t at = 0; at < text.n; at += 10) ls_sink_put(s, text.p + at, text.n - at < 10 ? text.n - at : 10);
    assert_int_equal(ls_sink_close(s, &dropped), 0);
    assert_int_equal(dropped, 0);
    ls_buf back = slurp();
    assert_int_equal(back.n, text.n);
    assert_memory_equal(back.p, text.p, text.n);
    ls_buf_free(&back);
    ls_buf_free(&text);
    assert_int_equal(ls_sink_open(&s, "/dev/full", NULL, NULL, &err), LS_OK);
    ls_sink_put(s, "x", 1);
    while (!ls_sink_error(s)) usleep(1000);
    assert_int_equal(ls_sink_error(s), ENOSPC);
    for (int i = 0; i < 100; i++) ls_sink_put(s, "x", 1); // dropped, and nobody waits
    assert_int_equal(ls_sink_close(s, &dropped), ENOSPC);
    assert_int_equal(dropped, 101);
    assert_int_equal(ls_sink_open(&s, "/nonexistent/file", NULL, NULL, &err), LS_E_IO);
    assert_null(s);
}

// What every level keeps: the text, the counts and the times are those of the run.
static void levels_agree_on_what_they_keep(void **state) {
    (void)state;
    size_t size[3];
    for (level = LS_LEVEL_STEPS; level <= LS_LEVEL_FULL; level++) {
        record("def fib(n):\n", options("logitspec", 12, 90), 2);
        ls_buf file = slurp();
        size[level] = file.n;
        ls_buf_free(&file);
        ls_trace_reader *r;
        ls_trace_line kind;
        ls_err err;
        int at = 0;
        ls_stats ran = {0}, read = {0};
        assert_int_equal(ls_trace_read_open(&r, path, &err), LS_OK);
        do {
            if (ls_trace_read_next(r, &kind, &err)) fail_msg("%s", err.msg);
            if (kind == LS_TRACE_HEADER) assert_int_equal(ls_trace_read_header(r)->level, level);
            if (kind != LS_TRACE_STEP) continue;
            const ls_step *s = ls_trace_read_step(r), *w = steps[at++];
            ls_stats_add(&ran, w);
            ls_stats_add(&read, s);
            assert_int_equal(s->rows, w->rows);
            assert_int_equal(s->n_path, w->n_path);
            assert_int_equal(ls_step_lossy(s, NULL), 0);
            for (int i = 0; i < s->n_path; i++) {
                const ls_node *a = &s->tree.nodes[s->path[i]], *b = &w->tree.nodes[w->path[i]];
                assert_int_equal(a->token, b->token);
                assert_int_equal(a->target, b->target);
                assert_int_equal(a->from, b->from);
                assert_int_equal(a->match_pos, b->match_pos);
            }
            assert_int_equal(s->tree.n, level == LS_LEVEL_STEPS ? s->n_path : w->tree.n);
            assert_int_equal(s->n_top, level == LS_LEVEL_FULL ? w->n_top : level == LS_LEVEL_NODES ? 8 : 0);
            if (level == LS_LEVEL_STEPS) assert_true(isnan(s->tree.nodes[0].p) && isnan(s->top_entropy));
            if (level == LS_LEVEL_NODES && s->forward)
                assert_true(s->tree.nodes[0].target_p == w->tree.nodes[0].target_p && s->tree.nodes[0].top[0].id < 0);
        } while (kind);
        ls_trace_read_close(r);
        assert_int_equal(at, n_steps);
        assert_int_equal(read.emitted, ran.emitted);
        assert_int_equal(read.drafted, ran.drafted);
        assert_int_equal(read.accepted, ran.accepted);
        assert_true(fabs(read.total_us - ran.total_us) <= 1e-8 * ran.total_us);
        if (level > LS_LEVEL_STEPS) assert_memory_equal(read.depth, ran.depth, sizeof ran.depth);
        else assert_true(read.depth[1].of < ran.depth[1].of);
    }
    level = LS_LEVEL_FULL;
    assert_true(size[0] < size[1] && size[1] < size[2] && 3 * size[0] < size[2]);
}

static void check_index(const char *file, const ls_step *const *want, int per_turn, int turns) {
    ls_trace_index *x;
    ls_err err;
    if (ls_trace_index_open(&x, file, SIZE_MAX, SIZE_MAX, &err)) fail_msg("%s", err.msg);
    assert_int_equal(ls_trace_index_turns(x), turns);
    for (int i = 0; i < 40; i++) { // in no order
        const int turn = i * 7 % turns, at = i * 31 % per_turn;
        ls_trace_events *t;
        ls_event *e;
        int seen = 0, known[1000] = {0};
        assert_int_equal(ls_trace_index_steps(x, (size_t)turn), per_turn);
        assert_int_equal(ls_trace_index_events(x, (size_t)turn, (size_t)at, 2, &t, &err), LS_OK);
        for (;;) {
            if (ls_trace_events_next(t, &e, &err)) fail_msg("%s", err.msg);
            if (!e) break;
            if (e->kind == LS_EV_TOKENS)
                for (int k = 0; k < e->tokens.n; k++) known[e->tokens.ids[k]] = 1;
            if (e->kind == LS_EV_STEP) {
                const ls_step *w = want[turn * per_turn + at - (at < 2 ? at : 2) + seen++];
                assert_int_equal(e->step->index, w->index);
                assert_int_equal(e->step->tree.nodes[0].token, w->tree.nodes[0].token);
                for (int k = 0; k < w->n_top; k++) assert_true(known[w->top[k].id]);
            }
            ls_event_free(e);
        }
        assert_int_equal(seen, (at < 2 ? at : 2) + 1);
        ls_trace_events_close(t);
    }
    ls_trace_index_close(x);
}

static void any_step_is_found(void **state) {
    (void)state;
    enum { STEPS = 20 };
    record("def fib(n):\n", options("plain", 1, STEPS), 3);
    assert_int_equal(n_steps, 3 * STEPS);
    const ls_step *want[6 * STEPS];
    for (int i = 0; i < 6 * STEPS; i++) want[i] = steps[i % (3 * STEPS)];
    check_index(path, want, STEPS, 3);
    ls_buf once = slurp(), twice = {0};
    ls_buf_add(&twice, once.p, once.n);
    ls_buf_add(&twice, once.p, once.n);
    spill(twice.p, twice.n); // one trace behind the other
    check_index(path, want, STEPS, 6);
    ls_buf packed = pack(twice.p, twice.n, 4096, true);
    spill(packed.p, packed.n); // does not seek: by a temporary file
    check_index(path, want, STEPS, 6);
    // another writer's order of fields
    ls_buf other = {0};
    for (const char *p = once.p, *end; *p; p = end + 1) {
        end = strchr(p, '\n');
        ls_buf_fmt(&other, "{ %.*s\n", (int)(end - p - 1), p + 1);
    }
    spill(other.p, other.n);
    check_index(path, want, STEPS, 3);
    spill(twice.p, twice.n - 50); // its last line is cut short
    ls_trace_index *x;
    ls_err err;
    assert_int_equal(ls_trace_index_open(&x, path, SIZE_MAX, SIZE_MAX, &err), LS_OK);
    assert_int_equal(ls_trace_index_steps(x, 5), STEPS);
    ls_trace_index_close(x);
    static const char *const bad[] = {"", "{\"type\":\"step\"}\n", "hello\n"};
    for (int i = 0; i < 3; i++) {
        spill(bad[i], strlen(bad[i]));
        assert_int_equal(ls_trace_index_open(&x, path, SIZE_MAX, SIZE_MAX, &err), LS_E_PARSE);
        assert_non_null(strstr(err.msg, path));
    }
    ls_buf_free(&once), ls_buf_free(&twice), ls_buf_free(&packed), ls_buf_free(&other);
}

// A recording that stops anywhere, compressed or not, shows what was written until then.
static void compressed_traces_are_traces(void **state) {
    (void)state;
    char plain[64];
    memcpy(plain, path, sizeof plain);
    record("One fish, two", options("logitspec", 9, 30), 1);
    const int n = n_steps;
    ls_code code;
    bool torn;
    ls_err err;
    ls_buf text = slurp();
    snprintf(path, sizeof path, "%s.zst", plain);
    record("One fish, two", options("logitspec", 9, 30), 1);
    assert_int_equal(n_steps, n);
    ls_buf packed = slurp();
    assert_true(ls_zst_is(packed.p, packed.n) && packed.n < text.n / 2);
    assert_int_equal(read_all(&code, &torn, &err), n);
    assert_false(torn);
    int most = 0;
    for (size_t cut = packed.n / 4; cut < packed.n; cut += 211) {
        spill(packed.p, cut);
        const int got = read_all(&code, &torn, &err);
        if (code && (most || !strstr(err.msg, "no complete line"))) fail_msg("cut at %zu: %s", cut, err.msg);
        assert_true(got >= most && got <= n);
        most = got;
    }
    // how much is left depends on when the writer flushed: after each batch that it found waiting
    unlink(path);
    memcpy(path, plain, sizeof plain);
    ls_buf_free(&text), ls_buf_free(&packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_come_back),
        cmocka_unit_test(lines_of_plain_and_compressed_files),
        cmocka_unit_test(a_line_without_end_is_refused),
        cmocka_unit_test(sinks_write_all_and_say_what_failed),
        cmocka_unit_test(levels_agree_on_what_they_keep),
        cmocka_unit_test(any_step_is_found),
        cmocka_unit_test(compressed_traces_are_traces),
    };
    return cmocka_run_group_tests_name("files", tests, recorded_set_up, recorded_tear_down);
}
