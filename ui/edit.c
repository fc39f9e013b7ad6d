#include "ui/edit.h"
#include "base/file.h"
#include "base/json.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ui/actions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void ui_edit_free(ui_edit *e) {
    for (size_t i = 0; i < e->n_history; i++) free(e->history[i]);
    free(e->history);
    free(e->draft);
    ls_buf_free(&e->text);
    *e = (ui_edit){0};
}

void ui_edit_clear(ui_edit *e) {
    ls_buf_clear(&e->text);
    e->cursor = 0;
    e->at = e->n_history;
}

void ui_edit_set(ui_edit *e, const char *text) {
    ls_buf_clear(&e->text);
    ls_buf_str(&e->text, text);
    e->cursor = e->text.n;
}

size_t ui_edit_insert(ui_edit *e, const char *p, size_t n) {
    ls_buf clean = {0};
    size_t left_out = 0;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        const int len = ls_utf8_decode(p + i, n - i, &cp);
        if (len > 0 && (cp >= 32 || cp == '\n' || cp == '\t') && !(cp >= 127 && cp < 160))
            ls_buf_add(&clean, p + i, (size_t)len);
        else if (len > 0 && cp == '\r') {
            if (i + 1 == n || p[i + 1] != '\n') ls_buf_char(&clean, '\n');
        } else left_out++;
        i += (size_t)(len > 0 ? len : 1);
    }
    if (clean.n) {
        ls_buf_add(&e->text, clean.p, clean.n); // makes room
        memmove(e->text.p + e->cursor + clean.n, e->text.p + e->cursor, e->text.n - clean.n - e->cursor);
        memcpy(e->text.p + e->cursor, clean.p, clean.n);
        e->cursor += clean.n;
    }
    ls_buf_free(&clean);
    return left_out;
}

static size_t before(const ui_edit *e) {
    size_t i = e->cursor;
    while (i > 0 && ((unsigned char)e->text.p[--i] & 0xC0) == 0x80) {
    }
    return i;
}

static size_t after(const ui_edit *e) {
    size_t i = e->cursor;
    if (i < e->text.n) i++;
    while (i < e->text.n && ((unsigned char)e->text.p[i] & 0xC0) == 0x80) i++;
    return i;
}

static void cut(ui_edit *e, size_t from, size_t to) {
    if (to <= from) return;
    memmove(e->text.p + from, e->text.p + to, e->text.n - to);
    e->text.n -= to - from;
    e->text.p[e->text.n] = 0;
    e->cursor = from;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n';
}

static size_t word_before(const ui_edit *e) {
    size_t i = e->cursor;
    while (i > 0 && is_blank(e->text.p[i - 1])) i--;
    while (i > 0 && !is_blank(e->text.p[i - 1])) i--;
    return i;
}

static size_t word_after(const ui_edit *e) {
    size_t i = e->cursor;
    while (i < e->text.n && is_blank(e->text.p[i])) i++;
    while (i < e->text.n && !is_blank(e->text.p[i])) i++;
    return i;
}

static void recall(ui_edit *e, size_t at) {
    if (at > e->n_history) return;
    if (e->at == e->n_history) {
        free(e->draft);
        e->draft = ls_strndup(e->text.n ? e->text.p : "", e->text.n);
    }
    e->at = at;
    ui_edit_set(e, at < e->n_history ? e->history[at] : e->draft);
}

static size_t line_begin(const ui_edit *e, size_t at) {
    while (at > 0 && e->text.p[at - 1] != '\n') at--;
    return at;
}

static size_t line_end(const ui_edit *e, size_t at) {
    while (at < e->text.n && e->text.p[at] != '\n') at++;
    return at;
}

// Moves to the same column of the line above or below. False: there is none.
static bool move_line(ui_edit *e, int by) {
    const size_t begin = line_begin(e, e->cursor), column = e->cursor - begin;
    size_t to;
    if (by < 0 ? begin == 0 : line_end(e, e->cursor) == e->text.n) return false;
    to = by < 0 ? line_begin(e, begin - 1) : line_end(e, e->cursor) + 1;
    const size_t end = line_end(e, to);
    e->cursor = to + column < end ? to + column : end;
    while (e->cursor > to && e->cursor < e->text.n && ((unsigned char)e->text.p[e->cursor] & 0xC0) == 0x80) e->cursor--;
    return true;
}

void ui_edit_key(ui_edit *e, int key) {
    char utf8[4];
    switch (key) {
    case UI_KEY_LEFT: e->cursor = before(e); break;
    case UI_KEY_RIGHT: e->cursor = after(e); break;
    case UI_KEY_HOME:
    case UI_CTRL('A'): e->cursor = line_begin(e, e->cursor); break;
    case UI_KEY_END:
    case UI_CTRL('E'): e->cursor = line_end(e, e->cursor); break;
    case UI_KEY_UP:
        if (!move_line(e, -1) && e->at > 0) recall(e, e->at - 1);
        break;
    case UI_KEY_DOWN:
        if (!move_line(e, 1)) recall(e, e->at + 1);
        break;
    case UI_KEY_NEWLINE: ui_edit_insert(e, "\n", 1); break;
    case UI_KEY_BACKSPACE: cut(e, before(e), e->cursor); break;
    case UI_CTRL('D'):
    case UI_KEY_DELETE: cut(e, e->cursor, after(e)); break;
    case UI_KEY_DELETE_WORD: cut(e, e->cursor, word_after(e)); break;
    case UI_KEY_WORD_LEFT: e->cursor = word_before(e); break;
    case UI_KEY_WORD_RIGHT: e->cursor = word_after(e); break;
    case UI_CTRL('U'): cut(e, line_begin(e, e->cursor), e->cursor); break;
    case UI_CTRL('K'): cut(e, e->cursor, line_end(e, e->cursor)); break;
    case UI_CTRL('W'): cut(e, word_before(e), e->cursor); break;
    default:
        if (key >= 32 && key < UI_KEY_FIRST) ui_edit_insert(e, utf8, (size_t)ls_utf8_encode((uint32_t)key, utf8));
    }
}

char *ui_edit_take(ui_edit *e) {
    char *text = ls_strndup(e->text.n ? e->text.p : "", e->text.n);
    if (*text && (!e->n_history || strcmp(e->history[e->n_history - 1], text))) {
        e->history = ls_realloc(e->history, (e->n_history + 1) * sizeof *e->history);
        e->history[e->n_history++] = ls_strdup(text);
    }
    ui_edit_clear(e);
    return text;
}

// ---- the history as a file

enum { MOST = 1000, MOST_BYTES = 1 << 20 };

static void write_line(ls_buf *out, const char *prompt) {
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '[');
    ls_jw_str(&w, prompt);
    ls_jw_close(&w, ']');
    ls_buf_char(out, '\n');
}

static void cut_history(const ui_edit *e, const char *path) {
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
    if (locked >= 0 && lines > MOST && e->n_history > MOST) cut_history(e, path);
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
