// Every format of quantised safetensors (tests/tools/formats.py): each weight has the type that the table says, and
// stands for the numbers that the format's definition gives, bit for bit, in pieces of any size and for several
// threads.
#include "base/mem.h"
#include "compute/kernels/kernels.h"
#include "model/checkpoint.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char folder[] = "/tmp/logitspec-formats-XXXXXX";

static ls_checkpoint *open_folder(const char *name, const char *ending) {
    ls_err err = {0};
    ls_checkpoint *c;
    char *path = ls_format("%s/%s%s", folder, name, ending);
    if (ls_checkpoint_open(&c, path, &err)) fail_msg("%s", err.msg);
    free(path);
    return c;
}

static unsigned char *bytes_of(const ls_checkpoint *c, int i, uint64_t piece) {
    ls_err err = {0};
    const uint64_t n = c->tensors[i].n_bytes;
    unsigned char *raw = ls_malloc(n);
    for (uint64_t at = 0; at < n; at += piece)
        if (ls_checkpoint_read(c, i, at, n - at < piece ? n - at : piece, raw + at, &err)) fail_msg("%s", err.msg);
    return raw;
}

static int named(const ls_checkpoint *c, const char *name) {
    for (int i = 0; i < c->n_tensors; i++)
        if (!strcmp(c->tensors[i].name, name)) return i;
    fail_msg("no tensor %s", name);
    return -1;
}

static void check(const char *name, const char *type) {
    ls_checkpoint *c = open_folder(name, ""), *plain = open_folder(name, "-plain");
    int quantised = 0;
    assert_int_equal(c->n_tensors, plain->n_tensors);
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const int k = named(plain, t->name);
        unsigned char *raw = bytes_of(c, i, t->n_bytes), *pieces = bytes_of(c, i, 333);
        const ls_tensor *of = &plain->tensors[k];
        unsigned char *stated = bytes_of(plain, k, of->n_bytes);
        float *want = ls_malloc(t->n_in * sizeof *want), *row = ls_malloc(t->n_in * sizeof *row);
        assert_int_equal(t->n_in, of->n_in);
        assert_int_equal(t->n_out, of->n_out);
        assert_memory_equal(raw, pieces, t->n_bytes);
        const bool weight = t->quantized && strstr(t->name, ".weight"); // not a bias of experts
        if (weight) assert_string_equal(ls_ggml_type_name(t->type), type);
        assert_int_equal(weight && strstr(name, "-order") && !strstr(name, "apart"), t->order != NULL);
        quantised += weight;
        for (uint64_t r = 0; r < t->n_out; r++) {
            lsk_dequant_row(t->type, raw + r * (t->n_bytes / t->n_out), (int64_t)t->n_in, row);
            lsk_dequant_row(of->type, stated + r * (of->n_bytes / of->n_out), (int64_t)t->n_in, want);
            for (uint64_t j = 0; j < t->n_in; j++) {
                const float expected = want[t->order ? (uint64_t)t->order[j] : j];
                if (row[j] != expected)
                    fail_msg("%s, %s, row %d, column %d: %.9g, expected %.9g", name, t->name, (int)r, (int)j,
                             (double)row[j], (double)expected);
            }
        }
        free(raw), free(pieces), free(stated), free(want), free(row);
    }
    assert_int_equal(quantised, 2 * (c->hparams.n_experts ? 3 : 7));
    ls_checkpoint_close(c);
    ls_checkpoint_close(plain);
}

static void each_format_stands_for_its_numbers(void **state) {
    (void)state;
    char *command = ls_format("python3 tests/tools/formats.py %s", folder), name[64], type[16];
    FILE *made = popen(command, "r"); // its names are ours
    int n = 0;
    assert_non_null(made);
    for (; fscanf(made, "%63s %15s", name, type) == 2; n++) check(name, type);
    assert_int_equal(pclose(made), 0);
    assert_true(n > 15);
    free(command);
}

// Two threads that read other weights in turn: each gets its own.
static void *read_often(void *ud) {
    const ls_checkpoint *c = ((void **)ud)[0];
    const int i = *(const int *)((void **)ud)[1];
    unsigned char *first = bytes_of(c, i, c->tensors[i].n_bytes);
    long same = 1;
    for (int n = 0; n < 200; n++) {
        unsigned char *again = bytes_of(c, i, 4096);
        same &= !memcmp(first, again, c->tensors[i].n_bytes);
        free(again);
    }
    free(first);
    return (void *)same;
}

static void threads_read_different_weights(void **state) {
    (void)state;
    ls_checkpoint *c = open_folder("gptq", "");
    int of[2] = {named(c, "blk.0.attn_q.weight"), named(c, "blk.1.ffn_down.weight")};
    void *args[2][2] = {{c, &of[0]}, {c, &of[1]}}, *same;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, read_often, args[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], &same), 0);
        assert_non_null(same);
    }
    ls_checkpoint_close(c);
}

static int set_up(void **state) {
    (void)state;
    return !mkdtemp(folder);
}

static int tear_down(void **state) {
    (void)state;
    char *command = ls_format("rm -r %s", folder);
    const int failed = system(command);
    free(command);
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_format_stands_for_its_numbers),
        cmocka_unit_test(threads_read_different_weights),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
