#include "spec/sizing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZING(rule) extern const ls_sizing_rule rule;
#include "spec/sizings.def"
#undef SIZING

static const ls_sizing_rule *const rules[] = {
#define SIZING(rule) &rule,
#include "spec/sizings.def"
#undef SIZING
    NULL,
};

const ls_rule *ls_sizing_at(int i) {
    return rules[i] ? &rules[i]->is : NULL;
}

ls_code ls_sizing_read(ls_sizing *out, const char *what, const char *text, ls_err *err) {
    *out = (ls_sizing){0};
    if (!strcmp(text, "default")) return LS_OK;
    int i;
    const ls_code code = ls_rule_read(ls_sizing_at, "default, ", what, text, &i, out->values, err);
    if (!code) out->rule = rules[i];
    ls_sizing_tune(out, NULL);
    return code;
}

const ls_sizing_rule *ls_sizing_rule_at(int i) {
    return rules[i];
}

void ls_sizing_tune(ls_sizing *z, const ls_knob_value *all) {
    const ls_knob *k = z->rule ? z->rule->knobs : NULL;
    const size_t first = k && all ? ls_knob_of_sizing(z->rule) : 0;
    for (size_t i = 0; k && k[i].key; i++) z->knobs[i] = all ? all[first + i].number : k[i].fallback;
}

void ls_sizing_settle(ls_sizing *z, const ls_method *m, int32_t budget) {
    if (z->rule) return;
    ls_sizing_read(z, "", budget > 0 ? "fixed" : m->sized ? "auto" : "paper", NULL);
    if (budget > 0) z->values[0] = budget;
}

int32_t ls_sizing_ask(const ls_sizing *z, const ls_method *m, int32_t budget) {
    int32_t rows = z->rule->ask(z, m);
    if (budget > 0 && rows > budget && !z->rule->picks) rows = budget;
    return rows < 1 ? 1 : rows > LS_MAX_ROWS ? LS_MAX_ROWS : rows;
}

void ls_sizing_order(const ls_tree *t, const double *path, int32_t *order) {
    for (int32_t i = 0; i < t->n;
         i++) { // stable insertion sort: a row is never more likely than its parent, so parents stay first
        int32_t at = i;
        for (; at > 0 && path[order[at - 1]] < path[i]; at--) order[at] = order[at - 1];
        order[at] = i;
    }
}

void ls_sizing_entropy(const ls_tree *t, double *entropy) {
    double rest[LS_MAX_ROWS];
    for (int32_t i = 0; i < t->n; i++) entropy[i] = 0, rest[i] = 1;
    for (int32_t i = 1; i < t->n; i++) {
        const double p = (double)t->nodes[i].est_p;
        if (p > 0) entropy[t->nodes[i].parent] -= p * log(p);
        rest[t->nodes[i].parent] -= p;
    }
    for (int32_t i = 0; i < t->n; i++)
        if (rest[i] > 0) entropy[i] -= rest[i] * log(rest[i]);
    for (int32_t i = 0; i < t->n; i++)
        if (t->nodes[i].said) entropy[i] = (double)t->said[t->nodes[i].said - 1].entropy;
}

void ls_sizing_cut(const ls_sizing *z, ls_tree *t, const ls_cost_curve *costs, int32_t context, int32_t budget) {
    if (!z->rule->cut) return;
    double path[LS_MAX_ROWS];
    bool keep[LS_MAX_ROWS];
    int32_t order[LS_MAX_ROWS], kept = 0;
    for (int32_t i = 0; i < t->n; i++) {
        path[i] = i ? path[t->nodes[i].parent] * (double)t->nodes[i].est_p : 1;
        keep[i] = true;
    }
    z->rule->cut(z, t, path, costs, context, keep);
    if (z->rule->picks && budget > 0) {
        ls_sizing_order(t, path, order);
        for (int32_t i = 0; i < t->n; i++) keep[order[i]] &= kept < budget, kept += keep[order[i]];
    }
    for (int32_t i = 1; i < t->n;
         i++) // keep rows with draws: the drawn tokens must not influence which rows the target verifies
        keep[i] |= t->nodes[i].said && t->said[t->nodes[i].said - 1].n_draws;
    ls_tree_keep(t, keep);
}

void ls_sizing_learn(ls_sizing *z, const ls_tree *t, int32_t n_path) {
    if (z->rule->learn) z->rule->learn(z, t, n_path);
}

void ls_sizing_write(const ls_sizing *z, char *out, size_t size) {
    if (z->rule) ls_rule_write(&z->rule->is, z->values, out, size);
    else snprintf(out, size, "default");
}
