#include "base/alias.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ls_alias ls_aliases[] = {
#define ALIAS(of, before, now) {of, before, now},
#include "base/aliases.def"
#undef ALIAS
    {0},
};

const char *ls_name_now(const char *of, const char *name) {
    for (const ls_alias *a = ls_aliases; a->of; a++)
        if (!strcmp(a->of, of) && !strcmp(a->before, name)) return a->now;
    return name;
}

const char *ls_name_before(const char *of, const char *name) {
    for (const ls_alias *a = ls_aliases; a->of; a++)
        if (!strcmp(a->of, of) && !strcmp(a->now, name)) return a->before;
    return NULL;
}

void ls_label_now(const char *label, char *out, size_t size) {
    const size_t n = strcspn(label, ":/@+");
    char *method = ls_strndup(label, n), *rest = ls_strdup(label + n);
    snprintf(out, size, "%s%s", ls_name_now("decode.method", method), rest);
    free(method);
    free(rest);
}
