// Suffix automaton of a growing text of tokens, with the number of occurrences of every substring. Blumer et al., "The
// smallest automaton recognizing the subwords of a text", 1985. Amortised constant time per token; at most 136 bytes
// per token, and twice that while an array grows. Each separator between texts must be a different negative token, so
// that no match crosses a separator.
#pragma once
#include "spec/memory.h"

#include <stdint.h>

typedef struct {
    int32_t length;     // length of the longest substring of the state
    int32_t link;       // state of its longest suffix that occurs elsewhere too; -1: the start state
    int32_t first_edge; // newest first; -1: none
    uint32_t count;     // occurrences
} ls_automaton_state;

typedef struct {
    int32_t from, token, to, next; // next: another edge of the same state; -1: no more
} ls_automaton_edge;

typedef struct {
    ls_automaton_state *states; // [0] is the start
    ls_automaton_edge *edges;
    int32_t *slots; // hash table of edges by (from, token); -1: empty
    int32_t n_states, cap_states, n_edges, cap_edges, n_slots, last;
    int32_t n; // tokens
} ls_automaton;

// The match of a text: its longest suffix that occurs in the automaton.
typedef struct {
    int32_t state, length;
} ls_automaton_match;

void ls_automaton_free(ls_automaton *a);
void ls_automaton_add(ls_automaton *a, int32_t token);
// Extends a match by the next token of the matched text.
void ls_automaton_follow(const ls_automaton *a, ls_automaton_match *m, int32_t token);
// Call it for kept matches after ls_automaton_add, because states may have been split.
void ls_automaton_settle(const ls_automaton *a, ls_automaton_match *m);
void ls_automaton_arrays(ls_automaton *a, ls_memory_visit *v); // lists its arrays
