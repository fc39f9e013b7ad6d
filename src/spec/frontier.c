#include "spec/frontier.h"

#include <stdbool.h>
#include <stddef.h>

static bool before(double path, int32_t item, double than_path, int32_t than_item) {
    return path > than_path || (path == than_path && item < than_item);
}

void ls_frontier_push(ls_frontier *q, int32_t item, double path) {
    if (q->n == LS_FRONTIER_MAX) return;
    int32_t i = q->n++;
    while (i > 0) {
        const int32_t up = (i - 1) / 2;
        if (!before(path, item, q->path[up], q->item[up])) break;
        q->path[i] = q->path[up], q->item[i] = q->item[up];
        i = up;
    }
    q->path[i] = path;
    q->item[i] = item;
}

int32_t ls_frontier_pop(ls_frontier *q, double *path) {
    if (!q->n) return -1;
    const int32_t top = q->item[0], last = --q->n;
    if (path) *path = q->path[0];
    int32_t i = 0;
    for (int32_t k; (k = 2 * i + 1) < last; i = k) {
        if (k + 1 < last && before(q->path[k + 1], q->item[k + 1], q->path[k], q->item[k])) k++;
        if (!before(q->path[k], q->item[k], q->path[last], q->item[last])) break;
        q->path[i] = q->path[k], q->item[i] = q->item[k];
    }
    q->path[i] = q->path[last], q->item[i] = q->item[last];
    return top;
}
