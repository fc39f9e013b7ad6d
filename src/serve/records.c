#include "serve/records.h"
#include "base/mem.h"
#include "base/rng.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char tail[] = ".jsonl.zst";

ls_code ls_records_check(const ls_records *r, ls_err *err) {
    if (!r->folder) return LS_OK;
    if (mkdir(r->folder, 0700) && errno != EEXIST)
        return ls_fail(err, LS_E_IO, "cannot make the folder %s: %s", r->folder, strerror(errno));
    DIR *dir = opendir(r->folder); // which a file is not
    if (!dir || access(r->folder, W_OK | X_OK)) {
        ls_fail(err, LS_E_IO, "cannot write into %s: %s", r->folder, strerror(errno));
        if (dir) closedir(dir);
        return LS_E_IO;
    }
    closedir(dir);
    return LS_OK;
}

// 20261128T061500-0123456789abcdef.jsonl.zst: the order of names is that of times. Other files of the folder stay.
static int is_recording(const struct dirent *e) {
    const char *name = e->d_name;
    return strlen(name) == 32 + sizeof tail - 1 && strspn(name, "0123456789") == 8 && name[8] == 'T' &&
           strspn(name + 9, "0123456789") == 6 && name[15] == '-' && strspn(name + 16, "0123456789abcdef") == 16 &&
           !strcmp(name + 32, tail);
}

static void prune(const ls_records *r) {
    struct dirent **found;
    const int n = scandir(r->folder, &found, is_recording, alphasort);
    uint64_t bytes = 0; // from the newest on
    for (int i = n - 1; i >= 0; i--) {
        struct stat st;
        char *path = ls_format("%s/%s", r->folder, found[i]->d_name);
        if (!stat(path, &st)) bytes += (uint64_t)st.st_size;
        if (n - i >= r->max_files || bytes > r->max_bytes) unlink(path);
        free(path);
        free(found[i]);
    }
    if (n >= 0) free(found);
}

ls_code ls_records_open(const ls_records *r, ls_trace **out, ls_err *err) {
    const time_t now = time(NULL);
    struct tm utc;
    char date[32] = "";
    *out = NULL;
    if (!r->folder) return LS_OK;
    prune(r);
    if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y%m%dT%H%M%S", &utc);
    char *path = ls_format("%s/%s-%016" PRIx64 "%s", r->folder, date, ls_seed_draw(), tail);
    const ls_code code = ls_trace_open(out, path, r->level, NULL, NULL, err);
    free(path);
    return code;
}

// ---- the configuration

static char *list_of(const char *const *texts) {
    ls_buf out = {0};
    ls_jsonw w = {.out = &out};
    ls_jw_open(&w, '[');
    for (; texts && *texts; texts++) ls_jw_str(&w, *texts);
    ls_jw_close(&w, ']');
    return out.p;
}

void ls_request_config_make(ls_request_config *c, const ls_setup *setup) {
    static const char *const keys[LS_REQUEST_OWN] = {"decode.max_tokens", "decode.temperature", "decode.top_k",
                                                     "decode.top_p",      "decode.seed",        "decode.stop"};
    const ls_decode_options *o = &setup->decode;
    *c = (ls_request_config){.made = {ls_format("%d", o->max_tokens), ls_format("%.15g", o->sampling.temperature),
                                      ls_format("%d", o->sampling.top_k), ls_format("%.15g", o->sampling.top_p),
                                      ls_format("%" PRIu64, o->sampling.seed), list_of(o->stops)}};
    size_t n = 0;
    while (setup->config && setup->config[n]) n++;
    c->pairs = ls_calloc(n + 1, sizeof *c->pairs);
    for (size_t i = 0; i + 1 < n; i += 2) {
        c->pairs[i] = setup->config[i];
        c->pairs[i + 1] = setup->config[i + 1];
        for (int k = 0; k < LS_REQUEST_OWN; k++)
            if (!strcmp(keys[k], setup->config[i])) c->pairs[i + 1] = c->made[k];
    }
}

void ls_request_config_free(ls_request_config *c) {
    for (int k = 0; k < LS_REQUEST_OWN; k++) free(c->made[k]);
    free(c->pairs);
    *c = (ls_request_config){0};
}
