// Hugging Face's tokenizer.json. References: tokenizers' serialisation; transformers' PreTrainedTokenizerFast, which
// puts the configuration's tokens and flags over the tokenizer's.
#include "base/json.h"
#include "base/mem.h"
#include "text/tokenizer_config.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

typedef struct {
    const ls_json *doc, *model, *vocab;
    ls_tokenizer_config config;
    bool unigram, byte_level, by_class;
    ls_vocab *v;
    ls_vocab_source src; // what the table has, and the number of merges
    ls_token_table table;
    ls_str (*merges)[2];
    ls_buf charsmap;
    ls_err *err;
} reader;

static ls_code unsupported(reader *r, const char *what, const ls_json *type, const char *known) {
    const ls_str s = ls_json_text(type);
    return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer's %s '%.*s' is not supported (supported: %s)", what,
                   (int)(s.n < 40 ? s.n : 40), s.p ? s.p : "?", known);
}

// ---- tokens

static ls_code id_in(reader *r, const ls_json *v, int64_t *id) {
    if (!ls_json_int(v, id) || *id < 0 || !ls_token_table_reach(&r->table, *id + 1))
        return ls_fail(r->err, LS_E_PARSE, "the tokenizer has a token with an invalid id");
    return LS_OK;
}

static ls_code read_ids(reader *r) {
    ls_token_table *t = &r->table;
    int64_t id;
    ls_code code;
    if (!ls_json_is_object(r->vocab)) return ls_fail(r->err, LS_E_PARSE, "the tokenizer has no vocabulary");
    for (ls_json_member m = {0}; ls_json_next(r->vocab, &m);) {
        if ((code = id_in(r, m.value, &id))) return code;
        if (t->types[id] == LS_NORMAL)
            return ls_fail(r->err, LS_E_PARSE, "the tokenizer has two tokens with the id %lld", (long long)id);
        ls_token_table_put(t, id, (ls_str){m.key, strlen(m.key)}, LS_NORMAL);
    }
    return LS_OK;
}

static int32_t id_of(const reader *r, ls_str s) {
    return ls_token_table_id(&r->table, s);
}

static ls_code put_added(reader *r, const ls_json *t) {
    const ls_str s = ls_json_text(ls_json_get(t, "content"));
    int64_t id = 0;
    ls_json_int(ls_json_get(t, "id"), &id);
    if (!s.p) return ls_fail(r->err, LS_E_PARSE, "the tokenizer has an added token without 'content'");
    return ls_token_table_add(&r->table, s, id, ls_added_flags(t, false), r->err);
}

static ls_code read_pieces(reader *r) {
    ls_token_table *t = &r->table;
    const size_t n = ls_json_size(r->vocab);
    t->scored = true;
    if (!ls_token_table_reach(t, (int64_t)n)) return ls_fail(r->err, LS_E_PARSE, "the tokenizer has too many tokens");
    for (size_t i = 0; i < n; i++) {
        const ls_json *pair = ls_json_at(r->vocab, i);
        const ls_str text = ls_json_text(ls_json_at(pair, 0));
        if (!text.p || !ls_json_num(ls_json_at(pair, 1), &t->scores[i]))
            return ls_fail(r->err, LS_E_PARSE, "the tokenizer's entry %zu must be a token and its score", i);
        ls_token_table_put(t, (int64_t)i, text, LS_NORMAL);
    }
    return LS_OK;
}

static ls_code read_tokens(reader *r) {
    const ls_json *list = ls_json_get(r->doc, "added_tokens");
    const size_t n_list = ls_json_size(list);
    int64_t id;
    ls_code code = r->unigram ? read_pieces(r) : read_ids(r);
    for (size_t i = 0; i < n_list && !code; i++) code = id_in(r, ls_json_get(ls_json_at(list, i), "id"), &id);
    for (size_t i = 0; i < n_list && !code; i++) code = put_added(r, ls_json_at(list, i));
    if (!code) code = ls_token_table_configure(&r->table, &r->config, r->err);
    return code || r->table.n ? code : ls_fail(r->err, LS_E_PARSE, "the tokenizer has no tokens");
}

static ls_code read_merges(reader *r) {
    const ls_json *list = ls_json_get(r->model, "merges");
    if (!ls_json_is_array(list)) return ls_fail(r->err, LS_E_PARSE, "the tokenizer has no merges");
    r->src.n_merges = ls_json_size(list);
    r->merges = ls_calloc(r->src.n_merges, sizeof *r->merges);
    for (size_t i = 0; i < r->src.n_merges; i++) {
        const ls_json *m = ls_json_at(list, i);
        if (ls_merge_halves(ls_json_text(m), r->merges[i])) continue;
        for (size_t k = 0; k < 2; k++) r->merges[i][k] = ls_json_text(ls_json_at(m, k));
        if (!r->merges[i][0].p || !r->merges[i][1].p)
            return ls_fail(r->err, LS_E_PARSE, "the tokenizer's merge %zu is not a pair", i);
    }
    return LS_OK;
}

// ---- normalizer

static ls_code pattern_of(reader *r, const ls_json *pattern, ls_str *s, ls_regex_kind *kind) {
    *s = ls_json_text(ls_json_get(pattern, "String"));
    *kind = s->p ? LS_REGEX_LITERAL : LS_REGEX_RUBY;
    if (!s->p) *s = ls_json_text(ls_json_get(pattern, "Regex"));
    return s->p ? LS_OK : ls_fail(r->err, LS_E_PARSE, "the tokenizer has a step without a pattern");
}

// Reads each of a sequence's steps.
static ls_code read_sequence(reader *r, const ls_json *list, int depth,
                             ls_code (*read)(reader *r, const ls_json *one, int depth)) {
    ls_code code = LS_OK;
    if (depth == MAX_DEPTH) return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer's sequences are nested too deep");
    for (size_t i = 0; i < ls_json_size(list) && !code; i++) code = read(r, ls_json_at(list, i), depth + 1);
    return code;
}

static ls_code read_normalizer(reader *r, const ls_json *z, int depth) {
    static const struct {
        const char *name;
        ls_form form;
    } forms[] = {{"NFC", LS_NFC},
                 {"NFD", LS_NFD},
                 {"NFKC", LS_NFKC},
                 {"NFKD", LS_NFKD},
                 {"Lowercase", LS_LOWERCASE},
                 {"StripAccents", LS_STRIP_ACCENTS}};
    const ls_json *type = ls_json_get(z, "type");
    ls_normalizer *to = r->v->normalizer;
    ls_code code = LS_OK;
    if (!z || ls_json_is_null(z)) return LS_OK;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (ls_json_is(type, forms[i].name)) return ls_normalizer_add_form(to, forms[i].form, r->err);
    if (ls_json_is(type, "Sequence")) return read_sequence(r, ls_json_get(z, "normalizers"), depth, read_normalizer);
    if (ls_json_is(type, "Strip"))
        return ls_normalizer_add_strip(to, ls_json_flag(z, "strip_left", true), ls_json_flag(z, "strip_right", true),
                                       r->err);
    if (ls_json_is(type, "Prepend")) {
        const ls_str s = ls_json_text(ls_json_get(z, "prepend"));
        return s.p ? ls_normalizer_add_prepend(to, s.p, s.n, r->err)
                   : ls_fail(r->err, LS_E_PARSE, "the tokenizer has an empty Prepend");
    }
    if (ls_json_is(type, "Replace")) {
        ls_str pattern, by = ls_json_text(ls_json_get(z, "content"));
        ls_regex_kind kind;
        code = pattern_of(r, ls_json_get(z, "pattern"), &pattern, &kind);
        return code ? code : ls_normalizer_add_replace(to, pattern.p, pattern.n, kind, by.p, by.n, r->err);
    }
    if (ls_json_is(type, "Precompiled")) {
        const ls_str s = ls_json_text(ls_json_get(z, "precompiled_charsmap"));
        if (!s.n) return LS_OK;
        ls_buf_clear(&r->charsmap);
        if (!ls_buf_unbase64(&r->charsmap, s))
            return ls_fail(r->err, LS_E_PARSE, "the tokenizer's charsmap is not base64");
        return ls_normalizer_add_precompiled(to, r->charsmap.p, r->charsmap.n, r->err);
    }
    return unsupported(r, "normalizer", type,
                       "NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Prepend, Replace, Precompiled, Sequence");
}

// ---- pre-tokenizer

static ls_code add_split(reader *r, const char *pattern, ls_behavior behavior, bool invert) {
    return ls_pretok_add_split(r->v->pretok, pattern, strlen(pattern), LS_REGEX_RUBY, behavior, invert, r->err);
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
    ls_str mark = ls_json_text(ls_json_get(p, "replacement"));
    const ls_json *scheme = ls_json_get(p, "prepend_scheme");
    const ls_prepend prepend = ls_json_is(scheme, "never") || (!scheme && !ls_json_flag(p, "add_prefix_space", true))
                                   ? LS_PREPEND_NEVER
                               : ls_json_is(scheme, "first") ? LS_PREPEND_FIRST
                                                             : LS_PREPEND_ALWAYS;
    if (!mark.p) mark = (ls_str){"\u2581", 3};
    ls_code code = ls_pretok_add_metaspace(r->v->pretok, mark.p, mark.n, prepend, r->err);
    if (!code && ls_json_flag(p, "split", true))
        code = ls_pretok_add_split(r->v->pretok, mark.p, mark.n, LS_REGEX_LITERAL, LS_MERGED_WITH_NEXT, false, r->err);
    return code;
}

// Falcon's steps behind ByteLevel see the byte alphabet, where six bytes beyond ASCII look like numerals. What other
// expressions would find there is not known here.
static ls_code read_byte_step(reader *r, const ls_json *p) {
    static const char threes[] = "[0-9][0-9][0-9]", digit[] = "[0-9\xb2\xb3\xb9\xbc-\xbe]+";
    const bool digits = ls_json_is(ls_json_get(p, "type"), "Digits"),
               three = ls_json_is(ls_json_get(ls_json_get(p, "pattern"), "Regex"), threes) &&
                       ls_json_is(ls_json_get(p, "behavior"), "Isolated") && !ls_json_flag(p, "invert", false);
    const size_t n = digits ? sizeof digit - 1 - ls_json_flag(p, "individual_digits", false) : sizeof threes - 1;
    if (digits || three)
        return ls_pretok_add_split(r->v->pretok, digits ? digit : threes, n, LS_REGEX_BYTES, LS_ISOLATED, false,
                                   r->err);
    return ls_fail(r->err, LS_E_UNSUPPORTED, "splitting text after ByteLevel is not supported");
}

static ls_code read_pretokenizer(reader *r, const ls_json *p, int depth) {
    const ls_json *type = ls_json_get(p, "type");
    ls_code code = LS_OK;
    if (!p || ls_json_is_null(p)) return LS_OK;
    if (ls_json_is(type, "Sequence"))
        return read_sequence(r, ls_json_get(p, "pretokenizers"), depth, read_pretokenizer);
    if (r->byte_level) return read_byte_step(r, p);
    if (ls_json_is(type, "ByteLevel")) {
        const bool prefix =
            depth || !r->config.config ? ls_json_flag(p, "add_prefix_space", true) : r->config.prefix_space > 0;
        r->byte_level = true;
        if (prefix) code = ls_pretok_add_metaspace(r->v->pretok, " ", 1, LS_PREPEND_ALWAYS, r->err);
        return !code && ls_json_flag(p, "use_regex", true) ? add_split(r, ls_gpt2_pattern, LS_ISOLATED, false) : code;
    }
    if (ls_json_is(type, "Split")) {
        ls_str pattern;
        ls_regex_kind kind;
        ls_behavior behavior = LS_ISOLATED;
        if ((code = pattern_of(r, ls_json_get(p, "pattern"), &pattern, &kind)) ||
            (code = behavior_of(r, ls_json_get(p, "behavior"), &behavior)))
            return code;
        return ls_pretok_add_split(r->v->pretok, pattern.p, pattern.n, kind, behavior, ls_json_flag(p, "invert", false),
                                   r->err);
    }
    if (ls_json_is(type, "Metaspace")) return read_metaspace(r, p);
    if (ls_json_is(type, "Digits"))
        return add_split(r, "\\p{N}", ls_json_flag(p, "individual_digits", false) ? LS_ISOLATED : LS_CONTIGUOUS, false);
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

static ls_code put_around(reader *r, ls_ids *to, const ls_json *ids, ls_str token) {
    const size_t n = ls_json_size(ids);
    int64_t id = n ? -1 : id_of(r, token);
    for (size_t i = 0; i < (n ? n : 1); i++) {
        if (n && !ls_json_int(ls_json_at(ids, i), &id)) id = -1;
        if (id < 0 || (size_t)id >= r->table.n)
            return ls_fail(r->err, LS_E_PARSE, "the tokenizer's post-processor adds '%.*s', which is not a token",
                           (int)(token.n < 60 ? token.n : 60), token.p ? token.p : "");
        ls_ids_push(to, (int32_t)id);
    }
    return LS_OK;
}

// What a template puts around a text: special tokens, the text, special tokens.
static ls_code read_around(reader *r, const ls_json *template, const ls_json *special, ls_ids *before, ls_ids *behind) {
    size_t texts = 0;
    ls_code code = LS_OK;
    for (size_t i = 0; i < ls_json_size(template) && !code; i++) {
        const ls_json *part = ls_json_at(template, i);
        const ls_str token = ls_json_text(ls_json_get(ls_json_get(part, "SpecialToken"), "id"));
        if (token.p)
            code = put_around(r, texts ? behind : before, ls_json_get(ls_json_get(special, token.p), "ids"), token);
        else texts++;
    }
    return code || texts == 1
               ? code
               : ls_fail(r->err, LS_E_UNSUPPORTED,
                         "the tokenizer's post-processor uses the text %zu times; only once is supported", texts);
}

// What the post-processor puts before and behind a text. One step of a sequence may: tokenizers takes what a first one
// made for a pair of texts.
static ls_code read_post_processor(reader *r, const ls_json *p, int depth) {
    const ls_json *type = ls_json_get(p, "type"), *list = ls_json_get(p, "processors");
    const bool template = ls_json_is(type, "TemplateProcessing"),
               around = ls_json_is(type, "BertProcessing") || ls_json_is(type, "RobertaProcessing");
    ls_code code = LS_OK;
    for (size_t i = 0; i < ls_json_size(list) && depth < MAX_DEPTH && !code; i++)
        code = read_post_processor(r, ls_json_at(list, i), depth + 1);
    if (code || (!template && !around)) return code;
    if (r->v->prefix.n || r->v->suffix.n)
        return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer has two post-processors that add tokens");
    if (template)
        return read_around(r, ls_json_get(p, "single"), ls_json_get(p, "special_tokens"), &r->v->prefix, &r->v->suffix);
    code = put_around(r, &r->v->prefix, NULL, ls_json_text(ls_json_at(ls_json_get(p, "cls"), 0)));
    return code ? code : put_around(r, &r->v->suffix, NULL, ls_json_text(ls_json_at(ls_json_get(p, "sep"), 0)));
}

static ls_code read_model(reader *r) {
    const ls_json *type = ls_json_get(r->model, "type");
    r->unigram = ls_json_is(type, "Unigram");
    if (ls_json_is(type, "WordPiece"))
        return ls_fail(r->err, LS_E_UNSUPPORTED,
                       "the tokenizer's model 'WordPiece' is for encoders; only decoders are supported");
    if (!r->unigram && !ls_json_is(type, "BPE") && (type || !ls_json_get(r->model, "merges")))
        return unsupported(r, "model", type, "BPE, Unigram");
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < 2; i++)
        if (ls_json_text(ls_json_get(r->model, affixes[i])).n)
            return ls_fail(r->err, LS_E_UNSUPPORTED, "the tokenizer's %s is not supported", affixes[i]);
    r->vocab = ls_json_get(r->model, "vocab");
    r->v->byte_fallback = ls_json_flag(r->model, "byte_fallback", false);
    r->v->whole = ls_json_flag(r->model, "ignore_merges", false);
    r->v->fuse_unk = r->unigram || ls_json_flag(r->model, "fuse_unk", false);
    return LS_OK;
}

static ls_code read_all(reader *r) {
    ls_vocab *v = r->v;
    const ls_json *first = ls_json_get(r->doc, "pre_tokenizer");
    ls_code code = read_model(r);
    if (!code) code = read_tokens(r);
    if (!code && !r->unigram) code = read_merges(r);
    if (!code) code = read_normalizer(r, ls_json_get(r->doc, "normalizer"), 0);
    if (!code) code = read_pretokenizer(r, first, 0);
    if (!code && r->byte_level && r->unigram)
        code = ls_fail(r->err, LS_E_UNSUPPORTED, "a Unigram tokenizer over bytes is not supported");
    if (code) return code;
    int64_t unk;
    v->kind = r->unigram ? LS_UNIGRAM : r->byte_level ? LS_BYTE_BPE : LS_CHAR_BPE;
    v->unk = id_of(r, ls_json_text(ls_json_get(r->model, "unk_token")));
    if (r->unigram) {
        v->unk = -1;
        if (ls_json_int(ls_json_get(r->model, "unk_id"), &unk)) {
            if (unk < 0 || (size_t)unk >= r->table.n)
                return ls_fail(r->err, LS_E_PARSE,
                               "the tokenizer's unknown token %lld is outside its vocabulary of %zu", (long long)unk,
                               r->table.n);
            v->unk = (int32_t)unk;
        }
    }
    v->spaces = decodes_spaces(ls_json_get(r->doc, "decoder"), 0);
    const int32_t bos = ls_token_table_named(&r->table, &r->config, "bos_token");
    v->eos = ls_token_table_named(&r->table, &r->config, "eos_token");
    const bool known = !r->config.guessed || bos >= 0; // a guess that does not fit is none
    if ((r->config.own_rule && known) || r->by_class) {
        if (r->config.add_bos && bos >= 0) ls_ids_push(&v->prefix, bos);
        if (r->config.add_eos && v->eos >= 0) ls_ids_push(&v->suffix, v->eos);
    } else if ((code = read_post_processor(r, ls_json_get(r->doc, "post_processor"), 0))) return code;
    ls_tokenizer_config_variables(&r->config, &v->variables);
    ls_token_table_lend(&r->table, &r->src);
    return LS_OK;
}

ls_code ls_tokenizer_json(ls_vocab **out, ls_str text, const ls_tokenizer_files *beside, ls_err *err) {
    return ls_tokenizer_document(out, text, "tokenizer.json", beside, false, err);
}

ls_code ls_tokenizer_document(ls_vocab **out, ls_str text, const char *name, const ls_tokenizer_files *beside,
                              bool by_class, ls_err *err) {
    ls_json *doc = NULL;
    reader r = {.by_class = by_class, .err = err};
    *out = NULL;
    ls_code code = ls_json_parse(&doc, text.p, text.n, name, err);
    if (!code) code = ls_tokenizer_config_read(&r.config, beside, err);
    if (!code) {
        r.doc = doc;
        r.model = ls_json_get(doc, "model");
        r.table = (ls_token_table){.limit = text.n + beside->config.n + beside->added.n + beside->special_map.n + 64,
                                   .complete = !by_class};
        r.v = ls_vocab_begin();
        code = read_all(&r);
        if (!code) code = ls_vocab_build(r.v, &r.src, (const ls_str(*)[2])r.merges, err);
        if (code) ls_vocab_free(r.v);
        else *out = r.v;
    }
    ls_token_table_free(&r.table);
    ls_tokenizer_config_free(&r.config);
    free(r.merges);
    ls_buf_free(&r.charsmap);
    ls_json_free(doc);
    return code;
}
