// LogitSpec in another engine: what src/spec needs from it, and what it gives back. Builds with `make embed` against
// build/libspec.a; the engine here is a toy whose next token is a function of the last two.
#include "spec/drafter.h"

#include <stdio.h>

enum { VOCAB = 50, TOKENS = 400, TOP = 8 };

// The target's best tokens after (before, token), best first, with probabilities: yours come from a forward's logits.
static void target(int32_t before, int32_t token, int32_t *id, float *p) {
    for (int i = 0; i < TOP; i++) {
        id[i] = (token * 7 + before * 3 + i * 5 + 1) % VOCAB;
        p[i] = i ? 0.04f : 0.7f;
    }
}

int main(void) {
    ls_drafter *drafter;
    if (ls_method_make(&drafter, ls_method_find("logitspec"), NULL)) return 1;
    int32_t text[2 * TOKENS] = {3, 1}, n = 2, top[TOP], steps = 0;
    float top_p[TOP];
    drafter->observe(drafter, text, 2, true); // the prompt
    target(text[0], text[1], top, top_p);     // the prefill's last logits
    while (n < TOKENS) {
        // 1. a tree under the token that the target chose
        ls_tree tree;
        drafter->propose(drafter, &(ls_draft_state){text, (size_t)n, top[0], top, top_p, TOP, NULL}, 16, &tree);
        // 2. one forward of all rows; each sees the text, its ancestors and itself
        int32_t chosen[LS_TREE_MAX], path[LS_TREE_MAX], best[LS_TREE_MAX][LS_SUCCESSORS];
        float best_p[LS_TREE_MAX][LS_SUCCESSORS];
        for (int32_t i = 0; i < tree.n; i++) {
            target(i ? tree.token[tree.parent[i]] : text[n - 1], tree.token[i], best[i], best_p[i]);
            chosen[i] = best[i][0];
        }
        // 3. the path on which every token is what the target chose; its rows stay in the KV cache
        const int32_t accepted = ls_tree_verify(&tree, chosen, path);
        if (drafter->learn)
            drafter->learn(drafter, &(ls_draft_result){text, (size_t)n, &tree, path, accepted, (const int32_t(*)[LS_SUCCESSORS])best,
                                                       (const float(*)[LS_SUCCESSORS])best_p});
        for (int32_t i = 0; i < accepted; i++) text[n++] = tree.token[path[i]];
        drafter->observe(drafter, text, (size_t)n, false);
        for (int i = 0; i < TOP; i++) top[i] = best[path[accepted - 1]][i], top_p[i] = best_p[path[accepted - 1]][i];
        steps++;
    }
    drafter->free(drafter);
    int different = 0; // the text is plain decoding's
    for (int32_t i = 2; i < n; i++) {
        target(text[i - 2], text[i - 1], top, top_p);
        different += text[i] != top[0];
    }
    printf("%d tokens in %d steps: MAT %.2f; %d differ from plain decoding\n", n - 2, steps, (double)(n - 2) / steps, different);
    return different != 0;
}
