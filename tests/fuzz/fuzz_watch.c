// What a server sends to a watcher: any bytes fill a feed or are refused with a line; what it holds then goes to the
// screen, and to another watcher, who gets the same.
#include "base/mem.h"
#include "source/sources.h"
#include "tests/fuzz/input.h"
#include "trace/trace.h"

#include <poll.h>

static void nothing(void *ud) {
    (void)ud;
}

static ls_feed *filled(const char *p, size_t n) {
    ls_feed *f = ls_feed_new(1 << 16);
    ls_err err = {0};
    fuzz_said(ls_feed_fill(f, ls_lines_in(p, n, "the wire"), nothing, NULL, &err), &err);
    return f;
}

static ls_buf sent(ls_feed *f) {
    ls_feed_reader r = {.wake = nothing};
    ls_buf out = {0};
    ls_buf_str(&out, "");
    ls_feed_listen(f, &r);
    while (ls_feed_send(f, &r, &out, 100)) continue;
    ls_feed_leave(f, &r);
    // lines of recordings are passed on as they came, and whoever reads them refuses them
    static const char ours[] = "{\"type\":\"request\"";
    for (char *line = out.p, *end; (end = strchr(line, '\n')); line = end + 1)
        if (!strncmp(line, ours, sizeof ours - 1)) fuzz_json(line, (size_t)(end - line));
    return out;
}

// Everything that the source sends: of each request, as a user opens one after another.
static void show(ls_feed *f, ui_state *s) {
    ls_source *source = ls_source_feed(f);
    ls_request_facts facts;
    EXPECT(source != NULL);
    for (int32_t id = 0; id < 4; id++) {
        if (id && !ls_feed_facts(f, id, &facts)) continue;
        EXPECT(!source->command(source, &(ls_command){.kind = LS_CMD_OPEN, .n = id}, NULL));
        for (bool shown = false, more = true; more || !shown;) { // until the source rests
            struct pollfd fd = {source->wake_fd, POLLIN, 0};
            more = poll(&fd, 1, shown ? 0 : 2) > 0;
            shown = true;
            for (ls_event *e; (e = source->next(source));) ui_on_event(s, e);
        }
    }
    source->close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    ls_feed *f = filled((const char *)data, n);
    ui_state s;
    ui_state_init(&s);
    s.given.recording = s.given.watches = s.requests.follows = true;
    s.shown.focus = UI_REQUESTS;
    show(f, &s);
    fuzz_screen(&s, 24, 80, NULL, 0);
    fuzz_screen(&s, 36, 120, NULL, 0);
    ui_state_free(&s);
    ls_buf first = sent(f);
    ls_feed *again = filled(first.p, first.n);
    ls_buf second = sent(again);
    EXPECT(first.n == second.n && !memcmp(first.p, second.p, first.n));
    ls_buf_free(&first);
    ls_buf_free(&second);
    ls_feed_free(again);
    ls_feed_free(f);
    return 0;
}
