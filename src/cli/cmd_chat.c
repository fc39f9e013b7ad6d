// The screen; and `chat --plain`, a conversation as lines of text.
#include "base/err.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "trace/autosave.h"
#include "ui/modes.h"
#include "ui/term_curses.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- --plain: prompts from standard input, one line per step, no cursor movements. For screen readers, logs and
// pipes. Errors go to standard error; if standard input is a pipe, the exit code then is not 0.

typedef struct {
    ls_source *source;
    ui_state state;
    ui_canvas canvas; // its charset decides how tokens are spelled; nothing is drawn
    ls_buf input;     // read, but not yet executed
    bool ended;       // end of the input
    bool ready;       // the model is loaded
    bool waits;       // for the result of a request
    bool asked;       // the prompt "> " is on the terminal
    bool failed;      // a write to standard output failed
    bool refused;     // a request failed
    bool interactive;
} chat;

// prose: offset of the text to wrap.
static void print(chat *c, ls_buf *line, size_t prose) {
    ls_wrap(line, prose, ls_columns(STDOUT_FILENO), 2);
    if (c->asked) fputc('\n', stdout);
    c->asked = false;
    if (c->failed) ls_buf_free(line); // ls_print has reported the error
    else c->failed = !ls_print(line);
}

static void tell_message(chat *c) {
    ui_state *s = &c->state;
    ls_buf line = {0};
    if (*s->message && s->message_is_error) {
        ls_warn("%s", s->message);
        c->refused = true;
    } else if (*s->message) {
        ls_buf_fmt(&line, "note: %s\n", s->message);
        print(c, &line, 0);
    }
    *s->message = 0;
}

static void tell_header(chat *c) {
    const ls_run *h = &c->state.run.header;
    ls_buf line = {0};
    ls_buf_fmt(
        &line,
        "%s, %s on %s, method %s. Each line is a prompt. An empty line continues an answer that reached its length "
        "limit. ':' begins a command, such as ':set decode.max_rows=8' or ':quit'.\n",
        h->model, h->dtype, h->device, h->method);
    print(c, &line, 0);
}

static void tell_step(chat *c) {
    const ui_state *s = &c->state;
    const ls_step *step = s->run.steps[s->run.n_steps - 1];
    ls_buf line = {0};
    ui_narrate(&c->canvas, s, step, &line);
    int32_t ids[LS_MAX_ROWS];
    int n = 0;
    for (int i = 0; i < step->n_emitted; i++) {
        const int32_t id = step->tree.nodes[step->path[i]].token;
        if (!ls_token_of(&s->run.tokens, id)->special) ids[n++] = id;
    }
    ls_buf_str(&line, "; emitted ");
    ui_quote_tokens(&c->canvas, s, ids, n, &line);
    ls_buf_char(&line, '\n');
    print(c, &line, 0);
}

static void tell_end(chat *c) {
    ui_state *s = &c->state;
    const ui_turn *t = &s->run.turns[s->run.conversation->n_turns - 1];
    const ls_stats *st = ui_stats(s, &s->drawn.statistics);
    ls_buf text = {0};
    ls_buf_str(&text, "answer:\n");
    ui_answer_text(s, t, &text);
    const size_t end = text.n;
    ls_buf_fmt(&text, "\nend (%s): %llu token%s in %llu step%s", ls_finish_name(ui_finish(&s->run)),
               (unsigned long long)st->emitted, ls_plural(st->emitted), (unsigned long long)st->steps,
               ls_plural(st->steps));
    if (st->steps) ls_buf_fmt(&text, ", MAT %.2f", ls_stats_mat(st));
    if (ls_stats_speedup(st) > 0)
        ls_buf_fmt(&text, ", speedup x%s against plain decoding (measured)", ls_stats_speedup_text(st, true).s);
    ls_buf_str(&text, ui_finish(&s->run) == LS_FINISH_LENGTH ? "; an empty line continues it\n" : "\n");
    print(c, &text, end);
}

static void take(chat *c, ls_event *e) {
    ui_state *s = &c->state;
    const ls_event_kind kind = e->kind;
    const bool known = s->run.has_header, idle = kind == LS_EV_STATUS && e->status.state == LS_STATE_IDLE;
    const bool failed = kind == LS_EV_STATUS && e->status.state == LS_STATE_FAILED;
    // for input from a pipe, a command is finished when its result message arrives
    const bool result = kind == LS_EV_MESSAGE && e->message.is_result && !c->interactive;
    ui_on_event(s, e);
    if (kind == LS_EV_HEADER && !known) tell_header(c);
    if (kind == LS_EV_MESSAGE) tell_message(c);
    if (kind == LS_EV_PROMPT) {
        ls_buf line = {0};
        const ui_turn *t = &s->run.turns[s->run.conversation->n_turns - 1];
        const size_t n = ls_turn_output_at(ui_said(&s->run, t)) - ui_said(&s->run, t)->kept;
        ls_buf_fmt(&line, "turn %zu: %s\nread %zu token%s in %.0f ms\n", s->run.conversation->n_turns,
                   ui_prompt_of(&s->run, t), n, ls_plural(n), t->prefill_ms);
        print(c, &line, line.n); // line.n: the prompt is not wrapped
    }
    if (kind == LS_EV_STEP && s->run.n_steps) tell_step(c);
    if (kind == LS_EV_END && s->run.conversation->n_turns) tell_end(c);
    if ((idle && c->ready) || failed || result) c->waits = false;
    c->ready |= idle;
    if (failed) {
        s->asked.quit = true;
        s->asked.exit_code = LS_EXIT_FAILED;
    }
}

static void obey(chat *c, char *line) {
    ui_state *s = &c->state;
    *s->message = 0;
    if (*line == ':') {
        ui_type_line(s, ':', line + 1);
        ui_line_key(s, (ui_press){UI_KEY_ENTER, UI_ACT_NONE});
    } else {
        ui_edit_set(&s->typed.prompt, line);
        ui_send_prompt(s);
        ui_edit_clear(&s->typed.prompt);
    }
    for (int i = 0; i < s->asked.n_outbox; i++)
        c->waits |=
            ls_command_waits(s->asked.outbox[i].kind) || (s->asked.outbox[i].kind == LS_CMD_SAVE && !c->interactive);
    ui_send_asked(s, c->source);
    if (s->message_is_error && *s->message) c->waits = false; // no answer will follow
    tell_message(c);
}

// Executes the next line of the input, if it may run now. A prompt waits for the end of the previous answer. A command
// waits too if the input is a pipe, so that it acts on a complete answer. False: no line was executed.
static bool take_line(chat *c) {
    const char *end = c->input.n ? memchr(c->input.p, '\n', c->input.n) : NULL;
    if (!end && !(c->ended && c->input.n)) return false;
    const size_t n = end ? (size_t)(end - c->input.p) : c->input.n;
    const bool command = c->input.n && *c->input.p == ':';
    if (!c->ready || (c->waits && !(command && c->interactive))) return false;
    char *line = ls_strndup(c->input.p, n);
    const size_t used = n + (end != NULL);
    memmove(c->input.p, c->input.p + used, c->input.n - used);
    c->input.n -= used;
    if (n && line[n - 1] == '\r') line[n - 1] = 0;
    c->asked = false;
    if (strlen(line) + 1 < n) {
        ls_warn("a line with a NUL byte was ignored: '%.40s'", line);
        c->refused = true;
    } else obey(c, line);
    free(line);
    return true;
}

static void read_input(chat *c) {
    char block[4096];
    const ssize_t n = read(STDIN_FILENO, block, sizeof block);
    if (n > 0) ls_buf_add(&c->input, block, (size_t)n);
    else if (!n) c->ended = true;
    else if (errno != EINTR && errno != EAGAIN) {
        ls_warn("cannot read standard input: %s", strerror(errno));
        c->ended = c->refused = true;
    }
}

// Takes what ls_show takes.
static ls_code plain_chat(ls_source *source, ui_options *o, const ls_command_line *line, ls_console *to, ls_err *err) {
    if (!source) return err->code;
    ls_code code = ls_screen_options(&line->options, o, err);
    if (code) {
        source->close(source);
        return code;
    }
    const bool utf8 = ui_term_is_utf8();
    chat *c = ls_calloc(1, sizeof *c);
    ui_state *s = &c->state;
    c->source = source;
    c->canvas = (ui_canvas){.utf8 = utf8, .ascii = o->ascii || !utf8};
    c->interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    ui_begin(s, o);
    c->waits = s->asked.n_outbox > 0;
    ui_send_asked(s, source);
    ls_catch_signals();
    while (!s->asked.quit && !c->failed && !ls_interrupted) {
        for (ls_event *e; (e = source->next(source));) take(c, e);
        while (!s->asked.quit && take_line(c)) {
        }
        if (s->asked.quit || (c->ended && !c->waits && !c->input.n && c->ready)) break;
        if (c->interactive && c->ready && !c->waits && !c->asked) {
            fputs("> ", stdout);
            fflush(stdout);
            c->asked = true;
        }
        struct pollfd fds[] = {{source->wake_fd, POLLIN, 0}, {c->ended ? -1 : STDIN_FILENO, POLLIN, 0}};
        if (poll(fds, 2, -1) < 0) continue; // a signal
        if (fds[1].revents) read_input(c);
    }
    source->close(source);
    to->status = c->failed || (c->refused && !c->interactive) ? LS_EXIT_FAILED : s->asked.exit_code;
    if (ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
    ui_state_free(s);
    ls_buf_free(&c->input);
    free(c);
    return code;
}

// ---- the command

// At a sudden end: what was kept stays, and the next start offers it.
static void unlock(void *ud, char *said, size_t n) {
    (void)ud, (void)said, (void)n;
    ls_autosave_end(true);
}

ls_code ls_cmd_chat(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_buf prompt = {0};
    if (c->prompt_file && !strcmp(c->prompt_file, "-"))
        return ls_fail(err, LS_E_USAGE,
                       "the screen reads keys from standard input; pass the prompt with --prompt or from a file");
    if (c->plain && ls_is_scripted(c))
        return ls_fail(err, LS_E_USAGE, "--plain has no screen, so --script and --cast do not work with it");
    ls_code code = ls_read_prompt(c, false, &prompt, err);
    if (code) return code;
    if (!c->plain && !ls_is_scripted(c) && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
        bool has_prompt = prompt.n > 0;
        ls_buf_free(&prompt);
        if (has_prompt) return ls_cmd_generate(c, to, err); // without a terminal: plain streaming text
        return ls_fail(
            err, LS_E_USAGE,
            "the screen needs a terminal; without one, use logitspec generate --prompt TEXT or logitspec chat --plain");
    }
    const ls_options *o = &c->options;
    // a conversation that ^C, a signal or a crash ends is offered at the next start
    const bool keeps = o->history && !c->plain && !ls_is_scripted(c);
    ls_err no_autosave = {0};
    ls_rescue_add(unlock, NULL); // the first one runs last: others may take a path
    char **left = keeps ? ls_autosave_left() : NULL, *autosave = keeps ? ls_autosave_path(&no_autosave) : NULL;
    ls_source *source = ls_live_open(o, autosave, *no_autosave.msg ? no_autosave.msg : NULL, &to->failed, err);
    char *history = o->history ? ls_user_path("XDG_STATE_HOME", ".local/state", "history") : NULL;
    ui_options screen = {.history = history,
                         .prompt = prompt.n ? prompt.p : NULL,
                         .given = {.left = (const char *const *)left, .autosave = autosave}};
    code = (c->plain ? plain_chat : ls_show)(source, &screen, c, to, err);
    ls_rescue_remove(unlock, NULL);
    ls_autosave_end(code || to->status || to->failed); // after a failure, keeps the conversation for the next start
    ls_autosave_free(left);
    free(autosave);
    free(history);
    ls_buf_free(&prompt);
    return code;
}
