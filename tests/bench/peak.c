// The most multiply-adds a second that this many threads reach on registers alone (G/s), compiled for this CPU: what a
// matmul's speed is a part of. peak THREADS
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif
typedef float vf __attribute__((vector_size(LANES * 4)));
enum { CHAINS = 12, ROUNDS = 40000000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *work(void *out) {
    vf a[CHAINS], b, c;
    for (int l = 0; l < LANES; l++) b[l] = 1e-9f, c[l] = 0.5f;
    for (int i = 0; i < CHAINS; i++) a[i] = b;
    for (long k = 0; k < ROUNDS; k++) {
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++) a[i] = a[i] * c + b; // one fused multiply-add
    }
    float sum = 0;
    for (int i = 0; i < CHAINS; i++) sum += a[i][0];
    *(float *)out = sum;
    return NULL;
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 1;
    if (n < 1 || n > 64) return 2;
    pthread_t t[64];
    float out[64];
    const double start = now();
    for (int i = 0; i < n; i++) pthread_create(&t[i], NULL, work, &out[i]);
    for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
    printf("%.1f\n", (double)ROUNDS * CHAINS * LANES * n / (now() - start) / 1e9);
    return out[0] == 12345.0f; // keeps the sums
}
