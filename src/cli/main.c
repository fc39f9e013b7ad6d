// The program: a command line in, an exit code out.
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/system.h"
#include "base/utf8.h"
#include "base/yaml.h"
#include "base/io.h"
#include "cli/commands.h"
#include "engine/launch.h"
#include "serve/http.h"
#include "text/normalize.h"
#include "text/regex.h"
#include "ui/term_curses.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool works_with(const ls_command_info *c, const char *flag) { // `config` only shows its value
    return ls_command_takes(c, ls_flag_find(flag)) && c->run != ls_cmd_config;
}

static bool holds_something(const char *path) { // not for a terminal or /dev/null, which may be input and output
    struct stat st;
    return !stat(path, &st) && !S_ISCHR(st.st_mode);
}

// Refuses a command that would write one of its inputs, also under another name of the file.
static ls_code refuse_own_input(const ls_command_line *c, const ls_command_info *command, ls_err *err) {
    const ls_options *o = &c->options;
    const bool records = works_with(command, "trace");
    const char *const outputs[] = {c->out, c->cast, c->log, records ? o->trace : NULL};
    const char *const inputs[] = {c->config, c->prompt_file,   c->suite,       c->script,     c->messages,
                                  o->model,  o->chat_template, o->draft_model, o->draft_head, o->serve_key_file};
    enum { OUTPUTS = sizeof outputs / sizeof *outputs, INPUTS = sizeof inputs / sizeof *inputs };
    const int knobs = INPUTS + c->n_args; // files of drafters, which a command that records may read
    const int n = knobs + (records ? (int)ls_knob_count() : 0);
    for (int k = 0; k < OUTPUTS; k++) {
        const char *output = outputs[k];
        if (!output || !strcmp(output, "-")) continue;
        const bool there = holds_something(output);
        for (int other = 0; other < k; other++)
            if (outputs[other] &&
                (!strcmp(outputs[other], output) || (there && ls_is_same_file(outputs[other], output))))
                return ls_fail(err, LS_E_USAGE, "%s is named by two output options", output);
        for (int i = 0; there && i < n; i++) {
            const char *named = i < INPUTS ? inputs[i] : i < knobs ? c->args[i - INPUTS] : o->knobs[i - knobs].text;
            if (named && ls_is_same_file(strcmp(named, "-") ? named : "/dev/stdin", output))
                return ls_fail(err, LS_E_USAGE, "%s is an input; name another output file", output);
        }
    }
    return LS_OK;
}

// Logs the settings that differ from the built-in ones; user text only with --log-text.
static void log_settings(const ls_options *o) {
    ls_options plain;
    ls_options_init(&plain);
    for (int i = 0; i < ls_options_count(); i++) {
        if (!ls_options_differ(&plain, o, i)) continue;
        ls_buf now = {0};
        ls_options_value(o, i, &now);
        ls_log("setting %s=%s", ls_options_key(i),
               !ls_log_may_hold(ls_options_key(i)) ? "(a text)"
               : now.n                             ? now.p
                                                   : "");
        ls_buf_free(&now);
    }
    ls_options_free(&plain);
}

static ls_code begin_log(const ls_command_line *c, const char *command, ls_err *err) {
    const char *asked = getenv("LOGITSPEC_LOG"), *path = c->log ? c->log : asked && *asked ? asked : NULL;
    ls_code code = path ? ls_log_open(path, c->log_text, err) : LS_OK;
    if (code || !path) return code;
    const time_t now = time(NULL);
    char date[32] = "";
    struct tm day;
    if (gmtime_r(&now, &day)) strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &day);
    ls_log("logitspec " LS_VERSION ", %s, command %s", date, command);
    log_settings(&c->options);
    return LS_OK;
}

// If a standard stream is closed, the next open file would get its number, and output could go into a trace. So this
// opens a descriptor that fails like the closed one: on reads (0) or on writes (1, 2).
static void fill_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) continue;
        // open() returns the lowest free number
        const int filled = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (filled != fd) _exit(LS_EXIT_FAILED);
    }
}

// With one rescue, exit() called by a library ends the program with a message, and runs no destructors of objects that
// other threads still use.
static void save_nothing(void *ud, char *said, size_t n) {
    (void)ud, (void)said, (void)n;
}

// "logitspec X.Y.Z", then one line each: the compute library, other libraries, the compiler.
static void write_versions(ls_buf *out) {
    ls_compute_facts torch;
    ls_err err;
    char regex[32];
    ls_buf_str(out, "logitspec " LS_VERSION "\n");
    if (ls_compute_look(&torch, &err)) ls_buf_fmt(out, "no CPU kernels: %s\n", err.msg);
    else ls_buf_fmt(out, "CPU kernels for %s, %s\n", torch.level, *torch.torch ? torch.torch : "no libtorch");
    ls_regex_version(regex);
    ls_buf_fmt(out,
               "%s, libyaml %s, PCRE2 %s, utf8proc %s, OpenSSL %s, jansson %s, libmicrohttpd %s, zstd %s, glibc %s\n",
               ui_curses_version(), ls_yaml_version(), regex, ls_normalize_version(), ls_sha256_version(),
               ls_json_version(), ls_http_version(), ls_zst_version(), gnu_get_libc_version());
#ifdef __clang__
    ls_buf_str(out, "built by clang " __clang_version__);
#else
    ls_buf_str(out, "built by gcc " __VERSION__);
#endif
    ls_buf_fmt(out, "; trace format version %d\n", LS_TRACE_VERSION);
    ls_wrap(out, 0, ls_columns(STDOUT_FILENO), 2);
}

// Warns of a flag that changes nothing beside the others of its command line. A value of a file or of the environment
// is for other runs, too, so only flags are told.
static void warn_if(bool idle, const ls_options *o, int option, const char *why) {
    const char *flag = o->origin[option];
    if (idle && !strncmp(flag, "--", 2)) ls_warn("warning: %s changes nothing: %s", flag, why);
}

static void warn_of_idle_flags(const ls_command_line *c) {
    const ls_options *o = &c->options;
    const bool once = c->command && c->command->run == ls_cmd_generate; // a screen or a server may get another method
    const ls_method *m = once ? ls_method_find(o->method) : NULL;
    warn_if(!strcmp(o->format, "raw"), o, LS_OPT_system, "a raw prompt has no system message");
    warn_if(c->methods, o, LS_OPT_method, "--methods names the methods");
    warn_if(m && !m->asks_model, o, LS_OPT_draft_model, "the method uses no draft model");
    warn_if(m && !m->asks_head, o, LS_OPT_draft_head, "the method uses no trained head");
    const char *threads = o->origin[LS_OPT_threads];
    const int32_t most = ls_processors(); // the engine starts no more
    if (!strncmp(threads, "--", 2) && o->threads > most)
        ls_warn("warning: %s %d: there are %d processors, and not more threads", threads, o->threads, most);
}

static ls_code run(const ls_command_line *c, ls_console *to, ls_err *err) {
    const ls_command_info *command = c->command ? c->command : ls_commands;
    if (c->help) return ls_help(c->command, &to->out), LS_OK;
    if (c->version) return write_versions(&to->out), LS_OK;
    // a launcher gives all ranks the same command line; what does not decode runs independently on every rank
    if (works_with(command, "threads") && ls_is_other_rank()) return ls_cmd_rank(c, to, err);
    if (c->n_args && !strcmp(command->usage, "[FLAGS]"))
        return ls_fail(err, LS_E_USAGE, "'logitspec %s' takes no argument '%.80s'; pass a prompt with --prompt",
                       command->name, c->args[0]);
    ls_code code = refuse_own_input(c, command, err);
    if (!code) code = begin_log(c, command->name, err);
    if (code) return code;
    warn_of_idle_flags(c);
    ls_gauge_begin(c->quiet || c->json);
    return command->run(c, to, err);
}

// Prints the command's output or its error. Returns the exit code.
static int conclude(ls_code code, const ls_err *err, ls_console *to) {
    ls_gauge_clear();
    if (!code) return !ls_print(&to->out) || (to->failed && !to->status) ? LS_EXIT_FAILED : to->status;
    ls_buf_free(&to->out);
    fflush(stdout); // what was said before the error
    if (*err->msg) ls_warn("%s", err->msg);
    return code == LS_E_USAGE ? LS_EXIT_USAGE : code == LS_E_CANCELLED ? LS_EXIT_INTERRUPTED : LS_EXIT_FAILED;
}

int main(int argc, char **argv) {
    fill_standard_streams();
    ls_rescue_add(save_nothing, NULL);
    setlocale(LC_CTYPE, ""); // widths and line drawing; numbers keep the C locale
    ls_command_line c;
    ls_err err = {0};
    ls_console to = {0};
    signal(SIGXFSZ, SIG_IGN); // a file that grows too large is an ordinary error
    // How long the OpenMP threads of libtorch spin after a trained head has computed. The default is milliseconds, in
    // which they would keep processors from the threads of a forward (compute/lst_barrier.h). The runtime reads the
    // variable when liblstorch.so loads, possibly in another thread, so it is set here, before any thread exists.
    if (!getenv("OMP_WAIT_POLICY")) setenv("GOMP_SPINCOUNT", "2000", 0);
    ls_code code = ls_command_line_read(&c, argc, argv, environ, &err);
    if (!code) code = run(&c, &to, &err);
    const int status = conclude(code, &err, &to);
    if (ls_log_failure()) ls_warn("warning: the log is not complete: %s", strerror(ls_log_failure()));
    ls_command_line_free(&c);
    ls_rescue_remove(save_nothing, NULL);
    if (to.signal) {
        signal(to.signal, SIG_DFL);
        raise(to.signal);
    }
    return status;
}
