#include "tiny.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char folder[64];
static json_t *vectors;

int tiny_make(void) {
    json_error_t e;
    vectors = json_load_file("tests/vectors/models.json", 0, &e);
    snprintf(folder, sizeof folder, "/tmp/logitspec-models-XXXXXX");
    if (!vectors || !mkdtemp(folder)) return -1;
    char *command = ls_format("python3 tests/tools/tiny.py %s", folder);
    const int failed = system(command);
    free(command);
    return failed;
}

int tiny_remove(void) {
    char *command = ls_format("rm -r %s", folder);
    const int failed = system(command);
    free(command);
    json_decref(vectors);
    return failed;
}

void tiny_rewrite(const char *path, const char *old, const char *new) {
    ls_err err;
    ls_buf text = {0};
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(ls_read_all(&text, f, path, 1 << 24, &err), LS_OK);
    fclose(f);
    char *at = memmem(text.p, text.n, old, strlen(old));
    if (!at) fail_msg("%s: no %s", path, old);
    assert_int_equal(strlen(old), strlen(new));
    memcpy(at, new, strlen(new));
    assert_int_equal(ls_write_file(path, &text, &err), LS_OK);
    ls_buf_free(&text);
}

void tiny_use_gpu(void) {
    const char *library = getenv("LOGITSPEC_TEST_GPU"), *emulated = getenv("LOGITSPEC_EMULATED");
    setenv("LOGITSPEC_LSTORCH_CUDA", library ? library : emulated ? emulated : "build/tests/liblstorch_emulated.so", 1);
}

const char *tiny_folder(void) {
    return folder;
}

char *tiny_path(const char *name, bool gguf) {
    return ls_format("%s/%s%s", folder, name, gguf ? ".gguf" : "");
}

json_t *tiny_vectors(void) {
    return vectors;
}
