#include "base/err.h"

#include <stdio.h>
#include <string.h>

void ls_err_set(ls_err *err, ls_code code, const char *fmt, ...) {
    if (!err) return;
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
}

ls_code ls_err_prefix(ls_err *err, const char *fmt, ...) {
    if (!err) return LS_E_IO;
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n > sizeof err->msg - 3) return err->code;
    char *end = err->msg + n;
    size_t left = sizeof err->msg - (size_t)n - 3, len = strnlen(old, left);
    memcpy(end, ": ", 2);
    memcpy(end + 2, old, len);
    end[2 + len] = 0;
    return err->code;
}

ls_code ls_err_suffix(ls_err *err, const char *what) {
    if (!err) return LS_E_IO;
    const size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, "; %s", what);
    return err->code;
}
