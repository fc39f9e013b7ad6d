#include "spec/accept.h"

#include <stdio.h>

#define ACCEPT(rule) extern const ls_accept_rule rule;
#include "spec/accepts.def"
#undef ACCEPT

const ls_accept_rule ls_accept_exact = {
    .is = {.name = "exact",
           .summary = "accepts only the target's choice: the text equals plain decoding's",
           .source = "the standard rule; with sampling, the target's seeded sample"},
};

static const ls_accept_rule *const rules[] = {
#define ACCEPT(rule) &rule,
#include "spec/accepts.def"
#undef ACCEPT
    NULL,
};

const ls_rule *ls_accept_at(int i) {
    return rules[i] ? &rules[i]->is : NULL;
}

ls_code ls_accept_read(ls_accept *out, const char *what, const char *text, ls_err *err) {
    int i;
    *out = (ls_accept){0};
    const ls_code code = ls_rule_read(ls_accept_at, "", what, text, &i, out->values, err);
    if (!code && i) out->rule = rules[i];
    return code;
}

ls_accept ls_accept_usual(int i) {
    ls_accept a = {.rule = i ? rules[i] : NULL};
    for (int k = 0; k < LS_RULE_NUMBERS; k++) a.values[k] = rules[i]->is.number[k].fallback;
    return a;
}

void ls_accept_write(const ls_accept *a, char *out, size_t size) {
    ls_rule_write(a->rule ? &a->rule->is : &ls_accept_exact.is, a->values, out, size);
}

const char *ls_promise_name(ls_promise p) {
    static const char *const names[] = {"text", "odds", "none"};
    return names[p];
}

bool ls_accept_is_lossy(const ls_accept *a) {
    return a->rule && (a->rule->stands || a->rule->reflects);
}

bool ls_accept_previews(const ls_accept *a) {
    return a->rule && a->rule->stands;
}

int32_t ls_accept_draws(const ls_accept *a, double temperature) {
    if (!a->rule || !a->rule->draws || temperature <= 0) return 0;
    return a->rule->is.number[0].name ? (int32_t)a->values[0] : 1;
}

ls_promise ls_accept_promise(const ls_accept *a, double temperature) {
    if (ls_accept_is_lossy(a)) return LS_PROMISE_NONE;
    return ls_accept_draws(a, temperature) ? LS_PROMISE_ODDS : LS_PROMISE_TEXT;
}

int32_t ls_accept_path(const ls_accept *a, const ls_tree *t, int32_t *path) {
    bool has_choice[LS_MAX_ROWS] = {0}, stands[LS_MAX_ROWS] = {true};
    int32_t best = 0;
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        has_choice[n->parent] |= n->token == t->nodes[n->parent].target;
    }
    for (int32_t i = 1; i < t->n; i++) {
        const ls_node *n = &t->nodes[i];
        const bool is_choice = n->token == t->nodes[n->parent].target;
        stands[i] = stands[n->parent] &&
                    (is_choice || (ls_accept_previews(a) && !has_choice[n->parent] && a->rule->stands(a, t, i)));
        if (stands[i] && n->depth > t->nodes[best].depth) best = i;
    }
    return ls_tree_path(t, best, path);
}

int32_t ls_accept_more(const ls_accept *a, const ls_tree *t, int32_t end, int32_t *row) {
    int32_t path[LS_MAX_ROWS];
    const int32_t n = ls_accept_path(a, t, path), first = t->nodes[end].depth + 1;
    if (n <= first || path[first - 1] != end) return 0;
    *row = path[first];
    return n - first;
}
