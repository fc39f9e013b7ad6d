// A request's body: refused with a line, or a conversation whose texts stay texts; its answer is well-formed. The first
// byte chooses the API; a body ends at a NUL, and behind it are the answer, a key and a host.
#include "engine/load.h"
#include "base/mem.h"
#include "serve/access.h"
#include "serve/reply.h"
#include "tests/fuzz/input.h"

#include <strings.h>

static ls_vocab *vocab;
static ls_chat *chat;

static void start(void) {
    ls_err err;
    if (vocab) return;
    if (ls_script_vocab(&vocab, &err)) abort();
    if (ls_chat_new(&chat, vocab, ls_script_chat_template, strlen(ls_script_chat_template), &err)) abort();
}

static void check_prompt(const ls_request *r) {
    const ls_json *all = ls_json_get(r->chat, "messages");
    const bool adds = !ls_json_is(ls_json_get(ls_json_at(all, 0), "role"), "system"); // a system message
    const size_t messages = ls_json_size(all) + adds;
    ls_marked text = {0};
    ls_ids ids = {0};
    ls_err err;
    size_t special = 0;
    const ls_code code = ls_chat_render_request(chat, r->chat, &text, &err);
    fuzz_said(code, &err);
    if (!code) EXPECT(!ls_encode_marked(vocab, &text, 0, &ids, &err));
    for (size_t i = 0; i < ids.n; i++) special += ls_vocab_is_special(vocab, ids.p[i]);
    EXPECT(code || special == 2 * messages + 1); // the template's own
    ls_marked_free(&text);
    ls_ids_free(&ids);
}

// Events: each has a line with a document.
static void check_events(const ls_buf *out) {
    static const char data[] = "data: ";
    const char *at = out->p, *end = out->p + out->n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        EXPECT(newline != NULL);
        const size_t n = (size_t)(newline - at), head = sizeof data - 1;
        if (n > head && !memcmp(at, data, head) && !(n == head + 6 && !memcmp(at + head, "[DONE]", 6)))
            fuzz_json(at + head, n - head);
        else EXPECT(!n || !memcmp(at, "event: ", 7) || !memcmp(at, data, head));
        at = newline + 1;
    }
}

static void check_reply(const ls_request *r, ls_str text) {
    static const ls_stats none;
    ls_ids prompt = {0}, output = {0};
    ls_buf whole = {0}, events = {0};
    for (size_t i = 0; i < text.n; i++) ls_ids_push(&output, (unsigned char)text.p[i]);
    const ls_outcome a = {.prompt = &prompt,
                          .output = &output,
                          .text = {text.p, text.n - text.n / 8},
                          .finish = text.n % 2 ? LS_FINISH_STOP : LS_FINISH_EOS,
                          .stats = &none,
                          .method = "plain",
                          .guarantee = "text",
                          .exact = true};
    ls_reply w = {.request = r, .vocab = vocab, .model = "script", .calls = true}, e = w;
    ls_reply_whole(&w, &a, &whole);
    fuzz_json(whole.p, whole.n);
    ls_reply_first(&e, 1, &events);
    for (size_t n = 0; n < a.text.n; n += 1 + n / 4) ls_reply_more(&e, (ls_str){a.text.p, n}, n, &events);
    ls_reply_last(&e, &a, &events);
    check_events(&events);
    ls_reply_free(&w);
    ls_reply_free(&e);
    ls_ids_free(&output);
    ls_buf_free(&whole);
    ls_buf_free(&events);
}

static void check_access(const char *text) {
    static const char *const names[] = {"llm.example.com", NULL};
    ls_keys keys;
    ls_listen listen;
    ls_err err;
    fuzz_said(ls_listen_read(&listen, text, &err), &err);
    if (ls_host_is_good(text, names)) EXPECT(!strchr(text, '/'));
    const ls_code code = ls_keys_read(&keys, (ls_str){text, strlen(text)}, "keys", &err);
    fuzz_said(code, &err);
    if (code) return;
    const size_t n = strcspn(text, "\r\n");
    char *first = strndup(text, n);
    if (n && *first != '#') EXPECT(ls_keys_find(&keys, NULL, first) >= 0);
    EXPECT(ls_keys_find(&keys, text, NULL) < 0 || !strncasecmp(text, "bearer ", 7));
    EXPECT(ls_keys_find(&keys, NULL, NULL) < 0);
    free(first);
    ls_keys_free(&keys);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const char *const models[] = {"script", NULL};
    const ls_decode_options decode = {.max_tokens = 9, .sampling = {.top_p = 1}};
    const ls_request_defaults defaults = {&decode, true, n % 2 ? "Be brief." : NULL, models};
    ls_request r;
    ls_err err;
    if (!n) return 0;
    start();
    const char *body = (const char *)data + 1, *end = memchr(body, 0, n - 1);
    const size_t length = end ? (size_t)(end - body) : n - 1;
    char *rest = ls_strndup(body + length + (end != NULL), n - 1 - length - (end != NULL));
    const ls_code code = ls_request_read(&r, (ls_api)(data[0] % LS_APIS), (ls_str){body, length}, &defaults, &err);
    fuzz_said(code, &err);
    if (!code && r.chat) check_prompt(&r);
    if (!code && r.api <= LS_API_MESSAGES) check_reply(&r, (ls_str){rest, strlen(rest)});
    if (!code) ls_request_free(&r);
    else {
        ls_buf text = {0};
        ls_reply_error((ls_api)(data[0] % LS_APIS), 400, err.msg, &text);
        fuzz_json(text.p, text.n);
        ls_buf_free(&text);
    }
    check_access(rest);
    free(rest);
    return 0;
}
