#include "base/log.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fd = -1; // set before other threads start; unbuffered and never closed, so that a crash loses no line
static bool with_text;
static _Atomic int failure; // errno of the first line that could not be written
static uint64_t start_ns;

ls_code ls_log_open(const char *path, bool text, ls_err *err) {
    const int opened = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (opened < 0 || fchmod(opened, 0600)) {
        if (opened >= 0) close(opened);
        return ls_fail(err, LS_E_IO, "cannot write the log %s: %s", path, ls_write_reason(errno));
    }
    fd = opened;
    with_text = text;
    start_ns = ls_now_ns();
    return LS_OK;
}

bool ls_log_is_on(void) {
    return fd >= 0;
}

int ls_log_failure(void) {
    return failure;
}

bool ls_log_has_text(void) {
    return fd >= 0 && with_text;
}

bool ls_log_may_hold(const char *said) {
    static const char *const texts[] = {"prompt.system", "prompt.variables", "decode.stop", "decode.reflection"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts && !with_text; i++)
        if (strstr(said, texts[i])) return false;
    return true;
}

void ls_log(const char *fmt, ...) {
    if (fd < 0) return;
    ls_buf line = {0};
    va_list ap;
    ls_buf_fmt(&line, "%12.6f ", (double)(ls_now_ns() - start_ns) / 1e9);
    va_start(ap, fmt);
    char *said = ls_format_list(fmt, ap);
    va_end(ap);
    ls_buf_str(&line, said);
    free(said);
    for (size_t i = 0; i < line.n; i++)
        if ((unsigned char)line.p[i] < ' ') line.p[i] = ' '; // no newline or control character within a line
    ls_buf_char(&line, '\n');
    int none = 0;
    errno = 0;
    if (write(fd, line.p, line.n) != (ssize_t)line.n) // one write(), so that lines of threads do not mix
        atomic_compare_exchange_strong(&failure, &none, errno ? errno : ENOSPC);
    ls_buf_free(&line);
}
