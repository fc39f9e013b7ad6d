#include "ui/layout.h"

static void small(ui_layout *l, ui_rect b, const ui_shown *w) {
    // with a note there is room for two rows of panels; Stats then appears only if it has the focus
    int stats = b.rows < 16    ? 0
                : b.rows >= 24 ? 6
                               : 5,
        middle = w->empty ? 4 : (b.rows - stats) * 8 / 15, top = b.rows - stats - middle;
    l->panel[UI_OUTPUT] = (ui_rect){b.row, b.col, top, b.cols};
    ui_rect mid = {b.row + top, b.col, middle, b.cols};
    int left = b.cols * (w->inspect ? 40 : 36) / 80;
    if (!stats && w->focus == UI_STATS) { // it has many lines
        l->panel[UI_OUTPUT].rows = 4;
        mid = (ui_rect){b.row + 4, b.col, b.rows - 4, b.cols};
    }
    if (w->focus == UI_DRAFTS || w->focus == UI_COMPARE || (w->focus == UI_STATS && !stats)) l->panel[w->focus] = mid;
    else {
        const ui_panel beside = w->inspect && w->focus != UI_LOGITS ? UI_INSPECT : UI_LOGITS;
        l->panel[beside] = (ui_rect){mid.row, mid.col, mid.rows, left};
        l->panel[UI_TREE] = (ui_rect){mid.row, mid.col + left, mid.rows, mid.cols - left};
    }
    if (stats) l->panel[UI_STATS] = (ui_rect){b.row + top + middle, b.col, stats, b.cols};
}

// Drafts, Inspect and Compare share a place. The one with the focus gets it, else the one that was opened last.
static ui_panel sharing(const ui_shown *w) {
    if (w->focus == UI_DRAFTS || w->focus == UI_INSPECT || w->focus == UI_COMPARE) return w->focus;
    if (w->compare && w->inspect) return w->inspect_last ? UI_INSPECT : UI_COMPARE;
    return w->compare ? UI_COMPARE : w->inspect ? UI_INSPECT : UI_DRAFTS;
}

static void medium(ui_layout *l, ui_rect b, const ui_shown *w) {
    int stats = w->focus == UI_STATS ? 11 : 8, middle = (b.rows - stats) * 12 / 25, top = b.rows - stats - middle;
    int logits = b.cols * 42 / 100 < 56 ? b.cols * 42 / 100 : 56, half = b.cols / 2;
    l->panel[UI_OUTPUT] = (ui_rect){b.row, b.col, top, b.cols - logits};
    l->panel[UI_LOGITS] = (ui_rect){b.row, b.col + b.cols - logits, top, logits};
    l->panel[sharing(w)] = (ui_rect){b.row + top, b.col, middle, half};
    l->panel[UI_TREE] = (ui_rect){b.row + top, b.col + half, middle, b.cols - half};
    l->panel[UI_STATS] = (ui_rect){b.row + top + middle, b.col, stats, b.cols};
}

static void large(ui_layout *l, ui_rect b, const ui_shown *w) {
    int stats = 11, drafts = b.rows / 4, top = b.rows - stats - drafts;
    int logits = 56, output = (b.cols - logits) * 11 / 20;
    l->panel[UI_OUTPUT] = (ui_rect){b.row, b.col, top, output};
    l->panel[UI_LOGITS] = (ui_rect){b.row, b.col + output, top, logits};
    l->panel[UI_TREE] = (ui_rect){b.row, b.col + output + logits, top, b.cols - output - logits};
    const int inspect = w->inspect ? b.cols * 2 / 5 : 0;
    l->panel[UI_DRAFTS] = (ui_rect){b.row + top, b.col, drafts, b.cols - inspect};
    if (inspect) l->panel[UI_INSPECT] = (ui_rect){b.row + top, b.col + b.cols - inspect, drafts, inspect};
    const int compare = w->compare ? b.cols / 3 : 0;
    l->panel[UI_STATS] = (ui_rect){b.row + top + drafts, b.col, stats, b.cols - compare};
    if (compare) l->panel[UI_COMPARE] = (ui_rect){b.row + top + drafts, b.col + b.cols - compare, stats, compare};
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
        const int left = b.cols / 2;
        l->panel[first] = (ui_rect){b.row, b.col, b.rows, left};
        l->panel[other] = (ui_rect){b.row, b.col + left, b.rows, b.cols - left};
    } else if (b.rows >= TWO_ROWS) {
        const int stats = b.rows >= WITH_STATS && first != UI_STATS && other != UI_STATS ? STATS : 0,
                  top = (b.rows - stats) / 2;
        l->panel[first] = (ui_rect){b.row, b.col, top, b.cols};
        l->panel[other] = (ui_rect){b.row + top, b.col, b.rows - stats - top, b.cols};
        if (stats) l->panel[UI_STATS] = (ui_rect){b.row + b.rows - stats, b.col, stats, b.cols};
    } else l->panel[w->focus == UI_NO_PANEL ? UI_OUTPUT : w->focus] = b;
}

ui_layout ui_layout_of(int rows, int cols, const ui_shown *w) {
    const bool little = rows < UI_SMALL_ROWS || cols < UI_SMALL_COLS;
    ui_layout l = {.too_small = rows < UI_MIN_ROWS || cols < UI_MIN_COLS};
    if (l.too_small) return l;
    l.title = (ui_rect){0, 0, 1, cols};
    const int most = rows >= 32 ? 8
                     : !little  ? 4
                     : w->note  ? 1
                                : 2,
              prompt = w->prompt_rows < 1      ? 1
                       : w->prompt_rows < most ? w->prompt_rows
                                               : most;
    const int message = w->message_rows < 1 ? 1 : w->message_rows < most ? w->message_rows : most;
    l.message = (ui_rect){rows - 1 - prompt - message, 0, message, cols};
    l.prompt = (ui_rect){rows - 1 - prompt, 0, prompt, cols};
    l.keys = (ui_rect){rows - 1, 0, 1, cols};
    const int note = !w->note ? 0 : rows >= 32 ? 6 : rows >= UI_SMALL_ROWS ? 7 : rows >= 18 ? 6 : 4;
    ui_rect body = {1, 0, rows - 2 - prompt - message - note, cols};
    l.note = (ui_rect){body.row + body.rows, 0, note, cols};
    if (w->zoom != UI_NO_PANEL) l.panel[w->zoom] = body;
    else if (little) compact(&l, body, w);
    else if (rows >= 44 && cols >= 170) large(&l, body, w);
    else if (rows >= 32 && cols >= 110) medium(&l, body, w);
    else small(&l, body, w);
    return l;
}

ui_panel ui_panel_at(const ui_layout *l, int row, int col) {
    for (int p = 0; p < UI_PANELS; p++) {
        ui_rect r = l->panel[p];
        if (row >= r.row && row < r.row + r.rows && col >= r.col && col < r.col + r.cols) return (ui_panel)p;
    }
    return UI_NO_PANEL;
}
