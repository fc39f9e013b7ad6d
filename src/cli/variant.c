#include "cli/variant.h"
#include "base/alias.h"
#include "base/mem.h"
#include "spec/sizing.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VARIANTS = 64 };
static const char marks[] = ":/@+";

// Applies one part, part[0..n), whose meaning depends on the mark before it.
static ls_code set_part(ls_variant *c, char mark, const char *part, size_t n, const char *method, ls_err *err) {
    static const char *const keys[] = {[':'] = "decode.max_rows", ['/'] = "decode.sizing", ['@'] = "decode.acceptance"};
    char *text = ls_strndup(part, n), *equals = strchr(text, '='), *key = NULL;
    ls_code code;
    if (mark != '+') code = ls_options_set(&c->options, keys[(int)mark], text, c->label, err);
    else if (!equals) code = ls_fail(err, LS_E_USAGE, "%s: +KNOB=VALUE is expected after the method", c->label);
    else { // methods with a draft model have their knobs in the section draft
        key = ls_format("%s.%.*s", ls_method_find(method)->asks_model ? "draft" : method, (int)(equals - text), text);
        code = ls_options_set(&c->options, key, equals + 1, c->label, err);
    }
    free(key);
    free(text);
    return code;
}

// The length of the sizing rule's name with which the text begins: marks may belong to it, as in "specdec++". 0: none.
static size_t rule_of(const char *text) {
    size_t most = 0;
    const ls_rule *r;
    for (int i = 0; (r = ls_sizing_at(i)); i++) {
        const size_t n = strlen(r->name);
        if (n > most && !strncmp(text, r->name, n)) most = n;
    }
    return most;
}

static ls_code read_word(ls_variant *c, const char *text, ls_err *err) {
    size_t n = strcspn(text, marks);
    char *method = ls_strndup(text, n);
    ls_code code = ls_options_set(&c->options, "decode.method", method, c->label, err);
    while (!code && text[n]) {
        const char mark = text[n], *part = text + n + 1;
        // after another mark, a colon belongs to the rule: "/fixed:8"
        const size_t len = strcspn(part, mark == ':' ? "/@+" : mark == '+' ? "+" : "/@+");
        const size_t name = mark == '/' ? rule_of(part) : 0,
                     whole = name > len ? name + strcspn(part + name, "/@+") : len;
        code = set_part(c, mark, part, whole, method, err);
        n += 1 + whole;
    }
    free(method);
    return code;
}

ls_code ls_variant_read(ls_variant *out, const char *text, const ls_options *base, ls_err *err) {
    *out = (ls_variant){0};
    if (!*text || strlen(text) >= sizeof out->label)
        return ls_fail(err, LS_E_USAGE, "'%.60s' is not METHOD[:ROWS][/SIZING][@ACCEPTANCE][+KNOB=VALUE]", text);
    ls_label_now(text, out->label, sizeof out->label);
    ls_options_copy(&out->options, base);
    ls_options_start_cold(&out->options, false); // comparisons are of methods, not of what earlier runs taught them
    const bool file = ls_ends_with(text, ".yaml") || ls_ends_with(text, ".yml");
    const ls_code code = file ? ls_options_file(&out->options, text, true, err) : read_word(out, text, err);
    if (code) {
        ls_options_free(&out->options);
        return code;
    }
    out->method = ls_method_find(out->options.method);
    ls_run_setup_init(&out->setup, &out->options);
    return LS_OK;
}

void ls_variant_free(ls_variant *c) {
    ls_run_setup_free(&c->setup);
    ls_options_free(&c->options);
}

static bool can_be_made(const ls_method *m, const ls_options *o) { // given the files that the options name
    ls_drafter *d = NULL;
    const ls_draft_setup setup = {.knobs = o->knobs + ls_knob_offset(m), .tokenizer = "", .read_only = true};
    const bool ok = !ls_drafter_make(&d, m, &setup, NULL);
    if (d) d->free(d);
    return ok;
}

ls_code ls_variants_read(ls_variant **out, int *n, const char *what, const char *list, const ls_options *base,
                         ls_err *err) {
    ls_buf all = {0};
    *n = 0;
    *out = ls_calloc(MAX_VARIANTS, sizeof **out);
    if (!strncmp(list, "all", 3) && (!list[3] || list[3] == ',')) {
        for (const ls_method *const *m = ls_methods; *m; m++)
            if (can_be_made(*m, base)) ls_buf_fmt(&all, "%s%s", all.n ? "," : "", (*m)->name);
        ls_buf_str(&all, list + 3);
        list = all.p;
    }
    ls_code code = LS_OK;
    for (const char *p = list; !code && (*p || !*n);) {
        const size_t len = strcspn(p, ",");
        char *word = ls_strndup(p, len);
        if (*n == MAX_VARIANTS) code = ls_fail(err, LS_E_USAGE, "%s: at most %d methods", what, MAX_VARIANTS);
        else if (!(code = ls_variant_read(&(*out)[*n], word, base, err))) ++*n;
        else ls_err_prefix(err, "%s", what);
        free(word);
        p += len + (p[len] == ',');
    }
    ls_buf_free(&all);
    if (code) {
        ls_variants_free(*out, *n);
        *out = NULL;
        *n = 0;
    }
    return code;
}

void ls_variants_free(ls_variant *c, int n) {
    for (int i = 0; i < n; i++) ls_variant_free(&c[i]);
    free(c);
}
