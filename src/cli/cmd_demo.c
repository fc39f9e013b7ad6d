// `demo [NAME]`: guided runs on the screen, or as text without a terminal. A demo plays its recording, which needs no
// model; with --live, or without a recording, it decodes.
#include "base/mem.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/demo_file.h"
#include "ui/app.h"
#include "ui/term_curses.h"
#include "ui/panels.h"
#include "base/err.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void list(const ls_demo *d, size_t n, ls_buf *out) {
    ls_buf_str(out,
               "'logitspec demo NAME' (or its number) plays one of these recordings. Enter continues after a note, q "
               "quits.\nBegin with the first demos: each explains more. With --live, a model decodes the prompt.\n\n");
    const int columns = ls_columns(STDOUT_FILENO);
    const size_t rows = ls_wrap(out, 0, columns, 0);
    for (size_t i = 0; i < n; i++) {
        ls_sanitize_row(out, "%3zu  %-14s %s", i + 1, d[i].name, d[i].play.title);
        if (d[i].about) ls_sanitize_row(out, "                    %s", d[i].about);
    }
    const size_t end = ls_wrap(out, rows, columns, 20);
    ls_buf_str(out, "\n'logitspec demo FILE.yaml' plays your own demo; demos/README.md describes the file.\n");
    ls_wrap(out, end, columns, 0);
}

// ---- without a terminal

static void speak(ui_state *s, ls_buf *out) {
    const ui_canvas canvas = {.utf8 = ui_term_is_utf8(), .ascii = s->view.ascii};
    const int columns = ls_columns(STDOUT_FILENO);
    for (const ui_note *n; (n = ui_demo_note(s)); ui_demo_go_on(s)) {
        const size_t step_at = out->n;
        const ls_step *step = ui_viewed(s);
        if (step && n->when != UI_WHEN_START && n->when != UI_WHEN_END) {
            ls_buf_str(out, "    ");
            ui_narrate(&canvas, s, step, out);
            ls_buf_char(out, '\n');
        }
        const size_t note_at = ls_wrap(out, step_at, columns, 4);
        ls_buf_fmt(out, "* %s\n\n", n->say);
        ls_wrap(out, note_at, columns, 2);
    }
}

static void answer(ui_state *s, ls_buf *out) {
    ls_buf text = {0};
    for (size_t i = 0; i < s->run.conversation->n_turns; i++) ui_answer_text(s, &s->run.turns[i], &text);
    const ls_stats *st = ui_stats(s, &s->drawn.statistics);
    ls_sanitize_text(out, text.p, text.n);
    const size_t end = out->n;
    ls_buf_fmt(out, "\n\n# %llu token%s in %llu step%s: MAT %.2f", (unsigned long long)st->emitted,
               ls_plural(st->emitted), (unsigned long long)st->steps, ls_plural(st->steps), ls_stats_mat(st));
    if (ls_stats_speedup(st) > 0)
        ls_buf_fmt(out, "; speedup x%s against plain decoding (measured)", ls_stats_speedup_text(st, true).s);
    ls_buf_char(out, '\n');
    ls_wrap(out, end, ls_columns(STDOUT_FILENO), 2);
    ls_buf_free(&text);
}

static ls_code tell(ls_source *source, const ls_demo *d, bool recorded, bool ascii, ls_buf *out, ls_err *err) {
    ui_state s;
    ls_code code = LS_OK;
    ui_demo play = d->play;
    play.pace = 0;
    play.rival = NULL; // a race needs a screen
    play.quiz = false; // a quiz needs a user
    ui_state_init(&s);
    s.given.recording = recorded;
    s.view.ascii = ascii || !ui_term_is_utf8();
    ls_sanitize_fmt(out, "%s", d->play.title);
    ls_wrap(out, 0, ls_columns(STDOUT_FILENO), 0);
    ls_buf_fmt(out, "\n\n> %s\n\n", d->prompt);
    ui_demo_begin(&s, &play);
    if (!recorded) ui_ask(&s, LS_CMD_PROMPT, ls_strdup(d->prompt), 0);
    for (bool ended = false; !ended && !code;) {
        struct pollfd fd = {source->wake_fd, POLLIN, 0};
        ui_send_asked(&s, source);
        poll(&fd, 1, 200);
        if (ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
        for (ls_event *e; !ended && (e = source->next(source));) {
            ended = e->kind == LS_EV_END;
            if (e->kind == LS_EV_MESSAGE && e->message.is_error)
                code = ls_fail(err, LS_E_BACKEND, "%s", e->message.text);
            ui_on_event(&s, e);
            speak(&s, out);
        }
        ui_demo_is_due(&s, UINT64_MAX);
    }
    if (!code) answer(&s, out);
    ui_state_free(&s);
    return code;
}

static ls_code play(const ls_command_line *c, ls_demo *d, ls_console *to, ls_err *err) {
    const bool live_run = c->live || !d->trace,
               screen = ls_is_scripted(c) || (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
    const ls_replay_options recorded = {.path = d->trace, .rival = d->rival_trace, .paused = true};
    ls_source *source = NULL;
    ls_command_line own = *c; // the settings of the demo override all others
    ls_options_copy(&own.options, &c->options);
    ls_code code = d->settings ? ls_options_yaml(&own.options, d->settings, d->file, err) : LS_OK;
    if (!code) {
        source = live_run ? ls_live_open(&own.options, NULL, NULL, &to->failed, err) : ls_source_replay(&recorded, err);
        code = source ? LS_OK : err->code;
    }
    if (source && screen) {
        ui_options options = {.given.recording = !live_run, .demo = &d->play, .prompt = live_run ? d->prompt : NULL};
        code = ls_show(source, &options, &own, to, err);
    } else if (source) {
        ls_catch_signals();
        code = tell(source, d, !live_run, own.options.ascii, &to->out, err);
        source->close(source);
    }
    ls_options_free(&own.options);
    return code;
}

// ---- the list and its numbers

static ls_demo *find(ls_demo *d, size_t n, const char *text) { // NULL: not in the list
    char *end;
    const unsigned long k = strtoul(text, &end, 10);
    if (end > text && !*end) return k >= 1 && k <= n ? &d[k - 1] : NULL;
    for (size_t i = 0; i < n; i++)
        if (!strcmp(d[i].name, text)) return &d[i];
    return NULL;
}

// One demo after another: Enter plays the next one.
static ls_code ask(const ls_command_line *c, ls_demo *d, size_t n, ls_console *to, ls_err *err) {
    ls_code code = LS_OK;
    size_t next = 0;
    for (char line[80]; !code && !to->status && !to->failed && next < n && !ls_interrupted;) {
        ls_buf_fmt(&to->out, "\nNumber or name (Enter: %zu, %s; q: none): ", next + 1, d[next].name);
        ls_wrap(&to->out, 0, ls_columns(STDOUT_FILENO), 0);
        if (!ls_print(&to->out)) break;
        if (!fgets(line, sizeof line, stdin)) break;
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "q")) break;
        ls_demo *wanted = *line ? find(d, n, line) : &d[next];
        if (!wanted) {
            ls_sanitize_row(&to->out, "There is no demo '%.60s' in the list.", line);
            continue;
        }
        code = play(c, wanted, to, err);
        next = (size_t)(wanted - d) + 1;
    }
    return code;
}

// number NULL: shows the list, and on a terminal asks for one.
static ls_code of_list(const ls_command_line *c, const char *number, ls_console *to, ls_err *err) {
    ls_demo *d, *wanted = NULL;
    size_t n;
    ls_code code = ls_demos_read(&d, &n, err); // if one demo is missing, the numbers would be wrong
    if (code) {
    } else if (number && !(wanted = find(d, n, number)))
        code = ls_fail(err, LS_E_USAGE, "there is no demo %.60s ('logitspec demo' lists %zu)", number, n);
    else if (number) code = play(c, wanted, to, err);
    else {
        list(d, n, &to->out);
        if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && ls_print(&to->out)) code = ask(c, d, n, to, err);
    }
    ls_demos_free(d, n);
    return code;
}

ls_code ls_cmd_demo(const ls_command_line *c, ls_console *to, ls_err *err) {
    const char *name = c->n_args ? c->args[0] : NULL;
    ls_demo d;
    if (c->n_args > 1) return ls_fail(err, LS_E_USAGE, "'logitspec demo' plays one demo (%d given)", c->n_args);
    if (!name || (*name && !name[strspn(name, "0123456789")])) return of_list(c, name, to, err);
    ls_code code = ls_demo_read(&d, name, err);
    if (code) return code;
    code = play(c, &d, to, err);
    ls_demo_free(&d);
    return code;
}
