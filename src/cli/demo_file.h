// Demos as files: the prompt, the settings, and the notes. demos/README.md has the format.
#pragma once
#include "cli/options.h"
#include "ui/demo.h"

typedef struct {
    ui_demo play;
    char *name, *about, *prompt;
    int place;                    // position in the list of demos, from 1; 0: after all with a position
    char *trace, *rival_trace;    // recordings beside it; NULL: none
    ls_yaml *document, *settings; // settings: part of the document; NULL: none
    char *file;
} ls_demo;

// name: a demo of demos/, or the path of a YAML file. Errors name file, line and column.
ls_code ls_demo_read(ls_demo *out, const char *name, ls_err *err);
void ls_demo_free(ls_demo *d);
// The shipped demos in the order of the list, *n of them. A demo that cannot be read is skipped, and is an error.
ls_code ls_demos_read(ls_demo **out, size_t *n, ls_err *err);
void ls_demos_free(ls_demo *d, size_t n);
