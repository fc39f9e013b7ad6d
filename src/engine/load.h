// Loading a model by name: file, checksum, hyper-parameters, vocabulary, chat template, engine.
#pragma once
#include "engine/engine.h"
#include "text/chat.h"
#include "text/vocab.h"

typedef struct ls_second_model ls_second_model; // engine/second.h

typedef struct {
    ls_engine *engine;
    ls_vocab *vocab;
    ls_chat *chat; // NULL: the model has no chat template that can be used; see chat_problem
    char chat_problem[512];
    bool chat_refused; // it has templates, but none that can be used
    char name[64];     // to show: "SmolLM2-135M-Instruct"-like, from the file
    char file[512];    // "" for the scripted model
    char sha256[65];
    struct ls_checkpoint *checkpoint; // NULL: the scripted model, or no tensors
    ls_second_model *seconds;         // models that draft for it
    bool (*stop)(void *ud);           // of the options that it was opened with
    void *stop_ud;
    void *costs; // what costs/costs.h keeps until the program ends; of malloc; NULL: nothing
} ls_model;

typedef struct {
    const char *name; // "default", "script[:MS]" (a fake model, MS milliseconds a forward), a name of the registry,
                      // a GGUF file, or a Hugging Face folder
    const char *chat_template;      // see ls_templates_choose; NULL: the model's own
    const char *template_variables; // a JSON object, see ls_chat_set; NULL: none
    ls_engine_options engine;
} ls_model_options;

// The file behind a model name. Owned by the caller; NULL for the scripted model.
char *ls_model_path(const char *name);
ls_code ls_model_load(ls_model *out, const ls_model_options *opt, ls_err *err);
// Vocabulary and chat template only: no checksum, no engine, no compute library.
ls_code ls_model_load_text(ls_model *out, const ls_model_options *opt, ls_err *err);
// The same, also of a GGUF file that holds no tensors; out->checkpoint is NULL then.
ls_code ls_model_load_vocabulary(ls_model *out, const ls_model_options *opt, ls_err *err);
void ls_model_free(ls_model *m);
