#include "serve/request.h"

#include <string.h>

// The messages as they are written, and where the request's are read.
typedef struct {
    ls_request *r;
    ls_jsonw w;
    size_t at; // number of the message, for errors
    ls_err *err;
} conversation;

static ls_code wrong(const conversation *c, const char *what) {
    return ls_fail(c->err, LS_E_USAGE, "messages[%zu]: %s", c->at, what);
}

static bool says(const ls_json *o, const char *key, const char *text) {
    return ls_json_is(ls_json_get(o, key), text);
}

static bool is_picture(const ls_json *part) {
    return says(part, "type", "image_url") || says(part, "type", "image") || says(part, "type", "input_image");
}

// The texts of a content: a string, or a list of parts. Parts of the type `other` (NULL: none) are left out.
static ls_code content_text(const conversation *c, const ls_json *v, const char *other, ls_buf *out) {
    size_t n;
    const char *s = ls_json_str(v, &n);
    if (s) ls_buf_add(out, s, n);
    if (v && !s && !ls_json_is_array(v)) return wrong(c, "content must be a string or a list of parts");
    for (size_t i = 0; i < ls_json_size(v); i++) {
        const ls_json *part = ls_json_at(v, i);
        s = says(part, "type", "text") ? ls_json_str(ls_json_get(part, "text"), &n) : NULL;
        if (s) ls_buf_add(out, s, n);
        else if (is_picture(part)) return wrong(c, "pictures are not supported; send only parts of the type text");
        else if (!other || !says(part, "type", other)) return wrong(c, "only parts of the type text are supported");
    }
    return LS_OK;
}

// Begins a message with this content; the caller closes it.
static void open_message(conversation *c, const char *role, const ls_buf *text) {
    ls_jw_open(&c->w, '{');
    ls_jw_field_str(&c->w, "role", role);
    ls_jw_key(&c->w, "content");
    ls_jw_strn(&c->w, text->p ? text->p : "", text->n);
    if (strcmp(role, "user")) return;
    ls_buf_clear(&c->r->text);
    ls_buf_add(&c->r->text, text->p, text->n);
}

static void put_string(conversation *c, const char *key, const ls_json *v) {
    size_t n;
    const char *s = ls_json_str(v, &n);
    if (s) ls_jw_key(&c->w, key), ls_jw_strn(&c->w, s, n);
}

// A call of a tool. Templates write arguments as JSON: a text of JSON would be quoted twice.
static ls_code put_call(conversation *c, const ls_json *id, const ls_json *name, const ls_json *arguments) {
    ls_json *parsed = NULL;
    size_t n;
    const char *text = ls_json_str(arguments, &n);
    if (!ls_json_str(name, NULL)) return wrong(c, "a tool call needs a name");
    if (text && !ls_json_parse(&parsed, text, n, "", NULL)) arguments = parsed;
    if (!ls_json_is_object(arguments)) {
        ls_json_free(parsed);
        return wrong(c, "the arguments of a tool call must be a JSON object");
    }
    ls_jw_open(&c->w, '{');
    put_string(c, "id", id);
    ls_jw_field_str(&c->w, "type", "function");
    ls_jw_field_open(&c->w, "function", '{');
    put_string(c, "name", name);
    ls_jw_key(&c->w, "arguments");
    ls_jw_value(&c->w, arguments);
    ls_jw_close(&c->w, '}');
    ls_jw_close(&c->w, '}');
    ls_json_free(parsed);
    return LS_OK;
}

// ---- OpenAI's form

static ls_code put_calls(conversation *c, const ls_json *calls) {
    ls_code code = ls_json_is_array(calls) ? LS_OK : wrong(c, "tool_calls must be a list");
    ls_jw_field_open(&c->w, "tool_calls", '[');
    for (size_t i = 0; i < ls_json_size(calls) && !code; i++) {
        const ls_json *call = ls_json_at(calls, i), *fn = ls_json_get(call, "function");
        code = put_call(c, ls_json_get(call, "id"), ls_json_get(fn, "name"), ls_json_get(fn, "arguments"));
    }
    ls_jw_close(&c->w, ']');
    return code;
}

static ls_code put_message(conversation *c, const ls_json *m) {
    static const char known[] = "role content name tool_calls tool_call_id reasoning_content refusal annotations";
    size_t n;
    const char *role = ls_json_str(ls_json_get(m, "role"), &n), *bad = NULL;
    ls_buf text = {0};
    if (!role || ls_str_among((ls_str){role, n}, "system developer user assistant tool") < 0)
        return wrong(c, "role must be system, developer, user, assistant or tool");
    if (*role == 'd') role = "system"; // developer is a later name
    for (ls_json_member k = {0}; ls_json_next(m, &k);)
        if (!ls_json_is_null(k.value) && ls_str_among((ls_str){k.key, strlen(k.key)}, known) < 0) bad = k.key;
    if (bad) return ls_fail(c->err, LS_E_USAGE, "messages[%zu]: the field %.60s is not supported", c->at, bad);
    ls_code code = content_text(c, ls_json_given(m, "content"), NULL, &text);
    if (!code && !ls_json_given(m, "content") && !ls_json_given(m, "tool_calls")) code = wrong(c, "content is missing");
    open_message(c, role, &text);
    put_string(c, "name", ls_json_get(m, "name"));
    put_string(c, "tool_call_id", ls_json_get(m, "tool_call_id"));
    put_string(c, "reasoning_content", ls_json_get(m, "reasoning_content"));
    if (!code && ls_json_given(m, "tool_calls")) code = put_calls(c, ls_json_given(m, "tool_calls"));
    ls_jw_close(&c->w, '}');
    ls_buf_free(&text);
    return code;
}

// ---- Anthropic's form

static ls_code put_results(conversation *c, const ls_json *content) {
    ls_code code = LS_OK;
    for (size_t i = 0; i < ls_json_size(content) && !code; i++) {
        const ls_json *part = ls_json_at(content, i);
        ls_buf text = {0};
        if (!says(part, "type", "tool_result")) continue;
        code = content_text(c, ls_json_given(part, "content"), NULL, &text);
        open_message(c, "tool", &text);
        put_string(c, "tool_call_id", ls_json_get(part, "tool_use_id"));
        ls_jw_close(&c->w, '}');
        ls_buf_free(&text);
    }
    return code;
}

static ls_code put_block_message(conversation *c, const ls_json *m) {
    const bool user = says(m, "role", "user");
    const ls_json *content = ls_json_given(m, "content");
    size_t calls = 0, results = 0;
    ls_buf text = {0};
    if (!user && !says(m, "role", "assistant")) return wrong(c, "role must be user or assistant");
    if (!content) return wrong(c, "content is missing");
    for (size_t i = 0; i < ls_json_size(content); i++) {
        calls += says(ls_json_at(content, i), "type", "tool_use");
        results += says(ls_json_at(content, i), "type", "tool_result");
    }
    ls_code code = content_text(c, content, user ? "tool_result" : "tool_use", &text);
    if (!code) code = put_results(c, content);
    if (!code && !(results && !text.n)) { // a message of results alone is those
        open_message(c, user ? "user" : "assistant", &text);
        if (calls) ls_jw_field_open(&c->w, "tool_calls", '[');
        for (size_t i = 0; i < ls_json_size(content) && !code && calls; i++) {
            const ls_json *part = ls_json_at(content, i);
            if (says(part, "type", "tool_use"))
                code = put_call(c, ls_json_get(part, "id"), ls_json_get(part, "name"), ls_json_get(part, "input"));
        }
        if (calls) ls_jw_close(&c->w, ']');
        ls_jw_close(&c->w, '}');
    }
    ls_buf_free(&text);
    return code;
}

// ---- both

static ls_code put_system(conversation *c, const ls_json *v, const char *given) {
    ls_buf text = {0};
    ls_code code = LS_OK;
    if (v) {
        code = content_text(c, v, NULL, &text);
        if (code) ls_err_prefix(c->err, "system");
    } else if (given) ls_buf_str(&text, given);
    if (!code && (v || given)) {
        open_message(c, "system", &text);
        ls_jw_close(&c->w, '}');
    }
    ls_buf_free(&text);
    return code;
}

static ls_code put_tools(conversation *c, const ls_json *tools) {
    for (size_t i = 0; i < ls_json_size(tools); i++) {
        const ls_json *tool = ls_json_at(tools, i), *fn = ls_json_get(tool, "function");
        const bool blocks = c->r->api == LS_API_MESSAGES;
        if (!ls_json_str(ls_json_get(blocks ? tool : fn, "name"), NULL))
            return ls_fail(c->err, LS_E_USAGE, "tools[%zu] is no function with a name", i);
        if (!blocks) {
            ls_jw_value(&c->w, tool);
            continue;
        }
        ls_jw_open(&c->w, '{');
        ls_jw_field_str(&c->w, "type", "function");
        ls_jw_field_open(&c->w, "function", '{');
        put_string(c, "name", ls_json_get(tool, "name"));
        put_string(c, "description", ls_json_get(tool, "description"));
        if (ls_json_given(tool, "input_schema"))
            ls_jw_key(&c->w, "parameters"), ls_jw_value(&c->w, ls_json_given(tool, "input_schema"));
        ls_jw_close(&c->w, '}');
        ls_jw_close(&c->w, '}');
    }
    return LS_OK;
}

// Whether the model gets the tools.
static ls_code wants_tools(const ls_json *body, bool *wants, ls_err *err) {
    const ls_json *choice = ls_json_given(body, "tool_choice"), *type = ls_json_get(choice, "type");
    const ls_json *how = type ? type : choice;
    *wants = ls_json_size(ls_json_given(body, "tools")) && !ls_json_is(how, "none");
    if (ls_json_given(body, "tools") && !ls_json_is_array(ls_json_given(body, "tools")))
        return ls_fail(err, LS_E_USAGE, "tools must be a list");
    return how && !ls_json_is(how, "auto") && !ls_json_is(how, "none")
               ? ls_fail(err, LS_E_USAGE, "tool_choice must be auto or none: a call cannot be forced")
               : LS_OK;
}

ls_code ls_request_messages(ls_request *r, const ls_json *body, const char *system, ls_err *err) {
    const bool blocks = r->api == LS_API_MESSAGES;
    const ls_json *messages = ls_json_given(body, "messages"), *first = ls_json_at(messages, 0);
    const bool own = says(first, "role", "system") || says(first, "role", "developer");
    ls_buf text = {0};
    conversation c = {.r = r, .w = {.out = &text}, .err = err};
    if (!ls_json_size(messages)) return ls_fail(err, LS_E_USAGE, "messages must be a list with a message");
    if (blocks && says(ls_json_at(messages, ls_json_size(messages) - 1), "role", "assistant"))
        return ls_fail(err, LS_E_USAGE, "the last message must be the user's: answers cannot be begun by the client");
    ls_code code = wants_tools(body, &r->tools, err);
    ls_jw_open(&c.w, '{');
    ls_jw_field_open(&c.w, "messages", '[');
    if (!code) code = put_system(&c, ls_json_given(body, "system"), own ? NULL : system);
    for (; c.at < ls_json_size(messages) && !code; c.at++)
        code = (blocks ? put_block_message : put_message)(&c, ls_json_at(messages, c.at));
    ls_jw_close(&c.w, ']');
    if (!code && r->tools) {
        ls_jw_field_open(&c.w, "tools", '[');
        code = put_tools(&c, ls_json_given(body, "tools"));
        ls_jw_close(&c.w, ']');
    }
    ls_jw_close(&c.w, '}');
    if (!code) code = ls_json_parse(&r->chat, text.p, text.n, "messages", err);
    ls_buf_free(&text);
    return code;
}
