// Every CUDA kernel against its plain twin, and the guarantee that a row's bits do not depend on what else is computed
// with it. Runs alike on a GPU and on the emulated device. Prints as cmocka does, so that tests/run.py counts it. An
// argument runs only the tests whose name holds it; --times, --times-small, --times-tiny, --times-cuts and
// --times-cuts-small say what each kernel takes instead, and --times-of KERNEL FORMAT ROWS what one takes, for a
// profiler (times.h).
#include "tests/gpu/check.h"
#include "tests/gpu/times.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    static const gpu_test *const lists[] = {matmul_tests,    experts_tests, rows_tests,
                                            attention_tests, head_tests,    step_tests};
    setvbuf(stdout, NULL, _IOLBF, 0);
    char why[256];
    const int there = device_open(why, sizeof why);
    int n_failed = 0;
    if (argc > 1 && !strncmp(argv[1], "--times", 7)) {
        const int of = argc == 5 && !strcmp(argv[1], "--times-of");
        if (there) kernel_times(of || !argv[1][7] ? "" : argv[1] + 8, of ? argv + 2 : NULL);
        else printf("needs: a GPU that CUDA sees (%s)\n", why);
        return !there;
    }
    for (size_t i = 0; i < LENGTH(lists); i++)
        for (const gpu_test *t = lists[i]; t->name; t++) {
            if (argc > 1 && !strstr(t->name, argv[1])) continue;
            printf("[ RUN      ] %s\n", t->name);
            if (there) n_failed += test_run(t);
            else printf("needs: a GPU that CUDA sees (%s)\n[  SKIPPED ] %s\n", why, t->name);
        }
    if (there) device_close();
    return n_failed != 0;
}
