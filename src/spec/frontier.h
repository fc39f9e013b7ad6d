// A priority queue of candidates for best-first search: the most likely path first; of equal paths the earlier item.
#pragma once
#include <stdint.h>

enum { LS_FRONTIER_MAX = 2048 };

typedef struct {
    int32_t n;
    double path[LS_FRONTIER_MAX]; // acceptance probability of the whole path
    int32_t item[LS_FRONTIER_MAX];
} ls_frontier;

void ls_frontier_push(ls_frontier *q, int32_t item, double path); // dropped when the queue is full
int32_t ls_frontier_pop(ls_frontier *q, double *path);            // *path may be NULL; -1: empty
