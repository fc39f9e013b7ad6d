// Counters of a server, in the text format of Prometheus.
#pragma once
#include "decode/stats.h"
#include "serve/request.h"

typedef enum { LS_ENDED_WHOLE, LS_ENDED_LEFT, LS_ENDED_LATE, LS_ENDED_ERROR, LS_ENDED_KINDS } ls_ended;

// Protected by the lock of the queue.
typedef struct {
    uint64_t requests[LS_APIS], refused, ended[LS_ENDED_KINDS];
    uint64_t prompt_tokens, kept_tokens;
    double prefill_s, queued_s;
    int waiting, running, connections, sessions;
    ls_stats steps; // of all answers
} ls_metrics;

void ls_metrics_write(const ls_metrics *m, ls_buf *out);
