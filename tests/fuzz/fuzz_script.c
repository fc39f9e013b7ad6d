// Key scripts on the screen, which a recording feeds as if it were decoded live: any script is obeyed or is one clear
// error, and what the screen shows and saves is well-formed at every step.
#include "base/mem.h"
#include "trace/trace_events.h"
#include "tests/fuzz/input.h"
#include "ui/script.h"

#include <sys/eventfd.h>

// A source without a thread or a clock: a few events whenever the screen asks, steps only while it is not paused.
typedef struct {
    ls_source base;
    ls_trace_events *t;
    ls_event *held;  // a step that waits
    ls_event *reply; // to a command
    int steps_left, burst;
    bool paused, rival;
} player;

static void begin(player *p) {
    ls_trace_events_close(p->t);
    ls_event_free(p->held);
    p->held = NULL;
    p->rival = false;
    EXPECT(!ls_trace_events_open(&p->t, "tests/fuzz/trace/logitspec.jsonl", NULL));
}

static ls_event *status(ls_run_state state, double fraction) {
    ls_event *e = ls_event_new(LS_EV_STATUS);
    e->status.state = state;
    e->status.fraction = fraction;
    snprintf(e->status.stage, sizeof e->status.stage, "working");
    return e;
}

static ls_event *of_rival(ls_event *e) { // what the recording holds, as another method's answer
    ls_event *r = ls_event_new(LS_EV_RIVAL);
    r->rival.what = e->kind == LS_EV_PROMPT ? LS_RIVAL_BEGINS : e->kind == LS_EV_STEP ? LS_RIVAL_STEP : LS_RIVAL_ENDS;
    snprintf(r->rival.method, sizeof r->rival.method, "plain");
    if (e->kind == LS_EV_END) r->rival.finish = e->end.finish;
    if (e->kind == LS_EV_STEP) {
        r->rival.step = e->step;
        e->step = NULL;
    }
    ls_event_free(e);
    return r;
}

static ls_event *next(ls_source *s) {
    player *p = (player *)s;
    ls_event *e = p->reply;
    p->reply = NULL;
    if (e) return e;
    if (++p->burst % 6 == 0) return NULL;
    e = p->held;
    p->held = NULL;
    if (!e && (ls_trace_events_next(p->t, &e, NULL) || !e)) return NULL;
    if (e->kind == LS_EV_STEP && p->paused && !p->steps_left) {
        p->held = e;
        return NULL;
    }
    if (e->kind == LS_EV_STEP && p->paused && !--p->steps_left) p->reply = status(LS_STATE_PAUSED, 0.5);
    if (e->kind == LS_EV_END) p->reply = status(LS_STATE_IDLE, -1);
    if (p->rival && (e->kind == LS_EV_PROMPT || e->kind == LS_EV_STEP || e->kind == LS_EV_END)) e = of_rival(e);
    else if (e->kind == LS_EV_PROMPT) p->reply = status(p->paused ? LS_STATE_PAUSED : LS_STATE_RUNNING, -1);
    return e;
}

static ls_code obey(ls_source *s, const ls_command *c, ls_err *err) {
    player *p = (player *)s;
    switch (c->kind) {
    case LS_CMD_PROMPT:
    case LS_CMD_EDIT: EXPECT(c->text && *c->text); // fall through
    case LS_CMD_RESET: begin(p); break;
    case LS_CMD_RUN: p->paused = false; break;
    case LS_CMD_STEP: EXPECT(c->n > 0); // fall through
    case LS_CMD_PAUSE:
        p->paused = true;
        p->steps_left = c->kind == LS_CMD_STEP ? c->n : 0;
        break;
    case LS_CMD_RIVAL:
        begin(p);
        p->rival = true;
        break;
    case LS_CMD_SET:
        ls_event_free(p->reply);
        p->reply = ls_event_new(LS_EV_SETTING);
        p->reply->setting.in_force = p->burst % 2;
        snprintf(p->reply->setting.key, sizeof p->reply->setting.key, "%.*s", (int)strcspn(c->text, "="), c->text);
        snprintf(p->reply->setting.value, sizeof p->reply->setting.value, "%d", p->burst);
        break;
    case LS_CMD_STOP:
    case LS_CMD_SAVE:
    case LS_CMD_LOAD:
    case LS_CMD_FORK:
    case LS_CMD_GO_ON:
    case LS_CMD_OPEN:
    case LS_CMD_KEEP: return ls_fail(err, LS_E_UNSUPPORTED, "not here");
    }
    return LS_OK;
}

static void end(ls_source *s) {
    player *p = (player *)s;
    ls_trace_events_close(p->t);
    ls_event_free(p->held);
    ls_event_free(p->reply);
    free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const ui_setting settings[] = {
        {.key = "decode.max_rows", .choices = "auto|1|2|4", .help = "rows", .value = "auto"},
        {.key = "decode.temperature", .choices = "0|0.5|1", .help = "0: greedy", .value = "0"},
        {0}};
    static const char *const words[] = {"set decode.max_rows=", "compare plain", "compare suffix", NULL};
    static int fd = -1; // always ready: polling takes no time
    static FILE *nowhere;
    if (fd < 0) fd = eventfd(1, EFD_CLOEXEC);
    if (!nowhere) nowhere = fopen("/dev/null", "w");
    player *p = ls_calloc(1, sizeof *p);
    p->base = (ls_source){fd, next, obey, end};
    begin(p);
    fuzz_clock();
    const ui_options o = {.theme = ui_theme_find("default"),
                          .color = true,
                          .given = {.recording = n && data[0] == '#', .words = words}, // a comment in the first line
                          .settings = settings};
    const ui_play play = {
        .script = fuzz_file(data, n), .cast = n && data[n - 1] == '\n' ? "x.cast" : NULL, .rows = 24, .cols = 80};
    ls_err err = {0};
    int exit_code;
    FILE *told = stderr;
    stderr = nowhere; // it shows the screen that is not as expected
    const ls_code code = ui_run_script(&p->base, &o, &play, &exit_code, &err);
    stderr = told;
    fuzz_said(code, &err);
    return 0;
}
