#include "text/regex.h"
#include "base/buf.h"
#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_regex {
    pcre2_code *code;
};
struct ls_regex_scratch {
    pcre2_match_data *match;
};

enum { MAX_PATTERN = 1 << 14 };

// Oniguruma's \s and \w; PCRE2's \s also takes U+180E, its \w no marks. Outside a class Oniguruma's \w and \b look
// Latin-1 up in a table that has six numerals more.
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD_OUTSIDE "[" WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]"
#define NO_WORD_OUTSIDE "[^" WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}]"
static const char *class_escape(char c, bool in_class) {
    switch (c) {
    case 's': return "\\p{White_Space}";
    case 'S': return "\\P{White_Space}";
    case 'w': return in_class ? WORD : WORD_OUTSIDE;
    case 'W': return in_class ? NULL : NO_WORD_OUTSIDE;
    case 'b':
        return in_class ? NULL
                        : "(?:(?<=" WORD_OUTSIDE ")(?!" WORD_OUTSIDE ")|(?<!" WORD_OUTSIDE ")(?=" WORD_OUTSIDE "))";
    case 'B':
        return in_class ? NULL
                        : "(?:(?<=" WORD_OUTSIDE ")(?=" WORD_OUTSIDE ")|(?<!" WORD_OUTSIDE ")(?!" WORD_OUTSIDE "))";
    default: return NULL;
    }
}

// Translates the escape at p[0..n) and returns its length; 0: not supported.
static size_t escape(ls_buf *out, const char *p, size_t n, bool in_class) {
    const char next = n > 1 ? p[1] : 0;
    const char *as = class_escape(next, in_class);
    if (!next || strchr("hHRX", next) || (next == 'W' && in_class)) return 0;
    if (as) {
        ls_buf_str(out, as);
        return 2;
    }
    const char *close = strchr("pPx", next) && n > 2 && p[2] == '{' ? memchr(p, '}', n) : NULL;
    const size_t len = close ? (size_t)(close - p) + 1 : 2;
    ls_buf_add(out, p, len);
    return len;
}

static ls_code translate(ls_buf *out, const char *p, size_t n, ls_err *err) {
    bool in_class = false;
    for (size_t i = 0, len = 1; i < n; i += len) {
        const char next = i + 1 < n ? p[i + 1] : 0;
        const char *wrong = NULL;
        len = 1;
        if (p[i] == '\\') {
            len = escape(out, p + i, n - i, in_class);
            if (!len) wrong = "an escape";
        } else if (p[i] == '[' && in_class && next == ':') { // [:alpha:]
            const char *close = memmem(p + i, n - i, ":]", 2);
            if (close) ls_buf_add(out, p + i, len = (size_t)(close - (p + i)) + 2);
            else wrong = "an open class";
        } else if (p[i] == '[' && in_class) wrong = "a nested class";
        else if (p[i] == '&' && next == '&' && in_class) wrong = "an intersection of classes";
        else if (p[i] == '}' && next == '+' && !in_class) wrong = "a repeated interval";
        else if (p[i] == '[') {
            in_class = true;
            len += next == '^';
            ls_buf_add(out, p + i, len);
            if (i + len < n && p[i + len] == ']') ls_buf_str(out, "\\]"), len++; // a first bracket is literal
        } else {
            if (p[i] == ']') in_class = false;
            ls_buf_char(out, p[i]);
        }
        if (wrong)
            return ls_fail(err, LS_E_UNSUPPORTED,
                           "the tokenizer's expression '%.*s' has %s at %zu that is not supported",
                           (int)(n < 80 ? n : 80), p, wrong, i);
    }
    return LS_OK;
}

static ls_code compile(ls_regex **out, const char *p, size_t n, uint32_t how, ls_err *err) {
    int error;
    PCRE2_SIZE at;
    pcre2_code *compiled = pcre2_compile((PCRE2_SPTR)p, n, how, &error, &at, NULL);
    if (!compiled && error == PCRE2_ERROR_HEAP_FAILED) ls_out_of_memory(0);
    if (!compiled)
        return ls_fail(err, LS_E_UNSUPPORTED, "PCRE2 (error %d at %zu) cannot compile the tokenizer's '%.*s'", error,
                       (size_t)at, (int)(n < 80 ? n : 80), p);
    // No JIT: it needs memory that is writable and executable at once, and saves 0.1 s a megabyte of text.
    *out = ls_malloc(sizeof **out);
    **out = (ls_regex){compiled};
    return LS_OK;
}

ls_code ls_regex_new(ls_regex **out, const char *pattern, size_t n, bool literal, ls_err *err) {
    *out = NULL;
    if (!n || n > MAX_PATTERN || memchr(pattern, 0, n))
        return ls_fail(err, LS_E_UNSUPPORTED, "a tokenizer's expression of %zu bytes", n);
    ls_buf p = {0};
    ls_code code = LS_OK;
    if (literal) ls_buf_add(&p, pattern, n);
    else code = translate(&p, pattern, n, err);
    const uint32_t how = literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    if (!code) code = compile(out, p.p, p.n, PCRE2_UTF | how, err);
    ls_buf_free(&p);
    return code;
}

ls_code ls_regex_new_bytes(ls_regex **out, const char *pattern, size_t n, ls_err *err) {
    *out = NULL;
    return compile(out, pattern, n, 0, err);
}

void ls_regex_free(ls_regex *r) {
    if (!r) return;
    pcre2_code_free(r->code);
    free(r);
}

ls_regex_scratch *ls_regex_scratch_new(void) {
    ls_regex_scratch *s = ls_malloc(sizeof *s);
    *s = (ls_regex_scratch){pcre2_match_data_create(1, NULL)};
    if (!s->match) ls_out_of_memory(0);
    return s;
}

void ls_regex_scratch_free(ls_regex_scratch *s) {
    if (!s) return;
    pcre2_match_data_free(s->match);
    free(s);
}

bool ls_regex_find(const ls_regex *r, ls_regex_scratch *s, const char *text, size_t n, size_t at, size_t *start,
                   size_t *end) {
    const int found =
        pcre2_match(r->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, s->match, NULL);
    if (found == PCRE2_ERROR_NOMEMORY) ls_out_of_memory(0);
    if (found < 0) return false;
    *start = pcre2_get_ovector_pointer(s->match)[0];
    *end = pcre2_get_ovector_pointer(s->match)[1];
    return *end > *start && *start >= at && *end <= n; // \K could say otherwise
}

void ls_regex_version(char out[32]) { // "10.42 2022-12-11"
    char text[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, text);
    snprintf(out, 32, "%.*s", (int)strcspn(text, " "), text);
}
