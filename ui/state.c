#include "ui/state.h"
#include "base/mem.h"
#include "ui/demo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ui_state_init(ui_state *s) {
    *s = (ui_state){.run = {.fraction = -1, .conversation = ls_conversation_new()},
                    .shown = {.focus = UI_NO_PANEL, .zoom = UI_NO_PANEL},
                    .view = {.at_newest = true},
                    .over = {.help_found = -1},
                    .typed = {.editing = -1}};
    ui_leave_rows(s);
}

void ui_leave_rows(ui_state *s) {
    s->drawn.scroll[UI_DRAFTS] = s->drawn.scroll[UI_TREE] = s->drawn.scroll[UI_LOGITS] = 0;
    s->view.node = -1;
    for (int p = 0; p < UI_PANELS; p++) s->list[p].found = -1;
}

void ui_log(ui_state *s, const char *text, size_t n) {
    for (size_t from = 0; from < n;) {
        size_t end = from;
        while (end < n && text[end] != '\n') end++;
        char **place = &s->log[s->n_log % UI_LOG_LINES];
        if (end > from) {
            free(*place);
            *place = ls_strndup(text + from, end - from);
            s->n_log++;
        }
        from = end + 1;
    }
}

static void forget_rival(ui_rival *r) {
    for (size_t i = 0; i < r->n_steps; i++) ls_step_free(r->steps[i]);
    ls_ids_free(&r->begun);
    free(r->steps);
    *r = (ui_rival){0};
}

static void cut_steps(ui_mirror *m, size_t n) {
    while (m->n_steps > n) ls_step_free(m->steps[--m->n_steps]);
}

static void forget_statistics(ui_state *s) {
    s->drawn.statistics = (ui_statistics){.marks = s->drawn.statistics.marks};
}

static void forget_conversation(ui_state *s) {
    if (s->shown.compare) ui_open(s, UI_COMPARE, false);
    ui_shadows_forget(s, 0);
    forget_rival(&s->run.rival);
    cut_steps(&s->run, 0);
    ls_conversation_clear(s->run.conversation);
    s->view.at_newest = true;
    forget_statistics(s);
    s->quiz.next = s->quiz.answered = 0;
    memset(s->drawn.scroll, 0, sizeof s->drawn.scroll);
}

void ui_state_free(ui_state *s) {
    ls_step_free(s->quiz.masked);
    forget_conversation(s);
    ls_tokens_free(&s->run.tokens);
    for (int i = 0; i < s->asked.n_outbox; i++) free(s->asked.outbox[i].text);
    free(s->run.turns);
    free(s->run.steps);
    free(s->drawn.statistics.marks);
    free(s->asked.save_to);
    free(s->asked.to_copy);
    free(s->view.sought);
    for (int p = 0; p < UI_PANELS; p++) free(s->list[p].filter);
    for (int i = 0; i < UI_LOG_LINES; i++) free(s->log[i]);
    free(s->playing.told);
    free(s->requests.facts);
    ls_conversation_free(s->run.conversation);
    ui_edit_free(&s->typed.prompt);
    ui_edit_free(&s->typed.line);
    *s = (ui_state){0};
}

// Forgets a turn and those after it, which are about to be answered anew.
static void cut_turns(ui_state *s, size_t turn) {
    if (turn >= s->run.conversation->n_turns) return;
    ui_shadows_forget(s, turn);
    if (s->run.rival.known && s->run.rival.turn >= turn) forget_rival(&s->run.rival);
    cut_steps(&s->run, s->run.turns[turn].first_step);
    s->view.step = 0;
    forget_statistics(s);
    if (s->quiz.next > s->run.n_steps) s->quiz.next = s->run.n_steps;
    s->quiz.answered = 0;
}

static void begin_turn(ui_state *s, ls_event *e) {
    ls_conversation *d = s->run.conversation;
    const size_t n = (size_t)e->prompt.n_ids, turn = e->prompt.turn < d->n_turns ? e->prompt.turn : d->n_turns;
    cut_turns(s, turn);
    ls_conversation_begin(d, turn,
                          &(ls_next_prompt){.text = {e->prompt.text, strlen(e->prompt.text)},
                                            .kept = (size_t)e->prompt.context_len - n,
                                            .ids = {.p = e->prompt.ids, .n = n},
                                            .n_begun = (size_t)e->prompt.n_begun});
    s->run.turns = ls_realloc(s->run.turns, d->n_turns * sizeof *s->run.turns);
    ui_turn *t = &s->run.turns[turn];
    *t = (ui_turn){
        .first_step = s->run.n_steps, .prefill_ms = e->prompt.prefill_ms, .temperature = e->prompt.temperature};
    ui_thinking_begin(&t->thinking, &s->run.tokens, e->prompt.ids, e->prompt.n_ids);
    memcpy(t->method, e->prompt.method, sizeof e->prompt.method);
    s->run.header.costs = e->prompt.costs;
    s->view.at_newest = true;
    s->typed.interrupted = false;              // ^C stops this one first
    if (!s->message_is_error) *s->message = 0; // it belongs to the previous turn
    memset(s->drawn.scroll, 0, sizeof s->drawn.scroll);
}

static void add_step(ui_state *s, ls_event *e) {
    ui_mirror *m = &s->run;
    if (!m->conversation->n_turns) return;
    m->steps = ls_grown(m->steps, m->n_steps, sizeof *m->steps);
    const ls_step *step = m->steps[m->n_steps++] = ls_step_share(e->step);
    for (int i = 0; i < step->n_emitted; i++)
        ui_thinking_add(&m->turns[m->conversation->n_turns - 1].thinking,
                        ls_token_of(&s->run.tokens, step->tree.nodes[step->path[i]].token), step->output_pos + i);
    ls_conversation_step(m->conversation, step);
    ui_quiz_on_step(s);
    if (s->view.at_newest && ui_quiz_newest(s) == s->run.n_steps - 1) ui_leave_rows(s);
}

static void on_rival(ui_state *s, const ls_event *e) {
    ui_rival *r = &s->run.rival;
    if (e->rival.what == LS_RIVAL_BEGINS) {
        forget_rival(r);
        if (!s->run.conversation->n_turns) return;
        r->known = true;
        r->turn = s->run.conversation->n_turns - 1;
        r->at = e->rival.at;
        ls_ids_add(&r->begun, e->rival.ids, (size_t)e->rival.n_ids);
        memcpy(r->method, e->rival.method, sizeof r->method);
    } else if (r->known && e->rival.what == LS_RIVAL_ENDS) { // of recordings that cannot be compared, none began
        r->done = true;
        r->finish = e->rival.finish;
    } else if (r->known) {
        r->steps = ls_grown(r->steps, r->n_steps, sizeof *r->steps);
        r->steps[r->n_steps++] = ls_step_share(e->rival.step);
    }
}

static void on_setting(ui_state *s, const ls_event *e) {
    const char *key = e->setting.key, *value = e->setting.value;
    ui_setting *t = ui_setting_of(&s->setup, key);
    if (t && !strncmp(t->asked, value, sizeof t->asked - 1)) *t->asked = 0; // else a later request is not answered yet
    const bool whole = t && strlen(value) < sizeof t->value; // a part of a path would be saved as the whole
    if (t && e->setting.in_force) snprintf(t->value, sizeof t->value, "%.47s", whole ? value : "");
    if (e->setting.in_force && !strcmp(key, "decode.method") && ui_busy(&s->run) && s->run.conversation->n_turns) {
        ui_turn *turn = &s->run.turns[s->run.conversation->n_turns - 1];
        turn->switched |= strcmp(turn->method, value) != 0;
        snprintf(turn->method, sizeof turn->method, "%.31s", value);
    }
}

static void on_status(ui_state *s, const ls_event *e) {
    const ls_run_state before = s->run.state, now = e->status.state;
    if (now != LS_STATE_LOADING && (now != LS_STATE_IDLE || before == LS_STATE_PREFILL)) s->asked.sent = false;
    // the progress of the prefill replaces an older message
    if (now == LS_STATE_PREFILL && before != LS_STATE_PREFILL && !s->message_is_error) *s->message = 0;
    if (now == LS_STATE_FAILED && before != LS_STATE_FAILED)
        snprintf(s->run.failure, sizeof s->run.failure, "%s", s->message);
    if (now == LS_STATE_PAUSED || now == LS_STATE_RUNNING) {
        if (ui_finish(&s->run) == LS_FINISH_LENGTH) ls_conversation_go_on(s->run.conversation);
        s->asked.starts_paused = now == LS_STATE_PAUSED;
    }
    s->run.state = now;
    memcpy(s->run.stage, e->status.stage, sizeof s->run.stage);
    s->run.fraction = e->status.fraction;
}

void ui_on_event(ui_state *s, ls_event *e) {
    switch (e->kind) {
    case LS_EV_STATUS: on_status(s, e); break;
    case LS_EV_HEADER:
        s->run.header = *e->header;
        s->run.has_header = true;
        forget_conversation(s);
        if (!s->given.recording && !s->playing.demo)
            s->shown.focus = s->shown.zoom = UI_NO_PANEL; // a prompt is what comes next
        break;
    case LS_EV_TOKENS: ls_tokens_learn(&s->run.tokens, e); break;
    case LS_EV_PROMPT:
        begin_turn(s, e);
        ui_demo_on(s, UI_WHEN_START, NULL);
        break;
    case LS_EV_STEP:
        add_step(s, e);
        if (s->run.n_steps) ui_demo_on(s, UI_WHEN_STEP, s->run.steps[s->run.n_steps - 1]);
        break;
    case LS_EV_END:
        if (s->run.conversation->n_turns)
            s->run.conversation->turns[s->run.conversation->n_turns - 1].finish = e->end.finish;
        ui_demo_on(s, UI_WHEN_END, NULL);
        break;
    case LS_EV_RIVAL: on_rival(s, e); break;
    case LS_EV_SETTING: on_setting(s, e); break;
    case LS_EV_REQUEST: ui_requests_on(s, e); break;
    case LS_EV_MESSAGE:
        ui_message(s, e->message.is_error, "%s", e->message.text);
        ui_log(s, s->message, strlen(s->message));
        break;
    }
    ls_event_free(e);
}

// The last step of an answer may have no forward and emit one token, the end. It is shown with the step before it.
static bool is_end(const ui_state *s, size_t i) {
    return i && ui_turn_of(&s->run, i) == ui_turn_of(&s->run, i - 1) && !s->run.steps[i]->forward;
}

size_t ui_viewed_index(const ui_state *s) {
    const size_t newest = ui_quiz_newest(s), view = s->view.at_newest || s->view.step > newest ? newest : s->view.step;
    return view - is_end(s, view);
}

size_t ui_viewed_end(const ui_state *s) {
    const size_t end = ui_viewed_index(s) + 1;
    return end + (end < s->run.n_steps && is_end(s, end));
}

const ls_step *ui_viewed(const ui_state *s) {
    if (!s->run.n_steps) return NULL;
    const ls_step *step = s->run.steps[ui_viewed_index(s)];
    return ui_quiz_hides(s) ? ui_quiz_masked(s, step) : step;
}

// The chosen row; else the likeliest draft that was rejected where the path ended; else the last row of the path.
int ui_inspected(const ui_state *s) {
    const ls_step *step = ui_viewed(s);
    if (s->view.node >= 0 && s->view.node < step->tree.n) return s->view.node;
    const int last = step->path[step->n_path - 1];
    int best = -1;
    for (int i = 1; i < step->tree.n; i++)
        if (step->tree.nodes[i].parent == last &&
            (best < 0 || step->tree.nodes[i].est_p > step->tree.nodes[best].est_p))
            best = i;
    return best >= 0 ? best : last;
}

const ui_turn *ui_viewed_turn(const ui_state *s) {
    return s->run.n_steps ? ui_turn_of(&s->run, ui_viewed_index(s)) : ui_last_turn(&s->run);
}

const ui_turn *ui_last_turn(const ui_mirror *run) {
    return run->conversation->n_turns ? &run->turns[run->conversation->n_turns - 1] : NULL;
}

const ls_turn *ui_said(const ui_mirror *run, const ui_turn *t) {
    return &run->conversation->turns[t - run->turns];
}

const char *ui_prompt_of(const ui_mirror *run, const ui_turn *t) {
    const ls_buf *user = &ui_said(run, t)->user;
    return user->n ? user->p : "";
}

ls_finish ui_finish(const ui_mirror *run) {
    const ls_turn *last = ls_conversation_last(run->conversation);
    return last ? last->finish : LS_GOING;
}

bool ui_raced(const ui_mirror *run) {
    return run->rival.known && run->rival.turn + 1 == run->conversation->n_turns;
}

const ui_turn *ui_turn_of(const ui_mirror *run, size_t i_step) {
    for (size_t t = run->conversation->n_turns; t > 0; t--)
        if (run->turns[t - 1].first_step <= i_step) return &run->turns[t - 1];
    return NULL;
}

const ls_stats *ui_stats(const ui_state *s, ui_statistics *k) {
    if (!s->run.n_steps) return &k->now; // forget_statistics emptied it
    const size_t view = ui_viewed_index(s), turn = (size_t)(ui_turn_of(&s->run, view) - s->run.turns);
    const size_t first = s->run.turns[turn].first_step, end = ui_quiz_hides(s) ? view : ui_viewed_end(s);
    if (turn != k->turn || k->until < first) *k = (ui_statistics){.turn = turn, .until = first, .marks = k->marks};
    if (end < k->until) { // back to the mark before it
        const size_t mark = (end - first) / UI_STATS_EVERY;
        k->now = mark ? k->marks[mark - 1] : (ls_stats){0};
        k->until = first + mark * UI_STATS_EVERY;
    }
    while (k->until < end) {
        ls_stats_add(&k->now, s->run.steps[k->until++]);
        const size_t done = k->until - first;
        if (done % UI_STATS_EVERY || done / UI_STATS_EVERY <= k->n_marks) continue;
        k->marks = ls_realloc(k->marks, (k->n_marks + 1) * sizeof *k->marks);
        k->marks[k->n_marks++] = k->now;
    }
    return &k->now;
}

int ui_preview(const ui_state *s, const ls_step *step) {
    int row = -1;
    const ls_accept rule = ls_accept_usual(s->view.preview);
    if (s->view.preview) ls_step_would(step, &rule, &row);
    return row;
}

bool ui_busy(const ui_mirror *run) {
    return run->state == LS_STATE_PREFILL || run->state == LS_STATE_RUNNING || run->state == LS_STATE_PAUSED;
}

// ---- thinking

static const char *const pairs[][2] = {
    {"<think>", "</think>"}, {"[THINK]", "[/THINK]"}, {"<|channel|>analysis<|message|>", "<|end|>"}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static void push(ui_thinking *t, char byte, int32_t at) {
    if (t->n == UI_THINKING_TAIL) {
        t->n--;
        memmove(t->tail, t->tail + 1, (size_t)t->n);
        memmove(t->token, t->token + 1, (size_t)t->n * sizeof *t->token);
    }
    t->tail[t->n] = byte;
    t->token[t->n++] = at;
}

static bool ends_with(const ui_thinking *t, const char *sign) {
    const size_t n = strlen(sign);
    return (size_t)t->n >= n && !memcmp(t->tail + t->n - n, sign, n);
}

static void begins(ui_thinking *t) {
    for (int i = 0; i < PAIRS && t->from < 0; i++)
        if (ends_with(t, pairs[i][0])) {
            t->from = t->token[t->n - (int)strlen(pairs[i][0])];
            t->pair = i;
        }
}

void ui_thinking_begin(ui_thinking *t, const ls_tokens *tokens, const int32_t *prompt, int32_t n) {
    *t = (ui_thinking){.from = -1, .to = -1};
    for (int32_t i = n > UI_THINKING_TAIL ? n - UI_THINKING_TAIL : 0; i < n; i++) {
        const ls_token *token = ls_token_of(tokens, prompt[i]);
        for (int32_t k = 0; k < token->n; k++) push(t, token->bytes[k], 0);
    }
    while (t->n && strchr(" \n", t->tail[t->n - 1])) t->n--;
    begins(t);
    t->n = 0;
}

void ui_thinking_add(ui_thinking *t, const ls_token *token, int32_t at) {
    for (int32_t k = 0; k < token->n && t->to < 0; k++) { // one stretch of an answer
        push(t, token->bytes[k], at);
        if (t->from < 0) begins(t);
        else if (ends_with(t, pairs[t->pair][1])) t->to = at + 1;
    }
}

bool ui_thinking_at(const ui_thinking *t, int32_t at) {
    return t->from >= 0 && at >= t->from && (t->to < 0 || at < t->to);
}
