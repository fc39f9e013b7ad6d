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
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    const size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, ": %s", old);
    return err->code;
}

ls_code ls_err_suffix(ls_err *err, const char *what) {
    if (!err) return LS_E_IO;
    const size_t n = strlen(err->msg);
    snprintf(err->msg + n, sizeof err->msg - n, "; %s", what);
    return err->code;
}
