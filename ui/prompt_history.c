#include "ui/prompt_history.h"
#include "base/file.h"
#include "base/io.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 1000, MOST_BYTES = 1 << 20 };

static void write_line(ls_buf *out, const char *prompt) {
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '[');
    ls_jw_str(&w, prompt);
    ls_jw_close(&w, ']');
    ls_buf_char(out, '\n');
}

static void cut(const ui_edit *e, const char *path) {
    ls_buf out = {0};
    for (size_t i = e->n_history - MOST; i < e->n_history; i++) write_line(&out, e->history[i]);
    ls_write_private(path, &out, NULL); // if that fails, the next session cuts it
    ls_buf_free(&out);
}

void ui_history_load(ui_edit *e, const char *path) {
    ls_lines *l;
    ls_line line;
    size_t lines = 0;
    const int locked = ls_open_locked(path, NULL);
    if (locked < 0 && errno != EWOULDBLOCK && errno != EACCES && errno != EROFS) return;
    if (locked < 0 ? ls_lines_open(&l, path, NULL) : ls_lines_of(&l, locked, path, NULL)) return;
    while (!ls_lines_next(l, &line, NULL) && line.p) {
        ls_json *doc;
        size_t n = 0;
        lines++;
        if (line.n > MOST_BYTES || ls_json_parse(&doc, line.p, line.n, "", NULL)) continue;
        const char *text = ls_json_str(ls_json_at(doc, 0), &n);
        if (text && n && strlen(text) == n) {
            ui_edit_set(e, text);
            free(ui_edit_take(e));
        }
        ls_json_free(doc);
    }
    if (locked >= 0 && lines > MOST && e->n_history > MOST) cut(e, path);
    ls_lines_close(l); // releases the lock
    ui_edit_clear(e);
    e->n_kept = e->n_history;
}

static ls_code add_prompt(const char *path, const char *prompt, ls_err *err) {
    ls_buf out = {0};
    struct stat st = {0};
    char last = '\n';
    ls_make_folders(path);
    bool made;
    const int fd = ls_open_locked(path, &made);
    int error = fd < 0 || fstat(fd, &st) ? errno : 0;
    if (st.st_size && pread(fd, &last, 1, st.st_size - 1) == 1 && last != '\n')
        ls_buf_char(&out, '\n'); // another writer did not finish its line
    write_line(&out, prompt);
    const bool too_long = out.n > MOST_BYTES;
    size_t done = 0;
    while (done < out.n && !error && !too_long) {
        const ssize_t got = ls_write_some(fd, out.p + done, out.n - done, 0);
        if (got > 0) done += (size_t)got;
        else if (got < 0 && errno != EINTR) error = errno;
    }
    if (error && done && ftruncate(fd, st.st_size)) last = 0; // the reader skips half a line
    if (fd >= 0) close(fd);
    ls_buf_free(&out);
    if (too_long) return ls_fail(err, LS_E_RANGE, "a prompt of more than 1 MiB is not saved in the history");
    return error ? ls_fail(err, LS_E_IO, "prompts are not saved: %s: %s", path, ls_write_reason(error)) : LS_OK;
}

ls_code ui_history_add(ui_edit *e, const char *path, ls_err *err) {
    ls_code code = LS_OK;
    for (; e->n_kept < e->n_history; e->n_kept++)
        if (!code) code = add_prompt(path, e->history[e->n_kept], err);
    return code;
}
