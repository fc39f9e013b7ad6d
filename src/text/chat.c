#include "text/chat.h"
#include "base/mem.h"
#include "text/chat_frames.h"
#include "text/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 9 };

typedef enum {
    TRIM_NONE,
    TRIM_USER, // the user's text
    TRIM_TURN, // the user's text together with the system message that stands before it in the same turn
} trim_rule;

struct ls_chat {
    const ls_vocab *vocab;
    const ls_chat_frame *frame;
    char *start, *system[2], *user[2], *answer, *end; // the frame's strings with this model's tokens
    char *standard;                                   // the template's default system message; NULL: none
    size_t n_standard;
    bool no_system; // the template refuses a system message, or leaves it out
    bool trim_system;
    trim_rule trim;
    const char *opens; // the beginning of the model's answer in the prompt, which past answers lack
};

// ---- one turn as parts

typedef struct {
    ls_text_part p[MAX_PARTS];
    size_t n;
} parts;

static void add_part(parts *t, const char *p, size_t n, bool trusted) {
    t->p[t->n++] = (ls_text_part){p, n, trusted};
}

static void add_system(const ls_chat *c, parts *t, const ls_text_part *system) {
    ls_str text = {system->p, system->n};
    if (c->trim_system && !system->trusted) text = ls_strip(text);
    add_part(t, c->system[0], strlen(c->system[0]), true);
    add_part(t, text.p, text.n, system->trusted);
    add_part(t, c->system[1], strlen(c->system[1]), true);
}

// system NULL: none in this turn
static parts turn(const ls_chat *c, bool first, const ls_text_part *system, const char *user, size_t n_user) {
    parts t = {.n = 0};
    const char *before = first ? c->start : c->answer;
    ls_str text = {user, n_user};
    bool inside = system && c->frame->place != LS_SYSTEM_BLOCK;
    add_part(&t, before, strlen(before), true);
    if (system && !inside) add_system(c, &t, system);
    add_part(&t, c->user[0], strlen(c->user[0]), true);
    if (inside) add_system(c, &t, system);
    if (c->trim != TRIM_NONE) text = ls_strip(text);
    if (c->trim == TRIM_TURN && inside) {
        if (text.n) text = (ls_str){user, (size_t)(text.p + text.n - user)}; // keeps blanks between the two
        else {                                                               // the system message ends the turn's text
            ls_text_part *last = &t.p[t.n - 1];
            ls_str kept = ls_strip((ls_str){last->p, last->n});
            last->n = (size_t)(kept.p + kept.n - last->p);
        }
    }
    add_part(&t, text.p, text.n, false);
    add_part(&t, c->user[1], strlen(c->user[1]), true);
    add_part(&t, c->opens, strlen(c->opens), true);
    return t;
}

static void write_parts(const parts *t, ls_buf *out) {
    for (size_t i = 0; i < t->n; i++) ls_buf_add(out, t->p[i].p, t->p[i].n);
}

// ---- recognising

enum { MAX_MESSAGES = 6 };
static const char system_text[] = " \nBe \xc3\xa9l\xc3\xa9gant.\t\n", user_text[] = "\n Is 1 < 2 \n?\t ",
                  answer_text[] = "Yes,\nit is.";
// the conversations that templates are run on
static const struct {
    bool system;
    int turns;
} probes[] = {{false, 1}, {true, 1}, {false, 2}, {true, 3}};
enum { PLAIN, WITH_SYSTEM, TWO_TURNS, THREE_TURNS, N_PROBES };

typedef struct {
    ls_buf text[N_PROBES];
    ls_code code[N_PROBES]; // LS_E_USAGE: the template refuses this one
} reference;

static ls_code run_probes(reference *r, const char *tmpl, size_t n, const char *bos, const char *eos, ls_err *err) {
    for (int k = 0; k < N_PROBES; k++) {
        ls_jinja_message m[MAX_MESSAGES];
        size_t count = 0;
        if (probes[k].system) m[count++] = (ls_jinja_message){"system", {system_text, sizeof system_text - 1}};
        for (int i = 0; i < probes[k].turns; i++) {
            if (i) m[count++] = (ls_jinja_message){"assistant", {answer_text, sizeof answer_text - 1}};
            m[count++] = (ls_jinja_message){"user", {user_text, sizeof user_text - 1}};
        }
        r->code[k] = ls_jinja_render(tmpl, n, m, count, bos, eos, &r->text[k], err);
        if (r->code[k] && (r->code[k] != LS_E_USAGE || !probes[k].system)) return r->code[k];
    }
    return LS_OK;
}

static bool is(const ls_buf *text, const ls_buf *other) {
    return text->n == other->n && (!text->n || !memcmp(text->p, other->p, text->n));
}

// Whether template and frame (as set up in c) write the same for a probe, with `lead` before the answers.
static bool agrees(const ls_chat *c, const reference *r, int k, const char *lead) {
    ls_buf text = {0};
    const ls_text_part given = {system_text, sizeof system_text - 1, false}, own = {c->standard, c->n_standard, true};
    for (int i = 0; i < probes[k].turns; i++) {
        bool here = i == (c->frame->place == LS_SYSTEM_LATEST ? probes[k].turns - 1 : 0);
        const ls_text_part *system = probes[k].system ? &given : c->standard ? &own : NULL;
        parts t = turn(c, i == 0, here ? system : NULL, user_text, sizeof user_text - 1);
        if (i + 1 < probes[k].turns) t.n--; // past answers lack c->opens
        write_parts(&t, &text);
        if (i + 1 == probes[k].turns) break;
        ls_buf_str(&text, lead);
        ls_buf_str(&text, answer_text);
    }
    bool yes = is(&text, &r->text[k]);
    ls_buf_free(&text);
    return yes;
}

// Reads the default system message off the conversation without one. False: not this frame.
static bool find_standard(ls_chat *c, const reference *r) {
    free(c->standard);
    c->standard = NULL;
    if (agrees(c, r, PLAIN, "")) return true;
    const ls_text_part mark = {"\3", 1, true};
    parts t = turn(c, true, &mark, user_text, sizeof user_text - 1);
    ls_buf text = {0};
    write_parts(&t, &text);
    const ls_buf *got = &r->text[PLAIN];
    size_t before = (size_t)((char *)memchr(text.p, '\3', text.n) - text.p), after = text.n - before - 1;
    bool fits = got->n >= before + after && !memcmp(got->p, text.p, before) &&
                !memcmp(got->p + got->n - after, text.p + before + 1, after);
    if (fits) {
        c->n_standard = got->n - before - after;
        c->standard = ls_strndup(got->p + before, c->n_standard);
    }
    ls_buf_free(&text);
    return fits;
}

static bool matches(ls_chat *c, const reference *r) {
    if (!find_standard(c, r)) return false;
    // without a place for a system message, a template raises an exception or ignores the message
    c->no_system = r->code[WITH_SYSTEM] || is(&r->text[WITH_SYSTEM], &r->text[PLAIN]);
    if (!c->no_system && (!agrees(c, r, WITH_SYSTEM, "") || r->code[THREE_TURNS])) return false;
    static const char *const leads[] = {"", " "}; // an answer may begin with a blank if the prompt does not end in one
    for (size_t i = 0; i < 2; i++)
        if (agrees(c, r, TWO_TURNS, leads[i]) && (c->no_system || agrees(c, r, THREE_TURNS, leads[i]))) return true;
    return false;
}

static char *expand(const char *s, const char *bos, const char *eos) {
    ls_buf b = {0};
    for (; *s; s++)
        if (*s == '\1') ls_buf_str(&b, bos);
        else if (*s == '\2') ls_buf_str(&b, eos);
        else ls_buf_char(&b, *s);
    ls_buf_char(&b, 0);
    return b.p;
}

static void clear(ls_chat *c) {
    char *all[] = {c->start, c->system[0], c->system[1], c->user[0], c->user[1], c->answer, c->end, c->standard};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    *c = (ls_chat){.vocab = c->vocab};
}

static bool find_frame(ls_chat *c, const reference *r, const char *bos, const char *eos) {
    static const char *const openings[] = {"", "<think>\n"};
    for (size_t i = 0; i < ls_n_chat_frames; i++)
        for (int variant = 0; variant < 4; variant++) {
            const ls_chat_frame *f = &ls_chat_frames[i];
            clear(c);
            c->frame = f;
            c->opens = openings[variant / 2];
            c->start = ls_strdup(variant % 2 ? bos : "");
            for (int k = 0; k < 2; k++) {
                c->system[k] = expand(f->system[k], bos, eos);
                c->user[k] = expand(f->user[k], bos, eos);
            }
            c->answer = expand(f->answer, bos, eos);
            c->end = expand(f->end, bos, eos);
            for (int rule = TRIM_NONE; rule <= TRIM_TURN; rule++)
                for (int trim = 0; trim < 2; trim++) {
                    c->trim = (trim_rule)rule;
                    c->trim_system = trim;
                    if (matches(c, r)) return true;
                }
        }
    return false;
}

// ---- the rest of the interface

static ls_code check_tokens(const ls_chat *c, ls_err *err) {
    for (const char *p = c->frame->needs; *p;) {
        size_t n = strcspn(p, " ");
        if (ls_vocab_special(c->vocab, p, n) < 0)
            return ls_fail(err, LS_E_UNSUPPORTED,
                           "the chat template (%s) uses %.*s, which is no special token of this vocabulary",
                           c->frame->name, (int)n, p);
        p += n + (p[n] == ' ');
    }
    if (!*c->end)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "the chat template (%s) ends answers with the end-of-text token, and the vocabulary names none",
                       c->frame->name);
    return LS_OK;
}

static char *spelling(const ls_vocab *v, int32_t id) {
    size_t n;
    const char *p = ls_vocab_bytes(v, id, &n);
    return ls_strndup(p, n);
}

ls_code ls_chat_new(ls_chat **out, const ls_vocab *v, const char *tmpl, size_t n, ls_err *err) {
    *out = NULL;
    ls_err why = {0};
    ls_chat *c = ls_calloc(1, sizeof *c);
    c->vocab = v;
    reference r = {0};
    char *bos = spelling(v, ls_vocab_bos(v)), *eos = spelling(v, ls_vocab_eos(v)), known[384];
    ls_chat_list(known, sizeof known);
    ls_code code = run_probes(&r, tmpl, n, bos, eos, &why);
    if (code)
        code = ls_fail(err, LS_E_UNSUPPORTED,
                       "the model's chat template cannot be followed (%.200s): use --raw (known: %s)", why.msg, known);
    else if (!find_frame(c, &r, bos, eos))
        code =
            ls_fail(err, LS_E_UNSUPPORTED, "the model's chat template is not recognised: use --raw (known: %s)", known);
    else code = check_tokens(c, err);
    for (int k = 0; k < N_PROBES; k++) ls_buf_free(&r.text[k]);
    free(bos);
    free(eos);
    if (code) ls_chat_free(c);
    else *out = c;
    return code;
}

void ls_chat_free(ls_chat *c) {
    if (!c) return;
    clear(c);
    free(c);
}

const char *ls_chat_name(const ls_chat *c) {
    return c->frame->name;
}
const char *ls_chat_end(const ls_chat *c) {
    return c->end;
}

void ls_chat_list(char *out, size_t size) {
    size_t at = 0;
    *out = 0;
    for (size_t i = 0; i < ls_n_chat_frames && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%s", i ? ", " : "", ls_chat_frames[i].name);
}

// The turn, with its system message if it has one.
static parts user_turn(const ls_chat *c, bool first, const char *system, const char *user, size_t n_user) {
    ls_text_part message = {system, system ? strlen(system) : 0, false};
    if (!system) message = (ls_text_part){c->standard, c->standard ? c->n_standard : 0, true};
    bool carries =
        (first || c->frame->place == LS_SYSTEM_LATEST) && (system ? *system && !c->no_system : c->standard != NULL);
    return turn(c, first, carries ? &message : NULL, user, n_user);
}

ls_code ls_chat_turn(const ls_chat *c, bool first, const char *system, const char *user, size_t n_user, ls_ids *out,
                     ls_err *err) {
    if (first && system && *system && c->no_system)
        return ls_fail(err, LS_E_USAGE, "the model's chat template (%s) has no place for a system message",
                       c->frame->name);
    parts t = user_turn(c, first, system, user, n_user);
    return ls_encode_parts(c->vocab, t.p, t.n, out, err);
}

void ls_chat_render(const ls_chat *c, bool first, const char *system, const char *user, size_t n_user, ls_buf *text) {
    parts t = user_turn(c, first, system, user, n_user);
    write_parts(&t, text);
}
