// A server: clients of the usual APIs drive the decoder. On a terminal the screen shows their requests: then the server
// has a thread of its own.
#include "base/file.h"
#include "base/system.h"
#include "cli/commands.h"
#include "serve/serve.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    ls_answerer *runs; // NULL: no server does
    const ls_command_line *line;
    ls_serve_options options;
    // with the screen
    sem_t known;              // posted when it serves, and when it ends
    atomic_bool failed, left; // left: the user has left the screen
    char url[120];            // where it serves
    ls_err err;
} server;

static bool stops(void *ud) {
    const server *s = ud;
    return ls_interrupted != 0 || s->left;
}

static bool stops_forward(void *ud) {
    return ls_interrupted != 0 || ls_answerer_stops(((const server *)ud)->runs);
}

static void say_line(void *ud, const char *text) {
    const ls_command_line *c = ((server *)ud)->line;
    if (!c->quiet) ls_say(0, "%s", text);
    fflush(stdout);
}

static void say_ready(void *ud, const char *url) {
    server *s = ud;
    snprintf(s->url, sizeof s->url, "%s", url);
    if (!s->line->quiet) ls_say(0, "serving %s at %s (Ctrl-C ends it)", s->line->options.model, url);
    fflush(stdout);
    sem_post(&s->known);
}

static void *serve(void *ud) {
    server *s = ud;
    s->failed = ls_serve(&s->options, say_ready, &s->err) != LS_OK;
    sem_post(&s->known);
    return NULL;
}

static ls_code serve_on_screen(server *s, ls_console *to, ls_err *err) {
    pthread_t thread;
    if (!ls_thread_start(&thread, serve, s)) return ls_no_thread(err);
    while (sem_wait(&s->known)) { // a signal
    }
    ls_leave_signals(); // the screen handles them, and the server ends with it
    ls_code code = LS_OK;
    if (!s->failed && !ls_interrupted) code = ls_show_feed(s->options.feed, s->url, true, s->line, to, err);
    s->left = true;
    pthread_join(thread, NULL);
    if (s->failed) *err = s->err;
    return s->failed ? err->code : code;
}

// The keys of --key-file, or of the environment. A key on the command line would be in everyone's list of processes.
static ls_code read_keys(const char *file, const char *variable, ls_keys *out, ls_err *err) {
    enum { MOST = 1 << 20 };
    const char *one = getenv(variable);
    struct stat st;
    ls_buf text = {0};
    *out = (ls_keys){0};
    if (!file) return one && *one ? ls_keys_read(out, (ls_str){one, strlen(one)}, variable, err) : LS_OK;
    ls_code code = ls_read_file(&text, file, MOST, err);
    if (!code) code = ls_keys_read(out, (ls_str){text.p, text.n}, file, err);
    if (!code && !stat(file, &st) && st.st_mode & S_IROTH)
        ls_warn("warning: other users of this machine can read %s: chmod o-r %s", file, file);
    ls_buf_free(&text);
    return code;
}

// In the background of a shell, a screen would stop the server.
static bool has_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() && kind && *kind &&
           strcmp(kind, "dumb") != 0;
}

ls_code ls_cmd_serve(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_options options, *o = &options;
    ls_options_copy(o, &c->options);
    ls_options_start_cold(o, false); // what one client said must not change another one's drafts
    ls_run_setup setup;
    ls_model model = {0};
    server s = {.line = c};
    sem_init(&s.known, 0, 0);
    s.options =
        (ls_serve_options){.model = &model,
                           .setup = &setup.s,
                           .seeded = o->seed.set,
                           .name = o->model,
                           .hosts = (const char *const *)o->serve_host.p,
                           .origins = (const char *const *)o->serve_origin.p,
                           .max_waiting = o->serve_queue,
                           .parallel = o->serve_parallel,
                           .max_kept = o->serve_kv_caches > o->serve_parallel ? o->serve_kv_caches : o->serve_parallel,
                           .max_kept_bytes = (uint64_t)o->serve_kv_mib << 20,
                           .fresh = o->serve_fresh,
                           .records = {.folder = o->serve_trace_dir,
                                       .level = ls_trace_level_named(o->trace_level),
                                       .max_files = o->serve_trace_files,
                                       .max_bytes = (uint64_t)o->serve_trace_mib << 20},
                           .timeout_s = o->serve_timeout,
                           .runs = &s.runs,
                           .stop = stops,
                           .line = say_line,
                           .ud = &s};
    const bool screen = o->serve_screen && o->serve_watch_mib && !c->quiet && has_terminal();
    ls_code code = ls_listen_read(&s.options.listen, o->serve_listen, err);
    if (!code) code = read_keys(o->serve_key_file, "LOGITSPEC_SERVE_KEY", &s.options.keys, err);
    if (!code) code = read_keys(o->serve_watch_key_file, "LOGITSPEC_WATCH_KEY", &s.options.watch_keys, err);
    ls_catch_signals();
    ls_run_setup_init(&setup, o);
    ls_gauge_watch(&setup.s.model.engine);
    setup.s.model.engine.stop = stops_forward;
    setup.s.model.engine.ud = &s;
    if (!code) code = ls_model_load(&model, &setup.s.model, err);
    ls_gauge_clear();
    if (o->serve_watch_mib) s.options.feed = ls_feed_new((size_t)o->serve_watch_mib << 20);
    if (!code && screen) code = serve_on_screen(&s, to, err);
    else if (!code) code = ls_serve(&s.options, say_ready, err);
    ls_feed_free(s.options.feed);
    ls_model_free(&model);
    ls_run_setup_free(&setup);
    ls_keys_free(&s.options.keys);
    ls_keys_free(&s.options.watch_keys);
    ls_options_free(o);
    return code;
}
