// Loading a model by name: file, checksum, hyper-parameters, vocabulary, chat template, engine.
#pragma once
#include "engine/engine.h"
#include "text/chat.h"
#include "text/vocab.h"

typedef struct ls_second_model ls_second_model; // engine/second.h

typedef struct {
    ls_engine *engine;
    ls_vocab *vocab;
    ls_chat *chat; // NULL: the model has no usable chat template; see chat_problem
    char chat_problem[512];
    bool chat_refused; // it has templates, but none is usable
    char name[64];     // display name such as "SmolLM2-135M-Instruct", from the file
    char file[512];    // "" for the scripted model
    char sha256[65];
    struct ls_checkpoint *checkpoint; // NULL: the scripted model, or no tensors
    ls_second_model *seconds;         // its draft models
    bool (*stop)(void *ud);           // from the options of ls_model_load
    void *stop_ud;
    void *costs; // owned by costs/costs.h, from malloc, until the program ends; NULL: none
} ls_model;

typedef struct {
    const char *name; // "default", "script[:MS]" (the scripted model, MS milliseconds per forward), a name of the
                      // registry, a GGUF file, or a Hugging Face folder
    const char *chat_template;      // see ls_templates_choose; NULL: the model's own
    const char *template_variables; // a JSON object, see ls_chat_set; NULL: none
    ls_engine_options engine;
} ls_model_options;

// The file of a model name. Owned by the caller; NULL for the scripted model.
char *ls_model_path(const char *name);
ls_code ls_model_load(ls_model *out, const ls_model_options *opt, ls_err *err);
// Loads only vocabulary and chat template: no checksum, no engine, no compute library.
ls_code ls_model_load_text(ls_model *out, const ls_model_options *opt, ls_err *err);
// The same, but also accepts a GGUF file without tensors; then out->checkpoint is NULL.
ls_code ls_model_load_vocabulary(ls_model *out, const ls_model_options *opt, ls_err *err);
void ls_model_free(ls_model *m);
