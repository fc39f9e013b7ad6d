#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ls_out_of_memory(size_t n) {
    char why[80];
    snprintf(why, sizeof why, n ? "out of memory (%zu bytes requested)" : "out of memory", n);
    ls_rescue_and_end(why);
}

static void *check(void *p, size_t n) {
    if (!p && n) ls_out_of_memory(n);
    return p;
}

void *ls_malloc(size_t n) {
    return check(malloc(n ? n : 1), n);
}
void *ls_calloc(size_t n, size_t size) {
    return check(calloc(n ? n : 1, size ? size : 1), n * size);
}
void *ls_realloc(void *p, size_t n) {
    return check(realloc(p, n ? n : 1), n);
}
void *ls_realloc_lines(void *p, size_t had, size_t n) {
    enum { LINE = 64 };
    void *lines = check(aligned_alloc(LINE, (n + LINE - 1) / LINE * LINE), n);
    if (had) memcpy(lines, p, had < n ? had : n);
    free(p);
    return lines;
}
void *ls_grown(void *p, size_t n, size_t size) {
    return n && (n < 8 || n & (n - 1)) ? p : ls_realloc(p, (n ? 2 * n : 8) * size);
}
char *ls_strdup(const char *s) {
    return ls_strndup(s, strlen(s));
}

char *ls_strndup(const char *s, size_t n) {
    char *p = ls_malloc(n + 1);
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

bool ls_ends_with(const char *s, const char *end) {
    const size_t n = strlen(s), m = strlen(end);
    return n > m && !strcmp(s + n - m, end);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void ls_sort(double *v, size_t n) {
    if (n) qsort(v, n, sizeof *v, by_value);
}

char *ls_format_list(const char *fmt, va_list ap) {
    char *p;
    if (vasprintf(&p, fmt, ap) < 0) ls_out_of_memory(0); // with our formats, only the allocation can fail
    return p;
}

char *ls_format(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *p = ls_format_list(fmt, ap);
    va_end(ap);
    return p;
}

// ---- rescues

enum { MOST = 8, SAID = 512, KEPT_ASIDE = 32 << 20, PATIENCE_S = 20 };
// KEPT_ASIDE: bytes reserved for rescues. They are never written, so they take addresses and no memory.

static struct {
    pthread_mutex_t lock;
    struct {
        ls_rescue run;
        void *ud;
    } list[MOST];
    int n;
    bool watching; // the handlers for abort() and exit() are installed
    void *kept_aside;
} rescues = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

// Runs once in a process, in the first thread that calls it; other threads then sleep until the process ends.
static void rescue_all(const char *why) {
    static atomic_bool begun;
    static _Thread_local bool rescuing;
    static struct { // state of the thread that ends the program
        const char *why;
        int next;
        char said[SAID];
    } last;
    if (!rescuing) {
        while (atomic_exchange(&begun, true)) pause(); // another thread ends the program
        rescuing = true;
        pthread_mutex_lock(&rescues.lock);
        free(rescues.kept_aside);
        rescues.kept_aside = NULL;
        last.why = why;
        last.next = rescues.n;
    }
    while (last.next > 0) { // a rescue that runs out of memory calls this function again, which runs the remaining ones
        char *at = last.said + strlen(last.said);
        const int i = --last.next;
        rescues.list[i].run(rescues.list[i].ud, at, (size_t)(last.said + SAID - at));
    }
    say("logitspec: ");
    say(last.why);
    if (*last.said) say("; "), say(last.said);
    say("\n");
}

// A library calls abort() if it cannot return an error (std::terminate does). abort() is an ordinary call, so this
// handler may do more than other signal handlers. If the heap is damaged, a rescue may hang: then the alarm ends the
// process.
static void on_abort(int number) {
    signal(SIGALRM, SIG_DFL);
    alarm(PATIENCE_S);
    rescue_all("a library ended the program");
    raise(number); // SA_RESETHAND: the default action when this returns, with the right status
}

void ls_rescue_and_end(const char *why) {
    struct sigaction other;
    rescue_all(why);
    // The compute library has its own copy of this file, without rescues: abort() calls the program's handler.
    if (!rescues.watching && !sigaction(SIGABRT, NULL, &other) && other.sa_handler != SIG_DFL) abort();
    _exit(1);
}

static void on_exit_of_a_library(void) {
    if (rescues.n) ls_rescue_and_end("a library ended the program");
}

void ls_rescue_add(ls_rescue rescue, void *ud) {
    pthread_mutex_lock(&rescues.lock);
    if (!rescues.watching) {
        sigaction(SIGABRT, &(struct sigaction){.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND}, NULL);
        rescues.watching = !atexit(on_exit_of_a_library);
    }
    if (rescues.n < MOST) {
        rescues.list[rescues.n].run = rescue;
        rescues.list[rescues.n++].ud = ud;
    }
    if (!rescues.kept_aside) rescues.kept_aside = malloc(KEPT_ASIDE);
    pthread_mutex_unlock(&rescues.lock);
}

void ls_rescue_remove(ls_rescue rescue, void *ud) {
    pthread_mutex_lock(&rescues.lock);
    for (int i = 0; i < rescues.n; i++)
        if (rescues.list[i].run == rescue && rescues.list[i].ud == ud) {
            rescues.n--;
            memmove(rescues.list + i, rescues.list + i + 1, (size_t)(rescues.n - i) * sizeof *rescues.list);
            break;
        }
    if (!rescues.n) {
        free(rescues.kept_aside);
        rescues.kept_aside = NULL;
    }
    pthread_mutex_unlock(&rescues.lock);
}
