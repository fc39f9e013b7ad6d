// Names of earlier versions (aliases.def). Whatever reads a flag, a configuration key, a method or a file asks here.
#pragma once
#include <stddef.h>

typedef struct {
    const char *of, *before, *now;
} ls_alias;

extern const ls_alias ls_aliases[]; // ends with a NULL name

const char *ls_name_now(const char *of, const char *name);    // the name itself if it has no other
const char *ls_name_before(const char *of, const char *name); // NULL: it had no other
// Writes a variant, such as "ar:1/auto", to out with today's name of its method; label may be out.
void ls_label_now(const char *label, char *out, size_t size);
