#include "tiny.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

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
