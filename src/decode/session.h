// One conversation (decode/conversation.h), its KV cache, and the LogitSpec step loop. Not thread-safe; the owner
// drives it step by step. The KV cache may hold less than the conversation, after an edit that was cancelled or a rival
// that used it: the next turn reads the rest.
//
//   ls_session_begin (prefill)  ->  ls_session_step ... until step->finish  ->  begin again for the next turn
//
// A step: the root is the target's own next token; a drafter proposes a tree under it; one forward verifies it;
// the longest agreeing path is committed; its tokens are emitted. Greedy and seeded sampling emit exactly what
// plain decoding emits, given an exact engine and an exact acceptance rule.
#pragma once
#include "engine/measured.h"
#include "decode/conversation.h"
#include "decode/drafting.h"

typedef struct ls_session ls_session;

// model is borrowed. LS_E_USAGE for an unknown method.
ls_code ls_session_new(ls_session **out, ls_model *model, const ls_decode_options *opt, ls_err *err);
void ls_session_free(ls_session *s);

// What forwards of 1 to 64 rows cost on this machine, from the cache or measured (engine/measured.h); needed before the
// first step of a method that sizes its trees. Also between turns, to repeat a measurement that had few forwards.
ls_code ls_session_calibrate(ls_session *s, ls_costs_wish wish, ls_progress progress, void *ud, ls_err *err);
const ls_cost_curve *ls_session_costs(const ls_session *s);
const ls_drafter *ls_session_drafter(const ls_session *s); // NULL for plain decoding
uint64_t ls_session_bytes(ls_session *s); // memory of what drafter and sizing have learnt, without the KV cache

// Starts a turn: prefills ids on top of the conversation. On an error nothing has changed; LS_E_RANGE: the prompt does
// not fit. *prefill_ms may be NULL.
ls_code ls_session_begin(ls_session *s, const int32_t *ids, int32_t n, ls_progress progress, void *ud,
                         double *prefill_ms, ls_err *err);
// The same for turn `turn`, which replaces that turn and the later ones after the first p->kept tokens of the
// conversation. LS_E_RANGE also: there is no such turn, or one is being decoded.
ls_code ls_session_begin_at(ls_session *s, size_t turn, const ls_next_prompt *p, ls_progress progress, void *ud,
                            double *prefill_ms, ls_err *err);
// How far a prompt is read; zero: its reading has not begun.
typedef struct {
    bool begun, by_rows; // by_rows: the drafter learns from the rows of the prompt
    size_t kept;         // tokens that were not read again
    double prefill_ms;
} ls_reading;
// Begins the only turn of another conversation, whose prompt is ids (of the text). Tokens with which both conversations
// begin are not read again. The drafter keeps what it has learnt, also from the answers of the earlier conversation. A
// call reads at most `most` tokens: call again until ls_session_active, with the same ids and *r. Errors are those of
// ls_session_begin; LS_E_RANGE changes nothing, after others the conversation is what was read of the prompt.
ls_code ls_session_begin_other(ls_session *s, ls_str text, const ls_ids *ids, size_t most, ls_reading *r,
                               ls_progress progress, void *ud, ls_err *err);
// Resets s, which then begins with the first n tokens of the conversation of `of`, a session of the same model. They
// are copied, not read again.
ls_code ls_session_copy(ls_session *s, ls_session *of, size_t n, ls_err *err);
// Replaces this conversation by *conversation, which has a turn, and reads it. Takes *conversation if it succeeds; else
// nothing has changed.
ls_code ls_session_replace(ls_session *s, ls_conversation **conversation, ls_progress progress, void *ud, ls_err *err);
// A session of another method that answers a turn of `of` too. *lent: there is no memory for a second KV cache, so it
// uses the KV cache of `of`, which must not be used before the other session is freed, and then reads its answer again.
ls_code ls_session_rival(ls_session **out, ls_session *of, const ls_decode_options *opt, bool *lent, ls_err *err);
// Begins a turn of s after the first n committed tokens of `of` and the tokens `more`. The n tokens are copied, not
// read again, unless the drafter of s should learn from the rows of the prompt.
ls_code ls_session_answer_too(ls_session *s, ls_session *of, size_t n, const ls_ids *more, ls_progress progress,
                              void *ud, ls_err *err);
// One decode step of the current turn into *out (finish is set on the last). A step that was cancelled (LS_E_CANCELLED)
// did not happen, and the turn goes on with the next. After another error only ls_session_stop may follow.
ls_code ls_session_step(ls_session *s, ls_step *out, ls_err *err);
// Takes effect from the next step. LS_E_USAGE if the method is unknown.
ls_code ls_session_set(ls_session *s, const ls_decode_options *opt, ls_err *err);
// Continues an answer that max_tokens has cut, by as many tokens more; the text is that of a longer answer. On an error
// nothing has changed; LS_E_RANGE: there is none, or the context is full.
ls_code ls_session_go_on(ls_session *s, ls_err *err);
// Ends the turn between steps, if one is active; what was emitted stays.
void ls_session_stop(ls_session *s, ls_finish finish);
void ls_session_reset(ls_session *s); // forgets the conversation
// The first copies what the drafter has learnt into *out; the second resets the session and restores that, so that
// prompts that are answered again get the same drafts. False: there was no copy, and the drafter knows the first
// answers.
void ls_session_snapshot(ls_session *s, ls_buf *out);
bool ls_session_restore(ls_session *s, const ls_buf *from);

// Borrowed until the next call.
const ls_conversation *ls_session_conversation(const ls_session *s);
const ls_ids *ls_session_output(const ls_session *s); // emitted tokens of this turn, end of sequence included
// Text of this turn's output so far: no special tokens, cut before a stop string; complete characters only
// until the turn has finished.
const ls_buf *ls_session_text(const ls_session *s);
// How many bytes of that text are final: the rest may be the beginning of a stop string.
size_t ls_session_settled(const ls_session *s);
bool ls_session_active(const ls_session *s); // a turn is being decoded
