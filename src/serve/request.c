#include "serve/request.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

typedef enum { READ, TAKEN, NIL, NO, YES, ZERO, ONE, EMPTY } kind;

static const struct {
    const char *names, *apis;
    kind kind;
} fields[] = {
#define FIELD(...) {__VA_ARGS__},
#include "serve/fields.def"
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

static bool changes_nothing(kind k, const ls_json *v) {
    double number = -1;
    bool flag = false;
    ls_json_num(v, &number);
    switch (k) {
    case NO: return ls_json_bool(v, &flag) && !flag;
    case YES: return ls_json_bool(v, &flag) && flag;
    case ZERO: return number == 0;
    case ONE: return number == 1;
    case EMPTY: return ls_json_is_array(v) ? !ls_json_size(v) : ls_json_is_object(v) && !ls_json_members(v);
    default: return k != NIL;
    }
}

static ls_code check_field(ls_api api, const char *key, const ls_json *v, ls_err *err) {
    static const char *const needed[] = {
        [NIL] = "null", [NO] = "false", [YES] = "true", [ZERO] = "0", [ONE] = "1", [EMPTY] = "empty"};
    for (int i = 0; i < FIELDS; i++) {
        if (ls_str_among((ls_str){key, strlen(key)}, fields[i].names) < 0 || !strchr(fields[i].apis, "CTMKD"[api]))
            continue;
        if (!ls_json_is_null(v) && !changes_nothing(fields[i].kind, v))
            return ls_fail(err, LS_E_USAGE, "%s is not supported: it must be %s or absent", key,
                           needed[fields[i].kind]);
        return LS_OK;
    }
    return ls_json_is_null(v) ? LS_OK : ls_fail(err, LS_E_USAGE, "the field %.60s is not supported", key);
}

// Bounds what the parser allocates and how deep it goes.
static ls_code check_size(ls_str body, ls_err *err) {
    size_t depth = 0, deepest = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < body.n; i++) {
        const char c = body.p[i];
        if (quoted && c == '\\') i++;
        else if (c == '"') quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{')) depth++, values++;
        else if (!quoted && (c == ']' || c == '}') && depth) depth--;
        else if (!quoted && c == ',') values++;
        if (depth > deepest) deepest = depth;
    }
    if (body.n > LS_BODY_BYTES) return ls_fail(err, LS_E_USAGE, "the body has more than %d bytes", LS_BODY_BYTES);
    if (deepest > LS_BODY_DEPTH) return ls_fail(err, LS_E_USAGE, "the JSON is nested deeper than %d", LS_BODY_DEPTH);
    if (values > LS_BODY_VALUES) return ls_fail(err, LS_E_USAGE, "the JSON has more than %d values", LS_BODY_VALUES);
    return LS_OK;
}

static ls_code take_int(const ls_json *o, const char *key, int64_t least, int64_t most, int32_t *out, ls_err *err) {
    const ls_json *v = ls_json_given(o, key);
    int64_t n = 0;
    if (v && (!ls_json_int(v, &n) || n < least || n > most))
        return ls_fail(err, LS_E_USAGE, "%s must be a whole number from %lld to %lld", key, (long long)least,
                       (long long)most);
    if (v) *out = (int32_t)n;
    return LS_OK;
}

static ls_code take_num(const ls_json *o, const char *key, double least, double most, double *out, ls_err *err) {
    const ls_json *v = ls_json_given(o, key);
    double x = 0;
    if (v && (!ls_json_num(v, &x) || !(x >= least && x <= most)))
        return ls_fail(err, LS_E_USAGE, "%s must be a number from %g to %g", key, least, most);
    if (v) *out = x;
    return LS_OK;
}

static ls_code take_bool(const ls_json *o, const char *key, bool *out, ls_err *err) {
    const ls_json *v = ls_json_given(o, key);
    return v && !ls_json_bool(v, out) ? ls_fail(err, LS_E_USAGE, "%s must be true or false", key) : LS_OK;
}

static ls_code take_model(const ls_json *o, const ls_request_defaults *d, ls_err *err) {
    const ls_json *v = ls_json_given(o, "model");
    const char *name = ls_json_str(v, NULL);
    if (v && !name) return ls_fail(err, LS_E_USAGE, "model must be a string");
    for (int i = 0; name && d->models[i]; i++)
        if (!strcmp(name, d->models[i])) return LS_OK;
    return name ? ls_fail(err, LS_E_UNSUPPORTED, "the model '%.80s' is not served here; '%s' is", name, d->models[0])
                : LS_OK;
}

static ls_code take_seed(ls_request *r, const ls_json *o, const ls_request_defaults *d, ls_err *err) {
    const ls_json *v = ls_json_given(o, "seed");
    int64_t seed;
    if (v && !ls_json_int(v, &seed)) return ls_fail(err, LS_E_USAGE, "seed must be a whole number");
    if (v) r->sampling.seed = (uint64_t)seed;
    else if (!d->seeded) r->sampling.seed = ls_seed_draw() >> 11; // below 2^53: exact in any JSON reader
    return LS_OK;
}

static ls_code take_stops(ls_request *r, const ls_json *v, const char *key, ls_err *err) {
    enum { MOST = 16, BYTES = 1024 };
    size_t len;
    const size_t n = !v ? 0 : ls_json_str(v, NULL) ? 1 : ls_json_size(v);
    if (n > MOST) return ls_fail(err, LS_E_USAGE, "%s has more than %d texts", key, MOST);
    if (v && !n && !ls_json_is_array(v)) return ls_fail(err, LS_E_USAGE, "%s must be a string or a list of them", key);
    if (n) r->stops = ls_calloc(n + 1, sizeof *r->stops);
    for (size_t i = 0; i < n; i++) {
        const char *s = ls_json_str(ls_json_is_array(v) ? ls_json_at(v, i) : v, &len);
        if (!s || !len || len > BYTES || strlen(s) != len)
            return ls_fail(err, LS_E_USAGE, "%s must hold texts of 1 to %d bytes, without NUL", key, BYTES);
        r->stops[i] = ls_strdup(s);
    }
    return LS_OK;
}

static ls_code take_logprobs(ls_request *r, const ls_json *o, ls_err *err) {
    if (r->api == LS_API_COMPLETIONS) {
        r->logprobs = ls_json_given(o, "logprobs") != NULL;
        return take_int(o, "logprobs", 0, LST_ROW_TOP, &r->top_logprobs, err);
    }
    ls_code code = take_bool(o, "logprobs", &r->logprobs, err);
    if (!code) code = take_int(o, "top_logprobs", 0, LST_ROW_TOP, &r->top_logprobs, err);
    if (!code && r->top_logprobs && !r->logprobs) code = ls_fail(err, LS_E_USAGE, "top_logprobs needs logprobs: true");
    return code;
}

// Options whose only supported value is an object {"type": name}.
static ls_code only_type(const ls_json *o, const char *key, const char *name, ls_err *err) {
    const ls_json *v = ls_json_given(o, key);
    return v && !ls_json_is(ls_json_get(v, "type"), name)
               ? ls_fail(err, LS_E_USAGE, "%s is not supported, except {\"type\": \"%s\"}", key, name)
               : LS_OK;
}

static ls_code take_prompt(ls_request *r, const ls_json *o, ls_err *err) {
    const char *key = ls_json_given(o, "content") ? "content" : "prompt";
    const ls_json *v = ls_json_given(o, key);
    size_t n;
    if (ls_json_size(v) == 1) v = ls_json_at(v, 0);
    const char *text = ls_json_str(v, &n);
    if (!text) return ls_fail(err, LS_E_USAGE, "%s must be a string", key);
    ls_buf_add(&r->text, text, n);
    return LS_OK;
}

static ls_code take_tokens(ls_request *r, const ls_json *o, ls_err *err) {
    const ls_json *v = ls_json_given(o, "tokens");
    int64_t id;
    if (!ls_json_is_array(v)) return ls_fail(err, LS_E_USAGE, "tokens must be a list of ids");
    for (size_t i = 0; i < ls_json_size(v); i++) {
        if (!ls_json_int(ls_json_at(v, i), &id) || id < 0 || id > INT32_MAX)
            return ls_fail(err, LS_E_USAGE, "tokens[%zu] is not a token id", i);
        ls_ids_push(&r->tokens, (int32_t)id);
    }
    return LS_OK;
}

static ls_code take_decoding(ls_request *r, const ls_json *o, const ls_request_defaults *d, ls_err *err) {
    const bool messages = r->api == LS_API_MESSAGES;
    const char *stop = messages ? "stop_sequences" : "stop";
    const ls_json *options = ls_json_given(o, "stream_options");
    ls_code code = LS_OK;
    r->max_tokens = d->decode->max_tokens;
    r->sampling = d->decode->sampling;
    if (messages && !ls_json_given(o, "max_tokens")) code = ls_fail(err, LS_E_USAGE, "max_tokens is required");
    if (!code) code = take_int(o, "max_tokens", 1, INT32_MAX, &r->max_tokens, err);
    if (!code) code = take_int(o, "max_completion_tokens", 1, INT32_MAX, &r->max_tokens, err);
    if (!code) code = take_num(o, "temperature", 0, 100, &r->sampling.temperature, err);
    if (!code) code = take_num(o, "top_p", 1e-6, 1, &r->sampling.top_p, err);
    if (!code) code = take_int(o, "top_k", 0, 1000000, &r->sampling.top_k, err);
    if (!code) code = take_seed(r, o, d, err);
    if (!code) code = take_stops(r, ls_json_given(o, stop), stop, err);
    if (!code) code = take_bool(o, "stream", &r->stream, err);
    if (!code && options) code = take_bool(options, "include_usage", &r->usage, err);
    if (!code) code = take_logprobs(r, o, err);
    if (!code) code = take_bool(o, "return_token_ids", &r->token_ids, err);
    if (!code) code = only_type(o, "response_format", "text", err);
    if (!code) code = only_type(o, "thinking", "disabled", err);
    return code;
}

ls_code ls_request_read(ls_request *out, ls_api api, ls_str body, const ls_request_defaults *d, ls_err *err) {
    ls_json *o = NULL;
    *out = (ls_request){.api = api};
    ls_code code = check_size(body, err);
    if (!code) code = ls_json_parse(&o, body.p, body.n, "body", err);
    if (!code && !ls_json_is_object(o)) code = ls_fail(err, LS_E_USAGE, "the body must be a JSON object");
    for (ls_json_member m = {0}; !code && ls_json_next(o, &m);) code = check_field(api, m.key, m.value, err);
    if (!code) code = take_model(o, d, err);
    if (!code && api <= LS_API_MESSAGES) code = take_decoding(out, o, d, err);
    if (!code) {
        if (api == LS_API_DETOKENIZE) code = take_tokens(out, o, err);
        else if (api == LS_API_COMPLETIONS || (api == LS_API_TOKENIZE && !ls_json_given(o, "messages")))
            code = take_prompt(out, o, err);
        else code = ls_request_messages(out, o, d->system, err);
    }
    ls_json_free(o);
    if (code) ls_request_free(out);
    return code;
}

void ls_request_free(ls_request *r) {
    for (size_t i = 0; r->stops && r->stops[i]; i++) free(r->stops[i]);
    free(r->stops);
    ls_json_free(r->chat);
    ls_buf_free(&r->text);
    ls_ids_free(&r->tokens);
    *r = (ls_request){0};
}
