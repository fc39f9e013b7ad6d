#include "ui/state.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

static bool asks(const ls_step *step) {
    return step->forward && step->tree.n > 1 && ls_step_described(step);
}

void ui_quiz_toggle(ui_state *s) {
    ui_quiz *q = &s->quiz;
    if (!q->masked) q->masked = ls_step_new();
    q->on = !q->on;
    q->next = s->run.n_steps ? ui_viewed_index(s) + 1 : 0; // steps that were seen already are not asked about
    q->asked = q->right = q->found = q->of = q->answered = 0;
    s->view.node = -1;
    if (q->on) s->shown.focus = UI_TREE;
    ui_say(s, "%s", q->on ? "quiz on: trees are shown before their verification" : "quiz off");
}

bool ui_quiz_hides(const ui_state *s) {
    return s->quiz.on && s->run.n_steps && ui_viewed_index(s) >= s->quiz.next && asks(s->run.steps[ui_viewed_index(s)]);
}

size_t ui_quiz_first_hidden(const ui_state *s) {
    for (size_t i = s->quiz.next; s->quiz.on && i < s->run.n_steps; i++)
        if (asks(s->run.steps[i])) return i;
    return SIZE_MAX;
}

const ls_step *ui_quiz_masked(const ui_state *s, const ls_step *step) {
    ls_step *m = s->quiz.masked;
    ls_step_copy(m, step);
    // only the root is accepted, and nothing that the forward computed is known
    m->n_path = m->n_emitted = 1;
    m->path[0] = 0;
    m->miss = LS_MISS_NONE;
    m->finish = LS_GOING;
    ls_tree_mark(&m->tree, m->path, 1);
    for (int i = 0; i < m->tree.n; i++) {
        ls_node *n = &m->tree.nodes[i];
        n->state = i ? LS_NODE_NOT_REACHED : LS_NODE_ACCEPTED;
        n->target = n->own = -1;
        n->target_p = n->entropy = n->lse = (float)NAN;
        if (i) n->p = (float)NAN;
        n->top[0].id = -1;
    }
    return m;
}

void ui_quiz_answer(ui_state *s) {
    ui_quiz *q = &s->quiz;
    const int said = ui_inspected(s);
    const ls_step *step = s->run.steps[ui_viewed_index(s)]; // as it is
    const ls_node *nodes = step->tree.nodes;
    const int accepted = ls_step_accepted(step), depth = nodes[said].depth;
    int32_t path[LS_MAX_ROWS];
    ls_tree_path(&step->tree, said, path);
    int found = 0; // by tokens, not rows: a published tree may contain the same path twice
    while (found < depth && found < accepted && nodes[path[found + 1]].token == nodes[step->path[found + 1]].token)
        found++;
    const bool right = found == accepted && depth == accepted;
    q->asked++;
    q->right += right;
    q->found += found;
    q->of += depth > accepted ? depth : accepted;
    q->answered = q->next = ui_viewed_index(s) + 1;
    s->view.node = step->path[accepted];
    char text[80];
    if (right) snprintf(text, sizeof text, "right: %d accepted", accepted);
    else if (!accepted) snprintf(text, sizeof text, "wrong: none was accepted, you marked %d", depth);
    else snprintf(text, sizeof text, "wrong: %d accepted, you marked %d (%d right)", accepted, depth, found);
    ui_say(s, "%s; score %d of %d, tokens %d of %d; Enter continues", text, q->right, q->asked, q->found, q->of);
}

bool ui_quiz_go_on(ui_state *s) {
    if (!s->quiz.answered) return false;
    s->quiz.answered = 0;
    s->view.node = -1;
    return true;
}

size_t ui_quiz_newest(const ui_state *s) {
    if (s->quiz.answered) return s->quiz.answered - 1;
    const size_t asked = ui_quiz_first_hidden(s);
    return asked < s->run.n_steps ? asked : s->run.n_steps - 1;
}

void ui_quiz_on_step(ui_state *s) {
    // a question is answered in the Tree: the keys go there, unless the user is typing
    if (ui_quiz_hides(s) && s->shown.focus == UI_NO_PANEL && !s->typed.prompt.text.n) ui_focus(s, UI_TREE);
    if (s->quiz.next == s->run.n_steps - 1 && !asks(s->run.steps[s->quiz.next])) s->quiz.next++;
}

void ui_quiz_question(const ui_state *s, ls_buf *out) {
    const ui_quiz *q = &s->quiz;
    const bool typing = s->shown.focus == UI_NO_PANEL; // there the keys are text
    ls_buf_fmt(out, "quiz: which draft is the last accepted one? %sk j Enter (root: none)", typing ? "Esc, then " : "");
    if (q->asked) ls_buf_fmt(out, "; %d/%d right", q->right, q->asked);
}
