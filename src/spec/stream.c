#include "spec/stream.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char family[] = "logitspec-";
enum { MAX_HEADER = 256, MAX_FILE = 1 << 30 };

static size_t add_break(ls_ids *ids) { // returns the number of added tokens
    if (!ids->n || ids->p[ids->n - 1] == LS_STREAM_BREAK) return 0;
    ls_ids_push(ids, LS_STREAM_BREAK);
    return 1;
}

static void free_stream(ls_stream *h) {
    ls_ids_free(&h->ids);
    free(h->path);
    *h = (ls_stream){0};
}

static void stream_start(ls_stream *h, const char *kind, const char *path, size_t limit, const ls_draft_setup *setup) {
    *h = (ls_stream){.kind = kind, .limit = limit, .setup = *setup};
    if (path && *path) h->path = ls_strdup(path);
}

// LS_E_USAGE: not a history (`means` is appended to the message); LS_E_UNSUPPORTED: a history of another version or
// vocabulary; LS_E_PARSE: a damaged history.
static ls_code stream_read_file(ls_stream *h, const char *means, ls_err *err) {
    ls_buf m = {0};
    struct stat st;
    if (stat(h->path, &st) && errno == ENOENT) return LS_OK; // the first run
    if (ls_read_file(&m, h->path, MAX_FILE, err)) return LS_E_USAGE;
    ls_code code = LS_OK;
    char header[MAX_HEADER], magic[40];
    snprintf(magic, sizeof magic, "%s%s 1\n", family, h->kind);
    const size_t most = m.n < MAX_HEADER - 1 ? m.n : MAX_HEADER - 1, after = strlen(magic);
    if (most) memcpy(header, m.p, most);
    header[most] = 0;
    uint64_t tokenizer, n, sum;
    int used = 0;
    if (m.n && strncmp(header, magic, after - 2))
        code = ls_fail(err, LS_E_USAGE, "%s: not a %s of drafts%s", h->path, h->kind, means);
    else if (m.n && strncmp(header, magic, after))
        code = ls_fail(err, LS_E_UNSUPPORTED, "%s: not a %s of this version", h->path, h->kind);
    else if (m.n &&
             (sscanf(header + after, "%16" SCNx64 " %10" SCNu64 " %16" SCNx64 "%n", &tokenizer, &n, &sum, &used) != 3 ||
              header[after + (size_t)used] != '\n'))
        code = ls_fail(err, LS_E_PARSE, "%s: damaged", h->path);
    else if (m.n && h->setup.tokenizer_id && tokenizer != h->setup.tokenizer_id)
        code = ls_fail(err, LS_E_UNSUPPORTED, "%s: the %s is not for the tokenizer of %s", h->path, h->kind,
                       h->setup.tokenizer);
    else if (m.n) {
        const size_t at = after + (size_t)used + 1, size = m.n - at;
        if (size != n * sizeof(int32_t)) code = ls_fail(err, LS_E_PARSE, "%s: cut short", h->path);
        else if (ls_hash_bytes(m.p + at, size) != sum) code = ls_fail(err, LS_E_PARSE, "%s: damaged", h->path);
        else {
            h->sum = sum;
            for (size_t i = n > h->limit ? n - h->limit : 0; i < n; i++) {
                int32_t id;
                memcpy(&id, m.p + at + i * sizeof id, sizeof id);
                if (id < LS_STREAM_BREAK || (h->setup.n_vocab && id >= h->setup.n_vocab)) id = LS_STREAM_BREAK;
                ls_ids_push(&h->ids, id);
            }
        }
    }
    ls_buf_free(&m);
    return code;
}

static ls_code stream_write_file(const ls_stream *h, ls_err *err) {
    ls_atomic_file r;
    const size_t n = h->ids.n < h->limit ? h->ids.n : h->limit;
    const int32_t *ids = n ? h->ids.p + (h->ids.n - n) : NULL;
    ls_code code = ls_atomic_open(&r, h->path, LS_FILE_PRIVATE, err);
    if (code) return code;
    fprintf(r.f, "%s%s 1\n%016" PRIx64 " %zu %016" PRIx64 "\n", family, h->kind, h->setup.tokenizer_id, n,
            ls_hash_bytes(ids, n * sizeof *ids));
    if (n) fwrite(ids, sizeof *ids, n, r.f);
    return ls_atomic_close(&r, true, err);
}

// Appends this run's tokens to the current content of the file, because other programs may have written it meanwhile.
static ls_code stream_save(const ls_stream *h, ls_err *err) {
    ls_stream now;
    const size_t fresh = h->fresh < h->ids.n ? h->fresh : h->ids.n;
    bool made;
    if (!fresh && !h->damaged) return LS_OK;
    const int lock = ls_open_locked(h->path, &made);
    if (lock < 0)
        return ls_fail(err, LS_E_IO, "cannot write %s, so the tokens of this run are not saved: %s", h->path,
                       errno == EWOULDBLOCK ? "another program is using it" : strerror(errno));
    stream_start(&now, h->kind, h->path, h->limit, &h->setup);
    ls_code code = stream_read_file(&now, "", err);
    if (code == LS_E_PARSE) now.ids.n = 0, code = LS_OK; // damaged when it was opened, or since
    if (code) ls_err_prefix(err, "the tokens of this run are not saved");
    else {
        const int32_t *first = fresh ? h->ids.p + (h->ids.n - fresh) : NULL; // a damaged file may have had no tokens
        if (fresh && *first != LS_STREAM_BREAK) add_break(&now.ids);
        if (fresh) ls_ids_add(&now.ids, first, fresh);
        code = stream_write_file(&now, err);
    }
    if (code && made) unlink(h->path);
    close(lock);
    free_stream(&now);
    return code;
}

static void stream_note(const ls_stream *h, const char *text) {
    if (h->setup.note) h->setup.note(h->setup.ud, text);
}

ls_code ls_stream_open(ls_stream *h, const char *kind, const char *path, size_t limit, const ls_draft_setup *setup,
                       ls_err *err) {
    stream_start(h, kind, path, limit, setup);
    if (!h->path) return LS_OK;
    ls_err why = {0};
    const ls_code code = stream_read_file(h, ", and it would be overwritten: name another file", &why);
    if (!code) return LS_OK;
    const bool kept = code != LS_E_PARSE; // do not change its file
    h->damaged = !kept;
    if (kept) ls_stream_keep(h);
    if (code == LS_E_USAGE) return ls_fail(err, code, "%s", why.msg);
    char text[600];
    snprintf(text, sizeof text, "%s; the file is not used, and %s", why.msg,
             kept ? "not changed: the tokens of this run are not saved" : "it is rewritten at the end");
    stream_note(h, text);
    return LS_OK;
}

static void stream_added(ls_stream *h, size_t added) {
    h->fresh += added;
    if (h->ids.n > 2 * h->limit) {
        const size_t keep = h->limit > added ? h->limit : added;
        memmove(h->ids.p, h->ids.p + (h->ids.n - keep), keep * sizeof *h->ids.p);
        h->ids.n = keep;
    }
}

size_t ls_stream_observe(ls_stream *h, const int32_t *context, size_t n, bool reset) {
    size_t added = 0;
    if (reset || n < h->context) {
        added += add_break(&h->ids);
        h->context = 0;
    }
    if (n > h->context) ls_ids_add(&h->ids, context + h->context, n - h->context);
    added += n - h->context;
    h->context = n;
    stream_added(h, added);
    return added;
}

void ls_stream_add(ls_stream *h, const int32_t *ids, size_t n) {
    ls_ids_add(&h->ids, ids, n);
    stream_added(h, n);
}

void ls_stream_arrays(ls_stream *h, ls_memory_visit *v) {
    ls_memory_own(v, &h->path, sizeof h->path);
    ls_memory_own(v, &h->setup, sizeof h->setup);
    ls_memory_array(v, (void **)&h->ids.p, h->ids.cap * sizeof *h->ids.p);
}

void ls_stream_keep(ls_stream *h) {
    free(h->path);
    h->path = NULL;
}

ls_code ls_stream_read(ls_stream *h, const char *kind, const char *path, size_t limit, const ls_draft_setup *setup,
                       ls_err *err) {
    stream_start(h, kind, path, limit, setup);
    ls_err why = {0};
    const ls_code code = stream_read_file(h, "", &why);
    ls_stream_keep(h);
    if (code) return ls_fail(err, LS_E_USAGE, "%s", why.msg);
    if (!h->ids.n) return ls_fail(err, LS_E_USAGE, "%s: the file is empty or does not exist", path);
    return LS_OK;
}

void ls_stream_close(ls_stream *h) {
    ls_err err = {0};
    if (h->path && !h->setup.read_only && stream_save(h, &err)) stream_note(h, err.msg);
    free_stream(h);
}
