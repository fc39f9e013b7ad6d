#include "base/mem.h"
#include "serve/reply.h"

#include <stdlib.h>
#include <string.h>

static const char begin[] = "<tool_call>", end[] = "</tool_call>";
enum { BEGIN = sizeof begin - 1, END = sizeof end - 1 };

size_t ls_calls_before(ls_str text) {
    const char *at = text.n ? memmem(text.p, text.n, begin, BEGIN) : NULL;
    size_t n = at ? (size_t)(at - text.p) : text.n;
    for (size_t part = text.n < BEGIN ? text.n : BEGIN - 1; !at && part; part--) // the end may be a beginning
        if (!memcmp(text.p + text.n - part, begin, part)) {
            n = text.n - part;
            break;
        }
    while (n && n < text.n && strchr(" \n", text.p[n - 1])) n--; // blanks before calls are no text
    return n;
}

static bool add(ls_calls *c, const char *p, size_t n) {
    ls_json *call;
    if (ls_json_parse(&call, p, n, "", NULL)) return false;
    const bool is_call = ls_json_str(ls_json_get(call, "name"), NULL) &&
                         (!ls_json_get(call, "arguments") || ls_json_is_object(ls_json_get(call, "arguments")));
    if (!is_call) {
        ls_json_free(call);
        return false;
    }
    c->call = ls_grown(c->call, c->n, sizeof *c->call);
    c->call[c->n++] = call;
    return true;
}

ls_calls ls_calls_find(ls_str text) {
    const char *at = text.n ? memmem(text.p, text.n, begin, BEGIN) : NULL, *stop = text.p + text.n;
    ls_calls c = {.text = at ? ls_calls_before(text) : text.n};
    bool good = at != NULL;
    while (good && at < stop) {
        const char *close = memmem(at, (size_t)(stop - at), end, END);
        good = (size_t)(stop - at) >= BEGIN && !memcmp(at, begin, BEGIN) && close &&
               add(&c, at + BEGIN, (size_t)(close - at) - BEGIN);
        if (!good) break;
        for (at = close + END; at < stop && strchr(" \n", *at);) at++;
    }
    if (!good) {
        ls_calls_free(&c);
        c = (ls_calls){.text = text.n};
    }
    return c;
}

void ls_calls_free(ls_calls *c) {
    for (size_t i = 0; i < c->n; i++) ls_json_free(c->call[i]);
    free(c->call);
    *c = (ls_calls){0};
}
