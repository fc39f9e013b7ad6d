#include "ui/find.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool has(const ui_state *s, const ls_step *step, ui_find what) {
    if (what == UI_FIND_LOSSY) return ls_step_loose(step, NULL) > 0 || ui_preview(s, step) >= 0;
    bool tried = !ls_step_described(step) && step->n_path < step->rows; // where it was is not recorded
    for (int i = 1; i < step->tree.n; i++) tried |= step->tree.nodes[i].state == LS_NODE_REJECTED;
    return step->forward && tried;
}

int64_t ui_find_step(const ui_state *s, ui_find what, int by) {
    if (!s->n_steps) return -1;
    for (int64_t i = (int64_t)ui_viewed_index(s) + by; i >= 0 && i < (int64_t)s->n_steps; i += by)
        if (has(s, ui_step(s, i), what)) return i;
    return -1;
}

int64_t ui_extreme_step(const ui_state *s, int sign, int64_t after) {
    const double limit = after < 0 ? (double)INFINITY : sign * ls_step_gain_us(ui_step(s, (size_t)after));
    double found = -(double)INFINITY;
    int64_t at = -1;
    for (size_t i = 0; i < s->n_steps; i++) {
        const double v = sign * ls_step_gain_us(ui_step(s, i));
        if (isnan(v) || v <= found || v > limit || (v == limit && (int64_t)i <= after)) continue;
        found = v;
        at = (int64_t)i;
    }
    return at;
}

// ---- search

typedef struct {
    ls_buf text;
    size_t *ends;  // of each token's text
    size_t *steps; // that it belongs to
    int16_t *rows;
    size_t n, cap;
} output;

static void add_tokens(output *o, const ui_state *s) {
    for (size_t i = 0; i < s->n_steps; i++) {
        const ls_step *step = ui_step(s, i);
        for (int k = 0; k < step->n_emitted; k++) {
            const ls_token *t = ls_token_of(&s->tokens, step->tree.nodes[step->path[k]].token);
            if (o->n == o->cap) {
                o->cap = 2 * o->cap + 1024;
                o->ends = ls_realloc(o->ends, o->cap * sizeof *o->ends);
                o->steps = ls_realloc(o->steps, o->cap * sizeof *o->steps);
                o->rows = ls_realloc(o->rows, o->cap * sizeof *o->rows);
            }
            for (int32_t j = 0; j < t->n; j++) ls_buf_char(&o->text, t->bytes[j] ? t->bytes[j] : ' ');
            o->ends[o->n] = o->text.n;
            o->steps[o->n] = i;
            o->rows[o->n++] = step->path[k];
        }
    }
}

static size_t token_at(const output *o, size_t byte) {
    size_t lo = 0, hi = o->n;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        if (o->ends[mid] <= byte) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

int64_t ui_search(const ui_state *s, const char *text, int by, int *node) {
    output o = {0};
    int64_t found = -1;
    add_tokens(&o, s);
    const size_t view = s->n_steps ? ui_viewed_index(s) : 0;
    const int row = s->n_steps ? ui_inspected(s) : 0;
    size_t first = o.n, before = o.n, after = o.n, last = o.n; // tokens where the text begins; n: none
    for (const char *p = o.text.p; p && *text && (p = strcasestr(p, text)); p++) {
        const size_t t = token_at(&o, (size_t)(p - o.text.p));
        const bool here = o.steps[t] == view && o.rows[t] == row;
        const bool earlier = o.steps[t] < view || (o.steps[t] == view && o.rows[t] < row);
        if (first == o.n) first = t;
        if (earlier && !here) before = t;
        if (!earlier && !here && after == o.n) after = t;
        last = t;
    }
    const size_t t = by > 0 ? (after < o.n ? after : first) : before < o.n ? before : last;
    if (t < o.n) {
        found = (int64_t)o.steps[t];
        *node = o.rows[t];
    }
    ls_buf_free(&o.text);
    free(o.ends);
    free(o.steps);
    free(o.rows);
    return found;
}
