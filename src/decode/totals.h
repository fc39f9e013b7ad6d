// Results of conversations of several variants, and their sums over many: MAT, speed against plain decoding,
// intervals by resampling.
#pragma once
#include "base/buf.h"
#include "decode/stats.h"

typedef struct {
    char *text; // of the answer
    size_t n;
    uint64_t steps, emitted;
    double decode_ms, prefill_ms;
} ls_result_turn;

// One conversation by one way.
typedef struct {
    ls_stats stats;
    double prefill_ms;
    double plain_us;      // plain decoding's time for as many tokens; 0: not known
    double against_us;    // the time of this way that it is compared with
    ls_ids output;        // of all turns, one after another
    size_t turns;         // that were answered: fewer than the item has where the context is full
    ls_result_turn *turn; // [turns]
    ls_ids lengths;       // tokens that each step emitted, of all turns
    double spread; // of runs that were repeated: longest minus shortest decoding time over the median; 0: one run
    long first_difference; // from the reference's output; -1: equal, or there is none
    // There: the token of the reference and this one as text ("": unknown, or the text has ended), and ls_step_gap of
    // the reference's; NAN: not known.
    char tokens[2][32];
    double gap;
    ls_buf gaps;      // ls_step_gap as doubles: of each token of output, and of the last turn's further tokens
    ls_finish finish; // of the last turn
} ls_result;
void ls_result_free(ls_result *r); // its arrays; leaves zeros

// How much other work disturbed a result: the share of the time that the program's threads waited for a processor, or 1
// where its times cannot be true: a step that drafts takes no less than a plain one, so a speedup above MAT means
// that the baseline was disturbed. Above LS_BUSY the run is worth another one.
double ls_result_noise(const ls_result *r);
// Judges a result. plain: plain decoding's of the same conversation; NULL: the plain steps timed within the run replace
// it. reference: whose output it must equal; NULL: nothing.
void ls_result_judge(ls_result *r, const ls_result *plain, const ls_result *reference);

typedef struct {
    uint64_t prompts, turns, emitted, steps, forwards, context, drafted, accepted, different, lossy;
    double decode_us, draft_us, forward_us, host_us, verify_us, commit_us, prefill_ms, plain_us, against_us;
    double rates, rates_with_prompt; // means over the prompts of tokens/s, without and with the time of reading them
    double low, high; // of the speedup: 95% interval by resampling prompts; NAN below three prompts, or not asked for
} ls_total;

enum { LS_RESAMPLES = 2000 };
// The 95% interval of so many values of resampled prompts; sorts them.
void ls_interval(double *sample, double *low, double *high);
ls_total ls_total_of(const ls_result *const *results, size_t n, bool interval);
double ls_total_speedup(const ls_total *t);             // NAN: not known
bool ls_total_is_possible(const ls_total *t);           // by its times, as for ls_result_noise
ls_short_text ls_total_speedup_text(const ls_total *t); // "1.23"; "busy" where it is not possible
