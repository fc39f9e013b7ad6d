#include "decode/answer.h"

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

// Stop string i.
static ls_str stop_at(const ls_answer *a, size_t i) {
    const size_t from = i ? (size_t)a->stop_ends.p[i - 1] : 0;
    return (ls_str){a->stop_bytes.p + from, (size_t)a->stop_ends.p[i] - from};
}

void ls_answer_ends(ls_answer *a, int32_t max_tokens, const char *const *stops) {
    a->max_tokens = max_tokens;
    a->stop_ends.n = 0;
    ls_buf_clear(&a->stop_bytes);
    for (; stops && *stops; stops++) {
        ls_buf_str(&a->stop_bytes, *stops);
        ls_ids_push(&a->stop_ends, (int32_t)a->stop_bytes.n);
    }
}

void ls_answer_free(ls_answer *a) {
    ls_ids_free(&a->ids);
    ls_buf_free(&a->text);
    ls_ids_free(&a->stop_ends);
    ls_buf_free(&a->stop_bytes);
}

void ls_answer_begin(ls_answer *a) {
    a->ids.n = a->from = 0;
    ls_buf_clear(&a->text);
    a->detok = (ls_detok){0};
    a->channels = (ls_channels){0};
}

void ls_answer_take(ls_answer *a, const ls_vocab *vocab, const int32_t *ids, size_t n, size_t begun) {
    ls_answer_begin(a);
    ls_ids_add(&a->ids, ids + begun, n - begun);
    for (size_t i = 0; i < n; i++) {
        size_t len;
        const char *bytes = ls_vocab_bytes(vocab, ids[i], &len);
        if (ls_channels_take(&a->channels, vocab, ids[i]) && i >= begun) ls_detok_push(&a->detok, bytes, len, &a->text);
    }
    ls_answer_flush(a);
}

bool ls_answer_ends_next(const ls_answer *a) {
    return (int64_t)(a->ids.n - a->from) + 1 >= a->max_tokens;
}

// Position of the first stop string in the text, or -1. before: length of the text before the last token; only stop
// strings that this token can have completed are searched.
static long find_stop(const ls_answer *a, size_t before) {
    long found = -1;
    for (size_t i = 0; i < a->stop_ends.n; i++) {
        const ls_str s = stop_at(a, i);
        if (!s.n || a->text.n < s.n) continue;
        for (size_t at = before > s.n ? before - s.n : 0; at + s.n <= a->text.n; at++)
            if (!memcmp(a->text.p + at, s.p, s.n)) {
                if (found < 0 || (long)at < found) found = (long)at;
                break;
            }
    }
    return found;
}

// The same for a stop string that ends with a special token: such a token is not in the text.
static long find_special_stop(const ls_answer *a, const char *token, size_t n) {
    for (size_t i = 0; i < a->stop_ends.n && n; i++) {
        const ls_str s = stop_at(a, i);
        const size_t before = s.n - n;
        if (s.n < n || memcmp(s.p + before, token, n) || a->text.n < before) continue;
        if (!before || !memcmp(a->text.p + a->text.n - before, s.p, before)) return (long)(a->text.n - before);
    }
    return -1;
}

int32_t ls_answer_add(ls_answer *a, const ls_vocab *vocab, const int32_t *ids, int32_t n, ls_finish *finish) {
    for (int32_t i = 0; i < n; i++) {
        ls_ids_push(&a->ids, ids[i]);
        if (ls_vocab_is_end(vocab, ids[i])) {
            *finish = LS_FINISH_EOS;
            return i + 1;
        }
        size_t before = a->text.n, len;
        const char *bytes = ls_vocab_bytes(vocab, ids[i], &len);
        const bool special = ls_vocab_is_special(vocab, ids[i]);
        const bool says = ls_channels_take(&a->channels, vocab, ids[i]);
        if (says) ls_detok_push(&a->detok, bytes, len, &a->text);
        const long stop = special ? find_special_stop(a, bytes, len) : find_stop(a, before);
        if (stop >= 0) {
            a->text.n = (size_t)stop;
            ls_buf_str(&a->text, ""); // ends it
            a->detok = (ls_detok){0};
            *finish = LS_FINISH_STOP;
            return i + 1;
        }
        if ((int64_t)(a->ids.n - a->from) >= a->max_tokens) {
            *finish = LS_FINISH_LENGTH;
            return i + 1;
        }
    }
    return n;
}

void ls_answer_go_on(ls_answer *a) {
    a->from = a->ids.n;
    a->text.n = a->held_n;
    ls_buf_str(&a->text, "");
    a->detok = a->held;
}

void ls_answer_flush(ls_answer *a) {
    a->held = a->detok;
    a->held_n = a->text.n;
    ls_detok_flush(&a->detok, &a->text);
}

size_t ls_answer_settled(const ls_answer *a) {
    size_t held = 0;
    for (size_t i = 0; i < a->stop_ends.n; i++) {
        const ls_str s = stop_at(a, i);
        for (size_t n = s.n ? s.n - 1 : 0; n > held; n--)
            if (n <= a->text.n && !memcmp(a->text.p + a->text.n - n, s.p, n)) held = n;
    }
    return a->text.n - held;
}
