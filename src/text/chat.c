#include "text/chat.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct ls_chat {
    const ls_vocab *vocab;
    int32_t im_start, im_end;
    char *system; // the template's default; NULL: none
};

static const char *find(const char *p, size_t n, const char *what) {
    return memmem(p, n, what, strlen(what));
}

// The template's default system message stands between a quoted "<|im_start|>system\n" and "<|im_end|>" (the
// line break may be a real one or an escape).
static char *default_system(const char *tmpl, size_t n) {
    static const char head[] = "'<|im_start|>system";
    const char *p = find(tmpl, n, head), *end = tmpl + n;
    if (!p) return NULL;
    p += sizeof head - 1;
    if (p < end && *p == '\n') p++;
    else if (end - p > 1 && p[0] == '\\' && p[1] == 'n') p += 2;
    else return NULL;
    const char *stop = find(p, (size_t)(end - p), "<|im_end|>"), *quote = memchr(p, '\'', (size_t)(end - p));
    if (!stop || (quote && quote < stop)) return NULL; // an expression, not a constant
    return ls_strndup(p, (size_t)(stop - p));
}

ls_code ls_chat_new(ls_chat **out, const ls_vocab *v, const char *tmpl, size_t n, ls_err *err) {
    *out = NULL;
    if (!find(tmpl, n, "<|im_start|>") || !find(tmpl, n, "<|im_end|>") || !find(tmpl, n, "add_generation_prompt"))
        return ls_fail(err, LS_E_UNSUPPORTED, "the model's chat template is not recognised (known: chatml); use --raw");
    int32_t start = ls_vocab_special(v, "<|im_start|>", 12), stop = ls_vocab_special(v, "<|im_end|>", 10);
    if (start < 0 || stop < 0)
        return ls_fail(err, LS_E_UNSUPPORTED,
                       "the chat template uses <|im_start|> and <|im_end|>, which are no special tokens here");
    ls_chat *c = ls_calloc(1, sizeof *c);
    *c = (ls_chat){v, start, stop, default_system(tmpl, n)};
    *out = c;
    return LS_OK;
}

void ls_chat_free(ls_chat *c) {
    if (!c) return;
    free(c->system);
    free(c);
}

const char *ls_chat_name(const ls_chat *c) {
    (void)c;
    return "chatml";
}

static ls_code message(const ls_chat *c, const char *role, const char *text, size_t n, ls_ids *out, ls_err *err) {
    ls_buf run = {0}; // role and content are one run of text, as in the rendered template
    ls_buf_str(&run, role);
    ls_buf_char(&run, '\n');
    ls_buf_add(&run, text, n);
    ls_ids_push(out, c->im_start);
    ls_code code = ls_encode(c->vocab, run.p, run.n, false, out, err);
    ls_buf_free(&run);
    if (code) return code;
    ls_ids_push(out, c->im_end);
    return ls_encode(c->vocab, "\n", 1, false, out, err);
}

ls_code ls_chat_turn(const ls_chat *c, bool first, const char *system, const char *user, size_t n_user, ls_ids *out,
                     ls_err *err) {
    const size_t had = out->n;
    ls_code code = LS_OK;
    if (first) {
        if (!system) system = c->system ? c->system : "";
        if (*system) code = message(c, "system", system, strlen(system), out, err);
    } else {
        ls_ids_push(out, c->im_end);
        code = ls_encode(c->vocab, "\n", 1, false, out, err);
    }
    if (!code) code = message(c, "user", user, n_user, out, err);
    if (!code) {
        static const char prompt[] = "assistant\n";
        ls_ids_push(out, c->im_start);
        code = ls_encode(c->vocab, prompt, sizeof prompt - 1, false, out, err);
    }
    if (code) out->n = had;
    return code;
}
