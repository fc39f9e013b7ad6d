#include "ui/prompt_history.h"
#include "base/file.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "base/lines.h"
#include "base/paths.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST = 1000, MOST_BYTES = 1 << 20 };

void ui_history_load(ui_edit *e, const char *path) {
    ls_lines *l;
    ls_line line;
    if (ls_lines_open(&l, path, NULL)) return;
    while (!ls_lines_next(l, &line, NULL) && line.p) {
        ls_json *doc;
        size_t n = 0;
        if (line.n > MOST_BYTES || ls_json_parse(&doc, line.p, line.n, "", NULL)) continue;
        const char *text = ls_json_str(ls_json_at(doc, 0), &n);
        if (text && n && strlen(text) == n) {
            ui_edit_set(e, text);
            free(ui_edit_take(e));
        }
        ls_json_free(doc);
    }
    ls_lines_close(l);
    ui_edit_clear(e);
}

void ui_history_save(const ui_edit *e, const char *path) {
    ls_buf out = {0};
    for (size_t i = e->n_history > MOST ? e->n_history - MOST : 0; i < e->n_history; i++) {
        ls_jsonw w = {.out = &out};
        ls_jw_open(&w, '[');
        ls_jw_str(&w, e->history[i]);
        ls_jw_close(&w, ']');
        ls_buf_char(&out, '\n');
    }
    const mode_t before = umask(077);
    if (out.n) ls_make_folders(path), ls_write_file(path, &out, NULL);
    umask(before);
    ls_buf_free(&out);
}
