#include "text/tokenizer_config.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

// What transformers' classes take where a file does not name it.
typedef struct {
    const char *name;      // without the "Fast" of some
    const char *tokens[4]; // bos, eos, unk, pad
    bool own_rule, add_bos;
} tokenizer_class;

static const tokenizer_class classes[] = {
    {"LlamaTokenizer", {"<s>", "</s>", "<unk>", NULL}, true, true},
    {"CodeLlamaTokenizer", {"<s>", "</s>", "<unk>", NULL}, true, true},
    {"GemmaTokenizer", {"<bos>", "<eos>", "<unk>", "<pad>"}, true, true},
    {"CohereTokenizer", {"<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>", "<UNK>", NULL}, true, true},
    {"GPTNeoXTokenizer", {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL}, true, false},
    {"GPT2Tokenizer", {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL}, false, false},
    {"CodeGenTokenizer", {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>", NULL}, false, false},
    {"Qwen2Tokenizer", {NULL, "<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}, false, false},
    {"BloomTokenizer", {"<s>", "</s>", "<unk>", "<pad>"}, false, false},
    {"T5Tokenizer", {NULL, "</s>", "<unk>", "<pad>"}, false, false},
};

ls_added ls_added_flags(const ls_json *t, bool special) {
    ls_added a = {
        .id = -1,
        .special = ls_json_flag(t, "special", special),
        .lstrip = ls_json_flag(t, "lstrip", false),
        .rstrip = ls_json_flag(t, "rstrip", false),
        .single_word = ls_json_flag(t, "single_word", false),
    };
    a.normalized = ls_json_flag(t, "normalized", !a.special);
    return a;
}

// ---- names

static void put_named(ls_tokenizer_config *c, const char *name, const ls_json *v, ls_str text) {
    if (v) text = ls_json_text(ls_json_is_object(v) ? ls_json_get(v, "content") : v);
    if (!text.n) return;
    const ls_str key = name ? (ls_str){name, strlen(name)} : text;
    int32_t at = *ls_map_at(&c->by_name, ls_hash_name(key.p, key.n) ^ !name, (int32_t)c->n_named);
    const ls_named_token *had = (size_t)at < c->n_named ? &c->named[at] : NULL;
    if (had && (!name != !had->name || !ls_str_same(key, name ? (ls_str){had->name, strlen(had->name)} : had->text)))
        had = NULL;
    if (!had) {
        at = (int32_t)c->n_named;
        c->named = ls_grown(c->named, c->n_named++, sizeof *c->named);
    }
    c->named[at] =
        (ls_named_token){.name = name, .text = text, .flags = ls_added_flags(v, true), .flagged = ls_json_is_object(v)};
    c->named[at].flags.special = true;
    ls_map_put(&c->by_text, ls_hash_name(text.p, text.n), at);
}

static void put_list(ls_tokenizer_config *c, const ls_json *list) {
    for (size_t i = 0; i < ls_json_size(list); i++) put_named(c, NULL, ls_json_at(list, i), (ls_str){NULL, 0});
}

enum { N_STANDARD = 7 };
static const char *const standard[N_STANDARD] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                 "pad_token", "cls_token", "mask_token"};

// Where a name stands among transformers' attributes: tokens that are nowhere else get their ids in this order.
static size_t place_of(const char *name) {
    for (size_t i = 0; i < N_STANDARD && name; i++)
        if (!strcmp(standard[i], name)) return i;
    return name ? N_STANDARD + 1 : N_STANDARD; // additional_special_tokens, then any other
}

// Puts the names into that order; the maps are not needed any more.
static void sort_names(ls_tokenizer_config *c) {
    ls_named_token *sorted = ls_calloc(c->n_named, sizeof *sorted);
    size_t n = 0;
    for (size_t place = 0; place <= N_STANDARD + 1; place++)
        for (size_t i = 0; i < c->n_named; i++)
            if (place_of(c->named[i].name) == place) sorted[n++] = c->named[i];
    free(c->named);
    c->named = sorted;
}

// For transformers 5 every key that ends in _token is a name; where a file has the additional_special_tokens of
// transformers 4, the others are in extra_special_tokens.
static void read_names(ls_tokenizer_config *c, const ls_json *from) {
    const ls_json *extra = ls_json_get(from, "extra_special_tokens"),
                  *more = ls_json_get(from, "additional_special_tokens");
    for (ls_json_member m = {0}; ls_json_next(from, &m);)
        if (more ? place_of(m.key) < N_STANDARD : ls_ends_with(m.key, "_token"))
            put_named(c, m.key, m.value, (ls_str){NULL, 0});
    for (ls_json_member m = {0}; ls_json_next(extra, &m);) put_named(c, m.key, m.value, (ls_str){NULL, 0});
    put_list(c, more);
    put_list(c, extra);
}

static bool is_named(const ls_tokenizer_config *c, ls_str text) {
    int32_t at;
    return ls_map_get(&c->by_text, ls_hash_name(text.p, text.n), &at) && ls_str_same(c->named[at].text, text);
}

// ---- added tokens

static void put_added(ls_tokenizer_config *c, ls_str text, int64_t id, ls_added flags) {
    c->added = ls_grown(c->added, c->n_added, sizeof *c->added);
    flags.id = (int32_t)id;
    c->added[c->n_added++] = (ls_listed_token){text, flags};
}

static ls_code read_decoder(ls_tokenizer_config *c, const ls_json *list, ls_err *err) { // "id": token
    for (ls_json_member m = {0}; ls_json_next(list, &m);) {
        char *end;
        const long long id = strtoll(m.key, &end, 10);
        const ls_str text = ls_json_text(ls_json_get(m.value, "content"));
        if (!*m.key || *end || id < 0 || id > INT32_MAX)
            return ls_fail(err, LS_E_PARSE, "tokenizer_config.json: an added token has the invalid id '%.20s'", m.key);
        if (!text.p)
            return ls_fail(err, LS_E_PARSE, "tokenizer_config.json: the added token %lld has no 'content'", id);
        put_added(c, text, id, ls_added_flags(m.value, false));
    }
    return LS_OK;
}

static ls_code read_added(ls_tokenizer_config *c, ls_err *err) { // "token": id
    for (ls_json_member m = {0}; ls_json_next(c->more, &m);) {
        const ls_str text = {m.key, strlen(m.key)};
        const bool special = is_named(c, text);
        int64_t id;
        if (!ls_json_int(m.value, &id) || id < 0 || id > INT32_MAX)
            return ls_fail(err, LS_E_PARSE, "added_tokens.json: '%.60s' has an invalid id", m.key);
        put_added(c, text, id, (ls_added){.special = special, .normalized = !special});
    }
    return LS_OK;
}

// ---- the class

static const tokenizer_class *class_of(const ls_json *config, const char *usual) {
    ls_str name = ls_json_text(ls_json_get(config, "tokenizer_class"));
    if (!name.p && usual) name = (ls_str){usual, strlen(usual)};
    if (name.n > 4 && !memcmp(name.p + name.n - 4, "Fast", 4)) name.n -= 4;
    for (size_t i = 0; i < sizeof classes / sizeof *classes && name.p; i++)
        if (ls_str_is(name, classes[i].name)) return &classes[i];
    return NULL;
}

static ls_code parse(ls_json **out, ls_str text, const char *name, ls_err *err) {
    const ls_code code = text.n ? ls_json_parse_pythons(out, text.p, text.n, name, err) : LS_OK;
    return code || !*out || ls_json_is_object(*out) ? code : ls_fail(err, LS_E_PARSE, "%s is not an object", name);
}

ls_code ls_tokenizer_config_read(ls_tokenizer_config *c, const ls_tokenizer_files *files, ls_err *err) {
    ls_code code;
    *c = (ls_tokenizer_config){.prefix_space = -1};
    if ((code = parse(&c->config, files->config, "tokenizer_config.json", err)) ||
        (code = parse(&c->special_map, files->special_map, "special_tokens_map.json", err)) ||
        (code = parse(&c->more, files->added, "added_tokens.json", err)))
        return code;
    for (size_t i = 0; i < N_STANDARD; i++) {
        const ls_json *v = ls_json_get(c->config, standard[i]);
        if (v && !ls_json_is_null(v) && !ls_json_text(v).p && !ls_json_text(ls_json_get(v, "content")).p)
            return ls_fail(err, LS_E_PARSE, "tokenizer_config.json: '%s' is not a token", standard[i]);
    }
    const tokenizer_class *class = class_of(c->config, files->usual_class);
    static const char *const defaults[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    c->guessed = !ls_json_get(c->config, "tokenizer_class");
    for (size_t i = 0; i < 4 && class; i++) // null in a file switches a default off
        if (class->tokens[i] && !ls_json_get(c->config, defaults[i])) {
            put_named(c, defaults[i], NULL, (ls_str){class->tokens[i], strlen(class->tokens[i])});
            c->named[c->n_named - 1].guessed = c->guessed;
        }
    static const char *const infill[][2] = {{"prefix_token", "\u2581<PRE>"},
                                            {"middle_token", "\u2581<MID>"},
                                            {"suffix_token", "\u2581<SUF>"},
                                            {"eot_token", "\u2581<EOT>"}};
    for (size_t i = 0; i < 4 && class && !strcmp(class->name, "CodeLlamaTokenizer"); i++)
        put_named(c, NULL, ls_json_get(c->config, infill[i][0]), (ls_str){infill[i][1], strlen(infill[i][1])});
    const ls_json *list = ls_json_get(c->config, "added_tokens_decoder");
    read_names(c, c->config);
    if (!list) read_names(c, c->special_map);
    code = list ? read_decoder(c, list, err) : read_added(c, err);
    c->own_rule = class && class->own_rule;
    c->add_bos = ls_json_flag(c->config, "add_bos_token", class && class->add_bos);
    c->add_eos = ls_json_flag(c->config, "add_eos_token", false);
    c->class = class ? class->name : ls_json_str(ls_json_get(c->config, "tokenizer_class"), NULL);
    c->llama = class && !strcmp(class->name, "LlamaTokenizer");
    c->legacy = !c->llama || ls_json_flag(c->config, "legacy", true);
    sort_names(c);
    bool space;
    if (ls_json_bool(ls_json_get(c->config, "add_prefix_space"), &space)) c->prefix_space = space;
    return code;
}

void ls_tokenizer_config_free(ls_tokenizer_config *c) {
    ls_json_free(c->config);
    ls_json_free(c->special_map);
    ls_json_free(c->more);
    ls_map_free(&c->by_name);
    ls_map_free(&c->by_text);
    free(c->named);
    free(c->added);
}

void ls_tokenizer_config_variables(const ls_tokenizer_config *c, ls_buf *out) {
    ls_jsonw w = {.out = out};
    size_t listed = 0;
    ls_jw_open(&w, '{');
    for (size_t i = 0; i < c->n_named; i++) {
        const ls_named_token *t = &c->named[i];
        listed += !t->name;
        if (!t->name || t->absent) continue;
        ls_jw_any_key(&w, t->name, strlen(t->name));
        ls_jw_strn(&w, t->text.p, t->text.n);
    }
    if (listed) {
        ls_jw_field_open(&w, "additional_special_tokens", '[');
        for (size_t i = 0; i < c->n_named; i++)
            if (!c->named[i].name) ls_jw_strn(&w, c->named[i].text.p, c->named[i].text.n);
        ls_jw_close(&w, ']');
    }
    ls_jw_close(&w, '}');
}

ls_code ls_tokenizer_variables(const ls_tokenizer_files *files, ls_buf *out, ls_err *err) {
    ls_tokenizer_config c;
    const ls_code code = ls_tokenizer_config_read(&c, files, err);
    if (!code) ls_tokenizer_config_variables(&c, out);
    ls_tokenizer_config_free(&c);
    return code;
}

// ---- the table of tokens

void ls_token_table_free(ls_token_table *t) {
    free(t->tokens);
    free(t->types);
    free(t->scores);
    free(t->added);
    free(t->added_at);
    ls_map_free(&t->in_model);
    ls_map_free(&t->by_text);
}

bool ls_token_table_reach(ls_token_table *t, int64_t n) {
    if (n <= (int64_t)t->n) return true;
    if ((uint64_t)n > t->limit) return false;
    if ((size_t)n > t->room) {
        t->room = (size_t)n < t->room * 2 ? t->room * 2 : (size_t)n;
        t->tokens = ls_realloc(t->tokens, t->room * sizeof *t->tokens);
        t->types = ls_realloc(t->types, t->room * sizeof *t->types);
        t->added = ls_realloc(t->added, t->room * sizeof *t->added);
        t->added_at = ls_realloc(t->added_at, t->room * sizeof *t->added_at);
        if (t->scored) t->scores = ls_realloc(t->scores, t->room * sizeof *t->scores);
    }
    for (size_t i = t->n; i < (size_t)n; i++) {
        t->tokens[i] = (ls_str){NULL, 0};
        t->types[i] = LS_UNUSED;
        t->added_at[i] = 0;
        if (t->scored) t->scores[i] = 0;
    }
    t->n = (size_t)n;
    return true;
}

void ls_token_table_put(ls_token_table *t, int64_t id, ls_str text, int32_t type) {
    t->tokens[id] = text;
    t->types[id] = type;
    ls_map_at(&t->in_model, ls_hash_name(text.p, text.n), (int32_t)id);
}

static int32_t find(const ls_token_table *t, const ls_map *by_text, ls_str text) {
    int32_t id;
    return ls_map_get(by_text, ls_hash_name(text.p, text.n), &id) && ls_str_same(t->tokens[id], text) ? id : -1;
}

int32_t ls_token_table_id(const ls_token_table *t, ls_str text) {
    if (!text.n) return -1;
    const int32_t id = find(t, &t->by_text, text);
    return id >= 0 ? id : find(t, &t->in_model, text);
}

ls_code ls_token_table_add(ls_token_table *t, ls_str text, int64_t id, ls_added a, ls_err *err) {
    if (!text.n) return LS_OK;
    const int32_t in_model = find(t, &t->in_model, text), known = ls_token_table_id(t, text);
    if (in_model >= 0) id = in_model; // as in the reference
    else if (id < 0) id = known >= 0 ? known : (int64_t)t->n;
    if (!ls_token_table_reach(t, id + 1))
        return ls_fail(err, LS_E_PARSE, "the added token '%.*s' has the invalid id %lld",
                       (int)(text.n < 60 ? text.n : 60), text.p, (long long)id);
    if (t->tokens[id].n && !ls_str_same(t->tokens[id], text) && !t->renames)
        return ls_fail(err, LS_E_PARSE, "the tokenizer's added token '%.*s' has the id %lld of another token",
                       (int)(text.n < 60 ? text.n : 60), text.p, (long long)id);
    a.id = (int32_t)id;
    if (!ls_str_same(t->tokens[id], text))
        t->types[id] = LS_UNUSED; // not a token of the model: no piece of text becomes it
    t->tokens[id] = text;
    // the last entry of a token holds, but its place of search is the first entry's, as in tokenizers
    if (!t->added_at[id]) t->added_at[id] = (int32_t)++t->n_added;
    else {
        const ls_added *had = &t->added[t->added_at[id] - 1];
        a.normalized = had->normalized && (a.normalized || had->special);
    }
    t->added[t->added_at[id] - 1] = a;
    ls_map_at(&t->by_text, ls_hash_name(text.p, text.n), a.id);
    return LS_OK;
}

static int by_id(const void *a, const void *b) {
    const int32_t x = ((const ls_listed_token *)a)->token.id, y = ((const ls_listed_token *)b)->token.id;
    return (x > y) - (x < y);
}

ls_code ls_token_table_configure(ls_token_table *t, ls_tokenizer_config *c, ls_err *err) {
    ls_code code = LS_OK;
    ls_map listed = {0}; // hashes of what the configuration lists with an id
    if (c->n_added) qsort(c->added, c->n_added, sizeof *c->added, by_id);
    for (size_t i = 0; i < c->n_added && !code; i++) {
        ls_map_put(&listed, ls_hash_name(c->added[i].text.p, c->added[i].text.n), 1);
        code = ls_token_table_add(t, c->added[i].text, c->added[i].token.id, c->added[i].token, err);
    }
    // the tokens that have a name are special ones even where no list says so; their flags hold beside a list without
    // them
    for (size_t i = 0; i < c->n_named && !code; i++) {
        ls_named_token *named = &c->named[i];
        const int32_t id = ls_token_table_id(t, named->text);
        int32_t is;
        named->absent = id < 0 && named->guessed && t->complete;
        if (named->absent) continue;
        const bool flagged =
            named->flagged && c->n_added && !ls_map_get(&listed, ls_hash_name(named->text.p, named->text.n), &is);
        if (id >= 0 && t->added_at[id] && !flagged) t->added[t->added_at[id] - 1].special = true;
        else code = ls_token_table_add(t, named->text, -1, named->flags, err);
    }
    ls_map_free(&listed);
    return code;
}

void ls_token_table_lend(const ls_token_table *t, ls_vocab_source *src) {
    src->tokens = t->tokens;
    src->types = t->types;
    src->scores = t->scores;
    src->n_tokens = t->n;
    src->added = t->added;
    src->n_added = t->n_added;
}

int32_t ls_token_table_named(const ls_token_table *t, const ls_tokenizer_config *c, const char *name) {
    for (size_t i = 0; i < c->n_named; i++)
        if (c->named[i].name && !c->named[i].absent && !strcmp(c->named[i].name, name))
            return ls_token_table_id(t, c->named[i].text);
    return -1;
}
