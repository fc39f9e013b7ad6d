// The conversation, every token in the colour of its source; the tokens of the viewed step are highlighted.
#include "ui/panels.h"
#include "ui/modes.h"
#include "base/mem.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- an empty conversation

// What an empty conversation offers, from 1: a prompt that is the number alone chooses it. prompt: is sent; tour: the
// guided tour begins; left: the conversation that an earlier process kept is loaded, where there is one.
static const struct {
    const char *offer, *prompt;
    bool tour, left;
} starters[] = {
    {"a guided tour: one step, the idea, and when it is slower", NULL, true, false},
    {"a prompt with a repetitive answer: drafts help", "List five facts about bread. Begin every line with: Bread is",
     false, false},
    {"a prompt with a varied answer: drafts do not help", "What would a cat say about Monday?", false, false},
    {"load the interrupted conversation", NULL, false, true}};
enum { STARTERS = sizeof starters / sizeof *starters };

static bool is_there(const ui_state *s, int i) {
    return starters[i].tour ? s->given.tour != NULL : !starters[i].left || (s->given.left && *s->given.left);
}

// No prompt was sent yet, and one can be sent.
static bool can_begin(const ui_state *s) {
    return !s->run.conversation->n_turns && !s->given.recording && !s->playing.demo && s->typed.editing < 0 &&
           s->run.state != LS_STATE_FAILED;
}

bool ui_welcome_choose(ui_state *s, const char *prompt) {
    if (!can_begin(s)) return false;
    for (int i = 0; i < STARTERS; i++) {
        if (prompt[0] != '1' + i || prompt[1] || !is_there(s, i)) continue;
        if (!starters[i].tour && !ui_can_send(s)) return true; // it stays typed
        ui_edit_clear(&s->typed.prompt);
        if (starters[i].tour) s->asked.tour = 1;
        else if (starters[i].left) {
            ui_ask(s, LS_CMD_LOAD, ls_strdup(*s->given.left), 0);
            s->given.left++; // if it cannot be loaded, the one before it is offered
            if (s->run.state == LS_STATE_LOADING) ui_say(s, "the model is loading; the conversation is queued");
        } else {
            ui_edit_set(&s->typed.prompt, starters[i].prompt);
            ui_send_prompt(s);
        }
        return true;
    }
    return false;
}

static ui_role kind_role(ls_source_kind kind) {
    _Static_assert(UI_CORRECTED - UI_ROOT == LS_KIND_COUNT, "a role for every kind of source, in their order");
    return UI_ROOT + kind;
}

static ui_role source_role(ls_draft_source from, bool corrected) {
    return from == LS_SOURCE_ROOT && corrected ? UI_CORRECTED : kind_role(ls_sources[from].kind);
}

void ui_legend(ui_pen *p, const ui_state *s) {
    for (int kind = 0; kind <= LS_KIND_COUNT; kind++) {                       // the last one is no source: corrections
        if (kind == LS_KIND_DRAFTED && !*s->run.header.draft_model) continue; // nothing drafts so here
        const char *word = kind < LS_KIND_COUNT ? ls_source_kinds[kind].word : "correction";
        if ((int)strlen(word) + 1 > p->end - p->col) return;
        p->col++; // the frame's line
        ui_print(ui_as(p, kind < LS_KIND_COUNT ? kind_role((ls_source_kind)kind) : UI_CORRECTED), "%s", word);
    }
}

// ---- the text

typedef struct {
    ls_buf text;
    struct part {
        size_t end; // in the text: the part begins where the one before it ends
        ui_role role;
        int mark;
        int32_t tag; // the token: step * LS_MAX_ROWS + row + 1; 0: none
    } * parts;
    size_t n;      // of parts
    int32_t tag;   // of the added text
    size_t hidden; // step that a quiz asks about
} flow;

static void add_text(flow *f, const char *p, size_t n, ui_role role, int mark) {
    ls_buf_add(&f->text, p, n);
    f->parts = ls_grown(f->parts, f->n, sizeof *f->parts);
    f->parts[f->n++] = (struct part){f->text.n, role, mark, f->tag};
}

static void add_str(flow *f, const char *s, ui_role role) {
    add_text(f, s, strlen(s), role, 0);
}

// What the inspected draft was copied from: positions of the context.
typedef struct {
    int32_t from, to;
} source;

static source source_of(const ui_state *s) {
    const ls_step *step = s->shown.inspect ? ui_viewed(s) : NULL;
    const ls_node *n = step ? &step->tree.nodes[ui_inspected(s)] : NULL;
    if (!n || n->match_pos < 0) return (source){0, 0};
    return (source){n->match_pos - n->match_n, n->match_pos + 1};
}

// A line in place of the tokens that are folded away.
static void add_folded(flow *f, const ui_thinking *t, int32_t end) {
    char text[80];
    const int32_t n = (t->to < 0 ? end : t->to) - t->from;
    snprintf(text, sizeof text, "[thinking: %d token%s, f unfolds]\n", n, ls_plural(n));
    add_str(f, text, UI_DIM);
}

static void add_step_text(flow *f, const ui_state *s, const ui_turn *turn, size_t index, source src, bool viewed,
                          bool ascii) {
    const int would = s->view.preview && index > turn->first_step ? ui_preview(s, s->run.steps[index - 1]) : -1;
    const ls_step *step = s->run.steps[index];
    if (index == f->hidden) step = ui_quiz_masked(s, step);
    const bool brackets = s->view.brackets;
    f->tag = ((int32_t)index - 1) * LS_MAX_ROWS + would + 1; // the draft that the previewed rule would accept here
    const bool folded = s->view.folded && ui_thinking_at(&turn->thinking, step->output_pos);
    if (would >= 0 && !folded) add_str(f, ascii ? "~" : "≈", UI_BAD);
    f->tag = 0;
    for (int i = 0; i < step->n_emitted; i++) {
        const ls_node *node = &step->tree.nodes[step->path[i]];
        const ls_token *t = ls_token_of(&s->run.tokens, node->token);
        const bool thinks = ui_thinking_at(&turn->thinking, step->output_pos + i);
        if (thinks && s->view.folded) continue;
        ui_role role = source_role(node->from, step->corrected && i == 0);
        const int32_t position = step->context_len + i;
        if (position >= src.from && position < src.to) role = UI_SPAN;
        if (viewed && s->view.node == step->path[i]) role = UI_CURSOR;
        f->tag = (int32_t)index * LS_MAX_ROWS + step->path[i] + 1;
        bool shown = !t->special;
        if (viewed && brackets && (i == 0 || (i == 1 && step->n_emitted > 1)))
            add_str(f, i ? (ascii ? "[" : "«") : ascii ? "<" : "‹", UI_LABEL);
        if (shown)
            add_text(f, t->bytes, (size_t)t->n, role, viewed && role != UI_CURSOR ? UI_REVERSE : thinks ? UI_FAINT : 0);
        f->tag = 0;
        if (viewed && brackets && (i == 0 || i == step->n_emitted - 1))
            add_str(f, i ? (ascii ? "]" : "»") : ascii ? ">" : "›", UI_LABEL);
    }
}

static void draw_line(ui_pen *p, const flow *f, ui_line l) {
    const struct part *of = f->parts;
    for (size_t i = l.from; i < l.to;) {
        ui_glyph g = ui_next_glyph(p->canvas, f->text.p + i, l.to - i);
        while (of->end <= i) of++;
        p->mark = (uint8_t)of->mark;
        p->tag = of->tag;
        ui_draw(ui_as(p, of->role), f->text.p + i, g.n);
        i += g.n;
    }
}

// The steps whose text may be in sight: laying out a whole long conversation for every frame would take too long.
typedef struct {
    size_t turn;       // the first turn that is laid out
    size_t first, end; // steps; the prompt is included if `first` is the first step of the turn
} window;

static size_t bytes_of(const ui_state *s, size_t i, bool *ends_line) {
    const ls_step *step = s->run.steps[i];
    const ui_turn *turn = s->view.folded ? ui_turn_of(&s->run, i) : NULL;
    size_t n = 0;
    for (int k = 0; k < step->n_emitted; k++) {
        const ls_token *t = ls_token_of(&s->run.tokens, step->tree.nodes[step->path[k]].token);
        if (turn && ui_thinking_at(&turn->thinking, step->output_pos + k)) continue; // folded away
        n += (size_t)t->n;
        if (t->n) *ends_line = t->bytes[t->n - 1] == '\n';
    }
    return n;
}

static window window_of(const ui_state *s, int scroll, int rows, int cols) {
    enum {
        BYTES = 4,
        FAR = 1 << 16
    }; // BYTES: of a cell, at most; FAR: beyond this, the window may begin within a line
    window w = {0, 0, s->run.n_steps};
    if (!s->run.n_steps) return w;
    const size_t screen = (size_t)rows * (size_t)cols * BYTES;
    // two screens of text before the viewed step, and the lines that were scrolled over
    const size_t wanted = screen * 2 + (size_t)scroll * (size_t)cols * BYTES;
    size_t i = ui_viewed_index(s), n = 0;
    bool ends_line = false;
    if (!s->view.at_newest) {
        for (w.end = i + 1; w.end < s->run.n_steps && n < screen; w.end++) n += bytes_of(s, w.end, &ends_line);
        n = 0;
    } else i = s->run.n_steps - 1;
    size_t turn = (size_t)(ui_turn_of(&s->run, i) - s->run.turns);
    for (;; i--) {
        ends_line = false;
        if (i == s->run.turns[turn].first_step) { // its prompt comes along
            n += ui_said(&s->run, &s->run.turns[turn])->user.n + (size_t)cols;
            if (n >= wanted || !turn) return (window){turn, i, w.end};
            while (turn && s->run.conversation->turns[--turn].n_steps == 0)
                n += ui_said(&s->run, &s->run.turns[turn])->user.n + (size_t)cols;
            if (!s->run.conversation->turns[turn].n_steps) return (window){0, 0, w.end};
            n += bytes_of(s, i, &ends_line);
            continue;
        }
        n += bytes_of(s, i, &ends_line);
        if (n < wanted) continue;
        bytes_of(s, i - 1, &ends_line);
        if (ends_line || n > wanted + FAR) return (window){turn, i, w.end};
    }
}

static void add_welcome(flow *f, const ui_state *s) {
    const bool begins = can_begin(s);
    add_str(f, begins ? "Type a prompt and press Enter. Or type a number and press Enter:\n" : "No text yet.\n",
            UI_TEXT);
    for (int i = 0; begins && i < STARTERS; i++) {
        if (!is_there(s, i)) continue;
        add_str(f, (const char[]){' ', (char)('1' + i), ' ', ' ', 0}, UI_KEY);
        add_str(f, starters[i].offer, UI_TEXT);
        add_str(f, "\n", UI_TEXT);
    }
    add_str(f,
            "The frame below shows the style of each kind of token. A step drafts a tree of likely tokens, and one "
            "forward of the target verifies the whole tree. If the colours are hard to read: Esc, then T.",
            UI_DIM);
}

// The prompt, and the beginning of the answer where the user chose it.
static void add_prompt(flow *f, const ui_state *s, const ui_turn *turn, bool ascii) {
    if (turn != s->run.turns) add_str(f, "\n\n", UI_TEXT);
    add_str(f, ascii ? "> " : "› ", UI_LABEL);
    const ls_turn *said = ui_said(&s->run, turn);
    add_text(f, ui_prompt_of(&s->run, turn), said->user.n, UI_PROMPT, 0);
    add_str(f, "\n", UI_TEXT);
    for (size_t k = said->answer_at; k < ls_turn_output_at(said); k++) {
        const ls_token *begun = ls_token_of(&s->run.tokens, s->run.conversation->context.p[k]);
        if (!begun->special) add_text(f, begun->bytes, (size_t)begun->n, UI_PROMPT, 0);
    }
    const ls_step *newest = said->n_steps ? s->run.steps[turn->first_step + said->n_steps - 1] : NULL;
    if (s->view.folded && newest && turn->thinking.from >= 0)
        add_folded(f, &turn->thinking, newest->output_pos + newest->n_emitted);
}

// Returns where the text of the viewed step ends.
static size_t add_turns(flow *f, const ui_state *s, window w, bool ascii) {
    const size_t viewed = s->run.n_steps ? ui_viewed_index(s) : 0;
    const source src = source_of(s);
    size_t viewed_end = 0;
    for (size_t t = w.turn; t < s->run.conversation->n_turns; t++) {
        const ui_turn *turn = &s->run.turns[t];
        size_t i = turn->first_step;
        if (t == w.turn && w.first > i) i = w.first; // the prompt and what was before is out of sight
        else add_prompt(f, s, turn, ascii);
        for (; i < turn->first_step + ui_said(&s->run, turn)->n_steps && i < w.end; i++) {
            add_step_text(f, s, turn, i, src, i == viewed && (!s->view.at_newest || ui_busy(&s->run)), ascii);
            if (i == viewed) viewed_end = f->text.n;
        }
        if (w.end < s->run.n_steps && i >= w.end) break; // what follows is out of sight
    }
    return viewed_end;
}

// Tokens of the last answer. Of a step that a quiz hides the root alone is shown, so the count must not tell more.
static int32_t tokens_shown(const ui_state *s, size_t hidden) {
    const bool hides = hidden < s->run.n_steps;
    if (!s->run.n_steps || !ls_conversation_last(s->run.conversation)->n_steps) return 0;
    const ls_step *last = s->run.steps[hides ? hidden : s->run.n_steps - 1];
    return last->output_pos + (hides ? 1 : last->n_emitted);
}

void ui_panel_output(ui_panel_view *v) {
    const ui_state *s = v->state;
    int *scroll = &v->drawn->scroll[UI_OUTPUT];
    flow f = {.hidden = ui_quiz_first_hidden(s)};
    window w = window_of(s, *scroll, v->area.rows, v->area.cols);
    if (f.hidden < w.end) w.end = f.hidden + 1; // later text would reveal the answer
    const size_t viewed_end = add_turns(&f, s, w, v->canvas->ascii);
    if (!s->run.conversation->n_turns) add_welcome(&f, s);
    size_t n;
    ui_line *lines = ui_wrap(v->canvas, f.text.n ? f.text.p : "", f.text.n, v->area.cols, &n);
    size_t bottom = n; // line after the last one shown, when not scrolled
    if (!s->view.at_newest && s->run.n_steps) {
        for (bottom = 0; bottom < n && lines[bottom].to < viewed_end;) bottom++;
        bottom += 1 + (size_t)v->area.rows / 3;
        if (bottom > n) bottom = n;
    }
    int most = (int)bottom - v->area.rows;
    if (most < 0 || !s->run.conversation->n_turns) most = 0; // the text of an empty conversation begins at the top
    if (*scroll > most) *scroll = most;
    const int top = most - *scroll;
    for (int row = 0; row < v->area.rows && (size_t)(top + row) < n; row++) {
        ui_pen p = ui_pen_at(v->canvas, v->area, row, UI_TEXT);
        draw_line(&p, &f, lines[top + row]);
    }
    const int32_t tokens = tokens_shown(s, f.hidden);
    ui_right(v, "%d token%s, %s", tokens, ls_plural(tokens),
             *scroll             ? "scrolled"
             : s->view.at_newest ? "follow"
                                 : "history");
    free(lines);
    ls_buf_free(&f.text);
    free(f.parts);
}
