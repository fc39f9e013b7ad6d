#include "source/event_log.h"
#include "base/buf.h"
#include "base/log.h"

#include <ctype.h>
#include <string.h>

void ls_log_command(const ls_command *c) {
    if (!ls_log_is_on()) return;
    const char *text = c->text ? c->text : "";
    const bool shown = c->kind == LS_CMD_SET ? ls_log_may_hold(text)
                                             : c->kind == LS_CMD_SAVE || c->kind == LS_CMD_LOAD ||
                                                   c->kind == LS_CMD_RIVAL || ls_log_has_text();
    ls_log("command %s, n %d, %zu bytes%s%s", ls_command_name(c->kind), c->n, strlen(text), shown && *text ? ": " : "",
           shown ? text : "");
}

static void log_status(const ls_event *e) {
    static const char *const names[] = {
        [LS_STATE_LOADING] = "loading", [LS_STATE_IDLE] = "idle",     [LS_STATE_PREFILL] = "prefill",
        [LS_STATE_RUNNING] = "running", [LS_STATE_PAUSED] = "paused", [LS_STATE_COMPARING] = "comparing",
        [LS_STATE_FAILED] = "failed"};
    ls_log("state %s%s%s", names[e->status.state], *e->status.stage ? ": " : "", e->status.stage);
}

// Quotations in a message may be texts of the user (a stop text, a search, a line of a file): replaces them by "...".
static void log_message(const ls_event *e) {
    const char *text = e->message.text, *kind = e->message.is_error ? ", an error" : "";
    if (!ls_log_may_hold(text)) {
        ls_log("event message%s: (a text)", kind);
        return;
    }
    ls_buf shown = {0};
    bool quoted = false;
    for (const char *p = text; *p; p++) {
        const bool opens = *p == '\'' && !quoted && (p == text || strchr(" (:", p[-1])),
                   closes = *p == '\'' && quoted && !isalnum((unsigned char)p[1]);
        if (closes && !ls_log_has_text()) ls_buf_str(&shown, "...");
        if (closes) quoted = false;
        if (!quoted || ls_log_has_text()) ls_buf_char(&shown, *p);
        if (opens) quoted = true;
    }
    ls_log("event message%s: %s", kind, shown.p ? shown.p : "");
    ls_buf_free(&shown);
}

void ls_log_event(const ls_event *e) {
    if (!ls_log_is_on()) return;
    switch (e->kind) {
    case LS_EV_STATUS:
        if (e->status.fraction <= 0) log_status(e); // one line for each state, none for its progress
        break;
    case LS_EV_HEADER:
        ls_log("event header: %s, %s on %s (%s), %s, %d threads, context %d, method %s", e->header->model,
               e->header->dtype, e->header->device, e->header->kernel, e->header->version, e->header->threads,
               e->header->n_context, e->header->method);
        break;
    case LS_EV_PROMPT:
        ls_log("event prompt: turn %u, %d tokens read in %.3f ms, context %d, method %s", e->prompt.turn + 1,
               e->prompt.n_ids, e->prompt.prefill_ms, e->prompt.context_len, e->prompt.method);
        break;
    case LS_EV_END: ls_log("event end: turn %u, %s", e->end.turn + 1, ls_finish_name(e->end.finish)); break;
    case LS_EV_RIVAL:
        if (e->rival.what == LS_RIVAL_BEGINS)
            ls_log("event rival: %s begins at token %d", e->rival.method, e->rival.at);
        if (e->rival.what == LS_RIVAL_ENDS) ls_log("event rival: %s", ls_finish_name(e->rival.finish));
        break;
    case LS_EV_SETTING:
        ls_log("event setting: %s %s", e->setting.key, e->setting.in_force ? "is in force" : "is refused");
        break;
    case LS_EV_MESSAGE: log_message(e); break;
    case LS_EV_TOKENS:
    case LS_EV_STEP: break;
    }
}
