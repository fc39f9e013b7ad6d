// Recordings and benchmarks in other programs' formats.
#include "base/json.h"
#include "base/mem.h"
#include "report/bench.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Spec-Bench

static bool is_number(const char *s) {
    const size_t n = strlen(s);
    return n && n < 16 && strspn(s, "0123456789") == n;
}

static void write_line(const ls_result *r, const char *name, const char *category, const char *answer_id,
                       const char *model_id, ls_buf *out) {
    ls_jsonw w = ls_jw_begin(out);
    ls_jw_key(&w, "question_id");
    if (is_number(name)) ls_jw_int(&w, strtoll(name, NULL, 10));
    else ls_jw_str(&w, name);
    ls_jw_field_str(&w, "category", category);
    ls_jw_field_str(&w, "answer_id", answer_id);
    ls_jw_field_str(&w, "model_id", model_id);
    ls_jw_field_open(&w, "choices", '[');
    ls_jw_open(&w, '{');
    ls_jw_field_int(&w, "index", 0);
    const ls_result_turn *const end = r->turn + r->turns;
    ls_jw_field_open(&w, "turns", '[');
    for (const ls_result_turn *t = r->turn; t < end; t++) ls_jw_strn(&w, t->text, t->n);
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "decoding_steps", '[');
    for (const ls_result_turn *t = r->turn; t < end; t++) ls_jw_u64(&w, t->steps);
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "new_tokens", '[');
    for (const ls_result_turn *t = r->turn; t < end; t++) ls_jw_u64(&w, t->emitted);
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "wall_time", '[');
    for (const ls_result_turn *t = r->turn; t < end; t++)
        ls_jw_num(&w, ((isfinite(t->prefill_ms) ? t->prefill_ms : 0) + t->decode_ms) / 1e3, 9);
    ls_jw_close(&w, ']');
    ls_jw_field_ids(&w, "accept_lengths", r->lengths.p, r->lengths.n);
    ls_jw_close(&w, '}');
    ls_jw_close(&w, ']');
    ls_jw_end(&w);
}

static const ls_suite_item *item_of(const ls_suite *suite, const ls_buf *prompt) {
    for (size_t i = 0; suite && i < suite->n; i++) {
        const ls_buf *first = suite->items[i].turns;
        if (first->n == prompt->n && !memcmp(first->p, prompt->p, prompt->n)) return &suite->items[i];
    }
    return NULL;
}

static void answer(const ls_report_turn *t, ls_buf *out) {
    for (size_t i = 0; i < t->n_text; i++) {
        const ls_token *token = ls_token_of(t->tokens, t->text[i].draft.token);
        if (!token->special) ls_buf_add(out, token->bytes, (size_t)token->n);
    }
}

// Whether a conversation begins with turn i; a recording may begin in the middle of one.
static bool begins(const ls_report *r, size_t i) {
    return !i || !r->turns[i].header.turn || strcmp(r->turns[i].file, r->turns[i - 1].file) != 0;
}

// Turns first..end - 1 are one conversation.
static void conversation(const ls_report *r, size_t first, size_t end, size_t number, const ls_suite *suite,
                         ls_buf *out) {
    const ls_report_turn *t = &r->turns[first];
    const ls_suite_item *item = item_of(suite, &t->header.prompt_text);
    ls_result all = {0};
    all.turn = ls_calloc(end - first, sizeof *all.turn);
    for (size_t i = first; i < end; i++) {
        const ls_stats *st = &r->turns[i].stats;
        ls_buf text = {0};
        answer(&r->turns[i], &text);
        all.turn[all.turns++] = (ls_result_turn){ls_strndup(text.n ? text.p : "", text.n),
                                                 text.n,
                                                 st->steps,
                                                 st->emitted,
                                                 st->total_us / 1e3,
                                                 r->turns[i].header.prefill_ms};
        ls_buf_free(&text);
        for (size_t k = 0; k < r->turns[i].n_steps; k++) ls_ids_push(&all.lengths, r->turns[i].steps[k].n_emitted);
    }
    char *name = item ? ls_strdup(item->name) : ls_format("%zu", number);
    char *id = ls_format("%s-%s", t->header.run.model, r->groups[t->group].label);
    write_line(&all, name, item ? item->category : "", t->file, id, out);
    free(name);
    free(id);
    ls_result_free(&all);
}

void ls_export_spec_bench(const ls_report *r, const ls_suite *suite, ls_buf *out) {
    size_t number = 0;
    for (size_t i = 0, end; i < r->n_turns; i = end) {
        for (end = i + 1; end < r->n_turns && !begins(r, end); end++) {
        }
        conversation(r, i, end, ++number, suite, out);
    }
}

void ls_export_answers(const ls_bench *b, ls_buf *out) {
    char id[sizeof b->manifest.model + sizeof b->methods->label];
    snprintf(id, sizeof id, "%s-%s", b->manifest.model, b->methods[0].label);
    for (size_t p = 0; p < b->done; p++) {
        char answer[120];
        snprintf(answer, sizeof answer, "%.60s-%.40s", b->prompts[p].name, b->methods[0].label);
        write_line(ls_bench_result(b, p, 0), b->prompts[p].name, b->prompts[p].category, answer, id, out);
    }
}

// ---- Chrome

typedef struct {
    ls_jsonw w;
    size_t process;
} events;

static void begin_event(events *e, const char *name, char phase, double ts) {
    const char ph[2] = {phase, 0};
    ls_jw_open(&e->w, '{');
    ls_jw_field_str(&e->w, "name", name);
    ls_jw_field_str(&e->w, "ph", ph);
    ls_jw_field_u64(&e->w, "pid", e->process);
    ls_jw_field_int(&e->w, "tid", 1);
    ls_jw_key(&e->w, "ts");
    ls_jw_num(&e->w, ts, 15); // microseconds into a recording, to the thousandth
}

static void span(events *e, const char *name, double ts, double us) {
    begin_event(e, name, 'X', ts);
    ls_jw_field_num(&e->w, "dur", isfinite(us) ? us : 0, 7); // an unknown time keeps its place
}

static void end_event(events *e) { // with arguments
    ls_jw_close(&e->w, '}');
    ls_jw_close(&e->w, '}');
}

static void counter(events *e, const char *name, double ts, double value) {
    begin_event(e, name, 'C', ts);
    ls_jw_field_open(&e->w, "args", '{');
    ls_jw_field_num(&e->w, name, value, 9);
    end_event(e);
}

static void named(events *e, const char *kind, const char *name) {
    begin_event(e, kind, 'M', 0);
    ls_jw_field_open(&e->w, "args", '{');
    ls_jw_field_str(&e->w, "name", name);
    end_event(e);
}

static void parts(events *e, const ls_report_step *s, double ts) {
    const struct {
        const char *name;
        float us;
    } list[] = {{"draft", s->draft_us}, {"forward", s->forward_us}, {"verify", s->verify_us}, {"commit", s->commit_us}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (!(list[i].us > 0)) continue;
        span(e, list[i].name, ts, (double)list[i].us);
        ls_jw_close(&e->w, '}');
        ts += (double)list[i].us;
    }
}

static void step(events *e, const ls_report_turn *t, const ls_report_step *s, double ts) {
    span(e, s->forward ? "step" : "end", ts, (double)s->total_us);
    ls_jw_field_open(&e->w, "args", '{');
    ls_jw_field_int(&e->w, "turn", t->header.turn);
    ls_jw_field_int(&e->w, "step", s->index);
    ls_jw_field_int(&e->w, "rows", s->rows);
    if (s->probes) ls_jw_field_int(&e->w, "probe_rows", s->probes);
    ls_jw_field_int(&e->w, "accepted", s->n_emitted - 1);
    ls_jw_field_int(&e->w, "emitted", s->n_emitted);
    ls_jw_field_int(&e->w, "context_len", s->context_len);
    if (s->plain_us > 0) ls_jw_field_num(&e->w, "plain_step_us", (double)s->plain_us, 7);
    end_event(e);
    parts(e, s, ts);
    counter(e, "rows", ts, s->rows + s->probes);
    counter(e, "emitted", ts, s->n_emitted);
}

void ls_export_chrome(const ls_report *r, ls_buf *out) {
    events e = {.w = ls_jw_begin(out)};
    double ts = 0;
    ls_jw_field_str(&e.w, "displayTimeUnit", "ms");
    ls_jw_field_open(&e.w, "traceEvents", '[');
    for (size_t i = 0; i < r->n_turns; i++) {
        const ls_report_turn *t = &r->turns[i];
        if (begins(r, i)) { // each conversation has its own clock
            char *name = ls_format("%s: %s", r->groups[t->group].label, t->file);
            ts = 0;
            e.process++;
            named(&e, "process_name", name);
            named(&e, "thread_name", "decoder");
            free(name);
        }
        if (isfinite(t->header.prefill_ms) && t->header.prefill_ms > 0) {
            span(&e, "prompt", ts, 1e3 * t->header.prefill_ms);
            ls_jw_field_open(&e.w, "args", '{');
            ls_jw_field_u64(&e.w, "context_len", t->header.prompt.n);
            end_event(&e);
            ts += 1e3 * t->header.prefill_ms;
        }
        for (size_t k = 0; k < t->n_steps; k++) {
            const ls_report_step *s = &t->steps[k];
            step(&e, t, s, ts);
            if (isfinite(s->total_us) && s->total_us > 0) ts += (double)s->total_us;
        }
    }
    ls_jw_close(&e.w, ']');
    ls_jw_end(&e.w);
}
