#include "engine/load_text.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/vocab_gguf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES = 16 << 20, TOKENIZER_BYTES = 256 << 20 };

static ls_code vocab_of_folder(ls_vocab **out, const char *folder, const ls_buf *config, ls_err *err) {
    ls_buf text = {0};
    bool there;
    ls_code code = ls_folder_read(folder, "tokenizer.json", TOKENIZER_BYTES, &text, &there, err);
    if (!code && there) {
        code = ls_tokenizer_json(out, text.p, text.n, config->n ? config->p : NULL, config->n, err);
        if (code) ls_err_prefix(err, "%s/tokenizer.json", folder);
    } else if (!code && !(code = ls_folder_read(folder, "tokenizer.model", TOKENIZER_BYTES, &text, &there, err))) {
        if (!there) code = ls_fail(err, LS_E_IO, "%s: no tokenizer.json and no tokenizer.model", folder);
        else if ((code = ls_tokenizer_model(out, text.p, text.n, err)))
            ls_err_prefix(err, "%s/tokenizer.model", folder);
    }
    ls_buf_free(&text);
    return code;
}

static void add_ends_of(ls_vocab *v, const ls_json *config) {
    const ls_json *eos = ls_json_get(config, "eos_token_id");
    int64_t id;
    if (ls_json_int(eos, &id) && id >= 0 && id <= INT32_MAX) ls_vocab_add_end(v, (int32_t)id);
    for (size_t i = 0; i < ls_json_size(eos); i++)
        if (ls_json_int(ls_json_at(eos, i), &id) && id >= 0 && id <= INT32_MAX) ls_vocab_add_end(v, (int32_t)id);
}

// Tokens that end an answer: eos_token_id of generation_config.json and config.json, a number or several. A file that
// cannot be read is told: an answer might run past its end.
static void add_ends(ls_vocab *v, const char *folder, const char *name, const ls_engine_options *o) {
    ls_buf text = {0};
    ls_json *doc = NULL;
    ls_err err;
    bool there;
    char note[700];
    char *where = ls_format("%s/%s", folder, name);
    ls_code code = ls_folder_read(folder, name, CONFIG_BYTES, &text, &there, &err);
    if (!code && there && !(code = ls_json_parse_pythons(&doc, text.p, text.n, where, &err))) {
        add_ends_of(v, doc);
        add_ends_of(v, ls_json_get(doc, "text_config"));
    }
    if (code && o->note) {
        snprintf(note, sizeof note, "%s; it is left out, and with it the tokens that end an answer", err.msg);
        o->note(o->ud, note);
    }
    ls_json_free(doc);
    ls_buf_free(&text);
    free(where);
}

// "chat_template" of tokenizer_config.json: a string, or several with names, of which "default" is meant.
static void template_in(const ls_buf *config, ls_buf *out) {
    ls_json *doc = NULL;
    ls_err ignored;
    size_t n;
    if (!config->n || ls_json_parse_pythons(&doc, config->p, config->n, "tokenizer_config.json", &ignored)) return;
    const ls_json *t = ls_json_get(doc, "chat_template");
    const char *text = ls_json_str(t, &n);
    for (size_t i = 0; !text && i < ls_json_size(t); i++) {
        const ls_json *one = ls_json_at(t, i);
        const char *name = ls_json_str(ls_json_get(one, "name"), &n);
        if (name && n == 7 && !memcmp(name, "default", 7)) text = ls_json_str(ls_json_get(one, "template"), &n);
    }
    if (text) ls_buf_add(out, text, n);
    ls_json_free(doc);
}

static ls_code own_template(const ls_checkpoint *c, const ls_buf *config, ls_buf *out, ls_err *err) {
    ls_str s;
    bool there;
    if (c->gguf) {
        if (ls_gguf_has(c->gguf, "tokenizer.chat_template") &&
            !ls_gguf_str(c->gguf, "tokenizer.chat_template", &s, err))
            ls_buf_add(out, s.p, s.n);
        return LS_OK;
    }
    const ls_code code = ls_folder_read(c->folder, "chat_template.jinja", CONFIG_BYTES, out, &there, err);
    if (!code && !there) template_in(config, out);
    return code;
}

ls_code ls_load_template(const ls_checkpoint *c, ls_buf *out, ls_err *err) {
    ls_buf config = {0};
    bool there;
    ls_code code = LS_OK;
    if (c->folder) code = ls_folder_read(c->folder, "tokenizer_config.json", CONFIG_BYTES, &config, &there, err);
    if (!code) code = own_template(c, &config, out, err);
    ls_buf_free(&config);
    return code;
}

static ls_code template_of_file(const char *file, ls_buf *out, ls_err *err) {
    FILE *f = fopen(file, "re");
    if (!f)
        return ls_fail(err, LS_E_IO, "the chat template %s: %s (a Jinja file, or a name of configs/chat)", file,
                       strerror(errno));
    const ls_code code = ls_read_all(out, f, file, CONFIG_BYTES, err);
    fclose(f);
    return code;
}

static ls_code make_chat(ls_model *m, const ls_checkpoint *c, const char *file, const char *variables,
                         const ls_buf *config, ls_err *err) {
    ls_buf text = {0};
    ls_err why = {0};
    ls_code code = file ? template_of_file(file, &text, err) : own_template(c, config, &text, err);
    if (!code && !text.n)
        snprintf(m->chat_problem, sizeof m->chat_problem,
                 "the model has no chat template (--template FILE gives it one)");
    else if (!code && ls_chat_new(&m->chat, m->vocab, text.p, text.n, &why)) {
        snprintf(m->chat_problem, sizeof m->chat_problem, "%.*s", (int)sizeof m->chat_problem - 1, why.msg);
        if (file) code = ls_fail(err, LS_E_UNSUPPORTED, "%s: %s", file, why.msg);
    }
    if (m->chat) ls_vocab_add_end(m->vocab, ls_chat_end(m->chat));
    if (m->chat && variables && !code) code = ls_chat_set(m->chat, variables, strlen(variables), err);
    ls_buf_free(&text);
    return code;
}

ls_code ls_load_text(ls_model *m, const ls_checkpoint *c, const ls_model_options *o, ls_err *err) {
    ls_buf config = {0};
    bool there;
    ls_code code = LS_OK;
    if (c->folder) code = ls_folder_read(c->folder, "tokenizer_config.json", CONFIG_BYTES, &config, &there, err);
    if (!code && c->folder) code = vocab_of_folder(&m->vocab, c->folder, &config, err);
    else if (!code && !ls_gguf_has(c->gguf, "tokenizer.ggml.model"))
        code = ls_fail(err, LS_E_PARSE, "%s: it has no tokenizer (metadata tokenizer.ggml.*)", c->files[0].path);
    else if (!code && (code = ls_vocab_gguf(&m->vocab, c->gguf, err))) ls_err_prefix(err, "%s", c->files[0].path);
    if (!code && c->n_tensors && (code = ls_vocab_pad(m->vocab, c->hparams.n_vocab, err)))
        ls_err_prefix(err, "%s", c->files[0].path);
    if (!code && c->folder) {
        add_ends(m->vocab, c->folder, "generation_config.json", &o->engine);
        add_ends(m->vocab, c->folder, "config.json", &o->engine);
    }
    if (!code) code = make_chat(m, c, o->chat_template, o->template_variables, &config, err);
    ls_buf_free(&config);
    return code;
}
