#include "base/mem.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RESCUES = 4, SAID = 512, KEPT_ASIDE = 32 << 20 }; // never touched, so it takes addresses and no pages

static struct {
    pthread_mutex_t lock;
    struct {
        ls_rescue run;
        void *ud;
    } rescues[MOST_RESCUES];
    int n;
    void *kept_aside;
} last_resort = {.lock = PTHREAD_MUTEX_INITIALIZER};

void ls_on_out_of_memory(ls_rescue rescue, void *ud) {
    pthread_mutex_lock(&last_resort.lock);
    if (last_resort.n < MOST_RESCUES) {
        last_resort.rescues[last_resort.n].run = rescue;
        last_resort.rescues[last_resort.n++].ud = ud;
    }
    if (!last_resort.kept_aside) last_resort.kept_aside = malloc(KEPT_ASIDE);
    pthread_mutex_unlock(&last_resort.lock);
}

void ls_not_on_out_of_memory(ls_rescue rescue, void *ud) {
    pthread_mutex_lock(&last_resort.lock);
    for (int i = 0; i < last_resort.n; i++)
        if (last_resort.rescues[i].run == rescue && last_resort.rescues[i].ud == ud) {
            last_resort.n--;
            memmove(last_resort.rescues + i, last_resort.rescues + i + 1,
                    (size_t)(last_resort.n - i) * sizeof *last_resort.rescues);
            break;
        }
    if (!last_resort.n) {
        free(last_resort.kept_aside);
        last_resort.kept_aside = NULL;
    }
    pthread_mutex_unlock(&last_resort.lock);
}

static void say(const char *text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

_Noreturn void ls_out_of_memory(size_t n) {
    static atomic_bool begun;
    static _Thread_local bool rescuing;
    static struct { // of the thread that ends the program
        size_t asked;
        int next;
        char said[SAID];
    } last;
    char line[80];
    if (!rescuing) {
        while (atomic_exchange(&begun, true)) pause(); // another thread ends the program
        rescuing = true;
        pthread_mutex_lock(&last_resort.lock);
        free(last_resort.kept_aside);
        last_resort.kept_aside = NULL;
        last.asked = n;
        last.next = last_resort.n;
    }
    while (last.next > 0) { // one for which what was kept aside does not suffice comes back here, and the others follow
        char *at = last.said + strlen(last.said);
        const int i = --last.next;
        last_resort.rescues[i].run(last_resort.rescues[i].ud, at, (size_t)(last.said + SAID - at));
    }
    snprintf(line, sizeof line,
             last.asked ? "logitspec: out of memory (asked for %zu bytes)" : "logitspec: out of memory", last.asked);
    say(line);
    if (*last.said) say("; "), say(last.said);
    say("\n");
    _exit(1);
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
char *ls_strdup(const char *s) {
    return ls_strndup(s, strlen(s));
}

char *ls_strndup(const char *s, size_t n) {
    char *p = ls_malloc(n + 1);
    memcpy(p, s, n);
    p[n] = 0;
    return p;
}

char *ls_format_list(const char *fmt, va_list ap) {
    char *p;
    if (vasprintf(&p, fmt, ap) < 0) ls_out_of_memory(0); // our formats hold nothing else that can fail
    return p;
}

char *ls_format(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *p = ls_format_list(fmt, ap);
    va_end(ap);
    return p;
}
