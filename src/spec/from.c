#include "spec/from.h"

const ls_from_facts ls_sources[LS_FROM_COUNT] = {
#define SOURCE(place, name, label, letter, kind, sentence)                                                             \
    [LS_FROM_##place] = {name, label, letter, LS_KIND_##kind, sentence},
#include "spec/sources.def"
};

const ls_kind_facts ls_source_kinds[LS_KIND_COUNT] = {
#define KIND(place, legend, word, html_class, html_line, dark, light, first8)                                          \
    [LS_KIND_##place] = {legend, word, html_class, html_line, dark, light},
#include "spec/sources.def"
};

const char *ls_from_name(ls_from f) {
    return ls_sources[f].name;
}

const char *ls_from_label(ls_from f) {
    return ls_sources[f].label;
}
