#include "cli/progress.h"
#include "base/io.h"
#include "base/system.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

volatile sig_atomic_t ls_interrupted;

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

bool ls_gauge_show(void *gauge, const char *stage, double fraction) {
    ls_gauge *g = gauge;
    uint64_t now = ls_now_ns();
    if (!g->last_ns) g->last_ns = now;
    if (!g->quiet && now - g->last_ns > (g->tty ? 200000000u : 2000000000u)) {
        char percent[16] = "";
        if (fraction >= 0) snprintf(percent, sizeof percent, " %.0f%%", 100 * fraction);
        ls_buf line = {0};
        ls_sanitize_fmt(&line, "%s", stage); // the stage may contain a file name
        if (g->tty)                          // \r cannot go back over a wrapped line
            line.n = ls_fitting(line.p, line.n, ls_columns(STDERR_FILENO) - 1 - (int)strlen(percent), &(int){0});
        ls_buf_str(&line, percent);
        fprintf(stderr, g->tty ? "\r\033[K%s" : "%s\n", line.p);
        ls_buf_free(&line);
        g->last_ns = now;
        g->shown = g->tty;
    }
    return !ls_interrupted;
}

static void note(void *gauge, const char *text) {
    ls_gauge *g = gauge;
    ls_gauge_clear(g);
    if (!g->quiet) ls_warn("%s", text);
}

static bool is_interrupted(void *gauge) {
    (void)gauge;
    return ls_interrupted != 0;
}

void ls_gauge_watch(ls_gauge *g, ls_engine_options *b) {
    b->progress = ls_gauge_show;
    b->note = note;
    b->stop = is_interrupted;
    b->ud = g;
}

void ls_gauge_reads(ls_gauge *g) {
    ls_catch_signals();
    ls_lines_watch(ls_gauge_show, g);
}

void ls_gauge_clear(ls_gauge *g) {
    if (g->shown) fputs("\r\033[K", stderr);
    g->shown = false;
}
