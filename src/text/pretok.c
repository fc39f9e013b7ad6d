#include "text/pretok.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ls_regex *regex; // splits by it; NULL: Metaspace
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

ls_code ls_pretok_add_split(ls_pretok *p, const char *pattern, size_t n, ls_regex_kind kind, ls_behavior behavior,
                            bool invert, ls_err *err) {
    step s = {.behavior = behavior, .invert = invert};
    ls_code code = ls_regex_new(&s.regex, pattern, n, kind, err);
    return code ? code : add_step(p, s, err);
}

ls_code ls_pretok_add_metaspace(ls_pretok *p, const char *mark, size_t n, ls_prepend prepend, ls_err *err) {
    step s = {.prepend = prepend};
    if (!n || n >= sizeof s.mark)
        return ls_fail(err, LS_E_PARSE, "the Metaspace replacement has an invalid length of %zu bytes", n);
    memcpy(s.mark, mark, n);
    return add_step(p, s, err);
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
    int found = 0;
    while (at < n && !code &&
           (found = ls_regex_find(s->p->steps[i].regex, s->scratch->regex, text, n, at, &start, &end)) > 0) {
        code = on_stretch(s, i, text, first, &held, at, start, false);
        if (!code) code = on_stretch(s, i, text, first, &held, start, end, true);
        at = end;
    }
    if (found < 0)
        return ls_fail(s->err, LS_E_RANGE, "the tokenizer's expression takes too many steps in a text of %zu bytes", n);
    if (!code) code = on_stretch(s, i, text, first, &held, at, n, false);
    return code ? code : give(s, i, text, first, &held);
}

static ls_code run(splitter *s, int i, const char *text, size_t n, bool first) {
    if (i == s->p->n) return s->fn(s->ud, text, n, s->err);
    const step *st = &s->p->steps[i];
    if (st->regex) return split(s, i, text, n, first);
    ls_buf *b = &s->scratch->text[i];
    ls_buf_clear(b);
    const size_t n_mark = strlen(st->mark);
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

// ---- the steps behind a GGUF file's tokenizer.ggml.pre, by text/pretok.def

enum { STEPS = 6 };

// Each step isolates what it matches. The first byte of an expression may say that it sees bytes, as after ByteLevel.
#define AS_BYTES "\1"

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define ENDINGS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K(digits) ENDINGS "|" LETTERS "|" digits SIGNS SPACES
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(upper, lower, ending)                                                                                    \
    "[^\\r\\n\\p{L}\\p{N}]?" upper "*" lower "+" ending "|[^\\r\\n\\p{L}\\p{N}]?" upper "+" lower "*" ending
#define O200K(ending, digits) CASED(UPPER, LOWER, ending) "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
// UPPER and LOWER without \p{Han}: PCRE2 has no intersections, so these are complements
#define UPPER_NOT_HAN "[^\\p{Ll}\\p{C}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{sc:Han}]"
#define LOWER_NOT_HAN "[^\\p{Lu}\\p{Lt}\\p{C}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{sc:Han}]"
#define KANA "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
#define DEEPSEEK_WORDS                                                                                                 \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "              \
    "?[\\p{P}\\p{S}]+"
#define DEEPSEEK DEEPSEEK_WORDS "[\\r\\n]*" SPACES
#define EAST_ASIAN "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
// letters with case, as the model's own file lists them
#define CASED_LETTERS                                                                                                  \
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"          \
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"     \
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"         \
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d"    \
    "\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4"   \
    "\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139"      \
    "\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"     \
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a"         \
    "\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2"                \
    "\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
// A run of digits in groups of three from its right, if `end` holds behind it. The files look ahead at every group,
// in time that grows with the square of the run; here only the first group does, and the others follow it.
#define GROUPS(end) "(?<!\\d)\\d{1,3}(?=(?:\\d{3})*+" end ")|\\G(?<=\\d)\\d{3}"
// What stands before the first group of three: other numerals, and a run's first digits.
#define BEFORE_GROUPS "(?:[^\\d]++|(?<!\\d)\\d{1,2}(?=(?:\\d{3})*+(?!\\d)))"

const char ls_gpt2_pattern[] = GPT2, ls_qwen2_pattern[] = CL100K("\\p{N}");

enum { NONE = 0, NFC = LS_PRE_NFC, WHOLE = LS_PRE_WHOLE, BEGINS = LS_PRE_BEGINS, CHARS = LS_PRE_CHARS, ENCODER = 16 };

typedef struct {
    const char *names;
    unsigned traits;
    const char *split[STEPS];
} row;

static const row known[] = {
#define PRETOK(names, traits, ...) {names, traits, {__VA_ARGS__}},
#include "text/pretok.def"
#undef PRETOK
};

static const row *find(const char *name) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (ls_str_among((ls_str){name, strlen(name)}, known[i].names) >= 0) return &known[i];
    return NULL;
}

static size_t count_names(void) {
    size_t n = 0, len;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (const char *names = known[i].names; ls_next_word(&names, " ", &len);) n++;
    return n;
}

unsigned ls_pretok_traits(const char *name) {
    const row *r = find(name);
    return r ? r->traits : 0;
}

ls_code ls_pretok_named(ls_pretok *p, const char *name, ls_err *err) {
    const row *r = find(name);
    if (!r)
        return ls_fail(err, LS_E_UNSUPPORTED, "pre-tokenizer '%.64s' is not among the %zu known names", name,
                       count_names());
    if (r->traits & ENCODER)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "pre-tokenizer '%s' is for encoders (embeddings); only decoders are supported", name);
    ls_code code = LS_OK;
    for (int k = 0; k < STEPS && r->split[k] && !code; k++) {
        const char *s = r->split[k];
        const bool bytes = *s == *AS_BYTES;
        code = ls_pretok_add_split(p, s + bytes, strlen(s + bytes), bytes ? LS_REGEX_BYTES : LS_REGEX_RUBY, LS_ISOLATED,
                                   false, err);
    }
    return code;
}
