// The draft tree: rows of one forward. Row 0 is the root; parents come before children.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_TREE_MAX = 256, LS_TREE_BRANCHES = 256 };

// Where a row's token came from; the same numbers as ls_from in run/step.h.
typedef enum {
    LS_TREE_ROOT,
    LS_TREE_RETRIEVED,
    LS_TREE_LAST_LOGIT,
    LS_TREE_GUESS_TAIL,
    LS_TREE_REMEMBERED,
    LS_TREE_HISTORY,
    LS_TREE_CORPUS,
    LS_TREE_WINDOW,
    LS_TREE_SOURCES
} ls_tree_from;

typedef struct {
    int16_t rank;      // of its first token in the last logits; -1: the root's own continuation
    int16_t match_n;   // length of the n-gram that gave the continuation; 0: none
    int32_t match_pos; // context position of the first copied token; -1: none
    int16_t found;     // continuation tokens found before any cut
    int16_t first_row, n_rows;
} ls_tree_branch;

typedef struct {
    int32_t n; // rows
    int32_t token[LS_TREE_MAX];
    int32_t parent[LS_TREE_MAX]; // -1 for the root
    int32_t depth[LS_TREE_MAX];
    int16_t branch[LS_TREE_MAX]; // -1 for the root
    uint8_t from[LS_TREE_MAX];
    int16_t match_n[LS_TREE_MAX];
    int32_t match_pos[LS_TREE_MAX]; // context position the token was copied from; -1: none
    float est[LS_TREE_MAX];         // estimated chance of being right, given the parent; NAN: no estimate
    int16_t key[LS_TREE_MAX];       // the drafter's own note about the row
    int16_t kind[LS_TREE_MAX];      // what hit rates count the row as (spec/scores.h)
    int32_t n_branches;
    ls_tree_branch branches[LS_TREE_BRANCHES];
} ls_tree;

// A row before the tree is laid out.
typedef struct {
    int32_t token;
    int32_t parent; // index into the same array; -1: the root
    int16_t rank;   // of the token in the last logits, where that is where it came from; -1
    int16_t match_n;
    int32_t match_pos;
    uint8_t from; // ls_tree_from
    int16_t key;
    float est;
} ls_tree_node;

void ls_tree_start(ls_tree *t, int32_t root);
// Hangs a chain of tokens under the root, at most until the tree has `budget` rows. The first n_guess tokens are
// the branch's own (0 or 1: a guess from the last logits), the rest continue an n-gram match. Equal prefixes are not
// merged, as in the authors' program. Returns the rows added; a branch that adds none is not listed.
int32_t ls_tree_add(ls_tree *t, const int32_t *tokens, int32_t n, int32_t budget, ls_tree_branch info);
// The whole tree from nodes[0..n), 1 <= n <= LS_TREE_MAX: the root first, parents before children. The rows under each
// child of the root come to stand together, as its branch; siblings keep their order.
void ls_tree_lay_out(ls_tree *t, const ls_tree_node *nodes, int32_t n);
// Drops the rows whose keep[] is false, and what hangs off them. The root stays.
void ls_tree_keep(ls_tree *t, const bool *keep);

// The verified path: chosen[r] is what the target chose after row r. Fills rows[0..] with the deepest path from
// the root on which every token equals its parent's choice (of equals the first), returns its length (>= 1).
int32_t ls_tree_verify(const ls_tree *t, const int32_t *chosen, int32_t *rows);
