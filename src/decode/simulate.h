// What another method would have done on text that is already known: drafts are made and checked against a recorded
// output, without a model. Retrieval is simulated exactly. What the target's logits say is taken from the recording:
// the best 64 tokens where a recorded step began, the best 8 where its tree had a row; elsewhere nothing is known, and
// counted.
#pragma once
#include "decode/drafting.h"

// One recorded turn.
typedef struct ls_recording ls_recording;
ls_recording *ls_recording_new(const int32_t *context, size_t n, int32_t n_context); // all tokens before the output
void ls_recording_add(ls_recording *r, const ls_step *s);                            // steps in order
// Adds what another run of the same text has about rows: its step began after `position` output tokens.
void ls_recording_more(ls_recording *r, size_t position, const ls_step *s);
void ls_recording_free(ls_recording *r);           // accepts NULL
size_t ls_recording_output(const ls_recording *r); // tokens emitted

typedef struct {
    uint64_t steps, forwards, emitted, drafted, accepted;
    uint64_t rows_known, rows;            // verified rows whose best tokens are known, of all (roots included)
    uint64_t lasts_whole, lasts;          // steps whose last logits are known to rank 64, of all
    uint64_t by_emitted[LS_MAX_ROWS + 1]; // steps that emitted i tokens
    bool by_clock;                        // the size of its trees depends on measured times, which differ between runs
    double cost_ms, plain_ms; // by the cost curve: forwards of this method, and of plain decoding; 0: no costs
    double draft_us;          // measured
} ls_simulated;

typedef struct ls_simulator ls_simulator;
// opt: method, max_rows, sizing, knobs; its acceptance must be exact (what a lossy text would have been is not known:
// LS_E_USAGE). costs: base_ms[0] 0 where nothing was measured. place: of the vocabulary.
ls_code ls_simulator_new(ls_simulator **out, const ls_decode_options *opt, const ls_draft_setup *place,
                         const ls_cost_curve *costs, ls_err *err);
void ls_simulator_free(ls_simulator *s);
// One turn; the drafter keeps what it learns for the next. Adds to total.
void ls_simulate(ls_simulator *s, const ls_recording *r, ls_simulated *total);
// Whether a context continues this turn: it begins with the turn's text. The last token of the text is not compared.
bool ls_recording_goes_on(const ls_recording *r, const int32_t *context, size_t n);
// The same as ls_simulate while the recording grows: begins a turn (fresh: of another conversation than the last turn),
// then simulates one step a call. False: the next step depends on text that is not there yet. whole: the text is
// complete.
void ls_simulate_begin(ls_simulator *s, const ls_recording *r, bool fresh);
bool ls_simulate_step(ls_simulator *s, const ls_recording *r, bool whole, ls_simulated *total);
double ls_simulated_speedup(const ls_simulated *t); // over plain decoding, by the costs; NAN: no costs are known
// Whether the recording held all that this method looks at, so that its drafts are those of a real run that learns
// nothing from the prompt's rows: no trace holds these.
bool ls_simulated_is_exact(const ls_simulated *t, const ls_method *m);
