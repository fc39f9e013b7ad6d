#include "ui/app.h"
#include "base/system.h"
#include "base/file.h"
#include "base/mem.h"
#include "ui/demo.h"
#include "ui/edit.h"
#include "ui/render.h"
#include "ui/term_curses.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 30, EVENTS_AT_ONCE = 4096, MOST_PROMPT = 64 << 20, EXIT_SIGNALLED = 128 };

typedef struct {
    ui_screen screen;
    const ui_theme *light;           // where the terminal's background is light; NULL: never
    int fps;                         // frames a second at most
    bool history_failed;             // a write failed, and the user was told
    bool dirty, urgent;              // urgent: a key was pressed, its effect is to be seen at once
    uint64_t last_frame_ns, draw_ns; // draw_ns: smoothed time of one frame
} app;

static void app_draw(app *a) {
    ui_state *s = &a->screen.state;
    const uint64_t start = ls_now_ns();
    ls_buf printed = {0};
    ui_term_caught(&printed);
    ui_log(s, printed.n ? printed.p : "", printed.n);
    ls_buf_free(&printed);
    int rows, cols;
    ui_term_size(&rows, &cols);
    ui_screen_draw(&a->screen, rows, cols);
    if (s->asked.redraw) ui_term_redraw();
    s->asked.redraw = false;
    ui_term_show(&a->screen.canvas);
    a->last_frame_ns = ls_now_ns();
    a->draw_ns = (3 * a->draw_ns + (a->last_frame_ns - start)) / 4;
    a->dirty = a->urgent = false;
}

static void take_events(app *a) {
    ls_event *e;
    for (int i = 0; i < EVENTS_AT_ONCE && (e = a->screen.source->next(a->screen.source)); i++) {
        ui_on_event(&a->screen.state, e);
        a->dirty = true;
    }
}

static void take_key(app *a, ui_key k) {
    ui_state *s = &a->screen.state;
    a->dirty = a->urgent = true;
    if (k.code == UI_KEY_PASTE) {
        const ls_buf *text = ui_term_paste();
        ui_on_paste(s, text->p, text->n);
        if (k.tag) ui_say_error(s, "the paste is incomplete; the received part was kept");
    } else if (k.code == UI_KEY_INVALID) {
        s->typed.interrupted = false;
        ui_say_error(s, "invalid UTF-8 from the terminal was ignored: set the encoding of the terminal to UTF-8");
    } else if (k.code == UI_KEY_BACKGROUND) {
        if (a->light)
            ui_term_colors(a->screen.theme = ui_is_light((unsigned)k.tag) ? a->light : a->screen.options->theme);
    } else {
        if (k.code == UI_KEY_MOUSE && k.row < a->screen.canvas.rows && k.col < a->screen.canvas.cols)
            k.tag = a->screen.canvas.cells[k.row * a->screen.canvas.cols + k.col].tag;
        ui_on_key(s, k);
    }
}

void ui_send_asked(ui_state *s, ls_source *source) {
    for (int i = 0; i < s->asked.n_outbox; i++) {
        const ls_command *r = &s->asked.outbox[i];
        ls_err err;
        if (!source->command(source, r, &err))
            s->asked.sent |= r->kind == LS_CMD_PROMPT || r->kind == LS_CMD_EDIT || r->kind == LS_CMD_LOAD;
        else {
            ui_say_error(s, "%s", err.msg);
            if (r->kind == LS_CMD_PROMPT && !s->typed.prompt.text.n)
                ui_edit_set(&s->typed.prompt, r->text); // gives it back
            if (r->kind == LS_CMD_SET) ui_setting_unasked(s);
        }
        free(r->text);
    }
    s->asked.n_outbox = 0;
}

// Writes prompts to the history file before it sends them, so that a crash loses none.
static void send_asked(app *a) {
    ls_err err;
    ui_state *s = &a->screen.state;
    const char *history = a->screen.options->history;
    if (history && ui_history_add(&s->typed.prompt, history, &err) && !a->history_failed) {
        ui_say_error(s, "%s", err.msg);
        ui_log(s, err.msg, strlen(err.msg)); // the message line may soon show another message
        a->history_failed = true;
    }
    ui_send_asked(s, a->screen.source);
}

bool ui_screen_save(ui_screen *screen) {
    ui_state *s = &screen->state;
    ls_err err;
    if (!s->asked.save_to) return false;
    ui_canvas file = {.utf8 = true, .ascii = s->view.ascii}; // whatever this terminal shows
    ui_canvas_resize(&file, screen->canvas.rows, screen->canvas.cols);
    ui_render(s, &file);
    const char *replaces = ls_replaces(s->asked.save_to);
    if (ui_canvas_save(&file, screen->theme, s->asked.save_to, &err)) ui_say_error(s, "%s", err.msg);
    else ui_say(s, "saved %.280s%s", s->asked.save_to, replaces);
    ui_canvas_free(&file);
    free(s->asked.save_to);
    s->asked.save_to = NULL;
    return true;
}

// Opens the prompt in the user's own editor. An editor that fails changes nothing.
static void edit_outside(app *a) {
    ui_state *s = &a->screen.state;
    s->asked.editor = false;
    const char *folder = getenv("TMPDIR"), *editor = getenv("VISUAL");
    if (!editor || !*editor) editor = getenv("EDITOR");
    if (!editor || !*editor) editor = "vi";
    char *path = ls_format("%s/logitspec-prompt-XXXXXX", folder && *folder ? folder : "/tmp");
    char *command = ls_format("%s \"$1\"", editor);
    ls_buf text = {0};
    ls_err err;
    const int fd = mkstemp(path);
    ls_code code = fd < 0 ? ls_fail(&err, LS_E_IO, "cannot write %s: %s", path, ls_write_reason(errno))
                          : ls_write_private(path, &s->typed.prompt.text, &err);
    if (!code && ui_term_run(command, path))
        code = ls_fail(&err, LS_E_IO, "the editor '%.80s' failed; the prompt is unchanged", editor);
    if (!code) code = ls_read_file(&text, path, MOST_PROMPT, &err);
    if (code) ui_say_error(s, "%s", err.msg);
    else {
        while (text.n && text.p[text.n - 1] == '\n') text.n--; // editors add one
        ui_edit_clear(&s->typed.prompt);
        ui_on_paste(s, text.n ? text.p : "", text.n);
        s->shown.focus = UI_NO_PANEL;
    }
    if (fd >= 0) close(fd);
    unlink(path);
    free(path);
    free(command);
    ls_buf_free(&text);
    a->dirty = true;
}

// Changes the theme and the mouse as often as the user asked for it.
static void apply_theme(app *a) {
    ui_state *s = &a->screen.state;
    if (s->asked.themes) a->light = NULL; // the user chose a theme: the terminal's background no longer does
    for (; s->asked.themes > 0; s->asked.themes--) {
        a->screen.theme = ui_theme_after(a->screen.theme);
        ui_term_colors(a->screen.theme);
        s->view.brackets = !ui_theme_has_colors(a->screen.theme);
    }
    for (; s->asked.mice > 0; s->asked.mice--) ui_term_switch_mouse();
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
    const int least = sooner(ui_demo_wait_ms(&a->screen.state, ls_now_ns()), ui_term_key_ms());
    if (!a->dirty) return least;
    const uint64_t since = ls_now_ns() - a->last_frame_ns, due = frame_ns(a);
    return since >= due ? 0 : sooner(least, (int)((due - since) / 1000000) + 1);
}

static void loop(app *a) {
    ui_state *s = &a->screen.state;
    bool worked = false; // shadows worked in the last round: their result must be drawn
    app_draw(a);
    while (!s->asked.quit && !ui_term_signal()) {
        const bool more = ui_shadows_work(s);
        a->dirty |= more || worked;
        worked = more;
        const bool open = ui_term_wait(a->screen.source->wake_fd, more ? 0 : wait_ms(a));
        if (ui_term_signal()) break;
        take_events(a);
        ui_key k;
        // bytes after a key that hands the terminal to an editor or the shell belong to that program
        while (!s->asked.quit && !s->asked.editor && !s->asked.suspend && (k = ui_term_key()).code != UI_KEY_NONE)
            take_key(a, k);
        a->dirty |= ui_screen_follow(&a->screen);
        ui_demo_is_due(s, ls_now_ns());
        send_asked(a);
        if (!open) {
            s->asked.exit_code = 1;
            break;
        }
        if (s->asked.editor) edit_outside(a);
        apply_theme(a);
        a->dirty |= ui_term_changed();
        if (s->asked.suspend) ui_term_suspend();
        s->asked.suspend = false;
        if (s->asked.to_copy) {
            ui_term_copy(s->asked.to_copy);
            free(s->asked.to_copy);
            s->asked.to_copy = NULL;
        }
        if (a->dirty && ls_now_ns() - a->last_frame_ns >= frame_ns(a)) app_draw(a);
        a->dirty |= ui_screen_save(&a->screen);
    }
}

void ui_begin(ui_state *s, const ui_options *o) {
    ui_state_init(s);
    s->given = o->given;
    s->view.ascii = o->ascii;
    for (const ui_setting *t = o->settings; t && t->key && s->setup.n < UI_SETTINGS; t++)
        s->setup.settings[s->setup.n++] = *t;
    s->view.brackets = !o->color;
    if (o->given.recording) s->shown.focus = UI_OUTPUT; // keys act on the panels
    if (o->given.watches) s->shown.focus = UI_REQUESTS;
    s->requests.follows = o->given.watches;
    if (o->history) ui_history_load(&s->typed.prompt, o->history);
    if (o->demo) ui_demo_begin(s, o->demo);
    if (o->prompt && o->demo) ui_ask(s, LS_CMD_PROMPT, ls_strdup(o->prompt), 0);
    else if (o->prompt) {
        ui_on_paste(s, o->prompt, strlen(o->prompt));
        ui_ask(s, LS_CMD_PROMPT, ui_edit_take(&s->typed.prompt), 0); // a prompt, even if it looks like a command
    }
}

// COLORFGBG, which some terminals set: "FOREGROUND;BACKGROUND" as numbers of colours.
static bool environment_is_light(void) {
    const char *colors = getenv("COLORFGBG"), *ground = colors ? strrchr(colors, ';') : NULL;
    return ground && (!strcmp(ground, ";7") || !strcmp(ground, ";15"));
}

ls_code ui_run(ls_source *source, const ui_options *o, int *exit_code, ls_err *err) {
    const ui_theme *light = o->color ? o->light : NULL;
    const ui_theme *theme = !o->color ? ui_theme_find("mono") : light && environment_is_light() ? light : o->theme;
    ls_code code = ui_term_open(theme, o->mouse, light != NULL, err);
    if (code) {
        source->close(source);
        return code;
    }
    app a = {.light = light, .fps = o->fps > 0 ? o->fps : FRAMES};
    ui_state *s = &a.screen.state;
    ui_screen_open(&a.screen, source, o, theme, ui_term_is_utf8());
    if (!a.screen.canvas.utf8)
        ui_say(s, "the locale is not UTF-8 (see LANG): non-ASCII characters are shown as ? but sent unchanged");
    s->given.clipboard = o->clipboard ? ui_term_copies() : NULL;
    send_asked(&a);
    loop(&a);
    const int signal_number = ui_term_signal();
    ui_term_close();
    code = ui_failure(&a.screen, err);
    *exit_code = ui_screen_close(&a.screen);
    if (signal_number && o->given.serves) *exit_code = EXIT_SIGNALLED + signal_number; // the server ends first
    else if (signal_number) raise(signal_number); // by the default action: the exit status names the signal
    return code;
}

// ---- what is shown

ls_code ui_failure(const ui_screen *s, ls_err *err) {
    const ui_state *u = s->waiting ? &s->conversation : &s->state;
    return u->run.state == LS_STATE_FAILED ? ls_fail(err, LS_E_BACKEND, "%s", u->run.failure) : LS_OK;
}

void ui_screen_open(ui_screen *s, ls_source *source, const ui_options *o, const ui_theme *t, bool utf8) {
    *s = (ui_screen){.options = o, .source = source, .theme = t};
    s->canvas = (ui_canvas){.utf8 = utf8, .ambiguous_wide = o->ambiguous_wide};
    ui_begin(&s->state, o);
}

void ui_screen_draw(ui_screen *s, int rows, int cols) {
    ui_canvas *c = &s->canvas;
    ui_canvas_resize(c, rows, cols);
    c->ascii = s->state.view.ascii || !c->utf8 || c->ambiguous_wide;
    ui_render(&s->state, c);
}

static void close_shown(ui_screen *s) {
    s->source->close(s->source);
    ui_state_free(&s->state);
}

static void show_conversation(ui_screen *s) {
    s->state = s->conversation;
    s->source = s->waiting;
    s->waiting = NULL;
}

static void leave_tour(ui_screen *s) {
    const bool quit = s->state.asked.quit;
    const int exit_code = s->state.asked.exit_code;
    close_shown(s);
    show_conversation(s);
    s->state.asked.quit |= quit;
    if (quit) s->state.asked.exit_code = exit_code;
}

// The conversation is set aside, or the stop before is closed.
static void show_stop(ui_screen *s, int stop) {
    ls_err err;
    ui_options o = *s->options;
    int of = 0;
    if (s->waiting) close_shown(s);
    else {
        s->waiting = s->source;
        s->conversation = s->state;
        s->conversation.asked.tour = 0;
    }
    s->source = o.given.tour(o.given.ud, stop, &of, &o.demo, &err);
    if (!s->source) {
        show_conversation(s);
        if (stop < of) ui_say_error(&s->state, "%s", err.msg); // else the one before was the last
        return;
    }
    o.given = s->conversation.given;
    o.given.recording = true;
    o.given.tour = NULL;
    o.given.left = NULL;
    o.given.autosave = o.prompt = o.history = NULL;
    ui_begin(&s->state, &o);
    s->state.view.ascii = s->conversation.view.ascii;
    s->state.view.brackets = s->conversation.view.brackets;
    s->state.playing.tour_stop = stop + 1;
    s->state.playing.tour_of = of;
}

bool ui_screen_follow(ui_screen *s) {
    const ui_asked *asked = &s->state.asked;
    const bool leaves = s->waiting && (asked->quit || asked->tour < 0);
    if (!leaves && asked->tour <= 0) return false;
    if (leaves) leave_tour(s);
    else show_stop(s, s->state.playing.tour_stop); // the next one
    return true;
}

int ui_screen_close(ui_screen *s) {
    if (s->waiting) leave_tour(s);
    const int exit_code = s->state.asked.exit_code;
    close_shown(s);
    ui_canvas_free(&s->canvas);
    return exit_code;
}
