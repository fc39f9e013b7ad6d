// `demo [NAME]`: guided runs on the screen, or as text where there is no terminal. A demo plays the recording that
// comes with it, which needs no model, or decodes here (--live).
#include "base/mem.h"
#include "base/visible.h"
#include "cli/demo_file.h"
#include "cli/screen_source.h"
#include "cli/progress.h"
#include "source/source_replay.h"
#include "ui/app.h"
#include "ui/words.h"

#include <langinfo.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int list(void) {
    ls_buf out = {0};
    ls_err err;
    int status = LS_EXIT_OK;
    char **names = ls_demo_names();
    ls_buf_str(&out, "logitspec demo NAME plays one of these recordings; Enter goes on after each note, q leaves.\n"
                     "--live decodes it here and now.\n\n");
    for (size_t i = 0; names[i]; i++) {
        ls_demo d;
        if (ls_demo_read(&d, names[i], &err)) {
            status = ls_complain(&err);
        } else {
            ls_visible_row(&out, "  %-14s %s", names[i], d.play.title);
            if (d.about) ls_visible_row(&out, "                 %s", d.about);
            ls_demo_free(&d);
        }
        free(names[i]);
    }
    free(names);
    ls_buf_str(&out, "\nYour own: demos/README.md says how, 'logitspec demo FILE.yaml' plays it.\n");
    return ls_print(&out) ? status : LS_EXIT_FAILED;
}

// ---- without a terminal

static void speak(ui_state *s, ls_buf *out) {
    const bool utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8"); // wcwidth knows other characters then
    const ui_canvas canvas = {.utf8 = utf8, .ascii = !utf8};
    for (const ui_note *n; (n = ui_demo_note(s)); ui_demo_go_on(s)) {
        const ls_step *step = ui_viewed(s);
        if (step && n->when != UI_WHEN_START && n->when != UI_WHEN_END) {
            ls_buf_str(out, "    ");
            ui_narrate(&canvas, s, step, out);
            ls_buf_char(out, '\n');
        }
        ls_buf_fmt(out, "* %s\n\n", n->say);
    }
}

static void answer(ui_state *s, ls_buf *out) {
    ls_buf text = {0};
    for (size_t i = 0; i < s->n_steps; i++)
        for (int k = 0; k < ui_step(s, i)->n_emitted; k++) {
            const ls_token *t = ls_token_of(&s->tokens, ui_step(s, i)->tree.nodes[ui_step(s, i)->path[k]].token);
            if (!t->special) ls_buf_add(&text, t->bytes, (size_t)t->n);
        }
    const ls_stats *st = ui_stats(s);
    ls_visible_text(out, text.p, text.n);
    ls_buf_fmt(out, "\n\n# %llu tokens in %llu steps: MAT %.2f", (unsigned long long)st->emitted,
               (unsigned long long)st->steps, ls_stats_mat(st));
    char speedup[LS_SPEEDUP_BYTES];
    if (ls_stats_speedup(st) > 0)
        ls_buf_fmt(out, "; x%s against plain decoding (measured)",
                   ls_speedup_text(speedup, ls_stats_speedup(st), ls_stats_speedup_spread(st), true));
    ls_buf_char(out, '\n');
    ls_buf_free(&text);
}

static ls_code tell(ls_source *source, const ls_demo *d, bool recorded, ls_buf *out, ls_err *err) {
    ui_state s;
    ls_code code = LS_OK;
    ui_demo play = d->play;
    play.pace = 0;
    play.rival = NULL; // a race needs a screen
    play.quiz = false; // and a question somebody who answers
    ui_state_init(&s);
    s.recording = recorded;
    ls_visible_fmt(out, "%s", d->play.title);
    ls_buf_fmt(out, "\n\n> %s\n\n", d->prompt);
    ui_demo_begin(&s, &play);
    if (!recorded) ui_request_of(&s, LS_CMD_PROMPT, ls_strdup(d->prompt), 0);
    for (bool ended = false; !ended && !code;) {
        struct pollfd fd = {source->wake_fd(source), POLLIN, 0};
        ui_send_requests(&s, source);
        if (poll(&fd, 1, 200) < 0 && ls_interrupted) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
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
    while (s.n_outbox) free(s.outbox[--s.n_outbox].text);
    ui_state_free(&s);
    return code;
}

static int play(const ls_command_line *c, ls_demo *d, const ls_options *o, ls_err *err) {
    const bool live_run = c->live || !d->trace,
               screen = ls_is_scripted(c) || (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO));
    ls_screen_source live = {0};
    int status = LS_EXIT_OK;
    ls_source *source =
        live_run
            ? ls_screen_source_open(&live, o, err)
            : ls_source_replay(&(ls_replay_options){.path = d->trace, .rival = d->rival_trace, .paused = true}, err);
    if (!source) return ls_complain(err);
    ls_code code = LS_OK;
    ui_options options;
    if (screen && (code = ls_screen_options(o, &options, err))) source->close(source);
    else if (screen) {
        options.recording = !live_run;
        options.demo = &d->play;
        options.prompt = live_run ? d->prompt : NULL;
        code = ls_show(source, &options, c, &status, err);
    } else {
        ls_buf out = {0};
        ls_catch_signals();
        code = tell(source, d, !live_run, &out, err);
        source->close(source);
        if (code) ls_buf_free(&out);
        else if (!ls_print(&out)) status = LS_EXIT_FAILED;
    }
    if (!status && live.trace_failed) status = LS_EXIT_FAILED;
    if (live_run) ls_screen_source_free(&live);
    return code ? ls_complain(err) : status;
}

int ls_cmd_demo(const ls_command_line *c) {
    ls_err err = {0};
    ls_demo d = {0};
    if (!c->n_args) return list();
    if (c->n_args > 1) ls_fail(&err, LS_E_USAGE, "'logitspec demo NAME' plays one demo; %d were named", c->n_args);
    else ls_demo_read(&d, c->args[0], &err);
    if (err.code) return ls_complain(&err);
    ls_options o; // the demo's settings over everyone's
    ls_options_copy(&o, &c->options);
    const ls_code code = d.settings ? ls_options_yaml(&o, d.settings, d.file, &err) : LS_OK;
    const int status = code ? ls_complain(&err) : play(c, &d, &o, &err);
    ls_options_free(&o);
    ls_demo_free(&d);
    return status;
}
