#include "text/pretok.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    enum { SPLIT, METASPACE, PREFIX_SPACE } kind;
    ls_regex *regex;
    ls_behavior behavior;
    bool invert;
    ls_prepend prepend;
    char mark[5];
} step;

struct ls_pretok {
    step steps[LS_PRETOK_STEPS];
    int n;
};

ls_pretok *ls_pretok_new(void) {
    return ls_calloc(1, sizeof(ls_pretok));
}

void ls_pretok_free(ls_pretok *p) {
    if (!p) return;
    for (int i = 0; i < p->n; i++) ls_regex_free(p->steps[i].regex);
    free(p);
}

void ls_pretok_scratch_free(ls_pretok_scratch *s) {
    ls_regex_scratch_free(s->regex);
    for (int i = 0; i < LS_PRETOK_STEPS; i++) ls_buf_free(&s->text[i]);
}

static ls_code add_step(ls_pretok *p, step s, ls_err *err) {
    if (p->n == LS_PRETOK_STEPS) {
        ls_regex_free(s.regex);
        return ls_fail(err, LS_E_UNSUPPORTED, "the pre-tokenizer has more than %d steps", LS_PRETOK_STEPS);
    }
    p->steps[p->n++] = s;
    return LS_OK;
}

ls_code ls_pretok_add_split(ls_pretok *p, const char *pattern, size_t n, bool literal, ls_behavior behavior,
                            bool invert, ls_err *err) {
    step s = {.kind = SPLIT, .behavior = behavior, .invert = invert};
    ls_code code = ls_regex_new(&s.regex, pattern, n, literal, err);
    return code ? code : add_step(p, s, err);
}

ls_code ls_pretok_add_byte_split(ls_pretok *p, const char *pattern, size_t n, ls_err *err) {
    step s = {.kind = SPLIT, .behavior = LS_ISOLATED};
    ls_code code = ls_regex_new_bytes(&s.regex, pattern, n, err);
    return code ? code : add_step(p, s, err);
}

ls_code ls_pretok_add_metaspace(ls_pretok *p, const char *mark, size_t n, ls_prepend prepend, ls_err *err) {
    step s = {.kind = METASPACE, .prepend = prepend};
    if (!n || n >= sizeof s.mark)
        return ls_fail(err, LS_E_PARSE, "the Metaspace replacement has an invalid length of %zu bytes", n);
    memcpy(s.mark, mark, n);
    return add_step(p, s, err);
}

ls_code ls_pretok_add_prefix_space(ls_pretok *p, ls_err *err) {
    return add_step(p, (step){.kind = PREFIX_SPACE}, err);
}

typedef struct {
    const ls_pretok *p;
    ls_pretok_scratch *scratch;
    ls_piece_fn fn;
    void *ud;
    ls_err *err;
} splitter;

static ls_code run(splitter *s, int i, const char *text, size_t n, bool first);

// A match or the stretch between two matches; `held` may still be joined with the next one.
typedef struct {
    size_t start, end;
    bool any, match;
} stretch;

static ls_code give(splitter *s, int i, const char *text, bool first, stretch *held) {
    if (!held->any) return LS_OK;
    held->any = false;
    return run(s, i + 1, text + held->start, held->end - held->start, first && !held->start);
}

static ls_code on_stretch(splitter *s, int i, const char *text, bool first, stretch *held, size_t start, size_t end,
                          bool match) {
    const step *st = &s->p->steps[i];
    match = match != st->invert;
    if (start == end || (st->behavior == LS_REMOVED && match)) return LS_OK;
    bool joins = false;
    if (held->any) switch (st->behavior) {
        case LS_MERGED_WITH_PREVIOUS: joins = match && !held->match; break;
        case LS_MERGED_WITH_NEXT: joins = !match && held->match; break;
        case LS_CONTIGUOUS: joins = match == held->match; break;
        default: break;
        }
    ls_code code = LS_OK;
    if (!joins) {
        code = give(s, i, text, first, held);
        *held = (stretch){start, end, true, match};
    } else {
        held->end = end;
        held->match = match;
    }
    return code;
}

static ls_code split(splitter *s, int i, const char *text, size_t n, bool first) {
    stretch held = {0};
    ls_code code = LS_OK;
    size_t at = 0, start, end;
    while (at < n && !code && ls_regex_find(s->p->steps[i].regex, s->scratch->regex, text, n, at, &start, &end)) {
        code = on_stretch(s, i, text, first, &held, at, start, false);
        if (!code) code = on_stretch(s, i, text, first, &held, start, end, true);
        at = end;
    }
    if (!code) code = on_stretch(s, i, text, first, &held, at, n, false);
    return code ? code : give(s, i, text, first, &held);
}

static ls_code run(splitter *s, int i, const char *text, size_t n, bool first) {
    if (i == s->p->n) return s->fn(s->ud, text, n, s->err);
    const step *st = &s->p->steps[i];
    if (st->kind == SPLIT) return split(s, i, text, n, first);
    if (st->kind == PREFIX_SPACE && text[0] == ' ') return run(s, i + 1, text, n, first);
    ls_buf *b = &s->scratch->text[i];
    ls_buf_clear(b);
    const size_t n_mark = strlen(st->mark);
    if (st->kind == PREFIX_SPACE) {
        ls_buf_char(b, ' ');
        ls_buf_add(b, text, n);
        return run(s, i + 1, b->p, b->n, first);
    }
    const bool has = text[0] == ' ' || (n >= n_mark && !memcmp(text, st->mark, n_mark));
    if (!has && (st->prepend == LS_PREPEND_ALWAYS || (st->prepend == LS_PREPEND_FIRST && first)))
        ls_buf_add(b, st->mark, n_mark);
    for (size_t at = 0; at < n;) {
        const char *space = memchr(text + at, ' ', n - at);
        const size_t end = space ? (size_t)(space - text) : n;
        ls_buf_add(b, text + at, end - at);
        if (space) ls_buf_add(b, st->mark, n_mark);
        at = end + (space != NULL);
    }
    return run(s, i + 1, b->p, b->n, first);
}

ls_code ls_pretok_split(const ls_pretok *p, ls_pretok_scratch *s, const char *text, size_t n, bool first,
                        ls_piece_fn fn, void *ud, ls_err *err) {
    if (!n) return LS_OK;
    if (!s->regex) s->regex = ls_regex_scratch_new();
    return run(&(splitter){p, s, fn, ud, err}, 0, text, n, first);
}
