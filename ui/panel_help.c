// What the screen's signs and colours mean, then what every key and command does, from their tables.
#include "ui/modes.h"
#include "ui/panels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *title, *text; // a heading, or a line of text
    bool legend;              // the colours
    ui_action action;         // whose keys `key` gets
    char key[48];             // else
    const char *name, *help;
} line;

// All but the typed commands, which follow.
static const line lines[] = {
    {.title = "What the signs and colours mean"},
    {.legend = true},
    {.text = "own choice, root: the target's own next token, always emitted.  draft: a proposed token after the root."},
    {.text = "retrieved (R): text that followed the same n-gram.  remembered (M): the target's last top choice in this "
             "context."},
    {.text =
         "H: text from this or an earlier conversation.  C: text from your corpus.  W: a row of the lookahead window."},
    {.text = "guess (#n): rank n of the last logits, proposed as the next-next token.  after a guess: text that "
             "followed it."},
    {.text = "correction: the target's own choice where a draft was rejected."},
    {.text = "n@pos +m: the last n tokens also occur just before pos; m tokens were copied from there (=n: from "
             "elsewhere)."},
    {.text = "accepted: * or a dot.  rejected: ! or a cross.  not reached: a circle (ASCII: . in Tree, o in Logits)."},
    {.text = "LOSSY: drafts that the target did not choose may be accepted (~ or a double wave); the text may differ."},
    {.text = "token(M): in Drafts, a token from another source than the first token of its branch."},
    {.text = "cut: tokens that were found for a branch, but not drafted: no row left, or not worth one."},
    {.text = "MAT: tokens emitted / decode steps; plain decoding has 1.  Speedup: against plain decoding timed here."},
    {.text = "n-grams: sequences of tokens that look-ups can find.  repeats: accepted drafts that copied this answer."},
    {.text = "busy: share of the time that threads waited for a CPU.  ^N is Ctrl-N."},
#define GROUP(words) {.title = words},
#define ACTION(id, called, keys, does) {.action = UI_ACT_##id, .name = called, .help = does},
#include "ui/actions.def"
    {.title = "The prompt line"},
    {.key = "Enter", .name = "send", .help = "send the prompt; if it is empty, continue an answer that was cut"},
    {.title = "Commands (: begins one, Tab completes it)"}};
enum { LINES = sizeof lines / sizeof *lines };

static int n_lines(void) {
    int n = LINES;
    while (ui_verbs[n - LINES].name) n++;
    return n;
}

static line line_at(int i) {
    if (i >= LINES) {
        const ui_verb *v = &ui_verbs[i - LINES];
        line l = {.name = "", .help = v->help};
        snprintf(l.key, sizeof l.key, ":%s%s", v->name, v->argument);
        return l;
    }
    line l = lines[i];
    if (l.name && !*l.key) snprintf(l.key, sizeof l.key, "%s", ui_action_keys(l.action));
    return l;
}

static bool line_holds(const line *l, const char *word) {
    const char *const texts[] = {l->title, l->text, l->key, l->name, l->help};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i] && strcasestr(texts[i], word)) return true;
    return false;
}

void ui_help_find(ui_state *s, int by) {
    const int n = n_lines();
    for (int i = 1; i <= n && s->view.sought && *s->view.sought; i++) {
        const int at = (s->over.help_found + by * i + 2 * n) % n;
        const line l = line_at(at);
        if (!line_holds(&l, s->view.sought)) continue;
        s->over.help_found = at;
        s->drawn.help_jumps = true;
        return;
    }
    ui_say(s, "not found in Help: '%.100s'", s->view.sought ? s->view.sought : "");
}

// The text of a line, which may take several rows; from: the column where it begins.
static const char *text_of(const line *l, int cols, int *from) {
    *from = l->text ? 2 : cols < 100 ? 14 : 34;
    if (!l->text && !l->title && !l->legend && (int)strlen(l->key) + 3 > *from) *from = (int)strlen(l->key) + 3;
    return l->text ? l->text : l->help ? l->help : "";
}

// Draws the line from that row of the area on, clipped to the area; returns its number of rows.
static int draw_help_line(ui_panel_view *v, const line *l, int row, bool found) {
    const ui_rect area = v->area;
    int from;
    size_t n = 1;
    const char *text = text_of(l, area.cols, &from);
    ui_line *rows = *text ? ui_wrap(v->canvas, text, strlen(text), area.cols - from, &n) : NULL;
    for (size_t i = 0; i < n; i++) {
        ui_pen p = ui_pen_at(v->canvas, area, row + (int)i, found ? UI_CURSOR : l->title ? UI_NUMBER : UI_KEY);
        if (l->title) ui_print(&p, "%s", l->title);
        if (l->legend) ui_legend(&p, v->state);
        if (!rows) continue;
        if (!i && *l->key) ui_print(&p, "  %s", l->key);
        ui_pad(&p, area.col + 14);
        if (!found) p.role = UI_LABEL;
        if (!i && from == 34) ui_print(&p, "%s", l->name);
        p = ui_pen_at(v->canvas, area, row + (int)i, found ? UI_CURSOR : UI_TEXT);
        p.col += from;
        ui_draw(&p, text + rows[i].from, rows[i].to - rows[i].from);
    }
    free(rows);
    return (int)n;
}

void ui_panel_help(ui_panel_view *v) {
    enum { NOWHERE = 1 << 20 }; // a row out of sight: only measures
    const ui_state *s = v->state;
    int n = 0;
    for (int i = 0; i < n_lines(); i++) {
        const line l = line_at(i);
        if (v->drawn->help_jumps && i == s->over.help_found) v->drawn->overlay_scroll[UI_HELP] = n > 2 ? n - 2 : 0;
        n += draw_help_line(v, &l, NOWHERE, false);
    }
    v->drawn->help_jumps = false;
    const int top = ui_scroll_top(&v->drawn->overlay_scroll[UI_HELP], n, v->area.rows);
    for (int i = 0, row = -top; i < n_lines() && row < v->area.rows; i++) {
        const line l = line_at(i);
        row += draw_help_line(v, &l, row, i == s->over.help_found);
    }
    ui_right(v, "j, k and page keys scroll, / searches, any other key closes");
}
