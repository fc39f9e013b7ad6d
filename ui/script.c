#include "ui/script.h"
#include "base/system.h"
#include "base/file.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ui/demo.h"
#include "ui/app.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_MS = 33, WAIT_S = 60, HOLD_S = 2, LAST_MESSAGES = 2 };

typedef struct {
    ui_screen screen;
    ui_film film;
    ls_buf cast; // what the film has written
    bool filming, ended;
    uint64_t start_ns, frame_ns;
} player;

static void script_draw(player *p) {
    ui_screen_draw(&p->screen, p->screen.canvas.rows, p->screen.canvas.cols);
    p->frame_ns = ls_now_ns();
    if (p->filming) ui_film_frame(&p->film, &p->screen.canvas, (double)(p->frame_ns - p->start_ns) / 1e9);
}

// Handles events of the source for at most `ms` milliseconds.
static void go_on(player *p, int ms) {
    ui_state *s = &p->screen.state;
    ui_screen_follow(&p->screen);
    struct pollfd fd = {p->screen.source->wake_fd, POLLIN, 0};
    const int demo = ui_demo_wait_ms(s, ls_now_ns());
    ui_send_asked(s, p->screen.source);
    if (ui_shadows_work(s)) ms = 0;
    poll(&fd, 1, demo >= 0 && demo < ms ? demo : ms);
    for (ls_event *e; (e = p->screen.source->next(p->screen.source));) {
        p->ended |= e->kind == LS_EV_END;
        ui_on_event(s, e);
    }
    ui_demo_is_due(s, ls_now_ns());
    ui_send_asked(s, p->screen.source);
    ui_screen_save(&p->screen);
    if (s->asked.editor) ui_say_error(s, "a script opens no editor");
    s->asked.editor = false;
    if (ls_now_ns() - p->frame_ns >= FRAME_MS * 1000000ull) script_draw(p);
}

static bool shows(player *p, const char *text) {
    ls_buf screen = {0};
    script_draw(p);
    ui_canvas_text(&p->screen.canvas, false, &screen);
    const bool found = strstr(screen.n ? screen.p : "", text) != NULL;
    ls_buf_free(&screen);
    return found;
}

static void press(player *p, int key) {
    ui_on_key(&p->screen.state, (ui_key){.code = key});
    ui_send_asked(&p->screen.state, p->screen.source);
}

static ls_code press_keys(player *p, const char *names, const char *where, ls_err *err) {
    size_t n;
    for (const char *at; (at = ls_next_word(&names, " ", &n));) {
        const int key = ui_key_named(at, n);
        if (!key) return ls_fail(err, LS_E_USAGE, "%s: '%.*s' is not a key", where, (int)n, at);
        press(p, key);
    }
    return LS_OK;
}

static void type(player *p, const char *text) {
    for (const char *at = text; *at;) {
        uint32_t cp = '?';
        const int n = ls_utf8_decode(at, strlen(at), &cp);
        press(p, (int)cp);
        at += n > 0 ? n : 1;
    }
}

static ls_code not_as_said(player *p, const char *where, const char *what, const char *text, ls_err *err) {
    ls_buf screen = {0};
    ui_canvas_text(&p->screen.canvas, false, &screen);
    fprintf(stderr, "%s", screen.n ? screen.p : "");
    ls_buf_free(&screen);
    ls_buf said = {0}; // the message line has the last one only
    const ui_state *u = &p->screen.state;
    for (size_t i = u->n_log > LAST_MESSAGES ? u->n_log - LAST_MESSAGES : 0; i < u->n_log; i++)
        ls_buf_fmt(&said, "; message: %.160s", u->log[i % UI_LOG_LINES]);
    const ls_code code =
        ls_fail(err, LS_E_RANGE, "%s: the screen %s '%.200s'%s", where, what, text, said.n ? said.p : "");
    ls_buf_free(&said);
    return code;
}

static ls_code wait_for_text(player *p, const char *text, const char *where, ls_err *err) {
    const uint64_t end = ls_now_ns() + WAIT_S * 1000000000ull;
    while (!shows(p, text)) {
        if (p->screen.state.run.state == LS_STATE_FAILED) return ui_failure(&p->screen, err); // nothing more will come
        if (ls_now_ns() > end || p->screen.state.asked.quit) return not_as_said(p, where, "never shows", text, err);
        // a frame for every step would take CPU time from the decoder, and change the measured times
        const uint64_t next = ls_now_ns() + FRAME_MS * 1000000ull;
        for (uint64_t now; (now = ls_now_ns()) < next;) go_on(p, (int)((next - now) / 1000000) + 1);
    }
    return LS_OK;
}

static ls_code pause_for(player *p, const char *text, const char *where, ls_err *err) {
    char *end;
    const double s = strtod(text, &end);
    if (end == text || *end || !(s >= 0 && s <= 3600))
        return ls_fail(err, LS_E_USAGE, "%s: pause needs a number of seconds, 0 to 3600", where);
    for (const uint64_t until = ls_now_ns() + (uint64_t)(s * 1e9); ls_now_ns() < until;) {
        const uint64_t left = (until - ls_now_ns()) / 1000000 + 1;
        go_on(p, left < FRAME_MS ? (int)left : FRAME_MS);
    }
    return LS_OK;
}

static ls_code resize(player *p, const char *text, const char *where, ls_err *err) {
    int cols, rows, end = 0;
    if (p->filming)
        return ls_fail(err, LS_E_USAGE, "%s: the size of an asciicast cannot change (set it with --size)", where);
    if (sscanf(text, "%4dx%4d%n", &cols, &rows, &end) != 2 || text[end] || cols < 1 || rows < 1 || cols > 500 ||
        rows > 200)
        return ls_fail(err, LS_E_USAGE, "%s: size is COLSxROWS, up to 500x200", where);
    ui_canvas_resize(&p->screen.canvas, rows, cols);
    return LS_OK;
}

const ui_script_line ui_script_lines[] = {
#define SCRIPT(name, word, argument, help) {word, argument, help},
#include "ui/script.def"
#undef SCRIPT
};

static ls_code command(player *p, const char *line, const char *where, ls_err *err) {
    size_t n;
    const char *rest = line, *word = ls_next_word(&rest, " ", &n);
    int w = 0;
    rest += strspn(rest, " ");
    while (w < UI_SCRIPT_LINES && !ls_str_is((ls_str){word, n}, ui_script_lines[w].word)) w++;
    if (w == UI_SCRIPT_LINES || !*rest)
        return ls_fail(err, LS_E_USAGE, "%s: one of the lines that 'logitspec help scripts' lists is expected", where);
    switch (w) {
    case UI_SCRIPT_SIZE: return resize(p, rest, where, err);
    case UI_SCRIPT_TYPE: type(p, rest); return LS_OK;
    case UI_SCRIPT_KEY: return press_keys(p, rest, where, err);
    case UI_SCRIPT_WAIT: return wait_for_text(p, rest, where, err);
    case UI_SCRIPT_EXPECT: return shows(p, rest) ? LS_OK : not_as_said(p, where, "does not show", rest, err);
    case UI_SCRIPT_REJECT: return shows(p, rest) ? not_as_said(p, where, "shows", rest, err) : LS_OK;
    case UI_SCRIPT_PAUSE: return pause_for(p, rest, where, err);
    default: break; // UI_SCRIPT_SAVE
    }
    script_draw(p);
    return ui_canvas_save(&p->screen.canvas, p->screen.theme, rest, err) ? ls_err_prefix(err, "%s", where) : LS_OK;
}

static ls_code follow(player *p, const char *script, ls_err *err) {
    ls_lines *l;
    ls_line line;
    ls_code code = ls_lines_open(&l, script, err);
    if (code) return code;
    while (!code && !(code = ls_lines_next(l, &line, err)) && line.p && !p->screen.state.asked.quit) {
        char *text = ls_strndup(line.p, line.n), *word = text + strspn(text, " \t");
        char *where = ls_format("%s:%zu", script, line.number);
        if (*word && *word != '#') code = command(p, word, where, err);
        go_on(p, 0);
        free(text);
        free(where);
    }
    ls_lines_close(l);
    return code;
}

// Goes on until the answer is complete or the recording has ended.
static void go_to_end(player *p, bool has_prompt) {
    ui_state *s = &p->screen.state;
    while (!s->asked.quit && s->run.state != LS_STATE_FAILED) {
        const bool idle = s->run.has_header && s->run.state == LS_STATE_IDLE;
        if (idle && (s->given.recording || p->ended || !has_prompt)) break;
        if (ui_demo_note(s) && !ui_demo_note(s)->go_on) {
            for (const uint64_t until = ls_now_ns() + HOLD_S * 1000000000ull; ls_now_ns() < until;)
                go_on(p, FRAME_MS); // to be read
            ui_demo_go_on(s);
        }
        go_on(p, FRAME_MS);
    }
}

ls_code ui_run_script(ls_source *source, const ui_options *o, const ui_play *play, int *exit_code, ls_err *err) {
    player p = {.filming = play->cast != NULL, .start_ns = ls_now_ns()};
    ui_screen_open(&p.screen, source, o, o->color ? o->theme : ui_theme_find("mono"), !o->ascii);
    ui_canvas_resize(&p.screen.canvas, play->rows, play->cols);
    if (p.filming)
        ui_film_begin(&p.film, false, p.screen.theme, play->rows, play->cols, o->demo ? o->demo->title : "logitspec",
                      &p.cast);
    script_draw(&p);
    ls_code code = LS_OK;
    if (play->script) code = follow(&p, play->script, err);
    else go_to_end(&p, o->prompt != NULL);
    script_draw(&p);
    if (!code) code = ui_failure(&p.screen, err);
    // without a script, nobody saw the last messages of a recording
    for (size_t i = 0; !code && o->given.recording && !play->script && i < p.screen.state.n_log; i++)
        if (i + UI_LOG_LINES >= p.screen.state.n_log) ls_warn("%s", p.screen.state.log[i % UI_LOG_LINES]);
    if (p.filming) {
        ui_film_end(&p.film, (double)(ls_now_ns() - p.start_ns) / 1e9 + HOLD_S);
        if (!code) code = ls_write_file(play->cast, &p.cast, err);
        else ls_err_suffix(err, "no asciicast was written");
    }
    *exit_code = ui_screen_close(&p.screen);
    ls_buf_free(&p.cast);
    return code;
}
