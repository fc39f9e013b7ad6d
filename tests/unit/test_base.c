// Base library: map, UTF-8, buffers, random numbers.
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/system.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <stdarg.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

static void map_keeps_what_was_put(void **state) {
    (void)state;
    ls_map m = {0};
    int32_t v;
    assert_false(ls_map_get(&m, 7, &v));
    for (uint64_t i = 0; i < 10000; i++) ls_map_put(&m, i * 0x9E3779B97F4A7C15u, (int32_t)i);
    ls_map_put(&m, 0, 77); // key 0 is a key like any other; the second put replaces
    assert_int_equal(m.n, 10000);
    for (uint64_t i = 1; i < 10000; i++) {
        assert_true(ls_map_get(&m, i * 0x9E3779B97F4A7C15u, &v));
        assert_int_equal(v, (int32_t)i);
    }
    assert_true(ls_map_get(&m, 0, &v));
    assert_int_equal(v, 77);
    ls_map_clear(&m);
    assert_false(ls_map_get(&m, 0, &v));
    ls_map_free(&m);
}

// A folder as /sys/devices/system/cpu is: a list and a capacity for each CPU, NULL: no such file.
static int32_t cores_of(int n, const char *const *lists, const char *const *capacities, const char *usable) {
    char folder[] = "/tmp/logitspec-cpus-XXXXXX", path[512];
    assert_non_null(mkdtemp(folder));
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < n; i++) {
        if (usable[i] == '1') CPU_SET((size_t)i, &set);
        for (int k = 0; k < 2; k++) {
            snprintf(path, sizeof path, "%s/cpu%d%s", folder, i, k ? "/topology" : "");
            assert_int_equal(mkdir(path, 0700), 0);
        }
        for (int k = 0; k < 2; k++) { // the older name of a list for half of them
            const char *text = (k ? capacities : lists)[i],
                       *list = i % 2 ? "topology/core_cpus_list" : "topology/thread_siblings_list";
            snprintf(path, sizeof path, "%s/cpu%d/%s", folder, i, k ? "cpu_capacity" : list);
            FILE *f = text ? fopen(path, "w") : NULL;
            assert_true(!text || (f && fputs(text, f) >= 0 && !fclose(f)));
        }
    }
    const int32_t cores = ls_cores_in(folder, &set);
    char *command = ls_format("rm -r %s", folder);
    assert_int_equal(system(command), 0);
    free(command);
    return cores;
}

static void threads_of_a_core_are_counted_once(void **state) {
    (void)state;
    static const char *const none[8];
    static const char *const two[8] = {"0,4\n", "1,5\n", "2,6\n", "3,7\n", "0,4\n", "1,5\n", "2,6\n", "3,7\n"},
                             *const beside[8] = {"0-1\n", "0-1\n", "2-3\n", "2-3\n", "4\n", "5\n", "6\n", "7\n"},
                             *const nonsense[8] = {"", "x", "7-0", "99999999999999999999", "-", ",", "4-5000", "3 4"};
    assert_int_equal(cores_of(8, two, none, "11111111"), 4);
    assert_int_equal(cores_of(8, two, none, "00001111"), 4); // one of each, whichever
    assert_int_equal(cores_of(8, two, none, "10001000"), 1);
    assert_int_equal(cores_of(8, beside, none, "11111111"), 6);
    assert_int_equal(cores_of(8, none, none, "11111111"), 8);
    assert_int_equal(cores_of(8, none, none, "00000000"), 1);
    assert_int_equal(cores_of(8, nonsense, none, "11111111"), 6); // the last two name others
    // four fast cores and four slow ones: all of them only if the slow ones have half the capacity
    static const char *const slow[8] = {"1024", "1024", "1024", "1024", "400", "400", "400", "400"},
                             *const half[8] = {"512", "512", "512", "512", "1024", "1024", "1024", "1024"},
                             *const three[8] = {"446", "446", "446", "871", "871", "871", "871", "1024"};
    assert_int_equal(cores_of(8, none, slow, "11111111"), 4);
    assert_int_equal(cores_of(8, none, half, "11111111"), 8);
    assert_int_equal(cores_of(8, none, three, "11111111"), 5); // not the one alone that is fastest
    assert_int_equal(cores_of(8, none, slow, "00001111"), 4);
}

// Limits of a folder of groups; files: "PATH=TEXT" each, NULL at the end.
static ls_cgroup limits_of(const char *membership, const char *const *files) {
    char mount[] = "/tmp/logitspec-groups-XXXXXX";
    assert_non_null(mkdtemp(mount));
    char *said = ls_format("%s/membership", mount);
    for (int i = -1; i < 0 || files[i]; i++) {
        const char *text = i < 0 ? membership : strchr(files[i], '=') + 1;
        char *path = i < 0 ? ls_strdup(said) : ls_format("%s%.*s", mount, (int)(text - 1 - files[i]), files[i]);
        char *folders = ls_format("mkdir -p $(dirname %s)", path);
        assert_int_equal(system(folders), 0);
        FILE *f = fopen(path, "w");
        assert_true(f && fputs(text, f) >= 0 && !fclose(f));
        free(folders);
        free(path);
    }
    const ls_cgroup c = ls_cgroup_limits_in(mount, said);
    char *command = ls_format("rm -r %s", mount);
    assert_int_equal(system(command), 0);
    free(command);
    free(said);
    return c;
}

static void groups_limit_what_is_in_them(void **state) {
    (void)state;
    static const struct {
        const char *membership, *files[8];
        double processors, memory;
    } cases[] = {
        {"0::/\n", {0}, INFINITY, INFINITY},
        // a container, whose own group looks like the outermost one
        {"0::/\n", {"/cpu.max=150000 100000\n", "/memory.max=1000\n", "/memory.current=300\n"}, 1.5, 700},
        {"0::/\n", {"/cpu.max=max 100000\n", "/memory.max=max\n", "/memory.current=300\n"}, INFINITY, INFINITY},
        // a service in a slice: the least limit on the way up, each with what is used there
        {"0::/a.slice/b.service\n",
         {"/a.slice/cpu.max=400000 100000\n", "/a.slice/b.service/cpu.max=max 100000\n", "/a.slice/memory.max=1000\n",
          "/a.slice/memory.current=900\n", "/a.slice/memory.stat=anon 7\nfile 300\nactive_file 50\ninactive_file 250\n",
          "/a.slice/b.service/memory.max=600\n", "/a.slice/b.service/memory.current=100\n"},
         4,
         350},
        {"0::/a.slice/b.service\n", {"/b.service/cpu.max=100000 100000\n"}, INFINITY, INFINITY}, // another group
        // a path of outside the container: what it sees is its own
        {"0::/docker/0a1b\n", {"/cpu.max=50000 100000\n"}, 0.5, INFINITY},
        {"0::/../../x\n", {"/cpu.max=50000 100000\n"}, 0.5, INFINITY},
        // version 1, and both beside each other
        {"12:cpuset:/x\n4:cpu,cpuacct:/g\n3:memory:/m\n0::/\n",
         {"/cpu/g/cpu.cfs_quota_us=250000\n", "/cpu/g/cpu.cfs_period_us=100000\n", "/cpu/cpu.cfs_quota_us=-1\n",
          "/cpu/cpu.cfs_period_us=100000\n", "/memory/m/memory.limit_in_bytes=1000\n",
          "/memory/m/memory.usage_in_bytes=400\n",
          "/memory/m/memory.stat=cache 300\ninactive_file 1\ntotal_inactive_file 100\n"},
         2.5,
         700},
        {"1:name=systemd:/x\n0::/y\n", {"/unified/y/cpu.max=300000 100000\n"}, 3, INFINITY},
        // what makes no sense is no limit; more in use than the limit leaves nothing
        {"0::/\n", {"/cpu.max=100000 0\n", "/memory.max=-5\n"}, INFINITY, INFINITY},
        {"0::/\n", {"/cpu.max=\n", "/memory.max=100\n", "/memory.current=300\n"}, INFINITY, 0},
        {"0::/\n", {"/memory.max=100\n", "/memory.current=3\n", "/memory.stat=inactive_file 50\n"}, INFINITY, 100},
        {"nonsense\n0:\n0::\n::\n:cpu:x\n", {"/cpu.max=100000 100000\n"}, INFINITY, INFINITY},
        {"", {"/cpu.max=100000 100000\n"}, INFINITY, INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ls_cgroup c = limits_of(cases[i].membership, cases[i].files);
        if (!(c.processors == cases[i].processors) || !(c.memory_bytes == cases[i].memory))
            fail_msg("case %zu: %g processors, %g bytes", i, c.processors, c.memory_bytes);
    }
    assert_true(isinf(ls_cgroup_limits_in("/nonexistent", "/nonexistent").processors));
}

static void utf8_follows_the_standard(void **state) {
    (void)state;
    uint32_t cp;
    assert_int_equal(ls_utf8_decode("\xE2\x82\xAC", 3, &cp), 3);
    assert_int_equal(cp, 0x20AC);
    assert_int_equal(ls_utf8_decode("\xE2\x82", 2, &cp), 0);          // cut off
    assert_int_equal(ls_utf8_decode("\xC0\x80", 2, &cp), -1);         // overlong
    assert_int_equal(ls_utf8_decode("\xED\xA0\x80", 3, &cp), -1);     // surrogate
    assert_int_equal(ls_utf8_decode("\xF4\x90\x80\x80", 4, &cp), -1); // beyond U+10FFFF
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        char out[4];
        int n = ls_utf8_encode(c, out);
        if (c >= 0xD800 && c < 0xE000) {
            assert_int_equal(n, 0);
            continue;
        }
        assert_int_equal(ls_utf8_decode(out, (size_t)n, &cp), n);
        assert_int_equal(cp, c);
    }
}

static void buf_formats_and_grows(void **state) {
    (void)state;
    ls_buf b = {0};
    for (int i = 0; i < 1000; i++) ls_buf_fmt(&b, "%d,", i);
    assert_int_equal(b.n, 3890);
    assert_int_equal(strlen(b.p), 3890);
    ls_buf_free(&b);
}

// Known answers of Random123's kat_vectors for philox4x32-10.
static void philox_matches_known_answers(void **state) {
    (void)state;
    uint32_t out[4];
    ls_philox4x32_10((uint32_t[4]){0}, (uint32_t[2]){0}, out);
    assert_int_equal(out[0], 0x6627e8d5u);
    assert_int_equal(out[1], 0xe169c58du);
    assert_int_equal(out[2], 0xbc57ac4cu);
    assert_int_equal(out[3], 0x9b00dbd8u);
    ls_philox4x32_10((uint32_t[4]){0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u},
                     (uint32_t[2]){0xa4093822u, 0x299f31d0u}, out);
    assert_int_equal(out[0], 0xd16cfe09u);
    assert_int_equal(out[1], 0x94fdccebu);
    assert_int_equal(out[2], 0x5001e420u);
    assert_int_equal(out[3], 0x24126ea1u);
    double sum = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        double u = ls_uniform_at(42, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(sum > 4850 && sum < 5150);
    assert_true(ls_uniform_at(1, 5) != ls_uniform_at(2, 5));
    assert_true(ls_uniform_at(1, 5) != ls_uniform_at(1 + (1ull << 32), 5)); // all bits of seed and position count
    assert_true(ls_uniform_at(1, 5) != ls_uniform_at(1, 5 + (1ull << 32)));
}

static void sampling_follows_its_definition(void **state) {
    (void)state;
    const float x[6] = {1, 3, 2, 3, -1, 0};
    assert_int_equal(ls_sample(x, 6, 0, 0, 1, 0, 5), 1); // ties: the lower id
    int counts[6] = {0}, n = 20000;
    for (int i = 0; i < n; i++) counts[ls_sample(x, 6, 1, 0, 1, 3, (uint64_t)i)]++;
    double sum = 0;
    for (int i = 0; i < 6; i++) sum += exp((double)x[i]);
    for (int i = 0; i < 6; i++) assert_true(fabs(counts[i] / (double)n - exp((double)x[i]) / sum) < 0.015);
    for (int k = 0; k < 2; k++) { // a low temperature sharpens, a high one flattens; so with top-k
        const double t = k ? 2 : 0.5;
        for (int32_t top_k = 0; top_k <= 6; top_k += 5) {
            int at[6] = {0};
            double all = 0;
            for (int i = 0; i < 6; i++) all += i == 4 && top_k ? 0 : exp((double)x[i] / t);
            for (int i = 0; i < n; i++) at[ls_sample(x, 6, t, top_k, 1, 3, (uint64_t)i)]++;
            for (int i = 0; i < 6; i++)
                assert_true(fabs(at[i] / (double)n - (i == 4 && top_k ? 0 : exp((double)x[i] / t) / all)) < 0.015);
        }
    }
    for (int i = 0; i < 60; i++) { // temperatures whose inverse is no finite number: the best tokens share all
        const double t = i % 3 ? i % 3 == 1 ? 1e-310 : 4.9e-324 : 1e-39;
        float p[6];
        const int32_t c = ls_sample(x, 6, t, i / 3 % 2 ? 5 : 0, i / 6 % 2 ? 0.9 : 1, 3, (uint64_t)i);
        assert_true(c == 1 || c == 3);
        ls_sample_shape(x, 6, t, i / 3 % 2 ? 5 : 0, i / 6 % 2 ? 0.9 : 1, p);
        assert_true(p[1] == 0.5f && p[3] == 0.5f);
    }
    for (int i = 0; i < 500; i++) {
        int32_t c = ls_sample(x, 6, 1, 2, 1, 3, (uint64_t)i);
        assert_true(c == 1 || c == 3);
    }
    memset(counts, 0, sizeof counts); // tokens 1 and 3 hold .39 each: both are needed to reach .5
    for (int i = 0; i < 2000; i++) counts[ls_sample(x, 6, 1, 0, 0.5, 3, (uint64_t)i)]++;
    assert_int_equal(counts[1] + counts[3], 2000);
    assert_true(counts[1] > 850 && counts[3] > 850);
    assert_int_equal(ls_sample(x, 6, 1, 0, 0.9, 3, 9), ls_sample(x, 6, 1, 0, 0.9, 3, 9));
}

static const float *by_logit;

static int better(const void *a, const void *b) {
    const int x = *(const int *)a, y = *(const int *)b;
    if (by_logit[x] != by_logit[y]) return by_logit[x] > by_logit[y] ? -1 : 1;
    return x - y;
}

// The definition, with the whole vocabulary sorted; without top-k and top-p, in any order.
static int32_t sample_plainly(const float *x, const int *order, int n, double t, int top_k, double top_p, double u) {
    double all = 0, mass = 0, sum = 0;
    const int m = top_k && top_k < n ? top_k : n;
    double max = -INFINITY;
    for (int i = 0; i < n; i++) max = fmax(max, (double)x[i]);
    for (int i = 0; i < m; i++) all += exp(((double)x[order[i]] - max) / t);
    int kept = 0;
    while (kept < m && !(kept && mass >= top_p * all)) mass += exp(((double)x[order[kept++]] - max) / t);
    int i = 0;
    while (i < kept - 1 && (sum += exp(((double)x[order[i]] - max) / t)) <= u * mass) i++;
    return order[i];
}

static void sampling_need_not_sort_the_whole_vocabulary(void **state) {
    (void)state;
    enum { N = 5000 };
    static float x[N];
    static int best_first[N], by_id[N];
    static const struct {
        double t, top_p;
        int top_k;
    } cases[] = {{0.8, 1, 0},    {0.8, 0.9, 0},  {0.8, 1, 40},   {0.8, 0.9, 40}, {0.3, 0.999, 0}, {3, 0.95, 0},
                 {30, 0.999, 0}, {0.8, 1, 4999}, {0.05, 1, 300}, {1, 1e-9, 0},   {1, 0.5, 1},     {20, 0.6, 3000}};
    for (int i = 0; i < N; i++) { // equal ones, too
        const double normal =
            sqrt(-2 * log(ls_uniform_at(1, (uint64_t)i) + 1e-12)) * cos(6.283 * ls_uniform_at(2, (uint64_t)i));
        x[i] = (float)(round(40 * normal) / 8);
        best_first[i] = by_id[i] = i;
    }
    by_logit = x;
    qsort(best_first, N, sizeof *best_first, better);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (uint64_t at = 0; at < 100; at++) {
            const int *order = cases[c].top_k || cases[c].top_p < 1 ? best_first : by_id;
            const int32_t want =
                sample_plainly(x, order, N, cases[c].t, cases[c].top_k, cases[c].top_p, ls_uniform_at(3, at));
            const int32_t got = ls_sample(x, N, cases[c].t, cases[c].top_k, cases[c].top_p, 3, at);
            if (got != want) fail_msg("case %zu, draw %d: token %d instead of %d", c, (int)at, got, want);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_keeps_what_was_put),
        cmocka_unit_test(threads_of_a_core_are_counted_once),
        cmocka_unit_test(groups_limit_what_is_in_them),
        cmocka_unit_test(utf8_follows_the_standard),
        cmocka_unit_test(buf_formats_and_grows),
        cmocka_unit_test(sampling_follows_its_definition),
        cmocka_unit_test(sampling_need_not_sort_the_whole_vocabulary),
        cmocka_unit_test(philox_matches_known_answers),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
