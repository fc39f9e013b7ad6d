// LogitSpec in another engine: what src/spec needs from it, and what it gives back. Builds with `make embed` against
// build/libspec.a; the engine here is a toy whose next token is a function of the last two.
#include "spec/accept.h"
#include "spec/drafter.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 50, TOKENS = 400 };

// What the target says after (before, token): its best tokens, best first, raw logits and their log-sum-exp, and its
// choice. Yours comes from a forward.
static ls_node target(int32_t before, int32_t token) {
    ls_node row = {.lse = 0};
    for (int i = 0; i < LS_ROW_TOP; i++)
        row.top[i] = (ls_top_entry){(token * 7 + before * 3 + i * 5 + 1) % VOCAB, logf(i ? 0.04f : 0.7f)};
    row.target = row.top[0].id;
    return row;
}

int main(void) {
    ls_drafter *drafter;
    if (ls_drafter_make(&drafter, ls_method_find("logitspec"), &(ls_draft_setup){.tokenizer = ""}, NULL)) return 1;
    ls_tree *tree = ls_tree_new(); // room for any; used again in each step
    int32_t text[2 * TOKENS] = {3, 1}, n = 2, steps = 0;
    drafter->observe(drafter, text, 2, true); // the prompt
    ls_node last = target(text[0], text[1]);  // the prefill's last logits
    while (n < TOKENS) {
        // 1. a tree under the token that the target chose
        int32_t ids[LS_ROW_TOP], path[LS_MAX_ROWS];
        float p[LS_ROW_TOP];
        for (int i = 0; i < LS_ROW_TOP; i++) ids[i] = last.top[i].id, p[i] = expf(last.top[i].logit - last.lse);
        const ls_draft_state state = {text, (size_t)n, last.target, ids, p, LS_ROW_TOP, NULL};
        drafter->propose(drafter, &state, 16, tree);
        // 2. one forward of all rows; each sees the text, its ancestors and itself
        for (int32_t i = 0; i < tree->n; i++) {
            ls_node *row = &tree->nodes[i], said = target(i ? tree->nodes[row->parent].token : text[n - 1], row->token);
            said.draft = row->draft;
            *row = said;
        }
        // 3. the path on which every token is what the target chose; its rows stay in the KV cache
        const int32_t accepted = ls_accept_path(&(ls_accept){0}, tree, path);
        ls_tree_mark(tree, path, accepted);
        if (drafter->learn) drafter->learn(drafter, &(ls_draft_result){&state, tree, accepted});
        for (int32_t i = 0; i < accepted; i++) text[n++] = tree->nodes[path[i]].token;
        drafter->observe(drafter, text, (size_t)n, false);
        last = tree->nodes[path[accepted - 1]];
        steps++;
    }
    drafter->free(drafter);
    free(tree);
    int different = 0; // the text is plain decoding's
    for (int32_t i = 2; i < n; i++) {
        different += text[i] != target(text[i - 2], text[i - 1]).target;
    }
    printf("%d tokens in %d steps: MAT %.2f; %d differ from plain decoding\n", n - 2, steps, (double)(n - 2) / steps,
           different);
    return different != 0;
}
