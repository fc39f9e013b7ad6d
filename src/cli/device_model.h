// `doctor --device-model CARD`: what the model would take of a GPU that need not be here, on paper.
#pragma once
#include "base/buf.h"
#include "base/jsonw.h"
#include "engine/load.h"
#include "model/checkpoint.h"

// Adds a table to text and an object to json; names the cards that are known where the name is of none.
ls_code ls_device_model(const char *card, const ls_checkpoint *c, const ls_engine_options *opt, ls_buf *text,
                        ls_jsonw *json, ls_err *err);
