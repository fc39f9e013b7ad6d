#include "engine/limits.h"
#include "engine/library.h"

ls_code ls_limits_measure(lst_limits_t *out, int32_t threads, ls_err *err) {
    ls_library lib = {0};
    *out = (lst_limits_t){.size = sizeof *out};
    const ls_code code = ls_library_load(&lib, LS_ON_CPU, err);
    if (code) return code;
    const int failure = lib.limits(threads, out);
    return failure ? ls_library_failed(&lib, failure, err) : LS_OK;
}
