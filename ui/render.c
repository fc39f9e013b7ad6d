#include "ui/render.h"
#include "ui/demo.h"
#include "ui/modes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *state_name(const ui_state *s) {
    switch (s->run.state) {
    case LS_STATE_LOADING: return "LOADING";
    case LS_STATE_IDLE: return s->given.recording ? "ENDED" : s->asked.starts_paused ? "READY, starts paused" : "READY";
    case LS_STATE_PREFILL: return "READING";
    case LS_STATE_RUNNING: return "RUN";
    case LS_STATE_PAUSED: return ui_demo_plays(s) ? "PLAYING" : ui_demo_note(s) ? "PAUSED AT A NOTE" : "PAUSED";
    case LS_STATE_COMPARING: return "COMPARE";
    case LS_STATE_FAILED: return "FAILED";
    }
    return "";
}

// One of several fields of a line.
typedef struct {
    char text[96];
    const char *tail; // what may follow it where there is room; NULL: nothing
    int weight;       // the lightest goes first
} field;

static int cells_of_fields(const ui_canvas *c, const field *f, int n) {
    int cells = 3 * (n - 1);
    for (int i = 0; i < n; i++) {
        cells += ui_text_cells(c, f[i].text, strlen(f[i].text));
        if (f[i].tail) cells += ui_text_cells(c, f[i].tail, strlen(f[i].tail));
    }
    return cells;
}

// Removes the lightest tail, or else the lightest field; returns how many fields are left.
static int lighten(field *f, int n) {
    int tail = -1, lightest = 0;
    for (int i = 0; i < n; i++) {
        if (f[i].tail && (tail < 0 || f[i].weight < f[tail].weight)) tail = i;
        if (f[i].weight < f[lightest].weight) lightest = i;
    }
    if (tail >= 0) {
        f[tail].tail = NULL;
        return n;
    }
    for (n--; lightest < n; lightest++) f[lightest] = f[lightest + 1];
    return n;
}

// Draws fields side by side as far as they fit: tails go before fields, and each goes whole.
static void draw_fields(ui_pen *p, field *f, int n) {
    while (cells_of_fields(p->canvas, f, n) > p->end - p->col && (n > 1 || f->tail)) n = lighten(f, n);
    for (int i = 0; i < n; i++)
        ui_print(p, "%s%s%s", !i ? "" : p->canvas->ascii ? " | " : " │ ", f[i].text, f[i].tail ? f[i].tail : "");
}

static field *add(field **f, int weight, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static field *add(field **f, int weight, const char *fmt, ...) { // nothing where the text is empty
    field *new = *f;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(new->text, sizeof new->text, fmt, ap);
    va_end(ap);
    new->tail = NULL;
    new->weight = weight;
    *f += *new->text != 0;
    return new;
}

// The answer's last step has no forward, and is shown with the viewed one.
static bool ends_after(const ui_state *s) {
    return ui_viewed_end(s) > ui_viewed_index(s) + 1;
}

// Narrow terminals drop fields of low weight first: the user knows the model and the method, but not the state, the
// exactness and the speed.
static void title(const ui_state *s, ui_statistics *kept, ui_canvas *c, ui_rect r) {
    field fields[16], *f = fields;
    ui_pen p = ui_pen_at(c, r, 0, UI_TITLE);
    const ls_step *step = ui_viewed(s);
    const ui_turn *turn = ui_viewed_turn(s);
    char device[80] = "", temperature[32] = "";
    add(&f, 1, "LogitSpec");
    if (s->run.has_header) {
        snprintf(device, sizeof device, " %s", s->run.header.device);
        f = fields + 1;
        add(&f, 3, "%.*s %s", r.cols >= 110 ? 64 : 12, s->run.header.model, s->run.header.dtype)->tail =
            strcmp(s->run.header.device, "cpu") ? NULL : device;
        if (strcmp(s->run.header.device, "cpu")) add(&f, 4, "%s", s->run.header.device);
        if (turn && turn->temperature > 0) snprintf(temperature, sizeof temperature, ", T %.3g", turn->temperature);
        add(&f, 5, "%s", turn && *turn->method ? turn->method : s->run.header.method)->tail = temperature;
    }
    if (s->run.has_header && (!s->run.header.exact || (step && !step->exact)))
        add(&f, 10, "%s", !s->run.header.exact ? "NOT EXACT" : step->same_distribution ? "SAME DISTRIBUTION" : "LOSSY");
    if (s->quiz.on) add(&f, 9, "QUIZ"); // trees are hidden until they are answered
    char file[16] = "";                 // how much of it was read
    if (s->given.recording && s->run.fraction >= 0) snprintf(file, sizeof file, " %.0f%%", 100 * s->run.fraction);
    const ls_request_facts *request = ui_request_shown(s);
    if (request)
        add(&f, 11, "%s: request %d %s", s->given.serves ? "SERVE" : "WATCH", request->id,
            ls_request_state_name(request->state));
    else if (s->given.watches) add(&f, 11, "%s", s->given.serves ? "SERVE" : "WATCH");
    else add(&f, 11, "%s%s", s->given.recording ? "REPLAY " : "", state_name(s))->tail = file;
    if (step) {
        const ls_stats *st = ui_stats(s, kept);
        char which[32] = "";
        if (s->run.conversation->n_turns > 1) snprintf(which, sizeof which, "turn %td, ", turn - s->run.turns + 1);
        char end[16] = "";
        if (ends_after(s)) snprintf(end, sizeof end, "-%u", step->index + 1);
        if (s->view.at_newest) add(&f, 6, "%sstep %u%s", which, step->index, end);
        else add(&f, 8, "%sstep %u%s, %zu behind", which, step->index, end, s->run.n_steps - ui_viewed_end(s));
        add(&f, 2, "ctx %d/%d", step->context_len + step->n_emitted, s->run.header.n_context);
        if (ls_stats_waited(st) > LS_BUSY) add(&f, 9, "busy %.0f%%", 100 * ls_stats_waited(st));
        if (ls_stats_repeats(st)) // what made it fast
            add(&f, 4, "%.0f%% repeats", 100.0 * (double)st->repeats.n / (double)st->repeats.of);
        add(&f, 6, "%.0f tok/s", ls_stats_tokens_per_s(st));
        if (ls_stats_speedup(st) > 0 &&
            !(s->shown.compare && s->run.rival.done && !s->run.rival.begun.n)) // Compare has a factor
            add(&f, 9, "%s%s", ui_times(c), ls_stats_speedup_text(st, c->ascii).s)->tail = " vs plain";
    }
    ui_print(&p, " ");
    draw_fields(&p, fields, (int)(f - fields));
    ui_pad(&p, r.cols);
}

static bool works(const ui_state *s) { // busy, with a progress
    return s->run.state == LS_STATE_LOADING || s->run.state == LS_STATE_PREFILL || s->run.state == LS_STATE_COMPARING;
}

// The text of the message line: the state's message if there is one.
static void message_text(const ui_state *s, const ui_canvas *c, ls_buf *out) {
    const ls_step *step = ui_viewed(s);
    ls_buf_str(out, "");
    if (*s->message) ls_buf_fmt(out, "%s%s", s->message_is_error ? "! " : "", s->message);
    else if (works(s)) ls_buf_fmt(out, "%s ", *s->run.stage ? s->run.stage : "starting");
    else if (step && ui_quiz_hides(s)) ui_quiz_question(s, out);
    else if (step && !ui_narrate_draft(c, s, step, out)) {
        ui_narrate(c, s, step, out);
        if (ends_after(s)) ls_buf_fmt(out, "; step %u ends the answer, without a forward", step->index + 1);
    }
}

static void message(const ui_state *s, ui_canvas *c, ui_rect r, const ls_buf *text) {
    size_t n;
    ui_line *line = ui_wrap(c, text->p, text->n, r.cols - 1, &n); // behind a blank
    ui_pen p = {0};
    for (size_t i = 0; i < n && (int)i < r.rows; i++) {
        p = ui_pen_at(c, r, (int)i, !*s->message ? UI_DIM : s->message_is_error ? UI_BAD : UI_LABEL);
        ui_print(&p, " ");
        ui_draw(&p, text->p + line[i].from, line[i].to - line[i].from);
    }
    free(line);
    if (*s->message || !works(s) || s->run.fraction < 0) return;
    ui_bar(ui_as(&p, UI_BAR), 20, s->run.fraction);
    ui_print(&p, " %3.0f%%", 100 * s->run.fraction);
}

// Where a line that begins at `from` must be cut so that its text up to the cursor takes at most `room` cells. Only the
// bytes that may be in sight are measured: a line may be a megabyte.
static size_t first_shown(const ui_canvas *c, const char *text, size_t from, size_t cursor, int room) {
    const size_t most = (size_t)room * UI_GLYPH_BYTES;
    if (cursor - from > most) {
        from = cursor - most;
        while (from < cursor && ((unsigned char)text[from] & 0xC0) == 0x80) from++;
    }
    for (int cells = ui_text_cells(c, text + from, cursor - from); cells > room && from < cursor;) {
        const ui_glyph g = ui_next_glyph(c, text + from, cursor - from);
        cells -= g.cells;
        from += g.n;
    }
    return from;
}

static const char *line_before(const char *text, const char *end) { // the beginning of the line that `end` is in
    const char *newline = memrchr(text, '\n', (size_t)(end - text));
    return newline ? newline + 1 : text;
}

// The cursor stays in sight: one line scrolls sideways, several scroll up and down.
static void bottom(ui_canvas *c, ui_rect r, const ui_bottom *b) {
    const ui_edit *e = b->edit;
    const char *text = e->text.n ? e->text.p : "", *const last = text + e->text.n;
    const char *line = line_before(text, text + e->cursor); // the first one in sight
    int row = 0;                                            // of the cursor
    for (; row + 1 < r.rows && line > text; row++) line = line_before(text, line - 1);
    for (int i = 0; i < r.rows && line <= last; i++) {
        const char *end = memchr(line, '\n', (size_t)(last - line));
        if (!end) end = last;
        ui_pen p = ui_pen_at(c, r, i, b->active ? UI_FOCUS : UI_DIM);
        if (b->active && i == 0) p.mark = UI_REVERSE; // it has the focus
        ui_print(&p, " %s ", i == 0 ? b->sign : " ");
        p.mark = 0;
        const int start = p.col, room = p.end > p.col ? p.end - p.col - 1 : 0;
        const size_t from = (size_t)(line - text), cursor = i == row ? e->cursor : from,
                     shown = first_shown(c, text, from, cursor, room);
        ui_draw(ui_as(&p, b->active ? UI_TEXT : UI_DIM), text + shown, (size_t)(end - text) - shown);
        if (b->active && b->cursor && i == row) {
            c->cursor_row = r.row + i;
            c->cursor_col = start + ui_text_cells(c, text + shown, cursor - shown);
        }
        if (!e->text.n) ui_print(ui_as(&p, UI_DIM), "%s", b->hint);
        line = end + 1;
    }
}

static const char *bar_label(const ui_state *s, ui_action a, bool typing, const char *label) {
    const bool goes = s->run.state == LS_STATE_RUNNING || s->run.state == LS_STATE_PREFILL || ui_demo_plays(s);
    const bool idle =
        s->run.state == LS_STATE_IDLE && s->run.conversation->n_turns && !s->given.recording; // x then asks what if
    if (a == UI_ACT_RUN_PAUSE) return goes ? "Pause" : s->run.state == LS_STATE_PAUSED ? "Run" : label;
    return a == UI_ACT_STOP && !typing && idle ? "What-if" : label;
}

static void key_bar(const ui_state *s, ui_canvas *c, ui_rect r) {
    enum { TYPING = 1, PANELS = 2, WATCH = 4 };
    static const struct {
        int where;
        ui_action action;
        const char *key, *label;
    } entries[] = {
#define BAR(where, action, key, label) {where, UI_ACT_##action, key, label},
#include "ui/actions.def"
    };
    const bool typing = s->shown.focus == UI_NO_PANEL;
    ui_pen p = ui_pen_at(c, r, 0, UI_KEY);
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const ui_action a = entries[i].action;
        if (!(entries[i].where & (typing ? TYPING : s->given.watches ? WATCH : PANELS))) continue;
        const char *keys = entries[i].key ? entries[i].key : ui_action_keys(a), *blank = strchr(keys, ' ');
        const char *label = bar_label(s, a, typing, entries[i].label);
        if (!typing && blank && a != UI_ACT_HELP) keys = blank + 1; // the letter is shorter
        const int n = (int)strcspn(keys, " ");
        if (p.col + n + (int)strlen(label) + 2 > p.end) break; // whole entries only
        ui_print(ui_as(&p, UI_KEY), " %.*s ", n, keys);
        ui_print(ui_as(&p, UI_KEY_LABEL), "%s", label);
    }
}

static void frame(const ui_state *s, ui_drawn *drawn, ui_canvas *c, const ui_frame *f, ui_rect r, bool active) {
    char right[UI_RIGHT_BYTES] = "";
    if (f->before_steps && !s->run.n_steps) {
        ui_pen p = ui_pen_at(c, ui_inside(r), 0, UI_DIM);
        ui_print(&p, "%s", f->before_steps);
    } else f->draw(&(ui_panel_view){c, s, drawn, ui_inside(r), right, 0});
    ui_box(c, r, f->title, right, active);
    if (f->draw != ui_panel_output) return;
    ui_pen p = ui_pen_at(c, (ui_rect){r.row + r.rows - 1, r.col + 2, 1, r.cols - 4}, 0, UI_FRAME);
    ui_legend(&p, s);
}

static void too_small(ui_canvas *c) {
    ui_pen p = ui_pen_at(c, (ui_rect){0, 0, c->rows, c->cols}, c->rows / 2, UI_TEXT);
    ui_print(&p, "needs %dx%d, have %dx%d", UI_MIN_COLS, UI_MIN_ROWS, c->cols, c->rows);
}

// Over the panels; to: the first row below.
static void cover(const ui_state *s, ui_drawn *drawn, ui_canvas *c, const ui_frame *f, int to) {
    const ui_rect body = {1, 0, to - 1, c->cols};
    for (int row = 0; row < body.rows; row++) {
        ui_pen p = ui_pen_at(c, body, row, UI_TEXT);
        ui_pad(&p, c->cols);
    }
    frame(s, drawn, c, f, body, true);
}

// Text above the prompt, and lines of the prompt, decide what room the panels have.
static ui_room room_of(const ui_state *s, const ui_canvas *c, const ui_bottom *b, const ls_buf *said) {
    enum { WIDE = 110 }; // a step's sentence fits in one row
    ui_room r = {.rows = c->rows, .cols = c->cols, .prompt_rows = 1, .note = s->playing.demo};
    r.empty = !s->run.conversation->n_turns;
    r.requests = s->given.watches;
    size_t rows;
    for (size_t i = 0; i < b->edit->text.n; i++) r.prompt_rows += b->edit->text.p[i] == '\n';
    free(ui_wrap(c, said->p, said->n, c->cols - 1, &rows));
    // most steps need two rows: the panels do not move between steps
    r.message_rows = rows < 2 && s->run.n_steps && c->cols < WIDE ? 2 : (int)rows;
    return r;
}

static void draw_note(const ui_state *s, ui_drawn *drawn, ui_canvas *c, ui_rect r) {
    const ui_playing *p = &s->playing;
    char tour[32] = "Demo", heading[96];
    if (p->tour_of) snprintf(tour, sizeof tour, "Tour %d of %d", p->tour_stop, p->tour_of);
    snprintf(heading, sizeof heading, "%s: %.70s", tour, p->demo ? p->demo->title : "");
    frame(s, drawn, c, &(ui_frame){heading, ui_panel_note, NULL}, r, ui_demo_note(s) != NULL);
}

void ui_render(ui_state *state, ui_canvas *c) {
    static const ui_frame panels[] = {
#define PANEL(place, name, title, before) {title, ui_panel_##name, before},
#include "ui/panels.def"
#undef PANEL
    };
    ui_drawn *drawn = &state->drawn; // all that changes
    const ui_state *s = state;
    const ui_bottom b = ui_bottom_of(s, c->ascii ? ">" : "›");
    ls_buf said = {0};
    c->cursor_row = c->cursor_col = -1;
    message_text(s, c, &said);
    drawn->room = room_of(s, c, &b, &said);
    const ui_layout l = ui_layout_of(&drawn->room, &s->shown);
    if (l.too_small) too_small(c);
    else {
        title(s, &drawn->statistics, c, l.title);
        for (int i = 0; i < UI_PANELS; i++)
            if (l.panel[i].rows) frame(s, drawn, c, &panels[i], l.panel[i], (int)s->shown.focus == i);
        if (l.note.rows) draw_note(s, drawn, c, l.note);
        message(s, c, l.message, &said);
        bottom(c, l.prompt, &b);
        key_bar(s, c, l.keys);
        const ui_frame *top = ui_frame_on_top(s);
        if (top) cover(s, drawn, c, top, l.message.row);
    }
    ls_buf_free(&said);
}

// ---- layout

static ui_rect cut_rows(ui_rect *r, int rows) { // takes them from its top
    const ui_rect cut = {r->row, r->col, rows, r->cols};
    r->row += rows;
    r->rows -= rows;
    return cut;
}

static ui_rect cut_cols(ui_rect *r, int cols) { // from its left
    const ui_rect cut = {r->row, r->col, r->rows, cols};
    r->col += cols;
    r->cols -= cols;
    return cut;
}

static void small(ui_layout *l, ui_rect b, const ui_shown *w, bool empty) {
    // with a note there is room for two rows of panels; Stats then appears only if it has the focus
    int stats = b.rows < 16    ? 0
                : b.rows >= 24 ? 6
                               : 5,
        middle = empty ? 4 : (b.rows - stats) * 8 / 15, top = b.rows - stats - middle;
    const bool only_stats = !stats && w->focus == UI_STATS; // below Output: it has many lines
    l->panel[UI_OUTPUT] = cut_rows(&b, only_stats ? 4 : top);
    ui_rect mid = cut_rows(&b, b.rows - stats);
    if (w->focus == UI_DRAFTS || w->focus == UI_COMPARE || only_stats) l->panel[w->focus] = mid;
    else {
        const ui_panel beside = w->inspect && w->focus != UI_LOGITS ? UI_INSPECT : UI_LOGITS;
        l->panel[beside] = cut_cols(&mid, b.cols * (w->inspect ? 40 : 36) / 80);
        l->panel[UI_TREE] = mid;
    }
    if (stats) l->panel[UI_STATS] = b;
}

// Drafts, Inspect and Compare share a place. The one with the focus gets it, else the one that was opened last.
static ui_panel sharing(const ui_shown *w) {
    if (w->focus == UI_DRAFTS || w->focus == UI_INSPECT || w->focus == UI_COMPARE) return w->focus;
    if (w->compare && w->inspect) return w->inspect_last ? UI_INSPECT : UI_COMPARE;
    return w->compare ? UI_COMPARE : w->inspect ? UI_INSPECT : UI_DRAFTS;
}

static void medium(ui_layout *l, ui_rect b, const ui_shown *w) {
    int stats = w->focus == UI_STATS ? 11 : 8, middle = (b.rows - stats) * 12 / 25, top = b.rows - stats - middle;
    int logits = b.cols * 42 / 100 < 56 ? b.cols * 42 / 100 : 56;
    ui_rect above = cut_rows(&b, top), mid = cut_rows(&b, middle);
    l->panel[UI_OUTPUT] = cut_cols(&above, b.cols - logits);
    l->panel[UI_LOGITS] = above;
    l->panel[sharing(w)] = cut_cols(&mid, b.cols / 2);
    l->panel[UI_TREE] = mid;
    l->panel[UI_STATS] = b;
}

static void large(ui_layout *l, ui_rect b, const ui_shown *w) {
    int stats = 11, drafts = b.rows / 4, top = b.rows - stats - drafts;
    int logits = 56, output = (b.cols - logits) * 11 / 20;
    ui_rect above = cut_rows(&b, top), mid = cut_rows(&b, drafts);
    l->panel[UI_OUTPUT] = cut_cols(&above, output);
    l->panel[UI_LOGITS] = cut_cols(&above, logits);
    l->panel[UI_TREE] = above;
    l->panel[UI_DRAFTS] = cut_cols(&mid, b.cols - (w->inspect ? b.cols * 2 / 5 : 0));
    if (w->inspect) l->panel[UI_INSPECT] = mid;
    l->panel[UI_STATS] = cut_cols(&b, b.cols - (w->compare ? b.cols / 3 : 0));
    if (w->compare) l->panel[UI_COMPARE] = b;
}

// Below 80x24: Output and one more panel if there is room for two; else only the panel with the focus.
static void compact(ui_layout *l, ui_rect b, const ui_shown *w) {
    enum { TWO_ROWS = 12, TWO_COLS = 80, WITH_STATS = 24, STATS = 5 };
    const bool elsewhere = w->focus != UI_NO_PANEL && w->focus != UI_OUTPUT,
               beside = w->inspect && w->focus != UI_INSPECT;
    const ui_panel first = elsewhere && beside ? w->focus : UI_OUTPUT, other = beside      ? UI_INSPECT
                                                                               : elsewhere ? w->focus
                                                                                           : UI_TREE;
    if (b.cols >= TWO_COLS) {
        l->panel[first] = cut_cols(&b, b.cols / 2);
        l->panel[other] = b;
    } else if (b.rows >= TWO_ROWS) {
        const int stats = b.rows >= WITH_STATS && first != UI_STATS && other != UI_STATS ? STATS : 0;
        l->panel[first] = cut_rows(&b, (b.rows - stats) / 2);
        l->panel[other] = cut_rows(&b, b.rows - stats);
        if (stats) l->panel[UI_STATS] = b;
    } else l->panel[w->focus == UI_NO_PANEL ? UI_OUTPUT : w->focus] = b;
}

ui_layout ui_layout_of(const ui_room *r, const ui_shown *w) {
    const int rows = r->rows, cols = r->cols;
    const bool little = rows < UI_SMALL_ROWS || cols < UI_SMALL_COLS;
    ui_layout l = {.too_small = rows < UI_MIN_ROWS || cols < UI_MIN_COLS};
    if (l.too_small) return l;
    const int most = rows >= 32 ? 8
                     : !little  ? 4
                     : r->note  ? 1
                                : 2,
              prompt = r->prompt_rows < 1      ? 1
                       : r->prompt_rows < most ? r->prompt_rows
                                               : most;
    const int message = r->message_rows < 1 ? 1 : r->message_rows < most ? r->message_rows : most;
    const int note = !r->note ? 0 : rows >= 32 ? 6 : rows >= UI_SMALL_ROWS ? 7 : rows >= 18 ? 6 : 4;
    ui_rect all = {0, 0, rows, cols};
    l.title = cut_rows(&all, 1);
    ui_rect body = cut_rows(&all, rows - 2 - prompt - message - note);
    l.note = cut_rows(&all, note);
    l.message = cut_rows(&all, message);
    l.prompt = cut_rows(&all, prompt);
    l.keys = all;
    if (r->requests && w->zoom == UI_NO_PANEL && !little) { // a strip above the others
        enum { LEAST = 8 };                                 // that the others need
        const int wanted = body.rows >= 40 ? 9 : body.rows >= 28 ? 8 : 6, left = body.rows - wanted;
        const int strip = left >= LEAST ? wanted : w->focus == UI_REQUESTS ? body.rows : 0;
        l.panel[UI_REQUESTS] = cut_rows(&body, strip);
        if (!body.rows) return l;
    }
    if (w->zoom != UI_NO_PANEL) l.panel[w->zoom] = body;
    else if (little) compact(&l, body, w);
    else if (rows >= 44 && cols >= 170) large(&l, body, w);
    else if (rows >= 32 && cols >= 110 && body.rows >= 18) medium(&l, body, w);
    else small(&l, body, w, r->empty);
    return l;
}

ui_panel ui_panel_at(const ui_layout *l, int row, int col) {
    for (int p = 0; p < UI_PANELS; p++) {
        ui_rect r = l->panel[p];
        if (row >= r.row && row < r.row + r.rows && col >= r.col && col < r.col + r.cols) return (ui_panel)p;
    }
    return UI_NO_PANEL;
}
