// OpenMP's runtime for the build with ThreadSanitizer: as much of it as src/torch calls, on plain threads. TSan sees
// nothing that happens inside libgomp and would report all that threads write before a barrier and read after it.
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

typedef struct {
    void (*run)(void *);
    void *data;
    int n;
    pthread_barrier_t barrier;
    pthread_mutex_t lock; // over the loop: at most one a region, as in "omp parallel for"
    bool begun;
    long next, end, step;
} team;
typedef struct {
    team *of;
    int index;
} member;
static _Thread_local member here;

int omp_get_thread_num(void);
int omp_get_num_threads(void);
void GOMP_barrier(void);
void GOMP_parallel(void (*run)(void *), void *data, unsigned n, unsigned flags);
bool GOMP_loop_nonmonotonic_dynamic_start(long begin, long end, long incr, long chunk, long *from, long *to);
bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to);
void GOMP_loop_end_nowait(void);

int omp_get_thread_num(void) {
    return here.index;
}

int omp_get_num_threads(void) {
    return here.of ? here.of->n : 1;
}

void GOMP_barrier(void) {
    if (here.of) pthread_barrier_wait(&here.of->barrier);
}

static void *work(void *ud) {
    here = *(member *)ud;
    here.of->run(here.of->data);
    return NULL;
}

void GOMP_parallel(void (*run)(void *), void *data, unsigned n, unsigned flags) {
    (void)flags;
    enum { MOST = 64 };
    const member outside = here;
    team t = {.run = run, .data = data, .n = n < 1 ? 2 : n > MOST ? MOST : (int)n};
    member members[MOST];
    pthread_t threads[MOST];
    pthread_barrier_init(&t.barrier, NULL, (unsigned)t.n);
    pthread_mutex_init(&t.lock, NULL);
    for (int i = 0; i < t.n; i++) members[i] = (member){&t, i};
    for (int i = 1; i < t.n; i++)
        if (pthread_create(&threads[i], NULL, work, &members[i])) abort();
    work(&members[0]);
    for (int i = 1; i < t.n; i++) pthread_join(threads[i], NULL);
    here = outside;
    pthread_barrier_destroy(&t.barrier);
    pthread_mutex_destroy(&t.lock);
}

bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to) {
    team *t = here.of;
    pthread_mutex_lock(&t->lock);
    *from = t->next;
    const bool some = *from < t->end;
    if (some) t->next = *to = *from + t->step < t->end ? *from + t->step : t->end;
    pthread_mutex_unlock(&t->lock);
    return some;
}

bool GOMP_loop_nonmonotonic_dynamic_start(long begin, long end, long incr, long chunk, long *from, long *to) {
    team *t = here.of;
    if (!t || incr != 1) abort(); // no loop of ours is like that
    pthread_mutex_lock(&t->lock);
    if (!t->begun) t->begun = true, t->next = begin, t->end = end, t->step = chunk;
    pthread_mutex_unlock(&t->lock);
    return GOMP_loop_nonmonotonic_dynamic_next(from, to);
}

void GOMP_loop_end_nowait(void) {}
