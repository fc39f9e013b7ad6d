// `watch URL`: the screen on the requests of a server that runs elsewhere, or on a file of what a server told. curl
// reads the server: it knows TLS, proxies and names.
#include "base/file.h"
#include "base/mem.h"
#include "base/system.h"
#include "cli/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MIB = 64, KEY_BYTES = 1 << 20, RETRY_MS = 2000, TICK_MS = 100 };

typedef struct {
    const char *target; // as the user wrote it
    char *url;          // NULL: a file
    const char *socket; // to which the server listens, in place of the address in url; NULL: none
    char pipe[32];      // that file, if it is standard input
    ls_buf header;      // with the key; empty: none
    ls_feed *feed;
    bool connected;          // now
    sem_t known;             // posted when it begins, and when it ends
    atomic_bool begun, left; // left: the user has left the screen
    ls_err err;              // why it ended
} watch;

static bool has_left(void *ud) {
    return ((watch *)ud)->left;
}

static void begins(void *ud) {
    watch *w = ud;
    if (w->begun) {
        ls_feed_clear(w->feed);
        ls_feed_say(w->feed, false, "the server is back");
    }
    w->begun = w->connected = true;
    sem_post(&w->known);
}

// ---- curl

// The key goes through a file without a name: command lines are in everyone's list of processes.
static int header_fd(const watch *w) {
    const int fd = memfd_create("header", MFD_CLOEXEC);
    if (fd < 0 || !w->header.n) return fd;
    if (write(fd, w->header.p, w->header.n) != (ssize_t)w->header.n || lseek(fd, 0, SEEK_SET)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int start_curl(const watch *w, int in, int out, int err, pid_t *pid) {
    // a proxy is for other machines; 30 s without a line: the server is gone
    const char *host = strstr(w->url, "://") + 3;
    const bool here = ls_begins_among(host, "127. localhost [::1]");
    static char *const always[] = {
        "curl",         "-q",          "--silent",          "--show-error", "--no-buffer",   "--fail",
        "--proto",      "=http,https", "--connect-timeout", "10",           "--speed-limit", "1",
        "--speed-time", "30",          "--header",          "@-",           "--url"};
    enum { ALWAYS = sizeof always / sizeof *always };
    char *arguments[ALWAYS + 4] = {NULL};
    memcpy(arguments, always, sizeof always);
    arguments[ALWAYS] = w->url;
    arguments[ALWAYS + 1] = w->socket ? "--unix-socket" : here ? "--noproxy" : NULL;
    arguments[ALWAYS + 2] = w->socket ? (char *)w->socket : "*";
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    const int error = posix_spawnp(pid, "curl", &files, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return error;
}

// What curl said, in one line, with what to do.
static ls_code curl_failed(const watch *w, int said, ls_err *err) {
    char text[300];
    const ssize_t n = lseek(said, 0, SEEK_SET) ? -1 : read(said, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    const char *reason = strncmp(text, "curl: ", 6) ? text : text + 6;
    const char *advice = strstr(text, "error: 401")   ? ": it needs a watch key: --key-file FILE or LOGITSPEC_WATCH_KEY"
                         : strstr(text, "error: 403") ? ": nobody may watch it, or its name is not one of its --host"
                         : strstr(text, "error: 404") ? ": it is no 'logitspec serve', or its serve.watch_mib is 0"
                                                      : "";
    if (w->connected && (!*reason || !strncmp(reason, "(18)", 4) || !strncmp(reason, "(56)", 4)))
        return ls_fail(err, LS_E_IO, "the server %s has ended", w->target); // properly, within a line, or by a reset
    return ls_fail(err, LS_E_IO, "cannot watch %s: %s%s", w->target, *reason ? reason : "the connection ended", advice);
}

// Until the connection ends, which is an error: LS_E_IO.
static ls_code read_url(watch *w, ls_err *err) {
    int ends[2] = {-1, -1};
    pid_t pid = 0;
    const int header = header_fd(w), said = memfd_create("curl", MFD_CLOEXEC);
    int error = header < 0 || said < 0 || pipe2(ends, O_CLOEXEC) ? errno : 0;
    ls_code code = LS_OK;
    if (!error) {
        error = start_curl(w, header, ends[1], said, &pid);
        close(ends[1]);
        if (error) close(ends[0]);
    }
    if (error)
        code = error == ENOENT ? ls_fail(err, LS_E_IO, "curl is not found in PATH: 'logitspec watch URL' needs it")
                               : ls_fail(err, LS_E_IO, "curl cannot be started: %s", strerror(error));
    else {
        ls_lines *lines;
        ls_lines_of(&lines, ends[0], w->target, err);
        ls_lines_stop(lines, has_left, w);
        code = ls_feed_fill(w->feed, lines, begins, w, err);
        kill(pid, SIGTERM);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        if (!code || (!w->connected && code == LS_E_PARSE && lseek(said, 0, SEEK_END) > 0))
            code = curl_failed(w, said, err);
    }
    if (header >= 0) close(header);
    if (said >= 0) close(said);
    return code;
}

static ls_code read_file(watch *w, ls_err *err) {
    ls_lines *lines;
    const ls_code code = ls_lines_open(&lines, w->target, err);
    if (code) return code;
    ls_lines_stop(lines, has_left, w);
    return ls_feed_fill(w->feed, lines, begins, w, err);
}

// ---- the thread that fills the feed

static void *fill(void *ud) {
    watch *w = ud;
    ls_err err;
    for (bool told = false; !w->left;) {
        w->connected = false;
        const ls_code code = (w->url ? read_url : read_file)(w, &err);
        const bool again = w->url && w->begun && code == LS_E_IO && !w->left;
        if (code && (w->connected || !told) && w->begun && !w->left) {
            char text[500];
            snprintf(text, sizeof text, "%.400s%s", err.msg, again ? "; trying again (q quits)" : "");
            ls_feed_say(w->feed, true, text);
        }
        told = w->begun;
        if (code && !again) w->err = err;
        if (!again) break;
        for (int ms = 0; ms < RETRY_MS && !w->left; ms += TICK_MS) poll(NULL, 0, TICK_MS);
    }
    sem_post(&w->known);
    return NULL;
}

// ---- the command

// The first key of a file or variable, as a header for curl. The file of the flag only: one that is configured has the
// keys of the user's own server, and this may be another one.
static ls_code read_key(watch *w, const ls_options *o, ls_err *err) {
    const char *file = strcmp(o->origin[LS_OPT_serve_key_file], "--key-file") ? NULL : o->serve_key_file;
    const char *one = getenv("LOGITSPEC_WATCH_KEY");
    ls_buf text = {0};
    if (!file && (!one || !*one)) return LS_OK;
    const ls_code code = file ? ls_read_file(&text, file, KEY_BYTES, err) : (ls_buf_str(&text, one), LS_OK);
    const char *key = text.p ? text.p : "";
    while (!code && *key && (*key == '#' || *key == '\n' || *key == '\r')) { // lines without a key
        key += strcspn(key, "\n");
        key += *key == '\n';
    }
    size_t n = 0;
    while (!code && key[n] > ' ' && key[n] < 127) n++;
    if (!code && key[n] && key[n] != '\n' && key[n] != '\r') n = 0;
    if (!code && n) ls_buf_fmt(&w->header, "Authorization: Bearer %.*s\n", (int)n, key);
    ls_buf_free(&text);
    if (code || n) return code;
    return ls_fail(err, LS_E_USAGE, "%s has no key", file ? file : "LOGITSPEC_WATCH_KEY");
}

static ls_code read_target(watch *w, const ls_command_line *c, ls_err *err) {
    static const char path[] = "/watch";
    if (c->n_args != 1)
        return ls_fail(err, LS_E_USAGE, "usage: logitspec watch URL|SOCKET (that 'logitspec serve' shows), or FILE");
    w->target = c->args[0];
    const bool piped = !strcmp(w->target, "-"), screen = !ls_is_scripted(c);
    if (screen && (!isatty(STDOUT_FILENO) || (!piped && !isatty(STDIN_FILENO))))
        return ls_fail(err, LS_E_USAGE,
                       "the screen needs a terminal; without one, 'curl -N URL/watch' prints JSON lines");
    if (screen && piped) {
        const ls_code code = ls_keys_from_terminal(w->pipe, sizeof w->pipe, err);
        w->target = w->pipe;
        return code;
    }
    struct stat st;
    if (!strncmp(w->target, "unix:", 5)) w->socket = w->target + 5;
    else if (!stat(w->target, &st) && S_ISSOCK(st.st_mode)) w->socket = w->target;
    if (w->socket) {
        w->url = ls_strdup("http://localhost/watch");
        return read_key(w, &c->options, err);
    }
    if (!strstr(w->target, "://")) return LS_OK;
    if (strncmp(w->target, "http://", 7) && strncmp(w->target, "https://", 8))
        return ls_fail(err, LS_E_USAGE, "'%.200s' is neither a file nor an http:// or https:// address", w->target);
    size_t n = strlen(w->target);
    while (n && w->target[n - 1] == '/') n--;
    const bool whole = n > sizeof path && !strncmp(w->target + n - sizeof path + 1, path, sizeof path - 1);
    w->url = ls_format("%.*s%s", (int)n, w->target, whole ? "" : path);
    return read_key(w, &c->options, err);
}

ls_code ls_cmd_watch(const ls_command_line *c, ls_console *to, ls_err *err) {
    pthread_t thread;
    watch w = {0};
    sem_init(&w.known, 0, 0);
    ls_code code = read_target(&w, c, err);
    w.feed = ls_feed_new((size_t)(c->options.serve_watch_mib ? c->options.serve_watch_mib : MIB) << 20);
    const bool started = !code && ls_thread_start(&thread, fill, &w);
    if (!code && !started) code = ls_no_thread(err);
    while (started && sem_wait(&w.known)) { // a signal
    }
    const bool begun = w.begun;
    if (begun) code = ls_show_feed(w.feed, w.target, false, c, to, err);
    w.left = true;
    if (started) pthread_join(thread, NULL);
    if (started && !begun) {
        *err = w.err;
        code = err->code ? err->code : ls_fail(err, LS_E_PARSE, "%s: the file is empty", w.target);
    }
    ls_feed_free(w.feed);
    ls_buf_free(&w.header);
    free(w.url);
    return code;
}
