#include "spec/knobs.h"
#include "spec/drafter.h"
#include "spec/sizing.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static size_t count_knobs(const ls_knob *knobs) {
    size_t n = 0;
    while (knobs && knobs[n].key) n++;
    return n;
}

size_t ls_knob_count(void) {
    return ls_knob_of_sizing(NULL);
}

size_t ls_knob_offset(const ls_method *m) {
    size_t n = 0;
    for (const ls_method *const *p = ls_methods; *p && *p != m; p++) n += count_knobs((*p)->knobs);
    return n;
}

size_t ls_knob_of_sizing(const ls_sizing_rule *r) {
    size_t n = ls_knob_offset(NULL);
    for (int i = 0; ls_sizing_rule_at(i) && ls_sizing_rule_at(i) != r; i++)
        n += count_knobs(ls_sizing_rule_at(i)->knobs);
    return n;
}

const ls_knob *ls_knob_at(size_t i) {
    for (const ls_method *const *m = ls_methods; *m; m++) {
        if (i < count_knobs((*m)->knobs)) return &(*m)->knobs[i];
        i -= count_knobs((*m)->knobs);
    }
    int r = 0;
    for (; i >= count_knobs(ls_sizing_rule_at(r)->knobs); r++) i -= count_knobs(ls_sizing_rule_at(r)->knobs);
    return &ls_sizing_rule_at(r)->knobs[i];
}

void ls_knob_defaults(ls_knob_value *values) {
    const size_t n = ls_knob_count();
    for (size_t i = 0; i < n; i++) values[i] = (ls_knob_value){ls_knob_at(i)->fallback, NULL};
}

void ls_knobs_set(void *of, const ls_knob *knobs, const ls_knob_value *values) {
    for (size_t i = 0; i < count_knobs(knobs); i++) {
        void *field = (char *)of + knobs[i].at;
        const ls_knob_value v = values ? values[i] : (ls_knob_value){knobs[i].fallback, NULL};
        switch (knobs[i].kind) {
        case LS_KNOB_INT: *(int32_t *)field = (int32_t)v.number; break;
        case LS_KNOB_NUMBER: *(double *)field = v.number; break;
        case LS_KNOB_SWITCH: *(bool *)field = v.number != 0; break;
        case LS_KNOB_FILE: *(const char **)field = v.text; break;
        }
    }
}

ls_code ls_knob_read(const ls_knob *k, const char *where, const char *text, ls_knob_value *out, ls_err *err) {
    char *end;
    if (k->kind == LS_KNOB_FILE) {
        *out = (ls_knob_value){0, text};
        return LS_OK;
    }
    if (k->kind == LS_KNOB_SWITCH) {
        const bool on = !strcmp(text, "on");
        if (!on && strcmp(text, "off"))
            return ls_fail(err, LS_E_USAGE, "%s: %s is '%.80s', expected one of on, off (%s)", where, k->key, text,
                           k->help);
        *out = (ls_knob_value){on, NULL};
        return LS_OK;
    }
    const double v = strtod(text, &end);
    if (end == text || *end || !(v >= k->lo && v <= k->hi) || (k->kind == LS_KNOB_INT && v != floor(v)))
        return ls_fail(err, LS_E_USAGE, "%s: %s is '%.80s', expected %s from %.10g to %.10g (%s)", where, k->key, text,
                       k->kind == LS_KNOB_INT ? "a whole number" : "a number", k->lo, k->hi, k->help);
    *out = (ls_knob_value){v, NULL};
    return LS_OK;
}
