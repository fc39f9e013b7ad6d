// `--device-model CARD`: estimated time and memory of the model on a GPU that need not be present.
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "engine/load.h"
#include "gpu/plan.h"
#include "model/checkpoint.h"

// Adds a table to text and an object to json. An unknown name is an error that lists the known cards.
ls_code ls_device_model(const char *card, const ls_checkpoint *c, const ls_engine_options *opt, ls_buf *text,
                        ls_jsonw *json, ls_err *err);

enum { LS_PAPER_ROWS = 64 }; // rows of the larger tree in estimates
// Milliseconds of a step with 1 and with LS_PAPER_ROWS rows on a card that has a part of the model (own), with the
// context of the table, without exchanges between ranks.
ls_code ls_card_step_ms(const char *card, const ls_checkpoint *c, const ls_shard *own, const lsg_card **which,
                        double ms[2], ls_err *err);
