#include "ui/panels.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/err.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>

int ui_ngram(const ui_state *s, const ls_step *step, const ls_branch *b, int32_t ids[UI_NGRAM]) {
    int32_t tail[UI_NGRAM], n = 0;
    if (b->rank >= 0) tail[n++] = step->tree.nodes[b->first_node].token;
    tail[n++] = step->tree.nodes[0].token;
    for (int32_t at = step->context_len - 1; n < UI_NGRAM && at >= 0 && (size_t)at < s->run.conversation->context.n;
         at--)
        tail[n++] = s->run.conversation->context.p[at];
    const int most = b->match_n < n ? b->match_n : n;
    for (int i = 0; i < most; i++) ids[i] = tail[most - 1 - i];
    return most;
}

static void chance(float p, ls_buf *out) {
    if (!isnan(p)) ls_buf_fmt(out, " p %.2f", (double)p); // not recorded at every level
}

static void say_end(const ls_step *step, ls_buf *out) {
    if (step->finish == LS_FINISH_LENGTH) ls_buf_str(out, "; the answer ends here: it reached max_tokens");
    else ls_buf_fmt(out, "; the answer ends here: %s", ls_finish_name(step->finish));
}

// Why the path ended. For the token after the root: its rank in the last logits.
static void say_miss(const ls_step *step, ls_buf *out) {
    const ls_next_next next = ls_step_next_next(step);
    if (step->miss != LS_MISS_BEYOND || step->n_path > 1 || next.token < 0)
        ls_buf_str(out, ls_misses[step->miss].label);
    else if (next.rank < 0) ls_buf_fmt(out, "not in the top %d of the last logits", step->n_top);
    else ls_buf_fmt(out, "rank %d of the last logits, below the drafted ranks", next.rank);
}

void ui_narrate(const ui_canvas *c, const ui_state *s, const ls_step *step, ls_buf *out) {
    const ls_node *root = &step->tree.nodes[0];
    ls_buf_fmt(out, "step %u: root ", step->index);
    ui_quote_token(c, s, root->token, out);
    chance(root->p, out);
    if (step->corrected) ls_buf_str(out, " (after a rejected draft)");
    if (!step->forward) {
        say_end(step, out);
        return;
    }
    const int accepted = ls_step_accepted(step);
    if (step->rows == 1) ls_buf_str(out, "; no drafts, so one token");
    else ls_buf_fmt(out, "; %d of %d draft%s accepted", accepted, step->rows - 1, ls_plural(step->rows - 1));
    const ls_node *last = &step->tree.nodes[step->path[accepted]];
    if (accepted > 0) {
        const ls_branch *b = ls_branch_of(step, last);
        if (!b) ls_buf_fmt(out, " (%s)", ls_sources[last->from].label);
        else if (b->match_n && b->match_pos >= 0) ls_buf_fmt(out, " (%d-gram at %d)", b->match_n, b->match_pos);
        else if (b->rank < 0) ls_buf_fmt(out, " (%s)", ls_sources[step->tree.nodes[b->first_node].from].label);
        else ls_buf_fmt(out, " (rank %d of the last logits)", b->rank);
    }
    int changed;
    const int judged = ls_step_judged(step, &changed);
    if (judged)
        ls_buf_fmt(out, ", %d choice%s judged by %d probe rows and %d changed", judged, ls_plural(judged), step->probes,
                   changed);
    const int lossy = ls_step_lossy(step, NULL);
    if (lossy) ls_buf_fmt(out, ", %d of them not the target's choice", lossy);
    if (step->finish) {
        say_end(step, out);
        return;
    }
    if (step->rows == 1 && !step->miss) return;
    bool tried = false;
    for (int i = 1; i < step->tree.n && !tried; i++) tried = step->tree.nodes[i].parent == step->path[step->n_path - 1];
    ls_buf_str(out, step->miss ? "; missed " : tried ? "; then the target chose " : "; next ");
    ui_quote_token(c, s, last->target, out);
    chance(last->target_p, out);
    if (!step->miss) return;
    ls_buf_str(out, ": ");
    say_miss(step, out);
}

// ---- the draft under the cursor

void ui_quote_tokens(const ui_canvas *c, const ui_state *s, const int32_t *ids, int n, ls_buf *out) {
    ls_buf_char(out, '"');
    for (int i = 0; i < n; i++) {
        const ls_token *t = ls_token_of(&s->run.tokens, ids[i]);
        for (size_t k = 0; k < (size_t)t->n;) {
            const ui_glyph g = ui_next_glyph(c, t->bytes + k, (size_t)t->n - k);
            ls_buf_str(out, g.glyph);
            k += g.n;
        }
    }
    ls_buf_char(out, '"');
}

static void decode_branch(const ui_canvas *c, const ui_state *s, const ls_step *step, const ls_branch *b, ls_buf *out) {
    int32_t ids[UI_NGRAM];
    const ls_draft_source from = step->tree.nodes[b->first_node].from;
    const int guess = b->rank >= 0, copied = b->n_nodes - guess, n = ui_ngram(s, step, b, ids);
    ls_buf_fmt(out, "%s +%d: ", ui_match_text(b->match_n, b->match_pos).s, b->n_nodes);
    if (guess) {
        ls_buf_fmt(out, "rank %d of the last logits, ", b->rank);
        ui_quote_token(c, s, step->tree.nodes[b->first_node].token, out);
        ls_buf_str(out, ", is a guess for the token after the root");
        if (!b->match_n) ls_buf_str(out, copied ? "" : "; no n-gram that ends in it was seen before");
        else ls_buf_str(out, "; ");
    }
    if (b->match_n) {
        ls_buf_fmt(out, "the %d-gram ", b->match_n);
        ui_quote_tokens(c, s, ids, n, out);
        if (b->match_pos >= 0) ls_buf_fmt(out, " also ends just before position %d; the draft copies ", b->match_pos);
        else ls_buf_str(out, " was found outside this conversation; the draft copies ");
        // each row of a tree has the match that found it: some may have been copied from elsewhere
        int there = 0;
        for (int i = b->first_node + guess; i < b->first_node + b->n_nodes; i++) {
            const int at = step->tree.nodes[i].depth - step->tree.nodes[b->first_node].depth - guess;
            there += b->match_pos < 0 || step->tree.nodes[i].match_pos == b->match_pos + at;
        }
        ls_buf_fmt(out, "%d token%s from there", there, ls_plural(there));
        if (there < copied) ls_buf_fmt(out, ", %d from other places", copied - there);
    } else if (!guess) ls_buf_fmt(out, "%d token%s: %s", b->n_nodes, ls_plural(b->n_nodes), ls_sources[from].sentence);
    if (b->found > copied) ls_buf_fmt(out, " (%d more found, not drafted)", b->found - copied);
}

bool ui_narrate_draft(const ui_canvas *c, const ui_state *s, const ls_step *step, ls_buf *out) {
    const ui_panel p = s->shown.focus;
    const ls_branch *b = NULL;
    if (p == UI_DRAFTS && s->list[p].found >= 0 && s->list[p].found < step->tree.n_branches)
        b = &step->tree.branches[s->list[p].found];
    else if (p == UI_LOGITS && s->list[p].found >= 0) {
        const bool root = s->list[p].found < step->n_top && step->top[s->list[p].found].id == step->tree.nodes[0].token;
        b = ui_branch_of_rank(step, root ? -1 : s->list[p].found);
        if (!b && !root) ls_buf_fmt(out, "-: rank %d of the last logits was not drafted", s->list[p].found);
        else if (!b) ls_buf_str(out, "root: the target's own choice; no draft continues from the root alone");
        if (!b) return true;
    } else if (p != UI_NO_PANEL && s->view.node > 0 && s->view.node < step->tree.n)
        b = ls_branch_of(step, &step->tree.nodes[s->view.node]);
    if (b) decode_branch(c, s, step, b, out);
    return b != NULL;
}

// ---- a step for other programs

// The viewed step in several lines, without signs: what it did, what it emitted, which drafts were accepted, and what
// ended its path.
static void step_words(const ui_canvas *c, const ui_state *s, const ls_step *step, ls_buf *out) {
    int32_t ids[LS_MAX_ROWS];
    ui_narrate(c, s, step, out);
    for (int i = 0; i < step->n_emitted; i++) ids[i] = step->tree.nodes[step->path[i]].token;
    ls_buf_fmt(out, ".\nIt emitted %d token%s: ", step->n_emitted, ls_plural(step->n_emitted));
    ui_quote_tokens(c, s, ids, step->n_emitted, out);
    ls_buf_str(out, ".\n");
    for (int i = 0; i < step->tree.n_branches; i++) {
        const ls_branch *b = &step->tree.branches[i];
        const int accepted = ls_step_branch_accepted(step, b);
        if (!accepted) continue;
        ls_buf_fmt(out, "Accepted %d of the draft ", accepted);
        decode_branch(c, s, step, b, out);
        ls_buf_str(out, ".\n");
    }
    if (step->miss) ls_buf_fmt(out, "The next token was missed: %s.\n", ls_misses[step->miss].sentence);
    ls_buf_fmt(out, "It took %.2f ms", step->t_total_us / 1e3);
    if (step->plain_us > 0) ls_buf_fmt(out, "; a plain step takes %.2f ms here", ls_step_plain_us(step) / 1e3);
    ls_buf_str(out, ".\n");
}

// ---- texts for other programs

enum { MOST = 100000 }; // bytes; terminals silently drop longer copies

void ui_add_token(const ui_state *s, int32_t id, ls_buf *out) {
    const ls_token *t = ls_token_of(&s->run.tokens, id);
    if (!t->special) ls_buf_add(out, t->bytes, (size_t)t->n);
}

void ui_answer_text(const ui_state *s, const ui_turn *t, ls_buf *out) {
    const size_t hidden = ui_quiz_first_hidden(s);
    for (size_t i = 0; i < ui_said(&s->run, t)->n_steps && t->first_step + i < hidden; i++) {
        const ls_step *step = s->run.steps[t->first_step + i];
        for (int k = 0; k < step->n_emitted; k++) ui_add_token(s, step->tree.nodes[step->path[k]].token, out);
    }
}

static void viewed_answer(const ui_state *s, ls_buf *out) { // the viewed one
    if (s->run.n_steps) ui_answer_text(s, ui_viewed_turn(s), out);
}

// What the cursor is on; else the answer. Returns its name.
static const char *selected(const ui_state *s, ls_buf *out) {
    const ui_panel p = s->shown.focus;
    const ls_step *step = ui_viewed(s);
    if (step && p == UI_LOGITS && s->list[p].found >= 0 && s->list[p].found < step->n_top) {
        ui_add_token(s, step->top[s->list[p].found].id, out);
        return "the token";
    }
    if (step && p == UI_DRAFTS && s->list[p].found >= 0 && s->list[p].found < step->tree.n_branches) {
        const ls_branch *b = &step->tree.branches[s->list[p].found];
        for (int i = 0; i < b->n_nodes; i++) ui_add_token(s, step->tree.nodes[b->first_node + i].token, out);
        return "the draft";
    }
    if (step && p == UI_TREE && s->view.node > 0 && s->view.node < step->tree.n) {
        int32_t ids[LS_MAX_ROWS]; // from the root to the node
        const int n = ls_tree_tokens(&step->tree, s->view.node, ids);
        for (int i = 1; i < n; i++) ui_add_token(s, ids[i], out);
        return "the draft";
    }
    viewed_answer(s, out);
    return "the answer";
}

static void copy(ui_state *s, const ls_buf *text, const char *what) {
    ls_buf shown = {0}; // control characters become visible signs: the text may be pasted into a shell
    ls_sanitize_text(&shown, text->n ? text->p : "", text->n);
    if (!shown.n) ui_say(s, "nothing to copy yet");
    else if (!s->given.clipboard)
        ui_say(s, "no clipboard (terminal without OSC 52, or ui.clipboard: no): use ':save-text FILE' "
                  "or ':save-step FILE'");
    else if (shown.n > MOST)
        ui_say(s, "%s is too long for the terminal's clipboard (%zu bytes): use ':save-text FILE'", what, shown.n);
    else {
        free(s->asked.to_copy);
        s->asked.to_copy = ls_strndup(shown.p, shown.n);
        ui_say(s, "%s: %zu byte%s sent to the clipboard (OSC 52); %s", what, shown.n, ls_plural(shown.n),
               s->given.clipboard);
    }
    ls_buf_free(&shown);
}

static void save(ui_state *s, const ls_buf *text, const char *path) {
    ls_err err;
    const char *replaces = ls_replaces(path);
    if (!text->n) ui_say_error(s, "nothing to save yet");
    else if (ls_write_file(path, text, &err)) ui_say_error(s, "%s", err.msg);
    else ui_say(s, "saved %.280s%s", path, replaces);
}

static void export(ui_state *s, ls_buf *text, const char *path, const char *what) {
    if (path) save(s, text, path);
    else copy(s, text, what);
    ls_buf_free(text);
}

void ui_export_text(ui_state *s, const char *path) {
    ls_buf text = {0};
    const char *what = NULL;
    if (!path) what = selected(s, &text);
    else viewed_answer(s, &text);
    if (path && text.n) ls_buf_char(&text, '\n');
    export(s, &text, path, what);
}

void ui_export_step(ui_state *s, const char *path) {
    const ui_canvas c = {.utf8 = true, .ascii = s->view.ascii}; // whatever this terminal shows
    const ls_step *step = ui_viewed(s);
    ls_buf text = {0};
    if (step && !ui_quiz_hides(s)) step_words(&c, s, step, &text);
    export(s, &text, path, "the description of the step");
}
