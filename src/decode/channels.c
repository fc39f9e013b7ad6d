#include "decode/channels.h"

#include <string.h>

bool ls_channels_take(ls_channels *c, const ls_vocab *v, int32_t id) {
    static const char final[] = "final";
    size_t n;
    const char *p = ls_vocab_bytes(v, id, &n);
    const ls_str token = {p, n};
    if (!ls_vocab_is_special(v, id)) {
        for (size_t i = 0; i < n && c->header && c->named; i++)
            if (c->n < (int)sizeof c->name) c->name[c->n++] = p[i];
        return !c->header && !c->other;
    }
    if (ls_str_is(token, "<|channel|>")) {
        c->used = c->header = c->named = true;
        c->n = 0;
    } else if (c->used && ls_str_is(token, "<|message|>")) {
        const int len = (int)sizeof final - 1; // a name ends with a blank where more follows it
        const bool is_final =
            c->n >= len && !memcmp(c->name, final, sizeof final - 1) && (c->n == len || c->name[len] == ' ');
        c->other = c->named && !is_final;
        c->header = c->named = false;
    } else if (c->used && (ls_str_is(token, "<|start|>") || ls_str_is(token, "<|end|>"))) {
        c->header = true; // between messages there is no text
        c->named = false;
    }
    return false;
}
