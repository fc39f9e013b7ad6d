#include "ui/copy.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ui/navigate.h"
#include "ui/quiz.h"
#include "ui/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100000 }; // bytes; terminals silently drop longer copies

static void add_token(const ui_state *s, int32_t id, ls_buf *out) {
    const ls_token *t = ls_token_of(&s->tokens, id);
    if (!t->special) ls_buf_add(out, t->bytes, (size_t)t->n);
}

void ui_answer_text(const ui_state *s, const ui_turn *t, ls_buf *out) {
    const size_t hidden = ui_quiz_first_hidden(s);
    for (size_t i = 0; i < t->n_steps && t->first_step + i < hidden; i++) {
        const ls_step *step = ui_step(s, t->first_step + i);
        for (int k = 0; k < step->n_emitted; k++) add_token(s, step->tree.nodes[step->path[k]].token, out);
    }
}

static void answer(const ui_state *s, ls_buf *out) { // the viewed one
    if (s->n_steps) ui_answer_text(s, ui_turn_of(s, ui_viewed_index(s)), out);
}

// From the root's child to the node.
static void path_to(const ui_state *s, const ls_step *step, int node, ls_buf *out) {
    int path[LS_MAX_ROWS], n = 0;
    for (; node > 0; node = step->tree.nodes[node].parent) path[n++] = node;
    while (n > 0) add_token(s, step->tree.nodes[path[--n]].token, out);
}

// What the cursor is on; else the answer. Returns its name.
static const char *selected(const ui_state *s, ls_buf *out) {
    const ui_panel p = s->shown.focus;
    const ls_step *step = ui_viewed(s);
    if (step && p == UI_LOGITS && s->found[p] >= 0 && s->found[p] < step->n_top) {
        add_token(s, step->top[s->found[p]].id, out);
        return "the token";
    }
    if (step && p == UI_DRAFTS && s->found[p] >= 0 && s->found[p] < step->tree.n_branches) {
        const ls_branch *b = &step->tree.branches[s->found[p]];
        for (int i = 0; i < b->n_nodes; i++) add_token(s, step->tree.nodes[b->first_node + i].token, out);
        return "the draft";
    }
    if (step && p == UI_TREE && s->node > 0 && s->node < step->tree.n) {
        path_to(s, step, s->node, out);
        return "the draft";
    }
    answer(s, out);
    return "the answer";
}

static void words(const ui_state *s, ls_buf *out) {
    const ui_canvas c = {.utf8 = true, .ascii = s->ascii}; // whatever this terminal shows
    const ls_step *step = ui_viewed(s);
    if (step && !ui_quiz_hides(s)) ui_step_words(&c, s, step, out);
}

static void copy(ui_state *s, const ls_buf *text, const char *what) {
    char said[200];
    ls_buf shown = {0}; // control characters become visible signs: the text may be pasted into a shell
    ls_sanitize_text(&shown, text->n ? text->p : "", text->n);
    if (!shown.n) snprintf(said, sizeof said, "nothing to copy yet");
    else if (!s->clipboard)
        snprintf(said, sizeof said,
                 "no clipboard (terminal without OSC 52, or ui.clipboard: no): use ':save-text FILE' "
                 "or ':save-step FILE'");
    else if (shown.n > MOST)
        snprintf(said, sizeof said, "%s is too long for the terminal's clipboard (%zu bytes): use ':save-text FILE'",
                 what, shown.n);
    else {
        free(s->to_copy);
        s->to_copy = ls_strndup(shown.p, shown.n);
        snprintf(said, sizeof said, "%s: %zu byte%s sent to the clipboard (OSC 52); %s", what, shown.n,
                 ls_plural(shown.n), s->clipboard);
    }
    ui_say(s, said, false);
    ls_buf_free(&shown);
}

void ui_copy_text(ui_state *s) {
    ls_buf text = {0};
    const char *what = selected(s, &text);
    copy(s, &text, what);
    ls_buf_free(&text);
}

void ui_copy_step(ui_state *s) {
    ls_buf text = {0};
    words(s, &text);
    copy(s, &text, "the description of the step");
    ls_buf_free(&text);
}

static void save(ui_state *s, const ls_buf *text, const char *path) {
    ls_err err;
    char said[sizeof s->message];
    bool failed = true;
    if (!text->n) snprintf(said, sizeof said, "nothing to save yet");
    else if (ls_write_file(path, text, &err)) snprintf(said, sizeof said, "%s", err.msg);
    else {
        snprintf(said, sizeof said, "saved %.300s", path);
        failed = false;
    }
    ui_say(s, said, failed);
}

void ui_save_text(ui_state *s, const char *path) {
    ls_buf text = {0};
    answer(s, &text);
    if (text.n) ls_buf_char(&text, '\n');
    save(s, &text, path);
    ls_buf_free(&text);
}

void ui_save_step(ui_state *s, const char *path) {
    ls_buf text = {0};
    words(s, &text);
    save(s, &text, path);
    ls_buf_free(&text);
}
