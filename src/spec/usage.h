// Statistics of single tokens, whatever stands before them: how recently and how often a token occurs in this
// conversation, when the target last had it among its best tokens, and the average of the target's predictions after
// it. The size is bounded by the vocabulary.
#pragma once
#include "spec/memory.h"
#include "spec/successors.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LS_AVERAGE_TOP = 16, // tokens of an average
    LS_USAGE_ROWS = 4,   // recent rows of the text of which the best tokens are kept in order
    LS_USAGE_FREQUENT = 16,
};

typedef struct {           // half a line of the cache, because the search reads one for each candidate
    uint32_t conversation; // to which last, count and the listed_* belong
    int32_t last;          // position after its last occurrence; 0: it does not occur
    int32_t listed_at;     // position for which the target last had it among its best tokens; 0: none
    float listed_p;        // its probability there
    float bias;            // learnt log odds of this token
    int32_t average;       // index + 1 of the average after it; 0: none
    uint32_t total;        // occurrences in all conversations
    uint16_t count;        // occurrences in the conversation
    uint8_t listed_rank;
    uint8_t average_rows; // rows of the average after it, up to UINT8_MAX
} ls_token_usage;

// The target's predictions after a token, averaged; recent rows weigh more. Two lines of the cache.
typedef struct {
    int32_t id[LS_AVERAGE_TOP]; // the most likely first; -1: no more
    float p[LS_AVERAGE_TOP];
} ls_average;

typedef struct {
    ls_token_usage *tokens;
    ls_average *averages;
    int32_t n_tokens, n_averages, cap_averages;
    uint32_t conversation;
    int32_t counted;                                     // length of the text that was counted
    int32_t frequent[LS_USAGE_FREQUENT], n_frequent;     // the most frequent tokens of all conversations
    int32_t recent[LS_USAGE_ROWS][LS_ROW_TOP], n_recent; // best tokens of the text's last rows: a ring, rows so far
} ls_usage;

// The text grew to context[0..n); reset: it is another conversation.
void ls_usage_observe(ls_usage *u, const int32_t *context, size_t n, bool reset);
// Adds the target's prediction after a token. at: the position for which it predicts a token of the text; -1: the row
// is not in the text.
void ls_usage_add(ls_usage *u, int32_t token, int32_t at, const ls_successor *next);
void ls_usage_bias(ls_usage *u, int32_t token, float step);          // adds to the bias
const ls_token_usage *ls_usage_of(const ls_usage *u, int32_t token); // NULL: nothing is known, here and below
const ls_average *ls_usage_average(const ls_usage *u, int32_t token);
void ls_usage_arrays(ls_usage *u, ls_memory_visit *v); // lists its arrays
