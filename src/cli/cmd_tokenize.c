// The token ids of a text: a line for each token with its id and bytes. Loads no compute library.
#include "base/json.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "engine/load.h"

// Writes bytes that cannot be printed as \xNN; escapes quotes and backslashes.
static void write_token(int32_t id, const char *p, size_t n, ls_buf *out) {
    char sign[LS_SANITIZE_BYTES];
    uint32_t before = 0;
    ls_buf_fmt(out, "%6d  \"", id);
    for (size_t i = 0; i < n;) {
        const size_t taken = ls_sanitize_next(p + i, n - i, &before, sign);
        if (p[i] == '\n') ls_buf_str(out, "\\n");
        else if (p[i] == '\t') ls_buf_str(out, "\\t");
        else if (p[i] == '"' || p[i] == '\\') ls_buf_fmt(out, "\\%c", p[i]);
        else if (!*sign) ls_buf_add(out, p + i, taken);
        else
            for (size_t j = 0; j < taken; j++) ls_buf_fmt(out, "\\x%02x", (unsigned char)p[i + j]);
        i += taken;
    }
    ls_buf_str(out, "\"\n");
}

ls_code ls_cmd_tokenize(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_buf prompt = {0};
    ls_ids ids = {0};
    ls_model m = {0};
    ls_run_setup setup;
    ls_run_setup_init(&setup, &c->options);
    if (setup.s.format == LS_FORMAT_AUTO) setup.s.format = LS_FORMAT_RAW; // only --chat adds a template
    ls_code code = ls_read_prompt(c, true, &prompt, err);
    if (!code) code = ls_model_load_vocabulary(&m, &setup.s.model, err);
    if (!code) code = ls_prompt_encode(&m, setup.s.format, setup.s.system, prompt.p, prompt.n, &ids, err);
    ls_jsonw w = {0};
    if (!code && c->json) {
        w = ls_jw_begin(&to->out);
        ls_jw_field_ids(&w, "ids", ids.p, ids.n);
        ls_jw_field_open(&w, "tokens", '[');
    }
    for (size_t i = 0; i < ids.n && !code; i++) {
        size_t n;
        const char *p = ls_vocab_bytes(m.vocab, ids.p[i], &n);
        if (c->json) ls_jw_strn(&w, p, n);
        else write_token(ids.p[i], p, n, &to->out);
    }
    if (!code && c->json) {
        ls_jw_close(&w, ']');
        ls_jw_end(&w);
    }
    ls_buf_free(&prompt);
    ls_ids_free(&ids);
    ls_model_free(&m);
    ls_run_setup_free(&setup);
    return code;
}
