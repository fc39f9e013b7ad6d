#include "spec/rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_rule_usage(ls_rule_list list, char *out, size_t size) {
    size_t n = 0;
    const ls_rule *r;
    for (int i = 0; (r = list(i)) && n < size; i++) {
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? ", " : "", r->name);
        int numbers = 0;
        for (; numbers < LS_RULE_NUMBERS && r->number[numbers].name && n < size; numbers++)
            n += (size_t)snprintf(out + n, size - n, "[:%s", r->number[numbers].name);
        for (; numbers > 0 && n < size; numbers--) n += (size_t)snprintf(out + n, size - n, "]");
    }
}

ls_code ls_rule_read(ls_rule_list list, const char *also, const char *what, const char *text, int *index,
                     double values[LS_RULE_NUMBERS], ls_err *err) {
    const size_t n = strcspn(text, ":");
    const ls_rule *r;
    int i = 0;
    while ((r = list(i)) && (strlen(r->name) != n || strncmp(r->name, text, n))) i++;
    if (!r) {
        char usage[300];
        ls_rule_usage(list, usage, sizeof usage);
        return ls_fail(err, LS_E_USAGE, "%s is '%.60s', expected one of %s%s", what, text, also, usage);
    }
    const char *rest = text + n;
    double v[LS_RULE_NUMBERS];
    for (int k = 0; k < LS_RULE_NUMBERS; k++) {
        v[k] = r->number[k].fallback;
        if (!*rest || !r->number[k].name) continue;
        char *end;
        const double lo = r->number[k].lo, hi = r->number[k].hi;
        v[k] = strtod(rest + 1, &end);
        if (end == rest + 1 || (*end && *end != ':') || !(v[k] >= lo && v[k] <= hi) ||
            (r->number[k].whole && v[k] != floor(v[k])))
            return ls_fail(err, LS_E_USAGE, "%s is '%.60s', expected %s:%s%s, %s from %g to %g", what, text, r->name,
                           k ? "...:" : "", r->number[k].name, r->number[k].whole ? "a whole number" : "a number", lo,
                           hi);
        rest = end;
    }
    if (*rest)
        return ls_fail(err, LS_E_USAGE, "%s is '%.60s', but %s takes no %s", what, text, r->name,
                       r->number[0].name ? "more values" : "value");
    *index = i;
    memcpy(values, v, sizeof v);
    return LS_OK;
}

void ls_rule_write(const ls_rule *r, const double values[LS_RULE_NUMBERS], char *out, size_t size) {
    size_t n = (size_t)snprintf(out, size, "%s", r->name);
    int last =
        LS_RULE_NUMBERS - 1; // the first number is always written, the others only if they differ from the defaults
    while (last > 0 && (!r->number[last].name || values[last] == r->number[last].fallback)) last--;
    for (int k = 0; k <= last && r->number[k].name && n < size; k++)
        n += (size_t)snprintf(out + n, size - n, ":%g", values[k]);
}
