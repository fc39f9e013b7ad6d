// Recordings of requests: a file each in a folder, named by time and id, bounded in number and size.
#pragma once
#include "trace/trace.h"

typedef struct {
    const char *folder; // NULL: nothing is recorded
    ls_trace_level level;
    int max_files;
    uint64_t max_bytes;
} ls_records;

ls_code ls_records_check(const ls_records *r, ls_err *err); // makes the folder if it is missing; LS_E_IO
// Deletes the oldest recordings until one more keeps to the bounds, and begins that.
ls_code ls_records_open(const ls_records *r, ls_trace **out, ls_err *err);

// The configuration of one request, for the header of its recording.
enum { LS_REQUEST_OWN = 6 }; // keys whose values are the request's own

typedef struct {
    const char **pairs; // as ls_setup.config
    char *made[LS_REQUEST_OWN];
} ls_request_config;
void ls_request_config_make(ls_request_config *c, const ls_setup *setup);
void ls_request_config_free(ls_request_config *c);
