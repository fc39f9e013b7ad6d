#include "cli/template_run.h"
#include "base/file.h"
#include "engine/load.h"
#include "model/checkpoint.h"
#include "text/chat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { MOST_BYTES = 64 << 20 };

static ls_code read_file(const char *path, ls_buf *out, ls_err *err) {
    FILE *f = strcmp(path, "-") ? fopen(path, "re") : stdin;
    if (!f) return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    const ls_code code = ls_read_all(out, f, path, MOST_BYTES, err);
    if (f != stdin) fclose(f);
    return code;
}

static ls_code template_at(const char *path, const char *name, ls_buf *out, ls_json **names, ls_err *err) {
    struct stat st;
    ls_checkpoint *c;
    ls_code code = stat(path, &st) ? ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno)) : LS_OK;
    char magic[4] = "";
    FILE *f = code || S_ISDIR(st.st_mode) ? NULL : fopen(path, "re");
    if (f) {
        const size_t n = fread(magic, 1, sizeof magic, f);
        fclose(f);
        if (n < sizeof magic || memcmp(magic, "GGUF", n)) return read_file(path, out, err);
    }
    if (!code) code = ls_checkpoint_open_text(&c, path, err);
    if (code) return code;
    ls_buf variables = {0};
    code = ls_load_template(c, name, out, &variables, err);
    if (!code && variables.n) code = ls_json_parse(names, variables.p, variables.n, path, err);
    ls_buf_free(&variables);
    ls_checkpoint_close(c);
    return !code && !out->n ? ls_fail(err, LS_E_USAGE, "%s has no chat template", path) : code;
}

static void add_marked(const ls_rendered *text, ls_buf *out) {
    bool inside = false;
    for (size_t i = 0; i <= text->text.n; i++) {
        const bool marked = i < text->text.n && text->marks.p[i];
        if (marked != inside) ls_buf_str(out, marked ? "\u27e6" : "\u27e7");
        inside = marked;
        if (i < text->text.n) ls_buf_char(out, text->text.p[i]);
    }
}

ls_code ls_template_run(const char *path, const char *name, const char *messages, bool marks, ls_buf *out,
                        ls_err *err) {
    ls_buf text = {0}, given = {0};
    ls_jinja *t = NULL;
    ls_json *variables = NULL, *names = NULL;
    ls_rendered written = {0};
    ls_jinja_context context = {.now = LS_CHAT_DAY};
    ls_code code = messages ? LS_OK : ls_fail(err, LS_E_USAGE, "--messages FILE.json, the conversation, is required");
    if (!code) code = template_at(path, name, &text, &names, err);
    if (!code) code = read_file(messages, &given, err);
    if (!code) code = ls_json_parse(&variables, given.p ? given.p : "", given.n, messages, err);
    if (!code && !ls_json_is_object(variables))
        code = ls_fail(err, LS_E_USAGE, "%s: an object with \"messages\" is expected", messages);
    context.variables = variables;
    context.names = names;
    if (!code) ls_json_int(ls_json_get(variables, "now"), &context.now);
    if (!code && ((code = ls_jinja_parse(&t, text.p ? text.p : "", text.n, err)) ||
                  (code = ls_jinja_render(t, &context, &written, err))))
        ls_err_prefix(err, "%s", path);
    if (!code && marks) add_marked(&written, out);
    else if (!code && written.text.n) ls_buf_add(out, written.text.p, written.text.n);
    ls_rendered_free(&written);
    ls_json_free(variables);
    ls_json_free(names);
    ls_jinja_free(t);
    ls_buf_free(&text);
    ls_buf_free(&given);
    return code;
}
