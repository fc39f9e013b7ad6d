#include "decode/shadows.h"
#include "base/mem.h"
#include "base/system.h"
#include "decode/stats.h"

#include <stdio.h>
#include <stdlib.h>

struct ls_shadows {
    int n, next; // next: index of the shadow that works next
    int32_t n_context;
    ls_recording *turn; // NULL before the first
    bool whole;
    uint64_t steps; // of all turns, as recorded
    double work_us;
    ls_shadow all[];
};

ls_shadows *ls_shadows_new(const ls_shadow_variant *variants, int n, const ls_run *run) {
    ls_shadows *s = ls_calloc(1, sizeof *s + (size_t)n * sizeof *s->all);
    s->n = n;
    s->n_context = run->n_context;
    const ls_draft_setup place = ls_run_place(run);
    for (int i = 0; i < n; i++) {
        ls_err err = {0};
        s->all[i].label = variants[i].label;
        s->all[i].method = ls_method_find(variants[i].decode.method);
        if (ls_simulator_new(&s->all[i].simulator, &variants[i].decode, &place, &run->costs, &err))
            snprintf(s->all[i].refusal, sizeof s->all[i].refusal, "%.255s", err.msg);
    }
    return s;
}

void ls_shadows_free(ls_shadows *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++) ls_simulator_free(s->all[i].simulator);
    ls_recording_free(s->turn);
    free(s);
}

void ls_shadows_begin(ls_shadows *s, const int32_t *context, size_t n) {
    // a chat template may rewrite earlier turns, as another conversation does
    const bool fresh = !s->turn || !ls_recording_goes_on(s->turn, context, n);
    ls_recording_free(s->turn);
    s->turn = ls_recording_new(context, n, s->n_context);
    s->whole = false;
    for (int i = 0; i < s->n; i++) {
        if (!s->all[i].simulator) continue;
        ls_simulate_begin(s->all[i].simulator, s->turn, fresh);
        s->all[i].total = (ls_simulated){0};
    }
}

static void more_to_do(ls_shadows *s) {
    for (int i = 0; i < s->n; i++) s->all[i].done = s->all[i].simulator == NULL;
}

void ls_shadows_add(ls_shadows *s, const ls_step *step) {
    ls_recording_add(s->turn, step);
    s->steps++;
    more_to_do(s);
}

void ls_shadows_end(ls_shadows *s) {
    s->whole = true;
    more_to_do(s);
}

bool ls_shadows_work(ls_shadows *s, uint64_t until_ns) {
    const uint64_t start = ls_now_ns();
    uint64_t now = start;
    int idle = 0;
    while (s->turn && idle < s->n) { // in turn, so that all of them advance
        ls_shadow *w = &s->all[s->next];
        s->next = (s->next + 1) % s->n;
        idle = w->done ? idle + 1 : 0;
        if (w->done) continue;
        w->done = !ls_simulate_step(w->simulator, s->turn, s->whole, &w->total);
        if ((now = ls_now_ns()) >= until_ns) break;
    }
    s->work_us += (double)(now - start) / 1e3;
    return !s->turn || idle == s->n;
}

const ls_shadow *ls_shadows_all(const ls_shadows *s, int *n) {
    if (n) *n = s->n;
    return s->all;
}

double ls_shadows_us_per_step(const ls_shadows *s) {
    return ls_per(s->work_us, s->steps);
}
