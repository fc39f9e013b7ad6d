// The lab's per-step counts beyond the common statistics. Zero-initialise.
#pragma once
#include "decode/step.h"

enum { LS_LAB_NEAREST = 2, LS_LAB_FARTHEST = 4, LS_LAB_DISTANCES = LS_LAB_FARTHEST - LS_LAB_NEAREST + 1 };

// The ranks of the following tokens in the last logits. The last logits of a position predict the token at distance 1,
// the root; the token at distance 2 is the next-next token.
typedef struct {
    uint64_t of[LS_LAB_DISTANCES];                   // positions whose output has a token at that distance
    uint64_t rank[LS_LAB_DISTANCES][LS_MAX_TOP + 1]; // ... by its rank, 0 the best; the last: not among those kept
} ls_lab_distances;
// top[i], n_top entries, are the last logits that predicted output[i]; n_top 0: they were not kept.
typedef struct {
    int32_t token;
    int16_t n_top;
    int32_t top[LS_MAX_TOP];
} ls_lab_position;
void ls_lab_count_distances(ls_lab_distances *d, const ls_lab_position *output, size_t n); // of one turn

enum { LS_LAB_MATCHES = 4 };

// Branches by the length of the n-gram match behind their continuation; 0: no match.
typedef struct {
    uint64_t branches, helped; // helped: with an accepted draft
    uint64_t accepted;         // their accepted drafts
} ls_lab_match;
typedef struct {
    ls_lab_match root[LS_LAB_MATCHES];  // the root's own continuation
    ls_lab_match guess[LS_LAB_MATCHES]; // guesses from the last logits, with what follows them
} ls_lab_matches;
void ls_lab_count_matches(ls_lab_matches *m, const ls_step *s);

// Acceptance by place in the tree: the path from the root, at each depth the place among the siblings, most likely
// first (by the drafter's estimate; equal estimates in the order of their rows).
enum { LS_LAB_PLACES = 4, LS_LAB_DEPTH = 4, LS_LAB_HIT_NODES = 4 + 16 + 64 + 256 };
typedef struct {
    uint64_t tested, accepted; // drafts there whose parent was accepted; accepted of those
} ls_lab_hit;
typedef struct {
    uint64_t trees; // forwards with a draft and a recorded tree
    ls_lab_hit node[LS_LAB_HIT_NODES];
} ls_lab_hits;
void ls_lab_count_hits(ls_lab_hits *h, const ls_step *s);
// The index of the first child's node; parent -1: the root. Its siblings follow. -1: too deep.
int ls_lab_hit_child(int parent);
