#include "text/pretok.h"
#include "base/mem.h"
#include "base/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

// \s is spelled out as White_Space: PCRE2's \s under UCP also takes U+180E, which Unicode does not.
#define GPT2                                                                                                           \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\p{White_Space}\\p{L}\\p{N}]+"                                   \
    "|\\p{White_Space}+(?!\\P{White_Space})|\\p{White_Space}+"
#define DIGITS "\\P{N}+|\\p{N}"

static const struct {
    const char *name, *outer, *inner; // outer NULL: none
} known[] = {{"smollm", DIGITS, GPT2}, {"gpt-2", NULL, GPT2}};

struct ls_pretok {
    pcre2_code *outer, *inner;
};

static ls_code compile(pcre2_code **out, const char *pattern, ls_err *err) {
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &code,
                         &at, NULL);
    if (!*out)
        return ls_fail(err, LS_E_UNSUPPORTED, "PCRE2 (error %d at %zu) cannot compile the pre-tokenizer", code,
                       (size_t)at);
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); // optional: without it matching is slower, not different
    return LS_OK;
}

ls_code ls_pretok_new(ls_pretok **out, const char *name, ls_err *err) {
    *out = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name)) continue;
        ls_pretok *p = ls_calloc(1, sizeof *p);
        ls_code code = compile(&p->inner, known[i].inner, err);
        if (!code && known[i].outer) code = compile(&p->outer, known[i].outer, err);
        if (code) ls_pretok_free(p);
        else *out = p;
        return code;
    }
    return ls_fail(err, LS_E_UNSUPPORTED, "pre-tokenizer '%.64s' is not known (known: smollm, gpt-2)", name);
}

void ls_pretok_free(ls_pretok *p) {
    if (!p) return;
    pcre2_code_free(p->outer);
    pcre2_code_free(p->inner);
    free(p);
}

typedef struct {
    const ls_pretok *p;
    pcre2_match_data *match;
    ls_piece_fn fn;
    void *ud;
    ls_err *err;
} splitter;

// Every match of code in text; both patterns match at every position, so the matches tile the text.
static ls_code each_match(splitter *s, const pcre2_code *code, const char *text, size_t n, bool outer) {
    const pcre2_code *inner = s->p->inner;
    for (size_t at = 0; at < n;) {
        size_t end = n;
        if (pcre2_match(code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, s->match, NULL) > 0)
            end = pcre2_get_ovector_pointer(s->match)[1];
        if (end <= at) end = n;
        ls_code result =
            outer ? each_match(s, inner, text + at, end - at, false) : s->fn(s->ud, text + at, end - at, s->err);
        if (result) return result;
        at = end;
    }
    return LS_OK;
}

ls_code ls_pretok_split(const ls_pretok *p, const char *text, size_t n, ls_piece_fn fn, void *ud, ls_err *err) {
    splitter s = {p, pcre2_match_data_create(1, NULL), fn, ud, err};
    if (!s.match) return ls_fail(err, LS_E_IO, "out of memory for matching");
    ls_code code = LS_OK;
    for (size_t at = 0; at < n && !code;) {
        size_t valid = at, bad;
        int len;
        while (valid < n && (len = ls_utf8_decode(text + valid, n - valid, NULL)) > 0) valid += (size_t)len;
        code = each_match(&s, p->outer ? p->outer : p->inner, text + at, valid - at, p->outer != NULL);
        bad = valid;
        while (bad < n && ls_utf8_decode(text + bad, n - bad, NULL) <= 0) bad++;
        if (!code && bad > valid) code = fn(ud, text + valid, bad - valid, err);
        at = bad;
    }
    pcre2_match_data_free(s.match);
    return code;
}
