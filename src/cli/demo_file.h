// Demos as files: the prompt, the settings, and the notes. demos/README.md has the format.
#pragma once
#include "cli/options.h"
#include "ui/demo.h"

typedef struct {
    ui_demo play;
    char *name, *about, *prompt;
    char *trace, *rival_trace;    // recordings beside it; NULL: none
    ls_yaml *document, *settings; // settings: part of the document; NULL: none
    char *file;
} ls_demo;

// name: a demo of demos/, or the path of a YAML file. Errors name file, line and column.
ls_code ls_demo_read(ls_demo *out, const char *name, ls_err *err);
void ls_demo_free(ls_demo *d);
char **ls_demo_names(void); // the shipped ones, sorted; owned by the caller, ends with NULL
