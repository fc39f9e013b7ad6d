#include "decode/conversation.h"
#include "base/mem.h"
#include "base/system.h"
#include "decode/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_conversation *ls_conversation_new(void) {
    ls_conversation *c = ls_calloc(1, sizeof *c);
    c->uncommitted = -1;
    return c;
}

static void forget_turns(ls_conversation *c, size_t from) {
    while (c->n_turns > from) {
        ls_turn *t = &c->turns[--c->n_turns];
        ls_buf_free(&t->user);
        ls_buf_free(&t->answer);
    }
}

void ls_conversation_clear(ls_conversation *c) {
    forget_turns(c, 0);
    c->context.n = c->n_places = 0;
    c->uncommitted = -1;
    ls_buf_clear(&c->text);
}

void ls_conversation_free(ls_conversation *c) {
    if (!c) return;
    forget_turns(c, 0);
    ls_ids_free(&c->context);
    ls_buf_free(&c->text);
    free(c->turns);
    free(c->places);
    free(c);
}

size_t ls_conversation_tokens(const ls_conversation *c) {
    return c->context.n + (c->uncommitted >= 0);
}

const ls_turn *ls_conversation_last(const ls_conversation *c) {
    return c->n_turns ? &c->turns[c->n_turns - 1] : NULL;
}

size_t ls_turn_output_at(const ls_turn *t) {
    return t->answer_at + t->n_begun;
}

size_t ls_conversation_output(const ls_conversation *c) {
    const ls_turn *t = ls_conversation_last(c);
    return t ? ls_conversation_tokens(c) - ls_turn_output_at(t) + (t->finish == LS_FINISH_EOS) : 0;
}

void ls_next_prompt_free(ls_next_prompt *p) {
    ls_ids_free(&p->ids);
    ls_buf_free(&p->whole);
    *p = (ls_next_prompt){0};
}

// answer: replaces the answer of the last turn; NULL: the recorded answer.
static ls_code render(const ls_conversation *c, const ls_model *m, const char *system, size_t turn, ls_str text,
                      const char *answer, ls_marked *out, ls_err *err) {
    ls_jinja_message *messages = ls_calloc(2 * turn + 2, sizeof *messages);
    size_t n = 0;
    if (system) messages[n++] = (ls_jinja_message){"system", {system, strlen(system)}};
    for (size_t i = 0; i < turn; i++) {
        const ls_turn *t = &c->turns[i];
        messages[n++] = (ls_jinja_message){"user", {t->user.p, t->user.n}};
        messages[n++] = (ls_jinja_message){"assistant", {t->answer.p, t->answer.n}};
        if (answer && i + 1 == turn) messages[n - 1].content = (ls_str){answer, strlen(answer)};
    }
    messages[n++] = (ls_jinja_message){"user", text};
    ls_code code = ls_chat_render(m->chat, messages, n, true, out, err);
    if (code == LS_E_USAGE && system && !*system) // the template takes no system message
        code = ls_chat_render(m->chat, messages + 1, n - 1, true, out, err);
    free(messages);
    return code;
}

// If the text of the tokens so far is not known, renders only the part after the last answer.
static ls_code go_on(const ls_conversation *c, const ls_model *m, const char *system, size_t turn, ls_str text,
                     ls_next_prompt *out, ls_err *err) {
    static const char mark[] = "\x1eSphinx of black quartz\x1e";
    ls_marked whole = {0};
    ls_code code = render(c, m, system, turn, text, mark, &whole, err);
    const char *at = whole.text.n ? memmem(whole.text.p, whole.text.n, mark, sizeof mark - 1) : NULL;
    if (!code && !at) code = ls_fail(err, LS_E_USAGE, "the chat template omits the previous answer: use --raw");
    if (!code) code = ls_encode_marked(m->vocab, &whole, (size_t)(at - whole.text.p) + sizeof mark - 1, &out->ids, err);
    ls_marked_free(&whole);
    return code;
}

// The last place within the common prefix of the new text and the text so far.
static ls_code part_ways(const ls_conversation *c, const ls_model *m, const char *system, size_t turn, ls_str text,
                         ls_next_prompt *out, ls_err *err) {
    ls_marked whole = {0};
    size_t same = 0, from = 0;
    ls_code code = render(c, m, system, turn, text, NULL, &whole, err);
    out->kept = 0;
    while (same < whole.text.n && same < c->text.n && whole.text.p[same] == c->text.p[same]) same++;
    for (size_t i = 0; i < c->n_places; i++)
        if (c->places[i].bytes <= same && c->places[i].bytes < whole.text.n)
            from = c->places[i].bytes, out->kept = c->places[i].tokens;
    if (!code) code = ls_encode_marked(m->vocab, &whole, from, &out->ids, err);
    out->whole = whole.text;
    ls_buf_free(&whole.marks);
    return code;
}

ls_code ls_prompt_raw(const ls_vocab *v, ls_str text, bool special, ls_ids *out, ls_err *err) {
    const ls_ids *before = ls_vocab_prefix(v), *behind = ls_vocab_suffix(v);
    ls_ids_add(out, before->p, before->n);
    const ls_code code = ls_encode(v, text.n ? text.p : "", text.n, special, out, err);
    if (!code) ls_ids_add(out, behind->p, behind->n);
    return code;
}

static ls_code refused(const char *problem, ls_err *err) {
    size_t n = strlen(problem);
    if (n && problem[n - 1] == '.') n--; // some of Jinja's messages are sentences
    return ls_fail(err, LS_E_USAGE, "%.*s; use --raw for the text without a template", (int)n, problem);
}

ls_code ls_conversation_prompt(const ls_conversation *c, const ls_model *m, ls_prompt_format format, const char *system,
                               size_t turn, const char *text, size_t n, ls_next_prompt *out, ls_err *err) {
    const ls_str said = {text, n};
    *out = (ls_next_prompt){.text = said, .kept = turn < c->n_turns ? c->turns[turn].kept : ls_conversation_tokens(c)};
    if (!m->chat && (format == LS_FORMAT_CHAT || (format == LS_FORMAT_AUTO && m->chat_refused)))
        return refused(m->chat_problem, err);
    if (format == LS_FORMAT_AUTO && !m->chat) out->kept = 0;
    ls_code code;
    if (format == LS_FORMAT_RAW || !m->chat)
        code = out->kept ? ls_encode(m->vocab, text, n, true, &out->ids, err)
                         : ls_prompt_raw(m->vocab, said, true, &out->ids, err);
    else if (turn && !c->n_places) code = go_on(c, m, system, turn, said, out, err);
    else code = part_ways(c, m, system, turn, said, out, err);
    if (code) ls_next_prompt_free(out);
    return code;
}

static void add_place(ls_conversation *c, size_t tokens) {
    c->places = ls_realloc(c->places, (c->n_places + 1) * sizeof *c->places);
    c->places[c->n_places++] = (ls_text_place){c->text.n, tokens};
}

void ls_conversation_commit(ls_conversation *c) {
    if (c->uncommitted >= 0) ls_ids_push(&c->context, c->uncommitted);
    c->uncommitted = -1;
}

// A recording may have left steps out: their tokens are not known.
static void reach(ls_conversation *c, size_t tokens) {
    while (c->context.n < tokens) ls_ids_push(&c->context, -1);
}

void ls_conversation_begin(ls_conversation *c, size_t turn, const ls_next_prompt *p) {
    ls_conversation_commit(c);
    reach(c, p->kept);
    c->context.n = p->kept;
    ls_ids_add(&c->context, p->ids.p, p->ids.n);
    forget_turns(c, turn);
    c->turns = ls_realloc(c->turns, (turn + 1) * sizeof *c->turns);
    ls_turn *t = &c->turns[turn];
    *t = (ls_turn){.kept = p->kept, .answer_at = c->context.n - p->n_begun, .n_begun = p->n_begun};
    c->n_turns = turn + 1;
    ls_buf_add(&t->user, p->text.p, p->text.n);
    while (c->n_places && c->places[c->n_places - 1].tokens > p->kept) c->n_places--;
    ls_buf_clear(&c->text);
    ls_buf_add(&c->text, p->whole.p, p->whole.n);
    if (p->whole.n) add_place(c, t->answer_at);
    else c->n_places = 0;
    t->bytes = c->text.n;
    t->places = c->n_places;
}

void ls_conversation_go_on(ls_conversation *c) {
    ls_turn *last = &c->turns[c->n_turns - 1];
    ls_buf_clear(&last->answer);
    last->finish = LS_GOING;
    c->text.n = last->bytes;
    c->n_places = last->places;
}

void ls_conversation_step(ls_conversation *c, const ls_step *s) {
    const bool ends = s->finish == LS_FINISH_EOS;
    if (ls_conversation_last(c)->finish) ls_conversation_go_on(c);
    ls_conversation_commit(c);
    reach(c, (size_t)s->context_len);
    for (int i = 0; s->forward && i < s->n_emitted - ends; i++)
        ls_ids_push(&c->context, s->tree.nodes[s->path[i]].token);
    if (!s->forward && !ends) c->uncommitted = s->tree.nodes[0].token;
    c->turns[c->n_turns - 1].n_steps++;
}

void ls_conversation_end(ls_conversation *c, const ls_vocab *vocab, const ls_buf *text, ls_finish finish) {
    ls_buf spelled = {0}, said = {0}, shown = {0}; // with special tokens; the message; the output as characters
    ls_channels channels = {0};
    ls_detok detok = {0};
    ls_turn *last = &c->turns[c->n_turns - 1];
    size_t begun = 0;
    for (size_t i = last->answer_at; i < ls_conversation_tokens(c); i++) {
        const int32_t id = i < c->context.n ? c->context.p[i] : c->uncommitted;
        size_t len;
        const char *p = ls_vocab_bytes(vocab, id, &len);
        ls_buf_add(&spelled, p, len);
        if (!ls_channels_take(&channels, vocab, id)) continue;
        ls_buf_add(&said, p, len);
        if (i < last->answer_at + last->n_begun) begun = said.n;
        else ls_detok_push(&detok, p, len, &shown);
    }
    // A stop string cuts the text. An interruption inside a character does not: then the text ends before that
    // character, and `shown` as well, because it is not flushed.
    bool cut = false;
    if (text && text->n < shown.n) {
        cut = true;
        said.n = begun;
        ls_buf_add(&said, text->p, text->n);
    }
    ls_buf_free(&last->answer);
    last->answer = said; // any bytes, also those that are no characters
    last->finish = finish;
    // Otherwise the template's text and the tokens differ, and the answer is prefilled again. The next prompt tells
    // whether the template writes channels as the answer has them; it drops those of thinking.
    const bool whole =
        channels.used ? !cut : spelled.n == said.n && (!spelled.n || !memcmp(spelled.p, said.p, spelled.n));
    if (c->n_places && whole) {
        ls_buf_add(&c->text, spelled.p, spelled.n);
        add_place(c, ls_conversation_tokens(c));
    }
    ls_buf_free(&spelled);
    ls_buf_free(&shown);
}

ls_code ls_prompt_encode(const ls_model *m, ls_prompt_format format, const char *system, const char *text, size_t n,
                         ls_ids *out, ls_err *err) {
    ls_next_prompt p;
    const ls_conversation none = {.uncommitted = -1};
    const ls_code code = ls_conversation_prompt(&none, m, format, system, 0, text, n, &p, err);
    if (!code) ls_ids_add(out, p.ids.p, p.ids.n);
    ls_next_prompt_free(&p);
    return code;
}

// ---- memory for a prompt

static void size_in_words(uint64_t bytes, char *out, size_t size) {
    const double mib = (double)bytes / (1 << 20);
    snprintf(out, size, mib < 1024 ? "%.0f MiB" : "%.1f GiB", mib < 1024 ? mib : mib / 1024);
}

ls_code ls_prompt_fits(const ls_engine *e, int32_t n, ls_err *err) {
    char needed[24], there[24];
    const uint64_t bytes = e->kv_bytes * (uint64_t)n, left = ls_memory_free();
    if (!left || bytes <= left) return LS_OK;
    size_in_words(bytes, needed, sizeof needed);
    size_in_words(left, there, sizeof there);
    return ls_fail(err, LS_E_RANGE,
                   "the KV cache of %d tokens needs %s of memory, but only %s is free: shorten the prompt, or use a "
                   "smaller model",
                   n, needed, there);
}

void ls_prompt_describe(const ls_engine *e, int32_t n, char *out, size_t size) {
    char needed[24];
    const uint64_t bytes = e->kv_bytes * (uint64_t)n;
    size_in_words(bytes, needed, sizeof needed);
    if (bytes >> 20) snprintf(out, size, "reading %d token%s (%s)", n, ls_plural(n), needed);
    else snprintf(out, size, "reading %d token%s", n, ls_plural(n));
}
