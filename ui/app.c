#include "ui/app.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "ui/demo.h"
#include "ui/edit.h"
#include "ui/navigate.h"
#include "ui/picture.h"
#include "ui/render.h"
#include "ui/shadows.h"
#include "ui/term_curses.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 30, EVENTS_AT_ONCE = 4096, MOST_PROMPT = 64 << 20 };

typedef struct {
    ls_source *source;
    ui_tour tour;
    const ui_theme *theme, *light, *dark; // light, dark: by the terminal's background; light NULL: never
    ui_state state;
    ui_canvas canvas;
    const char *history;             // file of prompts; NULL: none
    int fps;                         // frames a second at most
    bool history_failed;             // a write failed, and the user was told
    bool dirty, urgent;              // urgent: a key was pressed, its effect is to be seen at once
    uint64_t last_frame_ns, draw_ns; // draw_ns: smoothed time of one frame
} app;

static void draw(app *a) {
    const uint64_t start = ls_now_ns();
    ls_buf printed = {0};
    ui_term_caught(&printed);
    ui_log(&a->state, printed.n ? printed.p : "", printed.n);
    ls_buf_free(&printed);
    int rows, cols, cursor_row, cursor_col;
    ui_term_size(&rows, &cols);
    ui_canvas_resize(&a->canvas, rows, cols);
    a->canvas.ascii = a->state.view.ascii || !a->canvas.utf8 || a->canvas.ambiguous_wide;
    ui_render(&a->state, &a->canvas, &cursor_row, &cursor_col);
    if (a->state.asked.redraw) ui_term_redraw();
    a->state.asked.redraw = false;
    ui_term_show(&a->canvas, cursor_row, cursor_col);
    a->last_frame_ns = ls_now_ns();
    a->draw_ns = (3 * a->draw_ns + (a->last_frame_ns - start)) / 4;
    a->dirty = a->urgent = false;
}

static void take_events(app *a) {
    ls_event *e;
    for (int i = 0; i < EVENTS_AT_ONCE && (e = a->source->next(a->source)); i++) {
        ui_on_event(&a->state, e);
        a->dirty = true;
    }
}

static void take_key(app *a, ui_key k) {
    a->dirty = a->urgent = true;
    if (k.code == UI_KEY_PASTE) {
        const ls_buf *text = ui_term_paste();
        ui_on_paste(&a->state, text->p, text->n);
        if (k.tag) ui_say_error(&a->state, "the paste is incomplete; the received part was kept");
    } else if (k.code == UI_KEY_INVALID) {
        a->state.typed.interrupted = false;
        ui_say_error(&a->state,
                     "invalid UTF-8 from the terminal was ignored: set the encoding of the terminal to UTF-8");
    } else if (k.code == UI_KEY_BACKGROUND) {
        if (a->light) ui_term_colors(a->theme = ui_is_light((unsigned)k.tag) ? a->light : a->dark);
    } else {
        const ui_layout l = ui_layout_of(&a->state.drawn.room, &a->state.shown);
        if (k.code == UI_KEY_MOUSE && k.row < a->canvas.rows && k.col < a->canvas.cols)
            k.tag = a->canvas.cells[k.row * a->canvas.cols + k.col].tag;
        ui_on_key(&a->state, k, ui_panel_at(&l, k.row, k.col));
    }
}

void ui_send_requests(ui_state *s, ls_source *source) {
    for (int i = 0; i < s->asked.n_outbox; i++) {
        ui_request *r = &s->asked.outbox[i];
        ls_err err;
        const bool begins = r->kind == LS_CMD_PROMPT || r->kind == LS_CMD_EDIT || r->kind == LS_CMD_LOAD;
        const bool refused = source->command(source, &(ls_command){r->kind, r->text, r->n}, &err) != LS_OK;
        s->run.sent |= begins && !refused;
        if (refused) {
            ui_say_error(s, "%s", err.msg);
            if (r->kind == LS_CMD_PROMPT && !s->typed.prompt.text.n)
                ui_edit_set(&s->typed.prompt, r->text); // gives it back
        }
        free(r->text);
    }
    s->asked.n_outbox = 0;
}

// Writes prompts to the history file before it sends them, so that a crash loses none.
static void send_requests(app *a) {
    ls_err err;
    ui_state *s = &a->state;
    if (a->history && ui_history_add(&s->typed.prompt, a->history, &err) && !a->history_failed) {
        ui_say_error(s, "%s", err.msg);
        ui_log(s, err.msg, strlen(err.msg)); // the message line may soon show another message
        a->history_failed = true;
    }
    ui_send_requests(s, a->source);
}

static void save_display(app *a) {
    ls_err err;
    int row, col;
    ui_canvas file = {.utf8 = true, .ascii = a->state.view.ascii}; // whatever this terminal shows
    ui_canvas_resize(&file, a->canvas.rows, a->canvas.cols);
    ui_render(&a->state, &file, &row, &col);
    if (ui_canvas_save(&file, a->theme, a->state.asked.save_to, &err)) ui_say_error(&a->state, "%s", err.msg);
    else ui_say(&a->state, "saved %.300s", a->state.asked.save_to);
    ui_canvas_free(&file);
    free(a->state.asked.save_to);
    a->state.asked.save_to = NULL;
}

// Opens the prompt in the user's own editor. An editor that fails changes nothing.
static void edit_outside(app *a) {
    a->state.asked.editor = false;
    const char *folder = getenv("TMPDIR");
    char *path = ls_format("%s/logitspec-prompt-XXXXXX", folder && *folder ? folder : "/tmp");
    const char *editor = getenv("VISUAL");
    if (!editor || !*editor) editor = getenv("EDITOR");
    if (!editor || !*editor) editor = "vi";
    const int fd = mkstemp(path);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    ls_buf text = {0};
    ls_err err = {0};
    bool ok = f && fwrite(a->state.typed.prompt.text.n ? a->state.typed.prompt.text.p : "", 1,
                          a->state.typed.prompt.text.n, f) == a->state.typed.prompt.text.n;
    if (f && fclose(f)) ok = false;
    char *command = ls_format("%s \"$1\"", editor);
    if (!ok) ls_fail(&err, LS_E_IO, "cannot write %s: %s", path, ls_write_reason(errno));
    else if (ui_term_run(command, path))
        ls_fail(&err, LS_E_IO, "the editor '%.80s' failed; the prompt is unchanged", editor);
    else ls_read_file(&text, path, MOST_PROMPT, &err);
    if (err.code) ui_say_error(&a->state, "%s", err.msg);
    else {
        while (text.n && text.p[text.n - 1] == '\n') text.n--; // editors add one
        ui_edit_clear(&a->state.typed.prompt);
        ui_on_paste(&a->state, text.n ? text.p : "", text.n);
        a->state.shown.focus = UI_NO_PANEL;
    }
    unlink(path);
    free(path);
    free(command);
    ls_buf_free(&text);
    a->dirty = true;
}

// Changes the theme and the mouse as often as the user asked for it.
static void look_otherwise(app *a) {
    if (a->state.asked.themes) a->light = NULL; // the user chose a theme: the terminal's background no longer does
    for (; a->state.asked.themes > 0; a->state.asked.themes--) {
        a->theme = ui_theme_after(a->theme);
        ui_term_colors(a->theme);
        a->state.view.brackets = !ui_theme_has_colors(a->theme);
    }
    for (; a->state.asked.mice > 0; a->state.asked.mice--) ui_term_mouse(!ui_term_has_mouse());
}

// The least time between two frames. Drawing takes at most 1/SHARE of one CPU, so that the decoder keeps its cores.
static uint64_t frame_ns(const app *a) {
    enum { SHARE = 50, LONGEST_MS = 250, KEY_MS = 100, KEYS = 4 }; // KEYS: after a key the time is divided by this
    const uint64_t least = 1000000000ull / (uint64_t)a->fps, fair = SHARE * a->draw_ns;
    const uint64_t longest = LONGEST_MS * 1000000ull, most = least > longest ? least : longest;
    if (a->urgent) return least / KEYS < KEY_MS * 1000000ull ? least / KEYS : KEY_MS * 1000000ull;
    return fair < least ? least : fair < most ? fair : most;
}

static int sooner(int a, int b) { // in milliseconds; -1: never
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static int wait_ms(const app *a) {
    const int least = sooner(ui_demo_wait_ms(&a->state, ls_now_ns()), ui_term_key_ms());
    if (!a->dirty) return least;
    const uint64_t since = ls_now_ns() - a->last_frame_ns, due = frame_ns(a);
    return since >= due ? 0 : sooner(least, (int)((due - since) / 1000000) + 1);
}

static bool is_time(const app *a) { // for another frame
    return ls_now_ns() - a->last_frame_ns >= frame_ns(a);
}

static void loop(app *a) {
    bool worked = false; // shadows worked in the last round: their result must be drawn
    draw(a);
    while (!a->state.asked.quit && !ui_term_signal()) {
        struct pollfd fds[] = {
            {STDIN_FILENO, POLLIN, 0}, {a->source->wake_fd(a->source), POLLIN, 0}, {ui_term_signal_fd(), POLLIN, 0}};
        const ui_shadows_progress shadows = ui_shadows_work(&a->state);
        const bool more = shadows == UI_SHADOWS_MORE;
        a->dirty |= shadows != UI_SHADOWS_STILL || worked;
        worked = more;
        if (poll(fds, 3, more ? 0 : wait_ms(a)) < 0 && errno != EINTR) break;
        ui_term_woken();
        if (ui_term_signal()) break;
        take_events(a);
        ui_key k;
        // bytes after a key that hands the terminal to an editor or the shell belong to that program
        while (!a->state.asked.quit && !a->state.asked.editor && !a->state.asked.suspend &&
               (k = ui_term_key()).code != UI_KEY_NONE)
            take_key(a, k);
        a->dirty |= ui_tour_follow(&a->tour);
        ui_demo_is_due(&a->state, ls_now_ns());
        send_requests(a);
        if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) { // the terminal was closed
            a->state.asked.exit_code = 1;
            break;
        }
        if (a->state.asked.editor) edit_outside(a);
        look_otherwise(a);
        a->dirty |= ui_term_resized();
        a->dirty |= ui_term_continued();
        if (a->state.asked.suspend || ui_term_stop_asked()) {
            a->state.asked.suspend = false;
            ui_term_suspend();
        }
        if (a->state.asked.to_copy) {
            ui_term_copy(a->state.asked.to_copy);
            free(a->state.asked.to_copy);
            a->state.asked.to_copy = NULL;
        }
        if (a->dirty && is_time(a)) draw(a);
        if (a->state.asked.save_to) {
            save_display(a);
            a->dirty = true;
        }
    }
}

void ui_begin(ui_state *s, const ui_options *o) {
    s->given = o->given;
    s->view.ascii = o->ascii;
    for (const ui_setting *t = o->settings; t && t->key && s->setup.n < UI_SETTINGS; t++)
        s->setup.settings[s->setup.n++] = *t;
    s->view.brackets = !o->color;
    if (o->given.recording) s->shown.focus = UI_OUTPUT; // keys act on the panels
    if (o->history) ui_history_load(&s->typed.prompt, o->history);
    if (o->demo) ui_demo_begin(s, o->demo);
    if (o->prompt && o->demo) ui_request_of(s, LS_CMD_PROMPT, ls_strdup(o->prompt), 0);
    else if (o->prompt) {
        ui_on_paste(s, o->prompt, strlen(o->prompt));
        ui_request_of(s, LS_CMD_PROMPT, ui_edit_take(&s->typed.prompt), 0); // a prompt, even if it looks like a command
    }
}

// COLORFGBG, which some terminals set: "FOREGROUND;BACKGROUND" as numbers of colours.
static bool environment_is_light(void) {
    const char *colors = getenv("COLORFGBG"), *ground = colors ? strrchr(colors, ';') : NULL;
    return ground && (!strcmp(ground, ";7") || !strcmp(ground, ";15"));
}

ls_code ui_run(ls_source *source, const ui_options *o, int *exit_code, ls_err *err) {
    const ui_theme *light = o->color ? o->light : NULL, *coloured = light && environment_is_light() ? light : o->theme;
    const ui_term_options shown = {o->color ? coloured : ui_theme_find("mono"), o->mouse, light != NULL};
    ls_code code = ui_term_open(&shown, err);
    if (code) {
        source->close(source);
        return code;
    }
    app a = {.source = source, .theme = shown.theme, .light = light, .dark = o->theme};
    ui_state_init(&a.state);
    a.canvas.utf8 = ui_term_is_utf8();
    a.canvas.ambiguous_wide = o->ambiguous_wide;
    a.history = o->history;
    a.fps = o->fps > 0 ? o->fps : FRAMES;
    a.tour = (ui_tour){.options = o, .source = &a.source, .state = &a.state};
    ui_begin(&a.state, o);
    if (!a.canvas.utf8)
        ui_say(&a.state, "the locale is not UTF-8 (see LANG): non-ASCII characters are shown as ? but sent unchanged");
    a.state.given.clipboard = o->clipboard ? ui_term_copies() : NULL;
    send_requests(&a);
    loop(&a);
    ui_tour_leave(&a.tour);
    int signal_number = ui_term_signal();
    ui_term_close();
    a.source->close(a.source);
    *exit_code = a.state.asked.exit_code;
    ui_state_free(&a.state);
    ui_canvas_free(&a.canvas);
    if (signal_number) raise(signal_number); // by the default action: the exit status names the signal
    return LS_OK;
}

// ---- the tour

static void bring_back(ui_tour *t) {
    *t->state = t->conversation;
    *t->source = t->waiting;
    t->waiting = NULL;
}

static void close_stop(ui_tour *t) {
    (*t->source)->close(*t->source);
    ui_state_free(t->state);
}

void ui_tour_leave(ui_tour *t) {
    if (!t->waiting) return;
    const bool quit = t->state->asked.quit;
    const int exit_code = t->state->asked.exit_code;
    close_stop(t);
    bring_back(t);
    t->state->asked.quit |= quit;
    if (quit) t->state->asked.exit_code = exit_code;
}

// The conversation is set aside, or the stop before is closed.
static void show_stop(ui_tour *t, int stop) {
    ls_err err;
    ui_options o = *t->options;
    int of = 0;
    if (t->waiting) close_stop(t);
    else {
        t->waiting = *t->source;
        t->conversation = *t->state;
    }
    ls_source *source = o.given.tour(o.given.ud, stop, &of, &o.demo, &err);
    if (!source) {
        bring_back(t);
        if (stop < of) ui_say_error(t->state, "%s", err.msg); // else the one before was the last
        return;
    }
    t->stop = stop;
    *t->source = source;
    ui_state_init(t->state);
    o.given = t->conversation.given;
    o.given.recording = true;
    o.given.tour = NULL;
    o.given.keep = o.prompt = o.history = NULL;
    o.given.left = NULL;
    ui_begin(t->state, &o);
    t->state->view.ascii = t->conversation.view.ascii;
    t->state->view.brackets = t->conversation.view.brackets;
    t->state->playing.tour_stop = stop + 1;
    t->state->playing.tour_of = of;
}

bool ui_tour_follow(ui_tour *t) {
    ui_state *s = t->state;
    if (!t->waiting && s->asked.tour) {
        s->asked.tour = false;
        show_stop(t, 0);
    } else if (t->waiting && (s->asked.quit || s->asked.tour_go < 0)) ui_tour_leave(t);
    else if (t->waiting && s->asked.tour_go) show_stop(t, t->stop + 1);
    else return false;
    return true;
}
