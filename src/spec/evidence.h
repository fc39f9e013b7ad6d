// The data behind look-ups for the tokens that may follow a row: a pool (copies of tokens that followed the same tokens
// before), successors (the target's best tokens the last time), and rates, which estimate a candidate's acceptance.
// Each drafter that searches over them (spec/search.h) owns one.
#pragma once
#include "spec/drafter.h"
#include "spec/pool.h"
#include "spec/rates.h"
#include "spec/successors.h"

typedef struct {
    ls_pool pool;
    ls_successors successors;
    ls_rates rates;
    bool retrieved, remembered, last_logit; // the enabled sources
} ls_evidence;

// Initialises all sources as empty; memory: limit of the remembered choices in bytes.
void ls_evidence_init(ls_evidence *e, size_t memory);
void ls_evidence_free(ls_evidence *e);
size_t ls_evidence_bytes(const ls_evidence *e);              // beside the struct itself
void ls_evidence_memory(ls_evidence *e, ls_memory_visit *v); // lists all of it
// The implementations of a drafter's functions with these names.
void ls_evidence_observe(ls_evidence *e, const int32_t *context, size_t n, bool reset);
void ls_evidence_learn(ls_evidence *e, const ls_draft_result *r);
void ls_evidence_read(ls_evidence *e, const int32_t *context, size_t at, size_t n, const ls_node *rows);
ls_knowledge ls_evidence_knows(const ls_evidence *e, const ls_draft_question *q);
// The target's predictions the last time after the last `order` tokens of tail[0..n); NULL: none.
const ls_successor *ls_evidence_remembered(const ls_evidence *e, const int32_t *tail, int32_t n, int32_t order);
