// Everything between the target's last logits and the tree that is verified: a method's drafter, estimates for drafters
// without any, and the sizing rule. The step loop and simulations share it.
#pragma once
#include "decode/step.h"
#include "spec/accept.h"
#include "spec/drafter.h"
#include "spec/rates.h"
#include "spec/sizing.h"
#include "compute/lst.h"

// How a session decodes.
typedef struct {
    const char *method;         // a name of ls_methods
    int32_t max_rows;           // rows of a step's tree, root included; 0: as the sizing says
    ls_sizing sizing;           // how trees are cut; zero: `default`
    ls_cost_curve costs;        // given by the user; zero: measured
    ls_accept accept;           // acceptance rule; zero: exact
    const char *reflection;     // the prompt of a probe (decode/choose.h); NULL: none, the path is only repeated
    const ls_knob_value *knobs; // all of them (spec/knobs.h); NULL: defaults
    ls_draft_options draft;     // of the methods that ask a draft model
    int32_t max_tokens;         // output tokens of a turn
    lst_sampling sampling;      // temperature 0: greedy
    const char *const *stops;   // stop strings, NULL-terminated; NULL: none
    // Gets lines of the drafter for the user, the last one possibly when the drafter is freed; NULL: not wanted.
    void (*note)(void *ud, const char *text);
    void *ud;
} ls_decode_options;

// What a method's text promises by this rule. Plain decoding drafts nothing, so no rule changes its text.
ls_guarantee ls_method_guarantee(const char *method, const ls_accept *a, double temperature);
ls_guarantee ls_decode_guarantee(const ls_decode_options *o);

ls_draft_setup ls_run_place(const ls_run *r); // where drafters of a recording work; borrows from r

// Zero-initialise; ls_drafting_free releases it.
typedef struct {
    const ls_method *method;
    ls_drafter *drafter;  // NULL for plain decoding
    int32_t depth, width; // of a draft model's drafts (ls_draft_options)
    ls_scores *scores;    // for methods without estimates of their own
    ls_sizing sizing;     // settled
    ls_buf made, sized;   // what the drafter was made of, and the sizing, in words: the same again changes nothing
    int32_t max_rows;
    ls_eos_set ends; // of answers
    ls_buf before;   // the drafter's state when the turn began; empty: not kept
} ls_drafting;

// Takes method, knobs, sizing and max_rows from opt, vocabulary facts from place. What stays as it was keeps what it
// learnt; a new drafter is shown the conversation context[0..n). On error nothing changes. LS_E_USAGE, or what the
// method says.
ls_code ls_drafting_set(ls_drafting *d, const ls_decode_options *opt, const ls_draft_setup *place,
                        const int32_t *context, size_t n, ls_err *err);
void ls_drafting_free(ls_drafting *d);
int32_t ls_drafting_rows(const ls_drafting *d); // that the next draft asks for, root included
// Fills tree with what is to be verified; s->costs is set here. A probe of costs->beside_rows grows with its depth.
// room: positions that are left, the root's included. Returns the most rows of the step.
int32_t ls_drafting_propose(const ls_drafting *d, const ls_draft_state *s, const ls_cost_curve *costs, int32_t room,
                            ls_tree *tree);
// Why the token that the target chose after this row of the path was not accepted there. To be asked before
// ls_drafting_learn. s: as ls_drafting_propose had it.
ls_miss ls_drafting_miss(const ls_drafting *d, const ls_draft_state *s, const ls_tree *tree, int32_t row);
// s, costs: as ls_drafting_propose had them.
void ls_drafting_learn(ls_drafting *d, const ls_draft_state *s, const ls_cost_curve *costs, const ls_tree *tree,
                       int32_t n_path);
uint64_t ls_drafting_bytes(ls_drafting *d); // of all that it has learnt, and of the copy of it
// The first copies the state of the drafter into *out and replaces its content; the second restores that state, so that
// an answer that is decoded again gets the same drafts. False: there is no copy (a state above 256 MiB is not copied).
// After a restore, the next observed text continues the text of that moment. The method must be the same for both.
void ls_drafting_snapshot(ls_drafting *d, ls_buf *out);
bool ls_drafting_restore(ls_drafting *d, const ls_buf *from);
// The committed text is now context[0..n); reset: it is another conversation, and no copy is kept.
void ls_drafting_observe(ls_drafting *d, const int32_t *context, size_t n, bool reset);
