// The progress line, and signals.
#include "cli/commands.h"
#include "base/io.h"
#include "base/system.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t ls_interrupted;

static struct {
    bool shows, tty; // tty: standard error is a terminal
    bool shown;
    uint64_t last_ns; // when a line was shown, or the work began; 1: long ago, so that the next line is shown at once
} gauge;

static void on_signal(int signal) {
    ls_interrupted = signal;
}

void ls_catch_signals(void) {
    const int which[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        struct sigaction old;
        sigaction(which[i], NULL, &old);
        if (old.sa_handler != SIG_IGN) sigaction(which[i], &a, NULL); // keeps signals that nohup ignores ignored
    }
    signal(SIGPIPE, SIG_IGN);
}

void ls_leave_signals(void) {
    const int which[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        struct sigaction now;
        sigaction(which[i], NULL, &now);
        if (now.sa_handler == on_signal) signal(which[i], SIG_DFL);
    }
}

void ls_gauge_begin(bool quiet) {
    gauge.shows = !quiet;
    gauge.tty = isatty(STDERR_FILENO);
}

bool ls_gauge_show(void *ud, const char *stage, double fraction) {
    (void)ud;
    uint64_t now = ls_now_ns();
    if (!gauge.last_ns) gauge.last_ns = now;
    if (gauge.shows && now - gauge.last_ns > (gauge.tty ? 200000000u : 2000000000u)) {
        char percent[16] = "";
        if (fraction >= 0) snprintf(percent, sizeof percent, " %.0f%%", 100 * fraction);
        ls_buf line = {0};
        ls_sanitize_fmt(&line, "%s", stage); // the stage may contain a file name
        if (gauge.tty)                       // \r cannot go back over a wrapped line
            line.n = ls_fitting(line.p, line.n, ls_columns(STDERR_FILENO) - 1 - (int)strlen(percent), &(int){0});
        ls_buf_str(&line, percent);
        fprintf(stderr, gauge.tty ? "\r\033[K%s" : "%s\n", line.p);
        ls_buf_free(&line);
        gauge.last_ns = now;
        gauge.shown = gauge.tty;
    }
    return !ls_interrupted;
}

void ls_gauge_hurry(void) {
    gauge.last_ns = 1;
}

static void note(void *ud, const char *text) {
    (void)ud;
    ls_gauge_clear();
    if (gauge.shows) ls_warn("%s", text);
}

static bool is_interrupted(void *ud) {
    (void)ud;
    return ls_interrupted != 0;
}

void ls_gauge_watch(ls_engine_options *b) {
    b->progress = ls_gauge_show;
    b->note = note;
    b->stop = is_interrupted;
}

void ls_gauge_reads(void) {
    ls_catch_signals();
    ls_lines_watch(ls_gauge_show, NULL);
}

void ls_gauge_clear(void) {
    if (!gauge.shown) return; // only read: threads of a server print lines, too
    fputs("\r\033[K", stderr);
    gauge.shown = false;
}
