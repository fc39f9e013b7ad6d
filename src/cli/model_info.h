// What a model's files tell without loading it: architecture, parameters, memory of weights and context, tokenizer,
// chat template, whether it fits this machine; estimates for ranks that share it, and for GPUs that need not be
// present.
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "engine/load.h"
#include "model/checkpoint.h"

// Appends a description of a model file or folder, as lines of text or as one JSON object. devices, card: values of
// --devices and --device-model, to estimate ranks that share the model; NULL: none.
ls_code ls_model_describe(const char *path, const char *devices, const char *card, ls_buf *out, bool json, ls_err *err);
// Estimated time and memory of the model on a GPU: adds a table to text and an object to json. An unknown name is an
// error that lists the known cards.
ls_code ls_device_model(const char *card, const ls_checkpoint *c, const ls_engine_options *opt, ls_buf *text,
                        ls_jsonw *json, ls_err *err);
