// The sources of draft tokens, one row each in sources.def.
#pragma once

typedef enum {
#define SOURCE(name, ...) LS_SOURCE_##name,
#include "spec/sources.def"
    LS_SOURCE_COUNT
} ls_draft_source;

typedef enum {
#define KIND(name, ...) LS_KIND_##name,
#include "spec/sources.def"
    LS_KIND_COUNT
} ls_source_kind;

typedef struct {
    const char *name, *label, *letter;
    ls_source_kind kind;
    const char *sentence;
} ls_draft_source_facts;
extern const ls_draft_source_facts ls_sources[LS_SOURCE_COUNT];

typedef struct {
    const char *legend, *word, *html_class, *html_line; // word: the legend, shorter; line: a border-style
    int dark, light; // colours of the 256 (base/colour.h) on a dark and a light ground; -1: the default colour
} ls_kind_facts;
enum { // the same as constants
#define KIND(name, legend, word, html_class, html_line, dark, light, first8)                                           \
    LS_KIND_##name##_DARK = (dark), LS_KIND_##name##_LIGHT = (light), LS_KIND_##name##_FIRST8 = (first8),
#include "spec/sources.def"
};
extern const ls_kind_facts ls_source_kinds[LS_KIND_COUNT];

const char *ls_draft_source_name(ls_draft_source f);  // in traces: "root", "retrieved", "last-logit", ...
const char *ls_draft_source_label(ls_draft_source f); // on the screen: "root", "retrieved", "guess", ...
