#include "cli/step_list.h"
#include "base/mem.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

static ls_code wrong(const char *at, size_t least, size_t most, ls_err *err) {
    if (most == SIZE_MAX && least)
        return ls_fail(err, LS_E_USAGE, "--step '%.40s': expected steps such as 5 or 5,17,20-22; the first is %zu", at,
                       least);
    if (most == SIZE_MAX) return ls_fail(err, LS_E_USAGE, "--step '%.40s': expected steps such as 5 or 5,17,20-22", at);
    return ls_fail(err, LS_E_USAGE, "--step '%.40s': expected steps such as 5 or 5,17,20-22; there are %zu to %zu", at,
                   least, most);
}

ls_code ls_step_list_read(ls_step_list *out, const char *text, size_t least, size_t most, ls_err *err) {
    *out = (ls_step_list){0};
    for (const char *p = text;;) {
        char *end = NULL;
        const size_t first = isdigit((unsigned char)*p) ? strtoul(p, &end, 10) : 0;
        const bool range = end && *end == '-' && isdigit((unsigned char)end[1]);
        const size_t last = range ? strtoul(end + 1, &end, 10) : first;
        if (!end || first < least || last > most || last < first || last == SIZE_MAX || (*end && *end != ',')) {
            ls_step_list_free(out);
            return wrong(p, least, most, err);
        }
        out->ranges = ls_realloc(out->ranges, (out->n + 1) * sizeof *out->ranges);
        out->ranges[out->n].first = first;
        out->ranges[out->n++].last = last;
        if (!*end) return LS_OK;
        p = end + 1;
    }
}

void ls_step_list_free(ls_step_list *l) {
    free(l->ranges);
    *l = (ls_step_list){0};
}

bool ls_step_list_has(const ls_step_list *l, size_t step) {
    for (size_t i = 0; i < l->n; i++)
        if (step >= l->ranges[i].first && step <= l->ranges[i].last) return true;
    return false;
}
