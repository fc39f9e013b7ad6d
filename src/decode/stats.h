// Running statistics over step records. Every ratio states its denominator.
#pragma once
#include "base/json.h"
#include "base/system.h"
#include "decode/step.h"

enum { LS_STATS_DEPTHS = 32, LS_STATS_RANKS = LS_MAX_TOP, LS_STATS_HIST = 64 };

typedef struct {
    uint64_t n, of; // n of `of`
} ls_ratio;

typedef struct {
    uint64_t steps;    // decode steps, those that ended on their root included
    uint64_t emitted;  // tokens emitted
    uint64_t forwards; // steps that ran a forward
    uint64_t context;  // sum over these forwards of the tokens committed before each
    uint64_t drafted;  // verified draft nodes (roots excluded)
    uint64_t accepted; // accepted draft nodes, those behind the end of a turn left out: steps + accepted = emitted
    uint64_t lossy;    // emitted tokens that are not the target's own choice (lossy acceptance only)
    uint64_t steps_with_draft, steps_with_accept;
    uint64_t by_emitted[LS_STATS_HIST + 1]; // steps that emitted i tokens (the last slot: that many or more)
    // the rates below are over steps with a forward whose whole tree is known (ls_step_described)
    ls_ratio depth[LS_STATS_DEPTHS]; // [d]: steps whose path holds depth d, of steps whose tree had a node there
    ls_ratio rank[LS_STATS_RANKS];   // [r]: branches of rank r with an accepted node, of branches of rank r
    ls_ratio from[LS_SOURCE_COUNT];  // accepted of verified nodes by source
    ls_ratio repeats;           // accepted drafts that were copied from this very answer, of those whose tree is known
    uint64_t next_next;         // such steps whose next-next token is known
    uint64_t next_next_drafted; // ... and was drafted under the root
    uint64_t next_next_rank[LS_MAX_TOP + 1]; // ... by its rank in the last logits; the last: beyond the kept ones
    // misses: steps by the reason why their path ended, if it is known. miss_steps, miss_us: those whose missed token
    // took a further step with a forward that emitted nothing else, and the time of these further steps
    uint64_t misses[LS_MISS_COUNT], miss_steps[LS_MISS_COUNT];
    double miss_us[LS_MISS_COUNT];
    uint8_t last_miss; // of the step before: index last_index
    uint32_t last_index;
    // rejections: exact steps with a known tree whose path ended with a rejected draft. would_steps, would_tokens:
    // those that each lossy rule with its usual numbers would have continued, and by how many tokens
    uint64_t rejections, would_steps[LS_ACCEPT_COUNT], would_tokens[LS_ACCEPT_COUNT];
    double draft_us, forward_us, verify_us, commit_us, total_us; // sums
    double comm_us;                                              // of forwards, in exchanges with other ranks
    double device_us;                                            // of forwards, on a GPU; 0: on the CPU
    uint64_t draft_forwards;                                     // of a draft model
    double draft_forward_us;                                     // ... their time, a part of draft_us
    uint64_t ahead_forwards;                                     // of it, beside the target's
    double wait_us;                                              // waiting for these after the target's forward
    uint64_t probes;                   // rows of forwards behind their trees, which judged drafts (decode/choose.h)
    uint64_t judged, judged_otherwise; // rows that they judged; where the choice became another one
    // [r]: of a mixture: experts of all layers that the forwards of r rows took, of these forwards (the last slot: of
    // that many rows or more)
    ls_ratio experts[LS_STATS_HIST + 1];
    ls_ratio experts_kept; // with --expert-memory: experts that were in memory, of those that forwards took
    // speed against plain decoding, over the steps where the plain cost is known
    double plain_us;         // what plain decoding would have taken: its forwards for the same tokens x measured time
    double plain_against_us; // sum of step times of those same steps
    uint64_t plain_forwards; // those forwards
    double plain_spread_us;  // sum of the steps' shares of plain_us times how far the forwards timed for them lay apart
    int32_t plain_timed;     // single-row forwards that were timed up to the last step
    double waited_us;        // sum of step times x their share of waits for a processor
    uint64_t plain_tokens;   // emitted by those steps
    bool plain_known;        // of the last step
} ls_stats;

// True: most accepted drafts were copied from this answer. A loop or a repetitive text is fast, and proves little.
bool ls_stats_repeats(const ls_stats *st);
ls_ratio ls_stats_experts(const ls_stats *st);                    // of any number of rows
uint64_t ls_stats_misses(const ls_stats *st);                     // of any reason
uint64_t ls_stats_next_next_below(const ls_stats *st, int ranks); // steps where it was among so many best
void ls_stats_add(ls_stats *st, const ls_step *s);
// Forwards that plain decoding needs for the tokens of this step: none after the last token of a turn either (but to
// notice a stop string).
int ls_plain_forwards(const ls_step *s);
// What one plain step costs there: as measured with single rows, but never more than this very step without its draft;
// a step of one row is a plain one. 0: not known.
double ls_step_plain_us(const ls_step *s);
double ls_step_gain_us(const ls_step *s);               // against plain decoding of its tokens; NAN: not known
double ls_stats_mat(const ls_stats *st);                // emitted / steps; 0 before the first step
double ls_stats_tokens_per_s(const ls_stats *st);       // emitted / total step time; 0 if unknown
double ls_stats_plain_tokens_per_s(const ls_stats *st); // the same tokens / plain_us; 0 if unknown
double ls_stats_speedup(const ls_stats *st);            // plain_us / plain_against_us; 0 if unknown
double ls_stats_waited(const ls_stats *st);             // share of the threads' time, 0 to 1; above LS_BUSY it is told
// Tokens that plain decoding emits in the time of a mean step: the MAT from which on steps are faster. NAN: not known.
double ls_stats_break_even(const ls_stats *st);
double ls_per(double a, uint64_t n); // a / n; NAN where n is 0

// A short text by value: the order of arguments is not defined, so one call must not fill a buffer that another
// argument reads.
typedef struct {
    char s[32];
} ls_short_text;
bool ls_speedup_is_possible(double speedup, uint64_t emitted, uint64_t steps); // it is at most MAT
// The speedup as people read it: "1.31±.04", "1.3±.2"; "1.31" where the spread is not known, or none at two digits; at
// most MAT; "?" where the spread is above half of the value, or all of it above MAT. ascii: "1.31+-.04".
ls_short_text ls_stats_speedup_text(const ls_stats *st, bool ascii);
ls_short_text ls_speedup_text(double speedup, double spread, bool ascii); // not too noisy, and at most MAT
// The same numbers, for fields of files and answers. 0, 0: not known, or too noisy.
typedef struct {
    double x, spread; // spread: the uncertainty of x, from the spread of the timed plain forwards; 0: not known
} ls_speedup;
ls_speedup ls_stats_speedup_told(const ls_stats *st);
// 1: a gain, -1: a loss, 0: as fast as plain decoding, as far as the spread tells (and where it is not known, two
// digits), or not told.
int ls_stats_speedup_sign(const ls_stats *st);
const char *ls_stats_speedup_verdict(const ls_stats *st); // "faster", "slower", "no difference", "too noisy"
// "speedup" and "speedup_spread" of a JSON object: null where people would read "?".
void ls_stats_write_speedup(ls_jsonw *w, const ls_stats *st);
// The totals of an answer as fields of a JSON object, the same for every command that writes one: "steps" to
// "cpu_wait".
void ls_stats_write(ls_jsonw *w, const ls_stats *st, double prefill_ms);
