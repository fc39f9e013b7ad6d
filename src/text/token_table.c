#include "text/token_table.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

void ls_token_table_free(ls_token_table *t) {
    free(t->tokens);
    free(t->types);
    free(t->scores);
    free(t->added);
    free(t->added_at);
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

static bool same(ls_str a, ls_str b) {
    return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

int32_t ls_token_table_id(const ls_token_table *t, ls_str text) {
    int32_t id;
    if (!text.n) return -1;
    if (ls_map_get(&t->by_text, ls_hash_name(text.p, text.n), &id) && same(t->tokens[id], text)) return id;
    return t->find(t->ud, text);
}

ls_code ls_token_table_add(ls_token_table *t, ls_str text, int64_t id, ls_added a, ls_err *err) {
    if (!text.n) return LS_OK;
    const int32_t in_model = t->find(t->ud, text), known = ls_token_table_id(t, text);
    if (in_model >= 0) id = in_model; // as in the reference
    else if (id < 0) id = known >= 0 ? known : (int64_t)t->n;
    if (!ls_token_table_reach(t, id + 1))
        return ls_fail(err, LS_E_PARSE, "the added token '%.*s' has the invalid id %lld",
                       (int)(text.n < 60 ? text.n : 60), text.p, (long long)id);
    if (t->tokens[id].n && !same(t->tokens[id], text) && !t->renames)
        return ls_fail(err, LS_E_PARSE, "the tokenizer's added token '%.*s' has the id %lld of another token",
                       (int)(text.n < 60 ? text.n : 60), text.p, (long long)id);
    a.id = (int32_t)id;
    if (!same(t->tokens[id], text)) t->types[id] = LS_UNUSED; // not a token of the model: no piece of text becomes it
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

int32_t ls_token_table_named(const ls_token_table *t, const ls_tokenizer_config *c, const char *name) {
    const ls_named_token *named = ls_tokenizer_config_named(c, name);
    return named ? ls_token_table_id(t, named->text) : -1;
}
