// Hugging Face's tokenizer.json and tokenizer_config.json. References: tokenizers' serialisation; transformers'
// PreTrainedTokenizerFast, which puts the configuration's tokens and flags over the tokenizer's.
#include "base/json.h"
#include "base/mem.h"
#include "text/vocab_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

typedef struct {
    const ls_json *doc, *config, *model, *vocab;
    size_t limit; // ids are below the files' size, which bounds the memory for them
    bool unigram, byte_level;
    bool set_prefix, prefix_space; // the configuration says whether ByteLevel puts a space first
    ls_vocab_parts parts;
    ls_str *tokens;
    int32_t *types;
    double *scores;
    ls_str (*merges)[2];
    ls_added *added;
    int32_t *added_at;  // [n_tokens] index into added + 1; 0: none
    ls_map by_spelling; // hash -> id, see id_of
    ls_buf charsmap;
    ls_err *err;
    ls_code code;
} reader;

static ls_str str_of(const ls_json *v) {
    size_t n = 0;
    const char *p = ls_json_str(v, &n);
    return (ls_str){p, n};
}

static bool flag(const ls_json *object, const char *key, bool fallback) {
    bool b;
    return ls_json_bool(ls_json_get(object, key), &b) ? b : fallback;
}

// A token is given as its spelling or as an object that holds it.
static ls_str spelling(const ls_json *v) {
    const ls_str s = str_of(v);
    return s.p ? s : str_of(ls_json_get(v, "content"));
}

static ls_code unsupported(reader *r, const char *what, const ls_json *type, const char *known) {
    const ls_str s = str_of(type);
    return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer's %s '%.*s' is not supported (supported: %s)", what,
                   (int)(s.n < 40 ? s.n : 40), s.p ? s.p : "?", known);
}

// ---- tokens

static void count_id(void *ud, const char *key, const ls_json *value) {
    (void)key;
    reader *r = ud;
    int64_t id;
    if (!ls_json_int(value, &id) || id < 0 || (size_t)id >= r->limit)
        r->code = ls_fail(r->err, LS_E_PARSE, "the tokenizer has a token without a possible id");
    else if ((size_t)id >= r->parts.n_tokens) r->parts.n_tokens = (size_t)id + 1;
}

static void put_token(void *ud, const char *key, const ls_json *value) {
    reader *r = ud;
    int64_t id = 0;
    ls_json_int(value, &id);
    if (r->types[id] == LS_NORMAL)
        r->code = ls_fail(r->err, LS_E_PARSE, "the tokenizer has two tokens of the id %lld", (long long)id);
    r->tokens[id] = (ls_str){key, strlen(key)};
    r->types[id] = LS_NORMAL;
}

static int32_t id_of(const reader *r, ls_str s) {
    int64_t id;
    int32_t at;
    if (!s.p) return -1;
    if (ls_map_get(&r->by_spelling, ls_hash_name(s.p, s.n), &at)) {
        const ls_str t = r->tokens[at];
        if (t.n == s.n && !memcmp(t.p, s.p, s.n)) return at;
    }
    return !r->unigram && ls_json_int(ls_json_get(r->vocab, s.p), &id) ? (int32_t)id : -1;
}

// Added tokens by their spelling, the first of each; behind them the pieces of a Unigram model.
static void index_spellings(reader *r) {
    for (size_t i = 0; i < r->parts.n_added; i++) {
        const ls_str t = r->tokens[r->added[i].id];
        ls_map_at(&r->by_spelling, ls_hash_name(t.p, t.n), r->added[i].id);
    }
    for (size_t i = 0; i < r->parts.n_tokens && r->unigram; i++)
        if (r->tokens[i].p) ls_map_at(&r->by_spelling, ls_hash_name(r->tokens[i].p, r->tokens[i].n), (int32_t)i);
}

static ls_code put_added(reader *r, const ls_json *t, int64_t id) {
    const ls_str s = str_of(ls_json_get(t, "content"));
    int64_t in_model;
    if (!s.p || id < 0 || (size_t)id >= r->parts.n_tokens)
        return ls_fail(r->err, LS_E_PARSE, "the tokenizer has an added token without spelling or possible id");
    if (!s.n) return LS_OK;
    if (!r->unigram && ls_json_int(ls_json_get(r->vocab, s.p), &in_model)) id = in_model; // as in the reference
    ls_added a = {
        .id = (int32_t)id,
        .special = flag(t, "special", false),
        .lstrip = flag(t, "lstrip", false),
        .rstrip = flag(t, "rstrip", false),
        .single_word = flag(t, "single_word", false),
    };
    a.normalized = flag(t, "normalized", !a.special);
    if (r->tokens[id].p && (r->tokens[id].n != s.n || memcmp(r->tokens[id].p, s.p, s.n)))
        return ls_fail(r->err, LS_E_PARSE, "the tokenizer's added token '%.*s' has the id %lld of another",
                       (int)(s.n < 60 ? s.n : 60), s.p, (long long)id);
    r->tokens[id] = s;
    if (r->types[id] != LS_NORMAL) r->types[id] = LS_UNUSED; // not a token of the model: no piece of text becomes it
    // the last entry of a token holds, but its place of search is the first entry's, as in tokenizers
    if (!r->added_at[id]) r->added_at[id] = (int32_t)++r->parts.n_added;
    else {
        const ls_added *had = &r->added[r->added_at[id] - 1];
        a.normalized = had->normalized && (a.normalized || had->special);
    }
    r->added[r->added_at[id] - 1] = a;
    return LS_OK;
}

typedef struct {
    reader *r;
    bool count;
} decoder_pass;

static void on_decoder_entry(void *ud, const char *key, const ls_json *value) { // added_tokens_decoder: "id": token
    const decoder_pass *p = ud;
    char *end;
    const long long id = strtoll(key, &end, 10);
    if (p->r->code) return;
    if (!*key || *end || id < 0 || (size_t)id >= p->r->limit)
        p->r->code =
            ls_fail(p->r->err, LS_E_PARSE, "tokenizer_config.json has an added token with the id '%.20s'", key);
    else if (!p->count) p->r->code = put_added(p->r, value, id);
    else if ((size_t)id >= p->r->parts.n_tokens) p->r->parts.n_tokens = (size_t)id + 1;
}

static ls_code read_tokens(reader *r) {
    const ls_json *list = ls_json_get(r->doc, "added_tokens"), *more = ls_json_get(r->config, "added_tokens_decoder");
    const size_t n_list = ls_json_size(list);
    int64_t id;
    if (r->unigram) r->parts.n_tokens = ls_json_size(r->vocab);
    else if (!ls_json_each(r->vocab, count_id, r))
        return ls_fail(r->err, LS_E_PARSE, "the tokenizer has no vocabulary");
    for (size_t i = 0; i < n_list && !r->code; i++) count_id(r, "", ls_json_get(ls_json_at(list, i), "id"));
    ls_json_each(more, on_decoder_entry, &(decoder_pass){r, true});
    if (r->code) return r->code;
    const size_t n = r->parts.n_tokens;
    if (!n) return ls_fail(r->err, LS_E_PARSE, "the tokenizer has no tokens");
    r->tokens = ls_calloc(n, sizeof *r->tokens);
    r->types = ls_calloc(n, sizeof *r->types);
    r->added = ls_calloc(n, sizeof *r->added);
    r->added_at = ls_calloc(n, sizeof *r->added_at);
    for (size_t i = 0; i < n; i++) r->types[i] = LS_UNUSED;
    if (r->unigram) {
        r->scores = ls_calloc(n, sizeof *r->scores);
        for (size_t i = 0; i < ls_json_size(r->vocab); i++) {
            const ls_json *pair = ls_json_at(r->vocab, i);
            r->tokens[i] = str_of(ls_json_at(pair, 0));
            if (!r->tokens[i].p || !ls_json_num(ls_json_at(pair, 1), &r->scores[i]))
                return ls_fail(r->err, LS_E_PARSE, "the tokenizer's entry %zu is no token and its score", i);
            r->types[i] = LS_NORMAL;
        }
    } else ls_json_each(r->vocab, put_token, r);
    for (size_t i = 0; i < n_list && !r->code; i++) {
        const ls_json *t = ls_json_at(list, i);
        ls_json_int(ls_json_get(t, "id"), &id);
        r->code = put_added(r, t, id);
    }
    if (!r->code) ls_json_each(more, on_decoder_entry, &(decoder_pass){r, false});
    return r->code;
}

// The special tokens that the configuration names are added tokens even where no list says so.
static void name_special(reader *r, const ls_json *named) {
    const ls_str s = spelling(named);
    const int32_t id = id_of(r, s);
    if (id < 0 || r->added_at[id]) return;
    r->added[r->parts.n_added++] = (ls_added){.id = id, .special = true};
    r->added_at[id] = (int32_t)r->parts.n_added;
}

static ls_code read_merges(reader *r) {
    const ls_json *list = ls_json_get(r->model, "merges");
    if (!ls_json_is_array(list)) return ls_fail(r->err, LS_E_PARSE, "the tokenizer has no merges");
    r->parts.n_merges = ls_json_size(list);
    r->merges = ls_calloc(r->parts.n_merges, sizeof *r->merges);
    for (size_t i = 0; i < r->parts.n_merges; i++) {
        const ls_json *m = ls_json_at(list, i);
        const ls_str s = str_of(m);
        const char *space = s.n > 2 ? memchr(s.p + 1, ' ', s.n - 1) : NULL;
        if (space) {
            const size_t left = (size_t)(space - s.p);
            r->merges[i][0] = (ls_str){s.p, left};
            r->merges[i][1] = (ls_str){space + 1, s.n - left - 1};
        } else {
            r->merges[i][0] = str_of(ls_json_at(m, 0));
            r->merges[i][1] = str_of(ls_json_at(m, 1));
            if (!r->merges[i][0].p || !r->merges[i][1].p)
                return ls_fail(r->err, LS_E_PARSE, "the tokenizer's merge %zu is no pair", i);
        }
    }
    return LS_OK;
}

// ---- normalizer

static bool base64(ls_buf *out, ls_str s) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t word = 0;
    int bits = 0;
    while (s.n && s.p[s.n - 1] == '=') s.n--;
    for (size_t i = 0; i < s.n; i++) {
        const char *d = s.p[i] ? strchr(digits, s.p[i]) : NULL;
        if (!d) return false;
        word = word << 6 | (uint32_t)(d - digits);
        if ((bits += 6) >= 8) ls_buf_char(out, (char)(word >> (bits -= 8)));
    }
    return true;
}

static ls_code pattern_of(reader *r, const ls_json *pattern, ls_str *s, bool *literal) {
    *s = str_of(ls_json_get(pattern, "String"));
    *literal = s->p != NULL;
    if (!*literal) *s = str_of(ls_json_get(pattern, "Regex"));
    return s->p ? LS_OK : ls_fail(r->err, LS_E_PARSE, "the tokenizer has a step without a pattern");
}

static ls_code read_normalizer(reader *r, const ls_json *z, int depth) {
    static const struct {
        const char *name;
        ls_form form;
    } forms[] = {{"NFC", LS_NFC}, {"NFD", LS_NFD}, {"NFKC", LS_NFKC}, {"NFKD", LS_NFKD}};
    const ls_json *type = ls_json_get(z, "type");
    ls_normalizer *to = r->parts.normalizer;
    ls_code code = LS_OK;
    if (!z || ls_json_is_null(z)) return LS_OK;
    for (size_t i = 0; i < 4; i++)
        if (ls_json_is(type, forms[i].name)) return ls_normalizer_add_form(to, forms[i].form, r->err);
    if (ls_json_is(type, "Sequence")) {
        const ls_json *list = ls_json_get(z, "normalizers");
        if (depth == MAX_DEPTH)
            return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer's sequences are nested too deep");
        for (size_t i = 0; i < ls_json_size(list) && !code; i++)
            code = read_normalizer(r, ls_json_at(list, i), depth + 1);
        return code;
    }
    if (ls_json_is(type, "Lowercase")) return ls_normalizer_add_lowercase(to, r->err);
    if (ls_json_is(type, "StripAccents")) return ls_normalizer_add_strip_accents(to, r->err);
    if (ls_json_is(type, "Strip"))
        return ls_normalizer_add_strip(to, flag(z, "strip_left", true), flag(z, "strip_right", true), r->err);
    if (ls_json_is(type, "Prepend")) {
        const ls_str s = str_of(ls_json_get(z, "prepend"));
        return s.p ? ls_normalizer_add_prepend(to, s.p, s.n, r->err)
                   : ls_fail(r->err, LS_E_PARSE, "the tokenizer has a Prepend of nothing");
    }
    if (ls_json_is(type, "Replace")) {
        ls_str pattern, by = str_of(ls_json_get(z, "content"));
        bool literal;
        code = pattern_of(r, ls_json_get(z, "pattern"), &pattern, &literal);
        return code ? code : ls_normalizer_add_replace(to, pattern.p, pattern.n, literal, by.p, by.n, r->err);
    }
    if (ls_json_is(type, "Precompiled")) {
        const ls_str s = str_of(ls_json_get(z, "precompiled_charsmap"));
        if (!s.n) return LS_OK;
        ls_buf_clear(&r->charsmap);
        if (!base64(&r->charsmap, s)) return ls_fail(r->err, LS_E_PARSE, "the tokenizer's charsmap is not base64");
        return ls_normalizer_add_precompiled(to, r->charsmap.p, r->charsmap.n, r->err);
    }
    return unsupported(r, "normalizer", type,
                       "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled, Sequence");
}

// ---- pre-tokenizer

static ls_code add_split(reader *r, const char *pattern, ls_behavior behavior, bool invert) {
    return ls_pretok_add_split(r->parts.pretok, pattern, strlen(pattern), false, behavior, invert, r->err);
}

static ls_code behavior_of(reader *r, const ls_json *v, ls_behavior *b) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    for (size_t i = 0; i < 5; i++)
        if (ls_json_is(v, names[i])) {
            *b = (ls_behavior)i;
            return LS_OK;
        }
    return unsupported(r, "split behavior", v, "Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
}

static ls_code read_metaspace(reader *r, const ls_json *p) {
    ls_str mark = str_of(ls_json_get(p, "replacement"));
    const ls_json *scheme = ls_json_get(p, "prepend_scheme");
    const ls_prepend prepend = ls_json_is(scheme, "never") || (!scheme && !flag(p, "add_prefix_space", true))
                                   ? LS_PREPEND_NEVER
                               : ls_json_is(scheme, "first") ? LS_PREPEND_FIRST
                                                             : LS_PREPEND_ALWAYS;
    if (!mark.p) mark = (ls_str){"\u2581", 3};
    ls_code code = ls_pretok_add_metaspace(r->parts.pretok, mark.p, mark.n, prepend, r->err);
    if (!code && flag(p, "split", true))
        code = ls_pretok_add_split(r->parts.pretok, mark.p, mark.n, true, LS_MERGED_WITH_NEXT, false, r->err);
    return code;
}

// Falcon's steps behind ByteLevel see the byte alphabet, where six bytes beyond ASCII look like numerals. What other
// expressions would find there is not known here.
static ls_code read_byte_step(reader *r, const ls_json *p) {
    static const char threes[] = "[0-9][0-9][0-9]", digit[] = "[0-9\xb2\xb3\xb9\xbc-\xbe]+";
    if (ls_json_is(ls_json_get(p, "type"), "Digits"))
        return ls_pretok_add_byte_split(r->parts.pretok, digit, sizeof digit - 1 - flag(p, "individual_digits", false),
                                        r->err);
    if (ls_json_is(ls_json_get(ls_json_get(p, "pattern"), "Regex"), threes) &&
        ls_json_is(ls_json_get(p, "behavior"), "Isolated") && !flag(p, "invert", false))
        return ls_pretok_add_byte_split(r->parts.pretok, threes, sizeof threes - 1, r->err);
    return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer splits text after ByteLevel");
}

static ls_code read_pretokenizer(reader *r, const ls_json *p, int depth) {
    const ls_json *type = ls_json_get(p, "type");
    ls_code code = LS_OK;
    if (!p || ls_json_is_null(p)) return LS_OK;
    if (ls_json_is(type, "Sequence")) {
        const ls_json *list = ls_json_get(p, "pretokenizers");
        if (depth == MAX_DEPTH)
            return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer's sequences are nested too deep");
        for (size_t i = 0; i < ls_json_size(list) && !code; i++)
            code = read_pretokenizer(r, ls_json_at(list, i), depth + 1);
        return code;
    }
    if (r->byte_level) return read_byte_step(r, p);
    if (ls_json_is(type, "ByteLevel")) {
        const bool prefix = depth || !r->set_prefix ? flag(p, "add_prefix_space", true) : r->prefix_space;
        r->byte_level = true;
        if (prefix) code = ls_pretok_add_prefix_space(r->parts.pretok, r->err);
        return !code && flag(p, "use_regex", true) ? add_split(r, ls_gpt2_pattern, LS_ISOLATED, false) : code;
    }
    if (ls_json_is(type, "Split")) {
        ls_str pattern;
        bool literal;
        ls_behavior behavior = LS_ISOLATED;
        if ((code = pattern_of(r, ls_json_get(p, "pattern"), &pattern, &literal)) ||
            (code = behavior_of(r, ls_json_get(p, "behavior"), &behavior)))
            return code;
        return ls_pretok_add_split(r->parts.pretok, pattern.p, pattern.n, literal, behavior, flag(p, "invert", false),
                                   r->err);
    }
    if (ls_json_is(type, "Metaspace")) return read_metaspace(r, p);
    if (ls_json_is(type, "Digits"))
        return add_split(r, "\\p{N}", flag(p, "individual_digits", false) ? LS_ISOLATED : LS_CONTIGUOUS, false);
    if (ls_json_is(type, "Whitespace")) return add_split(r, "[\\w]+|[^\\w\\s]+", LS_REMOVED, true);
    if (ls_json_is(type, "WhitespaceSplit")) return add_split(r, "\\s", LS_REMOVED, false);
    if (ls_json_is(type, "Punctuation")) {
        ls_behavior behavior = LS_ISOLATED;
        const ls_json *b = ls_json_get(p, "behavior");
        if (b && (code = behavior_of(r, b, &behavior))) return code;
        return add_split(r, "[\\p{P}$+<=>^`|~]", behavior, false);
    }
    return unsupported(r, "pre-tokenizer", type,
                       "ByteLevel, Split, Metaspace, Digits, Whitespace, WhitespaceSplit, Punctuation, Sequence");
}

// ---- post-processor and decoder

// Whether U+2581 is decoded as a space.
static bool decodes_spaces(const ls_json *d, int depth) {
    const ls_json *list = ls_json_get(d, "decoders"), *type = ls_json_get(d, "type");
    for (size_t i = 0; i < ls_json_size(list) && depth < MAX_DEPTH; i++)
        if (decodes_spaces(ls_json_at(list, i), depth + 1)) return true;
    return ls_json_is(type, "Metaspace") ||
           (ls_json_is(type, "Replace") && ls_json_is(ls_json_get(ls_json_get(d, "pattern"), "String"), "\u2581"));
}

// The special token that the post-processor puts before a text.
static int32_t begins_with(const reader *r, const ls_json *p, int depth) {
    const ls_json *type = ls_json_get(p, "type"), *list = ls_json_get(p, "processors");
    for (size_t i = 0; i < ls_json_size(list) && depth < MAX_DEPTH; i++) {
        const int32_t id = begins_with(r, ls_json_at(list, i), depth + 1);
        if (id >= 0) return id;
    }
    if (ls_json_is(type, "BertProcessing") || ls_json_is(type, "RobertaProcessing"))
        return id_of(r, str_of(ls_json_at(ls_json_get(p, "cls"), 0)));
    const ls_json *first = ls_json_get(ls_json_at(ls_json_get(p, "single"), 0), "SpecialToken");
    return ls_json_is(type, "TemplateProcessing") ? id_of(r, str_of(ls_json_get(first, "id"))) : -1;
}

// Classes whose own rule for the first token overrides the file's.
static bool has_own_bos(const ls_json *config) {
    static const char *const names[] = {"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "CohereTokenizer"};
    const ls_str class = str_of(ls_json_get(config, "tokenizer_class"));
    for (size_t i = 0; i < 4 && class.p; i++)
        if (!strncmp(class.p, names[i], strlen(names[i]))) return true;
    return false;
}

static ls_code read_model(reader *r) {
    const ls_json *type = ls_json_get(r->model, "type");
    r->unigram = ls_json_is(type, "Unigram");
    if (ls_json_is(type, "WordPiece"))
        return ls_fail(r->err, LS_E_UNSUPPORTED,
                       "the tokenizer's model 'WordPiece' is an encoder's: this program runs decoders");
    if (!r->unigram && !ls_json_is(type, "BPE") && (type || !ls_json_get(r->model, "merges")))
        return unsupported(r, "model", type, "BPE, Unigram");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < 2; i++)
        if (str_of(ls_json_get(r->model, affixes[i])).n)
            return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer's %s is not supported", affixes[i]);
    r->vocab = ls_json_get(r->model, "vocab");
    r->parts.byte_fallback = flag(r->model, "byte_fallback", false);
    r->parts.whole = flag(r->model, "ignore_merges", false);
    r->parts.fuse_unk = r->unigram || flag(r->model, "fuse_unk", false);
    return LS_OK;
}

static ls_code read_all(reader *r) {
    static const char *const named[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    ls_vocab_parts *p = &r->parts;
    const ls_json *first = ls_json_get(r->doc, "pre_tokenizer");
    ls_code code = read_model(r);
    if (!code) code = read_tokens(r);
    if (!code) index_spellings(r);
    if (!code && !r->unigram) code = read_merges(r);
    if (!code) code = read_normalizer(r, ls_json_get(r->doc, "normalizer"), 0);
    if (!code) code = read_pretokenizer(r, first, 0);
    if (!code && r->byte_level && r->unigram)
        code = ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer is Unigram over bytes");
    if (code) return code;
    for (size_t i = 0; i < 4; i++) name_special(r, ls_json_get(r->config, named[i]));
    const ls_json *more = ls_json_get(r->config, "additional_special_tokens");
    for (size_t i = 0; i < ls_json_size(more); i++) name_special(r, ls_json_at(more, i));
    int64_t unk;
    p->kind = r->unigram ? LS_UNIGRAM : r->byte_level ? LS_BYTE_BPE : LS_CHAR_BPE;
    p->unk = id_of(r, str_of(ls_json_get(r->model, "unk_token")));
    if (r->unigram) {
        p->unk = -1;
        if (ls_json_int(ls_json_get(r->model, "unk_id"), &unk)) {
            if (unk < 0 || (size_t)unk >= p->n_tokens)
                return ls_fail(r->err, LS_E_PARSE,
                               "the tokenizer's unknown token %lld is outside its vocabulary of %zu", (long long)unk,
                               p->n_tokens);
            p->unk = (int32_t)unk;
        }
    }
    p->spaces = decodes_spaces(ls_json_get(r->doc, "decoder"), 0);
    p->eos = id_of(r, spelling(ls_json_get(r->config, "eos_token")));
    const ls_json *bos = ls_json_get(r->config, "bos_token");
    p->prefix = begins_with(r, ls_json_get(r->doc, "post_processor"), 0);
    p->bos = bos ? id_of(r, spelling(bos)) : p->prefix; // a configuration that does not name it: the usual one
    if (has_own_bos(r->config)) p->prefix = flag(r->config, "add_bos_token", true) ? id_of(r, spelling(bos)) : -1;
    p->tokens = r->tokens;
    p->types = r->types;
    p->scores = r->scores;
    p->merges = (const ls_str(*)[2])r->merges;
    p->added = r->added;
    return LS_OK;
}

ls_code ls_tokenizer_json(ls_vocab **out, const char *text, size_t n, const char *config, size_t n_config,
                          ls_err *err) {
    ls_json *doc = NULL, *conf = NULL;
    *out = NULL;
    ls_code code = ls_json_parse(&doc, text, n, "tokenizer.json", err);
    if (!code && config) code = ls_json_parse_pythons(&conf, config, n_config, "tokenizer_config.json", err);
    if (!code) {
        reader r = {.doc = doc, .config = conf, .model = ls_json_get(doc, "model"), .limit = n + n_config, .err = err};
        r.set_prefix = conf != NULL;
        r.prefix_space = flag(conf, "add_prefix_space", false);
        r.parts.normalizer = ls_normalizer_new();
        r.parts.pretok = ls_pretok_new();
        code = read_all(&r);
        if (!code) code = ls_vocab_build(out, &r.parts, err);
        else {
            ls_normalizer_free(r.parts.normalizer);
            ls_pretok_free(r.parts.pretok);
        }
        free(r.tokens);
        free(r.types);
        free(r.scores);
        free(r.merges);
        free(r.added);
        free(r.added_at);
        ls_map_free(&r.by_spelling);
        ls_buf_free(&r.charsmap);
    }
    ls_json_free(doc);
    ls_json_free(conf);
    return code;
}
