#include "text/chat.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ls_chat {
    const ls_vocab *vocab;
    ls_jinja *template;
    ls_json *names;     // what the vocabulary gives templates
    ls_json *variables; // NULL: none
    int32_t end;
    char hash[17], name[100];
};

ls_code ls_chat_set(ls_chat *c, const char *json, size_t n, ls_err *err) {
    ls_json *variables;
    const ls_code code = ls_json_parse(&variables, json, n, "the template's variables", err);
    if (code) return code;
    if (!ls_json_is_object(variables)) {
        ls_json_free(variables);
        return ls_fail(err, LS_E_USAGE, "the template's variables are not an object: {\"name\": value}");
    }
    ls_json_free(c->variables);
    c->variables = variables;
    return LS_OK;
}

static ls_code render(ls_chat *c, ls_jinja_context context, ls_marked *out, ls_err *err) {
    context.names = c->names;
    context.variables = c->variables;
    context.now = LS_CHAT_DAY;
    if (c->variables) ls_json_int(ls_json_get(c->variables, "now"), &context.now);
    return ls_jinja_render(c->template, &context, out, err);
}

ls_code ls_chat_render(ls_chat *c, const ls_jinja_message *messages, size_t n, bool prompt, ls_marked *out,
                       ls_err *err) {
    return render(c, (ls_jinja_context){.messages = messages, .n_messages = n, .prompt = prompt}, out, err);
}

ls_code ls_chat_render_request(ls_chat *c, const ls_json *request, ls_marked *out, ls_err *err) {
    return render(c, (ls_jinja_context){.request = request, .prompt = true}, out, err);
}

// The first special token behind an answer, with nothing but white space before it.
static int32_t find_end(ls_chat *c) {
    static const char answer[] = "Sphinx";
    const ls_jinja_message messages[] = {{"user", {"x", 1}}, {"assistant", {answer, sizeof answer - 1}}};
    ls_marked text = {0};
    ls_ids ids = {0};
    int32_t end = -1;
    if (!ls_chat_render(c, messages, 2, false, &text, NULL) && text.text.n) {
        const char *at = memmem(text.text.p, text.text.n, answer, sizeof answer - 1);
        if (at && !ls_encode_marked(c->vocab, &text, (size_t)(at - text.text.p) + sizeof answer - 1, &ids, NULL))
            for (size_t i = 0; i < ids.n && end < 0; i++) {
                size_t n;
                const char *p = ls_vocab_bytes(c->vocab, ids.p[i], &n);
                if (ls_vocab_is_special(c->vocab, ids.p[i])) end = ids.p[i];
                else if (n && strspn(p, " \t\r\n") < n) break;
            }
    }
    ls_marked_free(&text);
    ls_ids_free(&ids);
    return end;
}

ls_code ls_chat_new(ls_chat **out, const ls_vocab *v, const char *tmpl, size_t n, ls_err *err) {
    const ls_jinja_message probe = {"user", {"x", 1}};
    ls_marked text = {0};
    *out = NULL;
    ls_chat *c = ls_calloc(1, sizeof *c);
    c->vocab = v;
    c->end = -1;
    const char *names = ls_vocab_variables(v);
    ls_code code = ls_json_parse(&c->names, names, strlen(names), "", err);
    if (!code) code = ls_jinja_parse(&c->template, tmpl, n, err);
    if (!code) code = ls_chat_render(c, &probe, 1, true, &text, err);
    if (!code) {
        c->end = find_end(c);
        size_t n_end;
        const char *end = ls_vocab_bytes(v, c->end, &n_end);
        snprintf(c->hash, sizeof c->hash, "%016llx", (unsigned long long)ls_hash_bytes(tmpl, n));
        snprintf(c->name, sizeof c->name, "template %s, answers end with %.*s", c->hash, (int)(n_end < 48 ? n_end : 48),
                 end);
        *out = c;
    } else {
        ls_err_prefix(err, "the chat template");
        ls_chat_free(c);
    }
    ls_marked_free(&text);
    return code;
}

void ls_chat_free(ls_chat *c) {
    if (!c) return;
    ls_jinja_free(c->template);
    ls_json_free(c->names);
    ls_json_free(c->variables);
    free(c);
}

const char *ls_chat_name(const ls_chat *c) {
    return c->name;
}

const char *ls_chat_hash(const ls_chat *c) {
    return c->hash;
}

int32_t ls_chat_end(const ls_chat *c) {
    return c->end;
}
