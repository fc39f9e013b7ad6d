// `--device-model CARD`: what the model would take of a GPU that need not be here, on paper.
#pragma once
#include "base/buf.h"
#include "base/jsonw.h"
#include "engine/load.h"
#include "gpu/plan.h"
#include "model/checkpoint.h"

// Adds a table to text and an object to json; names the cards that are known where the name is of none.
ls_code ls_device_model(const char *card, const ls_checkpoint *c, const ls_engine_options *opt, ls_buf *text,
                        ls_jsonw *json, ls_err *err);

enum { LS_PAPER_ROWS = 64 }; // of the larger tree that steps on paper are told of
// Milliseconds of a step of 1 and of LS_PAPER_ROWS rows on a card that holds a part of the model (own), after a
// context as the table's, exchanges with other ranks not counted.
ls_code ls_card_step_ms(const char *card, const ls_checkpoint *c, const ls_part *own, const lsg_card **which,
                        double ms[2], ls_err *err);
