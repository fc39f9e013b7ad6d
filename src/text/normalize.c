#include "text/normalize.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

// ---- charsmaps: rules compiled by sentencepiece. Reference: the double array of darts-clone (darts.h,
// DoubleArrayUnit) in the little-endian layout that sentencepiece stores: size of the array in bytes, the array, then
// the replacements, each ended by a NUL.

typedef struct {
    uint32_t *units;
    size_t n_units;
    char *by;
    size_t n_by;
} charsmap;

static ls_code charsmap_read(charsmap *m, const void *blob, size_t n, ls_err *err) {
    const unsigned char *p = blob;
    const size_t size = n < 4 ? 0 : (size_t)p[0] | (size_t)p[1] << 8 | (size_t)p[2] << 16 | (size_t)p[3] << 24;
    if (n < 4 || size > n - 4 || size % 4 || !size)
        return ls_fail(err, LS_E_PARSE, "the tokenizer's charsmap of %zu bytes has an array of %zu", n, size);
    m->n_units = size / 4;
    m->units = ls_calloc(m->n_units, sizeof *m->units);
    for (size_t i = 0; i < m->n_units; i++) {
        const unsigned char *u = p + 4 + 4 * i;
        m->units[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    m->n_by = n - 4 - size;
    m->by = ls_calloc(m->n_by + 1, 1); // the last ends, whatever the file says
    memcpy(m->by, p + 4 + size, m->n_by);
    return LS_OK;
}

static size_t offset_of(uint32_t unit) {
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

// The replacement by the longest (or the shortest) rule at p[0..n); NULL: none applies.
static const char *charsmap_find(const charsmap *m, const char *p, size_t n, bool longest, size_t *taken, size_t *len) {
    size_t at = offset_of(m->units[0]);
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        at ^= c;
        if (at >= m->n_units || (m->units[at] & (1u << 31 | 0xFF)) != c) break;
        const uint32_t unit = m->units[at];
        at ^= offset_of(unit);
        if (at >= m->n_units) break;
        if (!(unit >> 8 & 1)) continue;
        const size_t value = m->units[at] & 0x7FFFFFFF;
        if (value > m->n_by) continue;
        const size_t n_by = strlen(m->by + value);
        if (!ls_utf8_valid(m->by + value, n_by)) continue;
        found = m->by + value;
        *taken = i + 1;
        *len = n_by;
        if (!longest) break;
    }
    return found;
}

// ---- steps

typedef struct {
    enum { FORM, STRIP, PREPEND, REPLACE, PRECOMPILED, SENTENCEPIECE } kind;
    ls_form form;
    bool left, right;
    ls_regex *regex;
    char *by;
    size_t n_by;
    charsmap map; // no units: none
    ls_sentencepiece_rules rules;
} step;

struct ls_normalizer {
    step steps[LS_NORMALIZER_STEPS];
    int n;
};

ls_normalizer *ls_normalizer_new(void) {
    return ls_calloc(1, sizeof(ls_normalizer));
}

static void free_step(step *s) {
    ls_regex_free(s->regex);
    free(s->map.units);
    free(s->map.by);
    free(s->by);
}

void ls_normalizer_free(ls_normalizer *z) {
    if (!z) return;
    for (int i = 0; i < z->n; i++) free_step(&z->steps[i]);
    free(z);
}

bool ls_normalizer_is_empty(const ls_normalizer *z) {
    return !z->n;
}

static ls_code add_step(ls_normalizer *z, step s, ls_err *err) {
    if (z->n == LS_NORMALIZER_STEPS) {
        free_step(&s);
        return ls_fail(err, LS_E_UNSUPPORTED, "the normalizer has more than %d steps", LS_NORMALIZER_STEPS);
    }
    z->steps[z->n++] = s;
    return LS_OK;
}

ls_code ls_normalizer_add_form(ls_normalizer *z, ls_form form, ls_err *err) {
    return add_step(z, (step){.kind = FORM, .form = form}, err);
}
ls_code ls_normalizer_add_strip(ls_normalizer *z, bool left, bool right, ls_err *err) {
    return add_step(z, (step){.kind = STRIP, .left = left, .right = right}, err);
}
ls_code ls_normalizer_add_prepend(ls_normalizer *z, const char *p, size_t n, ls_err *err) {
    return add_step(z, (step){.kind = PREPEND, .by = ls_strndup(p, n), .n_by = n}, err);
}

ls_code ls_normalizer_add_replace(ls_normalizer *z, const char *pattern, size_t n, ls_regex_kind kind, const char *by,
                                  size_t n_by, ls_err *err) {
    step s = {.kind = REPLACE, .n_by = n_by};
    ls_code code = ls_regex_new(&s.regex, pattern, n, kind, err);
    if (code) return code;
    s.by = ls_strndup(n_by ? by : "", n_by);
    return add_step(z, s, err);
}

ls_code ls_normalizer_add_precompiled(ls_normalizer *z, const void *blob, size_t n, ls_err *err) {
    step s = {.kind = PRECOMPILED};
    ls_code code = charsmap_read(&s.map, blob, n, err);
    return code ? code : add_step(z, s, err);
}

ls_code ls_normalizer_add_sentencepiece(ls_normalizer *z, const ls_sentencepiece_rules *rules, ls_err *err) {
    step s = {.kind = SENTENCEPIECE, .rules = *rules};
    ls_code code = LS_OK;
    if (rules->n_charsmap) code = charsmap_read(&s.map, rules->charsmap, rules->n_charsmap, err);
    s.rules.charsmap = NULL;
    return code ? code : add_step(z, s, err);
}

bool ls_is_space(uint32_t cp) {
    return (cp >= 9 && cp <= 13) || cp == 0x20 || cp == 0x85 || cp == 0xA0 || cp == 0x1680 ||
           (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

static bool is_between(uint32_t cp, utf8proc_category_t first, utf8proc_category_t last) { // by category
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c >= first && c <= last;
}

bool ls_is_word(uint32_t cp) {
    // joiners; letters in circles and squares, which are symbols by category
    static const uint32_t more[][2] = {
        {0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (cp >= more[i][0] && cp <= more[i][1]) return true;
    return is_between(cp, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL) || // letters, marks, most numbers
           is_between(cp, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PC);
}

static char all_of(const char *marks, size_t n) { // TEXT if any byte is, FIRST if the first byte is
    char m = n ? marks[0] : 0;
    for (size_t i = 1; i < n; i++) m |= marks[i] & LS_MARK_TEXT;
    return m;
}

// The text before an ASCII character does not affect the text after it, so utf8proc gets only the stretches around
// other characters.
static void to_form(ls_form form, const ls_marked *in, ls_marked *out) {
    const utf8proc_option_t how = UTF8PROC_STABLE |
                                  (form == LS_NFC || form == LS_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                  (form == LS_NFKC || form == LS_NFKD ? UTF8PROC_COMPAT : 0);
    const char *p = in->text.p, *marks = in->marks.p;
    for (size_t at = 0, n = in->text.n; at < n;) {
        size_t ascii = at;
        while (ascii < n && !(p[ascii] & 0x80)) ascii++;
        const size_t plain = ascii == n || ascii == at ? ascii : ascii - 1; // a mark may combine with the last one
        ls_marked_slice(out, in, at, plain);
        if (ascii == n) return;
        size_t end = ascii;
        while (end < n && (p[end] & 0x80)) end++;
        utf8proc_uint8_t *made = NULL;
        const utf8proc_ssize_t len =
            utf8proc_map((const utf8proc_uint8_t *)p + plain, (utf8proc_ssize_t)(end - plain), &made, how);
        if (len == UTF8PROC_ERROR_NOMEM) ls_out_of_memory(0);
        if (len >= 0) ls_marked_add(out, (char *)made, (size_t)len, all_of(marks + plain, end - plain));
        else ls_marked_add(out, p + plain, end - plain, all_of(marks + plain, end - plain));
        free(made);
        at = end;
    }
}

static void each_character(ls_form form, const ls_marked *in, ls_marked *out) {
    for (size_t at = 0; at < in->text.n;) {
        uint32_t cp = 0;
        const int len = ls_utf8_decode(in->text.p + at, in->text.n - at, &cp);
        const char mark = in->marks.p[at];
        char made[4];
        if (form == LS_STRIP_ACCENTS) {
            if (!is_between(cp, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME))
                ls_marked_add(out, in->text.p + at, (size_t)len, mark);
        } else if (cp == 0x130) ls_marked_add(out, "i\u0307", 3, mark); // the one that becomes two
        else
            ls_marked_add(out, made, (size_t)ls_utf8_encode((uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), made),
                          mark);
        at += (size_t)len;
    }
}

static void strip(const step *s, const ls_marked *in, ls_marked *out) {
    size_t start = in->text.n, end = 0;
    for (size_t at = 0; at < in->text.n;) {
        uint32_t cp = 0;
        const int len = ls_utf8_decode(in->text.p + at, in->text.n - at, &cp);
        if (!ls_is_space(cp)) {
            if (start == in->text.n) start = at;
            end = at + (size_t)len;
        }
        at += (size_t)len;
    }
    if (!s->left) start = 0;
    if (!s->right) end = in->text.n;
    if (start >= end) return;
    ls_marked_slice(out, in, start, end);
}

static bool replace(const step *s, ls_regex_scratch *scratch, const ls_marked *in, size_t limit, ls_marked *out) {
    size_t at = 0, start, end;
    int found = 0;
    while (at < in->text.n && out->text.n <= limit &&
           (found = ls_regex_find(s->regex, scratch, in->text.p, in->text.n, at, &start, &end)) > 0) {
        ls_marked_slice(out, in, at, start);
        ls_marked_add(out, s->by, s->n_by, all_of(in->marks.p + start, end - start));
        at = end;
    }
    ls_marked_slice(out, in, at, in->text.n);
    return found >= 0;
}

static size_t grapheme_end(const char *p, size_t n) {
    uint32_t cp = 0, next;
    int32_t state = 0;
    size_t at = (size_t)ls_utf8_decode(p, n, &cp);
    for (int len; at < n; at += (size_t)len, cp = next) {
        len = ls_utf8_decode(p + at, n - at, &next);
        if (!ls_char_joins(cp, next, &state)) break;
    }
    return at;
}

// As in tokenizers: if a rule matches the beginning of a short cluster, the shortest such rule replaces the whole
// cluster; otherwise each character is replaced by itself.
static void precompiled(const step *s, const ls_marked *in, size_t limit, ls_marked *out) {
    const char *p = in->text.p;
    size_t taken, n_by;
    for (size_t at = 0; at < in->text.n && out->text.n <= limit;) {
        const size_t cluster = grapheme_end(p + at, in->text.n - at);
        const char *by = cluster < 6 ? charsmap_find(&s->map, p + at, cluster, false, &taken, &n_by) : NULL;
        if (by) ls_marked_add(out, by, n_by, all_of(in->marks.p + at, cluster));
        for (size_t i = at; !by && i < at + cluster;) {
            const size_t len = (size_t)ls_utf8_decode(p + i, in->text.n - i, NULL);
            const char *one = charsmap_find(&s->map, p + i, len, false, &taken, &n_by);
            ls_marked_add(out, one ? one : p + i, one ? n_by : len, in->marks.p[i]);
            i += len;
        }
        at += cluster;
    }
}

static void put_escaped(const step *s, const char *p, size_t n, char mark, ls_marked *out) {
    for (size_t i = 0; i < n;) {
        const char *space = s->rules.escape ? memchr(p + i, ' ', n - i) : NULL;
        const size_t end = space ? (size_t)(space - p) : n;
        ls_marked_add(out, p + i, end - i, mark);
        if (space) ls_marked_add(out, "\u2581", 3, mark);
        i = end + (space != NULL);
    }
}

// Whether a dummy space comes before the text.
static bool gets_space(const step *s, const ls_marked *in) {
    if (!s->rules.dummy_prefix || s->rules.suffix) return false;
    const bool has = *in->text.p == ' ' || (in->text.n >= 3 && !memcmp(in->text.p, "\u2581", 3));
    return !s->rules.first_only || (in->marks.p[0] & LS_MARK_FIRST && !has);
}

static void sentencepiece(const step *s, const ls_trie *kept, const ls_marked *in, size_t limit, ls_marked *out) {
    const char *p = in->text.p;
    const size_t n = in->text.n;
    assert(p || !n);
    const bool remove = s->rules.remove_extra;
    bool after_space = remove, begun = false;
    for (size_t at = 0; at < n && out->text.n <= limit;) {
        size_t taken = 0, n_by = 0;
        const char *by = NULL;
        if (kept && kept->value.n && ls_trie_longest(kept, p + at, n - at, &taken) >= 0) by = p + at, n_by = taken;
        else if (s->map.units) by = charsmap_find(&s->map, p + at, n - at, true, &taken, &n_by);
        if (!by) {
            taken = n_by = (size_t)ls_utf8_decode(p + at, n - at, NULL);
            by = p + at;
        }
        const char mark = all_of(in->marks.p + at, taken);
        const bool only_space = n_by == 1 && *by == ' ';
        at += taken;
        if (!begun) {
            if (remove && only_space) continue; // leading spaces, before the dummy one
            begun = true;
            if (gets_space(s, in)) put_escaped(s, " ", 1, mark, out);
        }
        while (after_space && n_by && *by == ' ') by++, n_by--;
        if (n_by) {
            put_escaped(s, by, n_by, mark, out);
            after_space = remove && by[n_by - 1] == ' ';
        }
    }
    if (!begun) return;
    const char *space = s->rules.escape ? "\u2581" : " ";
    const size_t n_space = strlen(space);
    while (remove && out->text.n >= n_space && !memcmp(out->text.p + out->text.n - n_space, space, n_space)) {
        out->text.n -= n_space;
        out->marks.n -= n_space;
    }
    if (s->rules.dummy_prefix && s->rules.suffix) put_escaped(s, " ", 1, LS_MARK_TEXT, out);
}

bool ls_normalize(const ls_normalizer *z, ls_regex_scratch *scratch, const ls_trie *kept, ls_marked *text) {
    const size_t most = text->text.n * 64 + 4096, limit = most < INT32_MAX / 4 ? most : INT32_MAX / 4;
    for (int i = 0; i < z->n && text->text.n; i++) {
        const step *s = &z->steps[i];
        ls_marked out = {0};
        bool good = true;
        switch (s->kind) {
        case FORM: (s->form < LS_LOWERCASE ? to_form : each_character)(s->form, text, &out); break;
        case STRIP: strip(s, text, &out); break;
        case PREPEND:
            ls_marked_add(&out, s->by, s->n_by, text->marks.p[0]);
            ls_marked_slice(&out, text, 0, text->text.n);
            break;
        case REPLACE: good = replace(s, scratch, text, limit, &out); break;
        case PRECOMPILED: precompiled(s, text, limit, &out); break;
        case SENTENCEPIECE: sentencepiece(s, kept, text, limit, &out); break;
        }
        ls_marked_free(text);
        *text = out;
        if (!good || text->text.n > limit) return false;
    }
    return true;
}

// ---- characters

uint32_t ls_upper(uint32_t c) {
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}
uint32_t ls_lower(uint32_t c) {
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
}
uint32_t ls_title(uint32_t c) {
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
}
bool ls_is_letter(uint32_t c) {
    return is_between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO);
}
bool ls_is_digit(uint32_t c) {
    return is_between(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_ND);
}
bool ls_has_case(uint32_t c) {
    return is_between(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LT);
}

const char *ls_normalize_version(void) {
    return utf8proc_version();
}
