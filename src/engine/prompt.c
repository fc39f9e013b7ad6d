#include "engine/prompt.h"
#include "base/system.h"

#include <stdio.h>

static void size_in_words(uint64_t bytes, char *out, size_t size) {
    const double mib = (double)bytes / (1 << 20);
    snprintf(out, size, mib < 1024 ? "%.0f MiB" : "%.1f GiB", mib < 1024 ? mib : mib / 1024);
}

ls_code ls_prompt_fits(const ls_engine *e, int32_t n, ls_err *err) {
    char needed[24], there[24];
    const uint64_t bytes = e->kv_bytes * (uint64_t)n, left = ls_memory_free();
    if (!left || bytes <= left) return LS_OK;
    size_in_words(bytes, needed, sizeof needed);
    size_in_words(left, there, sizeof there);
    return ls_fail(err, LS_E_RANGE,
                   "the KV cache of %d tokens needs %s of memory, but only %s is free: shorten the prompt, or use a "
                   "smaller model",
                   n, needed, there);
}

void ls_prompt_describe(const ls_engine *e, int32_t n, char *out, size_t size) {
    char needed[24];
    const uint64_t bytes = e->kv_bytes * (uint64_t)n;
    size_in_words(bytes, needed, sizeof needed);
    if (bytes >> 20) snprintf(out, size, "reading %d token%s (%s)", n, ls_plural(n), needed);
    else snprintf(out, size, "reading %d token%s", n, ls_plural(n));
}
