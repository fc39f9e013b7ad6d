#include "spec/rule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls_rule_usage(ls_rule_list list, char *out, size_t size) {
    size_t n = 0;
    const ls_rule *r;
    for (int i = 0; (r = list(i)) && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, r->value ? "%s%s[:%s]" : "%s%s", i ? ", " : "", r->name, r->value);
}

ls_code ls_rule_read(ls_rule_list list, const char *what, const char *text, int *index, double *value, ls_err *err) {
    const size_t n = strcspn(text, ":");
    const ls_rule *r;
    int i = 0;
    while ((r = list(i)) && (strlen(r->name) != n || strncmp(r->name, text, n))) i++;
    if (!r) {
        char usage[300];
        ls_rule_usage(list, usage, sizeof usage);
        return ls_fail(err, LS_E_USAGE, "%s is '%.60s', expected one of %s", what, text, usage);
    }
    double v = r->fallback;
    if (text[n]) {
        char *end;
        if (!r->value) return ls_fail(err, LS_E_USAGE, "%s is '%.60s', but %s takes no value", what, text, r->name);
        v = strtod(text + n + 1, &end);
        if (end == text + n + 1 || *end || !(v >= r->lo && v <= r->hi) || (r->whole && v != floor(v)))
            return ls_fail(err, LS_E_USAGE, "%s is '%.60s', expected %s:%s, %s from %g to %g", what, text, r->name,
                           r->value, r->whole ? "a whole number" : "a number", r->lo, r->hi);
    }
    *index = i;
    *value = v;
    return LS_OK;
}

void ls_rule_write(const ls_rule *r, double value, char *out, size_t size) {
    snprintf(out, size, r->value ? "%s:%g" : "%s", r->name, value);
}
