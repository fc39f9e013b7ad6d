// How many threads share a forward where nobody says.
#include "base/system.h"
#include "engine/load.h"
#include "engine/measured.h"
#include "base/mem.h"
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

// ---- which is the fastest

typedef struct {
    double ms[129]; // by threads
    int asked[64], n;
    int fails_at, shorter_at; // calls, from 1 on: that fail, or that something made look twice as fast; 0: none
} machine;

static ls_code time_of(void *ud, int32_t n, double *ms, ls_err *err) {
    machine *m = ud;
    assert_in_range(n, 1, 128);
    assert_in_range(m->n, 0, 63);
    m->asked[m->n++] = n;
    *ms = m->ms[n] / (m->n == m->shorter_at ? 2 : 1);
    return m->n == m->fails_at ? ls_fail(err, LS_E_CANCELLED, "interrupted") : LS_OK;
}

// A forward that reads at `most` threads' speed at best, computes, and waits for all threads.
static machine machine_of(double read, int most, double compute, double wait, int processors) {
    machine m = {0};
    for (int n = 1; n <= 128; n++) {
        const int real = n < processors ? n : processors;
        m.ms[n] = read / (real < most ? real : most) + compute / real + wait * n * (n > processors ? 8 : 1);
    }
    return m;
}

static const double share = 0.97; // of the usual number's time

static int32_t fastest(machine *m, int32_t usual, int32_t most) {
    int32_t best = -1;
    m->n = 0;
    assert_int_equal(ls_threads_fastest(usual, most, time_of, m, &share, &best, NULL), LS_OK);
    return best;
}

static void the_fastest_number_is_found(void **state) {
    (void)state;
    machine computes = machine_of(0, 1, 100, 0.01, 128), reads = machine_of(8, 4, 1, 0.1, 128),
            small = machine_of(2, 4, 0.1, 0.05, 128), few = machine_of(20, 4, 10, 0.2, 2),
            twins = machine_of(10, 16, 80, 0.001, 32);
    assert_int_equal(fastest(&computes, 32, 32), 32);
    assert_true(computes.n == 3 && computes.asked[1] == 24 && computes.asked[2] == 16); // two in vain
    assert_int_equal(fastest(&reads, 32, 32), 4);
    assert_int_equal(fastest(&small, 64, 64), 4);
    assert_int_equal(fastest(&few, 8, 8), 2); // a machine that shows more processors than it gives
    assert_int_equal(fastest(&few, 2, 2), 2);
    assert_int_equal(fastest(&twins, 16, 32), 32); // threads of a core that gain
    assert_int_equal(fastest(&reads, 16, 32), 4);  // ... and where they do not
    assert_true(reads.asked[0] == 16 && reads.asked[1] == 32 && reads.asked[2] == 12);
    // every smaller number in turn, down to one
    machine one = machine_of(10, 1, 0, 1, 128);
    static const int want[] = {6, 4, 3, 2, 1, 1, 6};
    assert_int_equal(fastest(&one, 6, 6), 1);
    assert_int_equal(one.n, 7);
    assert_memory_equal(one.asked, want, sizeof want);
    assert_int_equal(fastest(&one, 1, 1), 1);
    assert_int_equal(one.n, 1);
}

static void another_number_must_be_faster_twice(void **state) {
    (void)state;
    machine flat = machine_of(1, 1, 0, 0, 128); // all the same
    assert_int_equal(fastest(&flat, 8, 8), 8);
    for (int i = 2; i <= 3; i++) { // one of them looked faster, once
        flat.shorter_at = i;
        assert_int_equal(fastest(&flat, 8, 8), 8);
        assert_true(flat.n > 4);
    }
    flat.shorter_at = 0;
    flat.ms[4] = 0.98; // by less than 3%
    assert_int_equal(fastest(&flat, 8, 8), 8);
    flat.ms[4] = 0.96;
    assert_int_equal(fastest(&flat, 8, 8), 4);
}

static void an_error_ends_the_search(void **state) {
    (void)state;
    machine m = machine_of(8, 4, 1, 0.1, 128);
    fastest(&m, 16, 32);
    const int calls = m.n;
    for (m.fails_at = 1; m.fails_at <= calls; m.fails_at++) {
        int32_t best;
        ls_err err = {0};
        m.n = 0;
        assert_int_equal(ls_threads_fastest(16, 32, time_of, &m, &share, &best, &err), LS_E_CANCELLED);
        assert_int_equal(m.n, m.fails_at);
    }
}

// ---- how they wait

void test_waits(int32_t n, int32_t us, bool (*in_vain)(int32_t i), bool *spun); // patience.cpp
enum { WAITS = 20000 };

static bool never(int32_t i) {
    (void)i;
    return false;
}
static bool always(int32_t i) {
    (void)i;
    return true;
}
static bool now_and_then(int32_t i) {
    return i % 10 == 0;
}
static bool at_first(int32_t i) { // as where threads found each other asleep
    return i < 5000;
}

static int32_t spinning(int32_t us, bool (*in_vain)(int32_t i), int32_t from, int32_t end) {
    static bool spun[WAITS];
    int32_t n = 0;
    test_waits(WAITS, us, in_vain, spun);
    for (int32_t i = from; i < end; i++) n += spun[i];
    return n;
}

// Threads spin while this is seldom in vain. Where it always is they hardly do, and they return to it.
static void threads_spin_where_it_helps(void **state) {
    (void)state;
    assert_int_equal(spinning(20, never, 0, WAITS), WAITS);
    assert_int_equal(spinning(40, now_and_then, 0, WAITS), WAITS);
    assert_in_range(spinning(90, always, 0, WAITS), 1, WAITS / 20);
    assert_in_range(spinning(90, at_first, 0, 5000), 1, 5000 / 20);
    assert_int_equal(spinning(90, at_first, 5000 + 2048, WAITS), WAITS - 5000 - 2048);
    assert_int_equal(spinning(500, always, 0, WAITS), WAITS); // a prompt's: each wait is long
}

// ---- of a model: the scripted one, whose forwards take longer the more threads share them

static ls_model model;
static int forwards, fails_at;
static ls_code (*real_kv_cache)(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err);
static ls_code (*real_forward)(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                               const lst_sampling *s, lst_row *rows, ls_err *err);

static ls_code slower_with_threads(ls_kv_cache *t, const int32_t *ids, const int32_t *parents, int32_t n,
                                   const lst_sampling *s, lst_row *rows, ls_err *err) {
    const uint64_t start = ls_now_ns();
    const ls_code code = real_forward(t, ids, parents, n, s, rows, err);
    while (ls_now_ns() - start < 300000u * (uint64_t)t->engine->threads) continue;
    return ++forwards == fails_at ? ls_fail(err, LS_E_BACKEND, "no memory") : code;
}

static ls_code kv_cache(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err) {
    const ls_code code = real_kv_cache(e, layers, out, err);
    if (code) return code;
    real_forward = (*out)->forward_tree;
    (*out)->forward_tree = slower_with_threads;
    return LS_OK;
}

static ls_code use_threads(ls_engine *e, int32_t threads, ls_err *err) {
    if (threads < 1 || threads > e->most_threads) return ls_fail(err, LS_E_RANGE, "not so many");
    e->threads = threads;
    return LS_OK;
}

static int load(void **state) {
    (void)state;
    ls_err err = {0};
    if (ls_model_load(&model, &(ls_model_options){.name = "script"}, &err)) fail_msg("%s", err.msg);
    ls_engine *e = model.engine;
    assert_null(e->use_threads); // its number is fixed
    real_kv_cache = e->kv_cache;
    e->kv_cache = kv_cache;
    e->use_threads = use_threads;
    e->threads = e->usual_threads = e->most_threads = 8;
    snprintf(model.file, sizeof model.file, "some.gguf");
    snprintf(model.sha256, sizeof model.sha256, "%064d", 1);
    return 0;
}

static int unload(void **state) {
    (void)state;
    ls_model_free(&model);
    return 0;
}

static bool at_most(void *calls, const char *stage, double fraction) {
    (void)stage, (void)fraction;
    return --*(int *)calls >= 0;
}

static void keep(const char *path, const char *magic, const char *key, int age_s, const char *how, const char *text) {
    unlink(path);
    ls_make_folders(path); // on a busy machine nothing was kept before
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n%s\nmeasured %lld %s\n%s", magic, key, (long long)time(NULL) - age_s, how, text);
    fclose(f);
}

static void a_choice_is_measured_and_kept(void **state) {
    (void)state;
    static const char magic[] = "logitspec-threads 3";
    ls_err err = {0};
    ls_engine *e = model.engine;
    char dir[] = "/tmp/logitspec-threads-XXXXXX", key[LS_MEASURED_KEY];
    assert_non_null(mkdtemp(dir));
    char *old = getenv("XDG_CACHE_HOME") ? ls_strdup(getenv("XDG_CACHE_HOME")) : NULL;
    setenv("XDG_CACHE_HOME", dir, 1);
    char *path = ls_measured_path(&model, "8 to 8", key);
    // interrupted wherever it is, or where a forward fails, it leaves the usual number and nothing in the cache
    int calls = 0;
    for (int code = LS_E_CANCELLED; code; calls++) {
        int left = calls;
        use_threads(e, 5, NULL);
        code = ls_threads_choose(&model, false, at_most, &left, &err);
        assert_true(!code || (code == LS_E_CANCELLED && e->threads == 8 && access(path, F_OK)));
    }
    assert_true(calls > 6);
    // Where other programs had the processors of even the fastest number, the usual one stays.
    assert_true(!access(path, F_OK) && (e->threads < 4 || e->threads == 8));
    unlink(path);
    forwards = 0;
    fails_at = 15;
    assert_int_equal(ls_threads_choose(&model, false, NULL, NULL, &err), LS_OK);
    assert_true(forwards == fails_at && e->threads == 8 && access(path, F_OK));
    fails_at = 0;
    // what is kept is used, if it can be; else it is measured
    static const struct {
        const char *magic, *kept, *how;
        int age_s;
        bool used;
    } cases[] = {{magic, "threads 7\n", "quietly", 100000000, true},
                 {magic, "threads 7\n", "busy", 590, true},
                 {magic, "threads 7\n", "busy", 610, false},  // it is measured again
                 {magic, "threads 7\n", "busy", -100, false}, // by a clock that was wrong
                 {magic, "threads 7\n", "surely", 0, false},
                 {magic, "threads 0\n", "quietly", 0, false},
                 {magic, "threads 9\n", "quietly", 0, false},
                 {magic, "threads -1\n", "quietly", 0, false},
                 {magic, "threads\n", "quietly", 0, false},
                 {magic, "", "quietly", 0, false},
                 {"logitspec-threads 30", "threads 7\n", "quietly", 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        keep(path, cases[i].magic, key, cases[i].age_s, cases[i].how, cases[i].kept);
        forwards = 0;
        assert_int_equal(ls_threads_choose(&model, false, NULL, NULL, &err), LS_OK);
        assert_int_equal(!forwards, cases[i].used);
        // beside other programs a number that they had disturbed before stays
        assert_true(cases[i].used ? e->threads == 7 : e->threads != 7 || !strcmp(cases[i].how, "busy"));
    }
    // asked for: measured; where a forward fails then, what was kept stays
    keep(path, magic, key, 0, "quietly", "threads 7\n");
    forwards = 0;
    fails_at = 1;
    assert_int_equal(ls_threads_choose(&model, true, NULL, NULL, &err), LS_OK);
    assert_true(forwards == 1 && e->threads == 7);
    fails_at = 0;
    assert_int_equal(ls_threads_choose(&model, true, NULL, NULL, &err), LS_OK);
    assert_true(forwards > 20);
    // a number that is fixed, or an engine that is slow: nothing is measured
    use_threads(e, 1, NULL);
    forwards = 0;
    e->slow = true;
    assert_int_equal(ls_threads_choose(&model, true, NULL, NULL, &err), LS_OK);
    e->slow = false;
    e->use_threads = NULL;
    assert_int_equal(ls_threads_choose(&model, true, NULL, NULL, &err), LS_OK);
    e->use_threads = use_threads;
    assert_true(!forwards && e->threads == 1);
    char *remove = ls_format("rm -r %s", dir);
    assert_int_equal(system(remove), 0);
    free(remove);
    free(path);
    if (old) setenv("XDG_CACHE_HOME", old, 1);
    else unsetenv("XDG_CACHE_HOME");
    free(old);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fastest_number_is_found),
        cmocka_unit_test(another_number_must_be_faster_twice),
        cmocka_unit_test(threads_spin_where_it_helps),
        cmocka_unit_test(an_error_ends_the_search),
        cmocka_unit_test_setup_teardown(a_choice_is_measured_and_kept, load, unload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
