// The step record and the events around it: the only thing that screens, traces, statistics and tests
// know of a run. A live decoder and a trace file produce the same.
//
// Words: a decode step verifies one tree. Row 0 of the tree is the root, the target model's own token
// (always emitted); the other rows are draft nodes. emitted = root + accepted draft nodes.
#pragma once
#include "base/buf.h"
#include "spec/accept.h"
#include "spec/cost_curve.h"
#include "spec/tree.h"

enum {
    LS_MAX_TOP = 64,      // kept ranks of the last logits
    LS_MAX_ROUTES = 2048, // kept experts of a step
};

typedef enum {
    LS_GOING,
    LS_FINISH_EOS,
    LS_FINISH_STOP,
    LS_FINISH_LENGTH,
    LS_FINISH_CONTEXT,
    LS_FINISH_INTERRUPTED,
    LS_FINISH_ERROR,
} ls_finish;
const char *ls_finish_name(ls_finish f); // "eos", "stop", ...; "" for LS_GOING

// An expert that a row of a mixture took, and the weight of its output in the row's sum.
typedef struct {
    int32_t expert;
    float weight;
} ls_route;

typedef struct {
    uint32_t turn;          // conversation turn, from 0
    uint32_t index;         // step within the turn, from 0
    int32_t context_len;    // committed tokens before this step (prompt and output, root not included)
    int32_t output_pos;     // output tokens of this turn before this step
    bool forward;           // false: the step ended on its root and ran no forward
    bool corrected;         // the root replaced a draft node that the previous step rejected
    bool exact;             // the engine guarantees that this equals plain decoding
    bool same_distribution; // instead, each text is as likely as from plain decoding (acceptance: spec/accept.h)
    uint8_t finish;         // ls_finish
    uint8_t miss; // ls_miss: why the path ended; LS_MISS_NONE: the turn did, nothing drafts, or it is not recorded
    int16_t asked_rows; // rows asked for (root included)
    int16_t rows;       // of the tree that was verified, root included (1: no draft)
    int16_t probes;     // rows of the same forward behind the tree, which judged drafts (decode/choose.h)
    // last logits: what predicted the root
    int16_t n_top;
    ls_top_entry *top;
    float top_lse, top_entropy; // over the vocabulary, nats
    // outcome
    int16_t n_emitted; // tokens emitted (the last step of a turn may be cut short of n_path)
    int16_t n_path;
    int16_t draft_forwards; // of a draft model, for this tree
    int16_t ahead_forwards; // of a draft model beside the forward, for the steps to come
    int32_t *path;          // accepted rows in order; path[0] is the root (row 0)
    ls_tree tree;           // the known rows: all, or the path alone in a trace of level `steps`
    // of a mixture (ls_run.n_mixtures)
    int32_t experts;         // of all layers, each once, that the forward's rows took; 0: no mixture, or not told
    int32_t experts_read;    // of them, those that were read from the file; -1: all are in memory
    double expected_experts; // how many sizing expected (spec/routing.h); 0: not told
    // [tree row][mixture][used], a layer's best first, of as many whole rows as LS_MAX_ROUTES has room for; 0: not
    // recorded
    int32_t n_routes;
    ls_route *routes;
    // time, microseconds; total is the wall time of the whole step, so it holds a little more than the sum
    double t_draft_us, t_forward_us, t_verify_us, t_commit_us, t_total_us;
    double t_device_us;        // of the forward, on a GPU; 0: it ran on the CPU
    double t_comm_us;          // of the forward, in exchanges with other ranks; 0: there are none
    double t_draft_forward_us; // a draft model's forwards, a part of t_draft_us; 0: none drafted
    double t_wait_us;          // after the forward, for a draft forward that ran beside it; 0: none was under way
    double plain_us;           // measured time of one plain (single-row) decode step at this context; 0: not known
    double plain_spread;       // relative spread of the forwards that were timed for it; see ls_measured
    double cpu_wait;           // share of the time of the program's threads that they waited for a CPU, over the last
                               // quarter of a second (base/system.h); 0: none, or not known
    int32_t plain_timed;       // how many were timed for plain_us in this session so far; 0: none, or not recorded
    int32_t pool_size;         // n-grams in the drafter's pool
} ls_step;

// A step and its arrays are one allocation, so a struct copy of a step shares the arrays. A work area, which the
// decoder and the reader of a file fill anew for each step, has room for any step. A shared step is as large as its
// content and never changes; its owners are counted, so that an event, the screen and the conversation own it together.
ls_step *ls_step_new(void);                          // a work area, zeroed; one owner, one thread
void ls_step_start(ls_step *s, ls_step facts);       // clears a work area: empty arrays, the other members of `facts`
void ls_step_copy(ls_step *to, const ls_step *from); // into a work area
const ls_step *ls_step_share(const ls_step *s); // a work area is copied, a shared step gets one more owner; any thread
void ls_step_free(const ls_step *s);            // a work area, or one owner's share; any thread; accepts NULL

// What the target chose after the root. The paper's observation is that this next-next token tends to be among the last
// logits' best, which predicted the root.
typedef struct {
    int32_t token; // -1: the step ran no forward, or did not keep the last logits
    int rank;      // in the last logits; -1: beyond the kept ones
    bool drafted;  // under the root
} ls_next_next;
ls_next_next ls_step_next_next(const ls_step *s);

// Emitted tokens that are not the target's own choice (a lossy rule accepted them). Fills at[] (LS_MAX_ROWS, may
// be NULL) with their places among the step's emitted tokens; returns how many.
int ls_step_lossy(const ls_step *s, int *at);

// By how much the best logit exceeded the second best where the step's k-th emitted token was chosen; NAN: not known.
double ls_step_gap(const ls_step *s, int k);

// Previews a lossy rule on an exact step whose path ended with a rejected draft: returns how many tokens more the step
// would have emitted; *row: the draft that the rule would have accepted. 0: none, or the tree is not known.
int ls_step_would(const ls_step *s, const ls_accept *a, int *row);
bool ls_step_rejected(const ls_step *s); // an exact step with a known tree that the rejection of a draft ended

int32_t ls_node_own(const ls_node *n);   // what the target chose alone after the row; -1: no forward was run
int ls_step_forwarded(const ls_step *s); // rows of its forward, those of a probe included
// Rows that a probe judged, and how many of these it gave another choice.
int ls_step_judged(const ls_step *s, int *changed);

// Rounds the times to floats, which survive the nine digits of a trace: so a replay's sums are those of the run, to the
// last digit. Called where a step is made and where one is read.
void ls_step_round(ls_step *s);
// Drafts that were accepted and emitted: the path may go on behind the end of the turn.
int ls_step_accepted(const ls_step *s);
// The state of a row as the answer saw it: rows after the token that ended the answer were verified, but not reached.
ls_node_state ls_step_state(const ls_step *s, int row);
int ls_step_branch_accepted(const ls_step *s, const ls_branch *b); // of those, the branch's

// Whether the whole tree is known: not in a trace of level `steps`, even where all of it was accepted.
bool ls_step_described(const ls_step *s);
const ls_branch *ls_branch_of(const ls_step *s, const ls_node *n); // NULL: the root, or not recorded

// What runs: the model, what computes it, the method. Sent once before the first prompt; every turn of a trace has it.
typedef struct {
    char program[64]; // that records, and its version
    char model[64];   // name to show
    char sha256[65];  // of the model file; "": not computed
    char device[32], dtype[24];
    char kernel[128]; // processor and kernels in use
    char version[48]; // of the compute library
    char method[32];
    char draft_model[64]; // the model that drafts; "": none does
    char chat[17];        // hash of the model's chat template; "": it has none
    char memory[17];      // sum of the file that the drafter's memory began with; "": none
    int32_t threads, n_vocab, n_context;
    uint64_t tokenizer_id; // equal for equal vocabularies
    ls_eos_set ends;       // tokens that end an answer
    bool exact;            // output equals plain decoding bit for bit
    // a mixture of experts: layers that are mixtures, a layer's experts, those of a row, bytes of one; 0: none
    int32_t n_mixtures, n_experts, n_experts_used;
    int64_t expert_bytes;
    ls_cost_curve costs;
} ls_run;

// A request of a server, as watchers see it. What is not known yet is 0 or "".
typedef enum {
    LS_REQUEST_QUEUED,
    LS_REQUEST_READING, // its prompt
    LS_REQUEST_DECODING,
    LS_REQUEST_DONE,
    LS_REQUEST_CANCELLED, // the client left, or the server ended
    LS_REQUEST_FAILED,
    LS_REQUEST_FORGOTTEN, // made room for newer ones
    LS_REQUEST_STATES
} ls_request_state;
const char *ls_request_state_name(ls_request_state s); // "queued", ...

typedef struct {
    int32_t id; // from 1, in order of arrival; 0: the server itself, whose recording is a header
    ls_request_state state;
    char path[24];   // "/v1/messages"
    char client[64]; // its address
    char agent[64];  // the program, as it names itself
    int32_t key;     // number of its key, from 1; 0: no key was asked for
    int32_t prompt_tokens, kept_tokens;
    int64_t steps, emitted;
    double queued_ms, prefill_ms, decode_ms;
    double read;                    // fraction of the prompt, while it is read
    double speedup, speedup_spread; // as ls_stats_speedup_text; 0: not known, or too noisy
    char why[160];                  // it failed
    int32_t lost_lines;             // of its recording, for which there was no memory
} ls_request_facts;

typedef enum {
    LS_EV_STATUS,
    LS_EV_HEADER,
    LS_EV_TOKENS,
    LS_EV_PROMPT,
    LS_EV_STEP,
    LS_EV_END,
    LS_EV_RIVAL,
    LS_EV_SETTING,
    LS_EV_MESSAGE,
    LS_EV_REQUEST
} ls_event_kind;
typedef enum {
    LS_STATE_LOADING,
    LS_STATE_IDLE,
    LS_STATE_PREFILL,
    LS_STATE_RUNNING,
    LS_STATE_PAUSED,
    LS_STATE_COMPARING, // another method answers the last prompt
    LS_STATE_FAILED
} ls_run_state;

// One heap object an event; ls_event_free releases it with all it owns.
typedef struct ls_event {
    ls_event_kind kind;
    struct ls_event *next; // in a queue
    union {
        struct { // the source changed state, or makes progress in it
            ls_run_state state;
            char stage[64];  // what it is doing, in words
            double fraction; // 0..1; negative: unknown
        } status;
        ls_run *header;
        struct { // bytes of tokens, before the first use of each id
            int32_t n;
            int32_t *ids;
            int32_t *ends;    // token i is bytes[ends[i-1] .. ends[i]), ends[-1] = 0
            char *bytes;      // any bytes: may be half a UTF-8 sequence, may hold NUL
            uint8_t *special; // 1: a control token such as <|im_end|>
        } tokens;
        struct { // a turn begins
            uint32_t turn;
            int32_t n_ids; // tokens that this turn appends to the context (template included)
            int32_t *ids;
            char *text;          // what the user typed, UTF-8, NUL-terminated
            int32_t n_begun;     // of these, the last: the answer begins with them
            int32_t context_len; // committed tokens after the prefill
            double prefill_ms;
            char method[32];
            double temperature;  // 0: greedy
            ls_cost_curve costs; // as the turn begins; zeros: not known
        } prompt;
        const ls_step *step; // kept
        struct {             // a turn is over
            uint32_t turn;
            ls_finish finish;
        } end;
        struct { // another method's answer to the last turn's prompt: it begins, its steps, it ends
            enum { LS_RIVAL_BEGINS, LS_RIVAL_STEP, LS_RIVAL_ENDS } what;
            char method[64]; // begins
            int32_t at;      // begins: tokens of the answer before a what-if (a fork) begins; 0: a race
            int32_t n_ids;   // begins: a fork's first tokens, chosen by the user
            int32_t *ids;
            const ls_step *step; // step; kept
            ls_finish finish;    // ends; LS_FINISH_INTERRUPTED: it was stopped
        } rival;
        struct {           // the answer to LS_CMD_SET; a message tells it in words
            bool in_force; // from the next step; false: refused
            char key[64], value[64];
        } setting;
        struct {
            bool is_error;
            bool is_result; // of writing a requested file: an error is printed even if events are no longer read
            char text[512];
        } message;
        struct { // there is news of a server's request
            ls_request_facts *facts;
            bool shown;   // from now on the events of turns are those of this request
            bool follows; // the source chose it: it shows the request that is being answered
        } request;
    };
} ls_event;

ls_event *ls_event_new(ls_event_kind kind); // zeroed
void ls_event_free(ls_event *e);            // accepts NULL

// Bytes of token ids, as tokens events tell them: what a listener shows without a tokenizer.
typedef struct {
    char *bytes; // n of them, then NUL; NULL: not known
    int32_t n;
    bool special; // a control token such as <|im_end|>
} ls_token;

typedef struct {
    ls_token *p; // by id
    int32_t n;
} ls_tokens;

void ls_tokens_learn(ls_tokens *t, const ls_event *e); // LS_EV_TOKENS
void ls_tokens_free(ls_tokens *t);
const ls_token *ls_token_of(const ls_tokens *t, int32_t id); // never NULL: "?" where it is not known
