#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

ls_code ls_file_open(ls_file *out, const char *path, ls_err *err) {
    *out = (ls_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (out->fd < 0) return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    ls_code code = LS_OK;
    if (fstat(out->fd, &st) < 0) code = ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) code = ls_fail(err, LS_E_IO, "%s: not a regular file", path);
    if (code) {
        close(out->fd);
        out->fd = -1;
        return code;
    }
    out->n_bytes = (uint64_t)st.st_size;
    out->changed_s = st.st_mtim.tv_sec;
    out->changed_ns = st.st_mtim.tv_nsec;
    out->path = ls_strdup(path);
    return LS_OK;
}

ls_code ls_file_read(const ls_file *f, uint64_t offset, void *out, size_t n, ls_err *err) {
    for (size_t done = 0; done < n;) {
        const size_t most = (size_t)1 << 30, want = n - done < most ? n - done : most;
        const ssize_t got = pread(f->fd, (char *)out + done, want, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return ls_fail(err, LS_E_IO, "%s: %s", f->path, strerror(errno));
        if (got == 0)
            return ls_fail(err, LS_E_IO, "%s: ends at byte %llu: it was cut since it was opened", f->path,
                           (unsigned long long)(offset + done));
        done += (size_t)got;
    }
    return LS_OK;
}

ls_code ls_file_unchanged(const ls_file *f, ls_err *err) {
    struct stat st;
    if (fstat(f->fd, &st) < 0) return ls_fail(err, LS_E_IO, "%s: %s", f->path, strerror(errno));
    if ((uint64_t)st.st_size != f->n_bytes || st.st_mtim.tv_sec != f->changed_s || st.st_mtim.tv_nsec != f->changed_ns)
        return ls_fail(err, LS_E_IO, "%s: was written to while it was read", f->path);
    return LS_OK;
}

void ls_file_close(ls_file *f) {
    if (f->path) close(f->fd);
    free(f->path);
    *f = (ls_file){.fd = -1};
}

ls_code ls_map_open(ls_mapping *out, const char *path, ls_err *err) {
    *out = (ls_mapping){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    ls_code code = LS_OK;
    if (fstat(fd, &st) < 0) code = ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) code = ls_fail(err, LS_E_IO, "%s: not a regular file", path);
    else if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) code = ls_fail(err, LS_E_IO, "%s: cannot map: %s", path, strerror(errno));
        else *out = (ls_mapping){p, (size_t)st.st_size};
    }
    close(fd);
    return code;
}

void ls_map_close(ls_mapping *m) {
    if (m->p) munmap((void *)m->p, m->n);
    *m = (ls_mapping){0};
}

ls_code ls_read_all(ls_buf *b, FILE *f, const char *name, size_t limit, ls_err *err) {
    char chunk[65536];
    size_t n;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        if (b->n + n > limit) return ls_fail(err, LS_E_RANGE, "%s: larger than %zu bytes", name, limit);
        ls_buf_add(b, chunk, n);
    }
    if (ferror(f)) return ls_fail(err, LS_E_IO, "%s: %s", name, strerror(errno));
    return LS_OK;
}

ls_code ls_replace_open(ls_replacement *r, const char *path, ls_err *err) {
    *r = (ls_replacement){.path = ls_strdup(path), .part = ls_format("%s.part%d", path, (int)getpid())};
    if ((r->f = fopen(r->part, "we"))) return LS_OK;
    const ls_code code = ls_fail(err, LS_E_IO, "cannot write %s: %s", path, strerror(errno));
    free(r->path);
    free(r->part);
    return code;
}

ls_code ls_replace_close(ls_replacement *r, bool keep, ls_err *err) {
    errno = 0;
    const bool whole = !fflush(r->f) && !ferror(r->f);
    const int reason = errno;
    ls_code code = LS_OK;
    if (fclose(r->f) || !whole)
        code = ls_fail(err, LS_E_IO, "cannot write %s: %s", r->path, strerror(reason ? reason : EIO));
    else if (keep && rename(r->part, r->path))
        code = ls_fail(err, LS_E_IO, "cannot write %s: %s", r->path, strerror(errno));
    if (code || !keep) unlink(r->part);
    free(r->path);
    free(r->part);
    return code;
}

ls_code ls_write_file(const char *path, const ls_buf *bytes, ls_err *err) {
    ls_replacement r;
    const ls_code code = ls_replace_open(&r, path, err);
    if (code) return code;
    fwrite(bytes->n ? bytes->p : "", 1, bytes->n, r.f);
    return ls_replace_close(&r, true, err);
}
