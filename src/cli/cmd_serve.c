// A server: clients of the usual APIs drive the decoder.
#include "base/file.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "serve/serve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool stops(void *ud) {
    (void)ud;
    return ls_interrupted != 0;
}

typedef struct {
    ls_gauge gauge; // first: the functions of an ls_gauge get this, too
    ls_serve_watch watch;
} loaded;

static bool stops_forward(void *ud) {
    loaded *l = ud;
    return ls_interrupted != 0 || ls_serve_stops(&l->watch);
}

static void say_line(void *ud, const char *text) {
    const ls_command_line *c = ud;
    if (!c->quiet) ls_say(0, "%s", text);
    fflush(stdout);
}

static void say_ready(void *ud, const char *url) {
    const ls_command_line *c = ud;
    if (!c->quiet) ls_say(0, "serving %s at %s (Ctrl-C ends it)", c->options.model, url);
    fflush(stdout);
}

// The keys of --key-file, or of the environment. A key on the command line would be in everyone's list of processes.
static ls_code read_keys(const ls_options *o, ls_keys *out, ls_err *err) {
    enum { MOST = 1 << 20 };
    const char *one = getenv("LOGITSPEC_SERVE_KEY");
    struct stat st;
    ls_buf text = {0};
    *out = (ls_keys){0};
    if (!o->serve_key_file)
        return one && *one ? ls_keys_read(out, (ls_str){one, strlen(one)}, "LOGITSPEC_SERVE_KEY", err) : LS_OK;
    ls_code code = ls_read_file(&text, o->serve_key_file, MOST, err);
    if (!code) code = ls_keys_read(out, (ls_str){text.p, text.n}, o->serve_key_file, err);
    if (!code && !stat(o->serve_key_file, &st) && st.st_mode & S_IROTH)
        ls_warn("warning: other users of this machine can read %s: chmod o-r %s", o->serve_key_file, o->serve_key_file);
    ls_buf_free(&text);
    return code;
}

int ls_cmd_serve(const ls_command_line *c) {
    const ls_options *o = &c->options;
    ls_err err = {0};
    ls_run_setup setup;
    ls_model model = {0};
    loaded loading = {.gauge = ls_gauge_start(c->quiet)};
    ls_serve_options serve = {.model = &model,
                              .setup = &setup.s,
                              .seeded = o->seed.set,
                              .name = o->model,
                              .hosts = (const char *const *)o->serve_host.p,
                              .origins = (const char *const *)o->serve_origin.p,
                              .max_waiting = o->serve_queue,
                              .parallel = o->serve_parallel,
                              .max_kept =
                                  o->serve_kv_caches > o->serve_parallel ? o->serve_kv_caches : o->serve_parallel,
                              .max_kept_bytes = (uint64_t)o->serve_kv_mib << 20,
                              .fresh = o->serve_fresh,
                              .records = {.folder = o->serve_trace_dir,
                                          .level = ls_trace_level_named(o->trace_level),
                                          .max_files = o->serve_trace_files,
                                          .max_bytes = (uint64_t)o->serve_trace_mib << 20},
                              .timeout_s = o->serve_timeout,
                              .watch = &loading.watch,
                              .stop = stops,
                              .line = say_line,
                              .ud = (void *)c};
    ls_code code = ls_listen_read(&serve.listen, o->serve_listen, &err);
    if (!code) code = read_keys(o, &serve.keys, &err);
    if (code) return ls_complain(&err);
    ls_catch_signals();
    ls_run_setup_init(&setup, o);
    ls_gauge_watch(&loading.gauge, &setup.s.model.engine);
    setup.s.model.engine.stop = stops_forward;
    code = ls_model_load(&model, &setup.s.model, &err);
    ls_gauge_clear(&loading.gauge);
    if (!code) code = ls_serve(&serve, say_ready, &err);
    ls_model_free(&model);
    ls_run_setup_free(&setup);
    ls_keys_free(&serve.keys);
    return code ? ls_complain(&err) : LS_EXIT_OK;
}
