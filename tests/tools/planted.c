// One mistake of each kind that a checker is there for, by name: tests/run.py --sees makes sure that the build, and
// what collects the reports, still notice it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared;
static void *volatile lost;

static void *add(void *ud) {
    (void)ud;
    shared++;
    return NULL;
}

static void race(void) {
    pthread_t a, b;
    if (pthread_create(&a, NULL, add, NULL) || pthread_create(&b, NULL, add, NULL)) abort();
    pthread_join(a, NULL);
    pthread_join(b, NULL);
}

static void use_after_free(void) {
    char *volatile p = malloc(8);
    free((void *)p);
    putchar(p[3]);
}

static void overflow(void) {
    volatile int most = 2147483647;
    most = most + 1;
}

static void leak(void) {
    lost = malloc(1000);
    lost = NULL;
}

static void uninitialised(void) {
    int *volatile p = malloc(sizeof *p);
    if (*p == 17) puts("17");
    free((void *)p);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*make)(void);
    } mistakes[] = {{"race", race},
                    {"use-after-free", use_after_free},
                    {"overflow", overflow},
                    {"leak", leak},
                    {"uninitialised", uninitialised}};
    for (size_t i = 0; argc == 2 && i < sizeof mistakes / sizeof *mistakes; i++)
        if (!strcmp(argv[1], mistakes[i].name)) {
            mistakes[i].make();
            return 0;
        }
    return 2;
}
