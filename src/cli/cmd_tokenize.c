// Token ids of a text, one line a token: id and bytes. No compute library is loaded.
#include "base/jsonw.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "run/load.h"

#include <stdio.h>
#include <string.h>

// Bytes that cannot be printed as they are become \xNN, quotes and backslashes are escaped.
static void print_token(int32_t id, const char *p, size_t n) {
    printf("%6d  \"", id);
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = ls_utf8_decode(p + i, n - i, &cp);
        if (len > 0 && cp >= 32 && cp != 127 && cp != '"' && cp != '\\' && !(cp >= 0x80 && cp < 0xa0))
            fwrite(p + i, 1, (size_t)len, stdout);
        else if (p[i] == '\n') fputs("\\n", stdout);
        else if (p[i] == '\t') fputs("\\t", stdout);
        else if (p[i] == '"' || p[i] == '\\') printf("\\%c", p[i]);
        else {
            for (int j = 0; j < (len > 0 ? len : 1); j++) printf("\\x%02x", (unsigned char)p[i + (size_t)j]);
        }
        i += (size_t)(len > 0 ? len : 1);
    }
    puts("\"");
}

int ls_cmd_tokenize(const ls_command_line *c) {
    ls_err err = {0};
    ls_buf prompt = {0}, json = {0};
    ls_ids ids = {0};
    ls_model m = {0};
    ls_run_setup setup;
    ls_run_setup_init(&setup, &c->options);
    if (setup.s.format == LS_FORMAT_AUTO) setup.s.format = LS_FORMAT_RAW; // a text is a text, unless --chat
    ls_code code = ls_read_prompt(c, true, &prompt, &err);
    if (!code) code = ls_model_load_text(&m, &setup.s.model, &err);
    if (!code) code = ls_prompt_encode(&m, setup.s.format, setup.s.system, true, prompt.p, prompt.n, &ids, &err);
    if (!code && c->json) {
        ls_jsonw w = {.out = &json};
        ls_jw_open(&w, '{');
        ls_jw_key(&w, "ids");
        ls_jw_ids(&w, ids.p, ids.n);
        ls_jw_key(&w, "tokens");
        ls_jw_open(&w, '[');
        for (size_t i = 0; i < ids.n; i++) {
            size_t n;
            const char *p = ls_vocab_bytes(m.vocab, ids.p[i], &n);
            ls_jw_strn(&w, p, n);
        }
        ls_jw_close(&w, ']');
        ls_jw_close(&w, '}');
        puts(json.p);
    } else if (!code) {
        for (size_t i = 0; i < ids.n; i++) {
            size_t n;
            const char *p = ls_vocab_bytes(m.vocab, ids.p[i], &n);
            print_token(ids.p[i], p, n);
        }
    }
    int status = code ? ls_complain(&err) : LS_EXIT_OK;
    if (!code && !ls_print(&(ls_buf){0})) status = LS_EXIT_FAILED; // what was printed
    ls_buf_free(&prompt);
    ls_buf_free(&json);
    ls_ids_free(&ids);
    ls_model_free(&m);
    ls_run_setup_free(&setup);
    return status;
}
