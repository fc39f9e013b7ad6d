#include "text/regex.h"
#include "base/buf.h"
#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (next == 'u') { // \uHHHH
        size_t digits = 0;
        while (digits < 4 && digits + 2 < n && strchr("0123456789abcdefABCDEF", p[digits + 2]) && p[digits + 2])
            digits++;
        if (digits < 4) return 0;
        ls_buf_fmt(out, "\\x{%.4s}", p + 2);
        return 6;
    }
    const char *close = strchr("pPx", next) && n > 2 && p[2] == '{' ? memchr(p, '}', n) : NULL;
    const size_t len = close ? (size_t)(close - p) + 1 : 2;
    ls_buf_add(out, p, len);
    return len;
}

typedef struct {
    ls_buf *out;
    const char *p;
    size_t n, i;    // the expression, and where it is being read
    size_t atom;    // where in out the last atom begins: a character, a class, a group
    size_t *groups; // where open groups begin
    size_t n_groups;
    const char *wrong; // what is not supported; NULL: nothing
} translation;

enum { MAX_NESTED = 16 };

static char peek(const translation *t, size_t ahead) {
    return t->i + ahead < t->n ? t->p[t->i + ahead] : 0;
}

static void translate_escape(translation *t, bool in_class) {
    const size_t len = escape(t->out, t->p + t->i, t->n - t->i, in_class);
    if (!len) t->wrong = "an escape";
    t->i += len ? len : 1;
}

// One item of a class: an escape, [:alpha:], or a character.
static void class_item(translation *t) {
    if (peek(t, 0) == '\\') translate_escape(t, true);
    else if (peek(t, 0) == '[') {
        const char *close = memmem(t->p + t->i, t->n - t->i, ":]", 2);
        if (!close) t->wrong = "an open class";
        const size_t len = close ? (size_t)(close - t->p) + 2 - t->i : 1;
        ls_buf_add(t->out, t->p + t->i, len);
        t->i += len;
    } else ls_buf_char(t->out, t->p[t->i++]);
}

static void insert(ls_buf *out, size_t at, const char *s) {
    const size_t n = strlen(s);
    ls_buf_str(out, s); // for its room
    memmove(out->p + at + n, out->p + at, out->n - n - at);
    memcpy(out->p + at, s, n);
}

// A class. PCRE2 knows none within another and no intersections: each becomes a group that matches one character, a
// union its alternatives, an intersection a look ahead before the other side.
static void class(translation *t, int depth) {
    ls_buf *out = t->out;
    const size_t begin = out->n;
    size_t side = begin, sides = 0; // where one of an intersection begins, and how many ended
    bool open = false, several = false, first = true;
    t->i++;
    const bool negated = peek(t, 0) == '^';
    t->i += negated;
    if (depth == MAX_NESTED) t->wrong = "too many nested classes";
    for (; t->i < t->n && !t->wrong && (peek(t, 0) != ']' || first); first = false) {
        const bool nested = peek(t, 0) == '[' && peek(t, 1) != ':', both = peek(t, 0) == '&' && peek(t, 1) == '&';
        if (open && (nested || both)) ls_buf_char(out, ']'), open = false;
        if (both) {
            if (out->n == side) t->wrong = "an empty side of an intersection";
            insert(out, side, "(?:(?=(?:");
            ls_buf_str(out, "))(?:");
            side = out->n;
            sides++;
            several = true;
            t->i += 2;
        } else if (nested) {
            if (out->n > side) ls_buf_char(out, '|');
            class(t, depth + 1);
            several = true;
        } else {
            if (!open && out->n > side) ls_buf_char(out, '|');
            if (!open) ls_buf_char(out, '['), open = true;
            if (peek(t, 0) == ']' || peek(t, 0) == '^') ls_buf_char(out, '\\'); // a first bracket is literal
            class_item(t);
        }
    }
    if (t->i >= t->n) t->wrong = t->wrong ? t->wrong : "an open class";
    if (out->n == side && !t->wrong) t->wrong = "an empty class";
    if (open) ls_buf_char(out, ']');
    t->i++;
    if (t->wrong) return;
    if (!several) { // a plain class
        if (negated) insert(out, begin + 1, "^");
        return;
    }
    for (; sides; sides--) ls_buf_str(out, "))");
    insert(out, begin, negated ? "(?:(?!" : "(?:");
    ls_buf_str(out, negated ? ")(?s:.))" : ")");
}

// The length of an interval {n,m} at p[0..n); 0: the brace is a character.
static size_t interval(const char *p, size_t n) {
    size_t i = 1, digits = 0, commas = 0;
    for (; i < n && p[i] != '}'; i++) {
        if (p[i] == ',' && !commas) commas++;
        else if (p[i] >= '0' && p[i] <= '9') digits++;
        else return 0;
    }
    return i < n && digits ? i + 1 : 0;
}

// Behind an interval Ruby's + repeats it, and its ? behind {n} makes it optional.
static void translate_interval(translation *t, size_t len) {
    const bool exact = !memchr(t->p + t->i, ',', len);
    const char behind = peek(t, len);
    if (peek(t, 1) == ',') ls_buf_str(t->out, "{0"), ls_buf_add(t->out, t->p + t->i + 1, len - 1);
    else ls_buf_add(t->out, t->p + t->i, len);
    t->i += len;
    if (behind == '+' || (behind == '?' && exact)) {
        insert(t->out, t->atom, "(?:");
        ls_buf_char(t->out, ')');
    }
}

static void translate_next(translation *t) {
    ls_buf *out = t->out;
    const char c = peek(t, 0);
    const size_t repeats = c == '{' ? interval(t->p + t->i, t->n - t->i) : 0;
    if (repeats) {
        translate_interval(t, repeats);
        return;
    }
    if (c == ')' && t->n_groups) t->atom = t->groups[--t->n_groups];
    else if (!strchr("*+?", c)) t->atom = out->n;
    if (c == '(') t->groups[t->n_groups++] = out->n;
    if (c == '\\') translate_escape(t, false);
    else if (c == '[') class(t, 0);
    else ls_buf_char(out, c), t->i++;
}

static ls_code translate(ls_buf *out, const char *p, size_t n, ls_err *err) {
    translation t = {.out = out, .p = p, .n = n, .groups = ls_calloc(n + 1, sizeof *t.groups)};
    size_t at = 0;
    while (t.i < n && !t.wrong) {
        at = t.i;
        translate_next(&t);
    }
    free(t.groups);
    return t.wrong ? ls_fail(err, LS_E_UNSUPPORTED,
                             "the tokenizer's expression '%.*s' has %s at %zu, which is not supported",
                             (int)(n < 80 ? n : 80), p, t.wrong, at)
                   : LS_OK;
}

static ls_code compile(ls_regex **out, const char *p, size_t n, uint32_t how, ls_err *err) {
    int error;
    PCRE2_SIZE at;
    // No JIT: it needs memory that is writable and executable at once, and saves 0.1 s a megabyte of text.
    *out = pcre2_compile((PCRE2_SPTR)p, n, how, &error, &at, NULL);
    if (!*out && error == PCRE2_ERROR_HEAP_FAILED) ls_out_of_memory(0);
    if (!*out)
        return ls_fail(err, LS_E_UNSUPPORTED, "PCRE2 (error %d at %zu) cannot compile the tokenizer's '%.*s'", error,
                       (size_t)at, (int)(n < 80 ? n : 80), p);
    return LS_OK;
}

ls_code ls_regex_new(ls_regex **out, const char *pattern, size_t n, ls_regex_kind kind, ls_err *err) {
    *out = NULL;
    if (kind == LS_REGEX_BYTES) return compile(out, pattern, n, 0, err);
    if (!n || n > MAX_PATTERN || memchr(pattern, 0, n))
        return ls_fail(err, LS_E_UNSUPPORTED, "a tokenizer's expression is too long (%zu bytes)", n);
    if (kind == LS_REGEX_LITERAL) return compile(out, pattern, n, PCRE2_UTF | PCRE2_LITERAL, err);
    ls_buf p = {0};
    ls_code code = translate(&p, pattern, n, err);
    if (!code) code = compile(out, p.p, p.n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, err);
    ls_buf_free(&p);
    return code;
}

void ls_regex_free(ls_regex *r) {
    pcre2_code_free(r);
}

ls_regex_scratch *ls_regex_scratch_new(void) {
    ls_regex_scratch *s = pcre2_match_data_create(1, NULL);
    if (!s) ls_out_of_memory(0);
    return s;
}

void ls_regex_scratch_free(ls_regex_scratch *s) {
    pcre2_match_data_free(s);
}

int ls_regex_find(const ls_regex *r, ls_regex_scratch *s, const char *text, size_t n, size_t at, size_t *start,
                  size_t *end) {
    const int found = pcre2_match(r, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, s, NULL);
    if (found == PCRE2_ERROR_NOMEMORY) ls_out_of_memory(0);
    if (found < 0) return found == PCRE2_ERROR_NOMATCH ? 0 : -1;
    *start = pcre2_get_ovector_pointer(s)[0];
    *end = pcre2_get_ovector_pointer(s)[1];
    return *end > *start && *start >= at && *end <= n; // \K could say otherwise
}

void ls_regex_version(char out[32]) { // "10.42 2022-12-11"
    char text[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, text);
    snprintf(out, 32, "%.*s", (int)strcspn(text, " "), text);
}
