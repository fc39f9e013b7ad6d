#include "base/ggml.h"

#include <stddef.h>
#include <string.h>

static const ls_ggml_layout layouts[] = {
#define ROW(name, number, ...) [number] = {#name, __VA_ARGS__},
    LS_GGML_TYPES(ROW)
        // known by name only
        [4] = {.name = "Q4_2"},
    [5] = {.name = "Q4_3"},
    [9] = {.name = "Q8_1"},
    [15] = {.name = "Q8_K"},
    [16] = {.name = "IQ2_XXS"},
    [17] = {.name = "IQ2_XS"},
    [18] = {.name = "IQ3_XXS"},
    [19] = {.name = "IQ1_S"},
    [21] = {.name = "IQ3_S"},
    [22] = {.name = "IQ2_S"},
    [24] = {.name = "I8"},
    [25] = {.name = "I16"},
    [26] = {.name = "I32"},
    [LS_GGML_I64] = {.name = "I64", .values = 1, .bytes = 8},
    [28] = {.name = "F64"},
    [29] = {.name = "IQ1_M"},
    [34] = {.name = "TQ1_0"},
    [35] = {.name = "TQ2_0"},
    [41] = {.name = "Q1_0"},
};

const ls_ggml_layout *ls_ggml_layout_of(int type) {
    return type >= 0 && type < LS_GGML_END && layouts[type].values ? &layouts[type] : NULL;
}

const char *ls_ggml_type_name(int type) {
    const int n = sizeof layouts / sizeof *layouts;
    return type >= 0 && type < n && layouts[type].name ? layouts[type].name : "of an unknown type";
}

int ls_ggml_kept(const char *name) {
#define IS(known, type)                                                                                                \
    if (!strcmp(name, known)) return type;
    LS_GGML_KEPT(IS)
#undef IS
    return -2;
}
