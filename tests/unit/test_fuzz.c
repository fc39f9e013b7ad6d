// Every fuzz target replays what it begins with and what was found: tests/fuzz/README.md.
#include "base/file.h"
#include "tests/fuzz/input.h"

#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define FUZZ(name, ...) int fuzz_##name(const uint8_t *data, size_t n);
#include "tests/fuzz/targets.def"
#undef FUZZ

static char now[600]; // what is replayed

static void say_where(int signal_number) {
    (void)signal_number;
    if (write(STDERR_FILENO, now, strlen(now)) < 0) return;
}

static void replay(const char *name, int (*target)(const uint8_t *data, size_t n), const char *const *folders) {
    size_t n = 0;
    for (; *folders; folders++) {
        glob_t files;
        snprintf(now, sizeof now, "%s/*", *folders);
        assert_int_equal(glob(now, 0, NULL, &files), 0);
        for (size_t i = 0; i < files.gl_pathc; i++, n++) {
            ls_buf m = {0};
            snprintf(now, sizeof now, "while replaying %s by fuzz_%s\n", files.gl_pathv[i], name);
            assert_int_equal(ls_read_file(&m, files.gl_pathv[i], SIZE_MAX, NULL), LS_OK);
            uint8_t *copy = malloc(m.n + !m.n); // its end is the allocation's
            if (m.n) memcpy(copy, m.p, m.n);
            assert_int_equal(target(copy, m.n), 0);
            free(copy);
            ls_buf_free(&m);
        }
        globfree(&files);
    }
    assert_in_range(n, 4, 100000);
}

#define FUZZ(name, dictionary, longest, ...)                                                                           \
    static void name##_inputs(void **state) {                                                                          \
        (void)state;                                                                                                   \
        replay(#name, fuzz_##name, (const char *const[]){__VA_ARGS__, NULL});                                          \
    }
#include "tests/fuzz/targets.def"
#undef FUZZ

int main(void) {
    static const struct CMUnitTest tests[] = {
#define FUZZ(name, ...) cmocka_unit_test(name##_inputs),
#include "tests/fuzz/targets.def"
#undef FUZZ
    };
    signal(SIGABRT, say_where);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
