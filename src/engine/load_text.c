#include "engine/load_text.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/templates.h"
#include "engine/vocab_gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_BYTES = 16 << 20, TOKENIZER_BYTES = 256 << 20 };

// The other tokenizer files of a folder.
typedef struct {
    ls_buf config, special_map, added;
} beside;

static ls_code read_beside(beside *b, const char *folder, ls_err *err) {
    const struct {
        const char *name;
        ls_buf *to;
    } files[] = {{"tokenizer_config.json", &b->config},
                 {"special_tokens_map.json", &b->special_map},
                 {"added_tokens.json", &b->added}};
    ls_code code = LS_OK;
    bool there;
    for (size_t i = 0; i < 3 && !code; i++)
        code = ls_folder_read(folder, files[i].name, TOKENIZER_BYTES, files[i].to, &there, err);
    return code;
}

static void free_beside(beside *b) {
    ls_buf_free(&b->config);
    ls_buf_free(&b->special_map);
    ls_buf_free(&b->added);
}

static ls_tokenizer_files files_of(const ls_checkpoint *c, const beside *b) {
    return (ls_tokenizer_files){.config = {b->config.p, b->config.n},
                                .special_map = {b->special_map.p, b->special_map.n},
                                .added = {b->added.p, b->added.n},
                                .model_type = c->hparams.arch ? c->hparams.arch->hf : NULL};
}

static ls_code vocab_of_folder(ls_vocab **out, const ls_checkpoint *c, const beside *b, ls_err *err) {
    static const struct {
        const char *name;
        ls_code (*read)(ls_vocab **out, ls_str text, const ls_tokenizer_files *beside, ls_err *err);
    } kinds[] = {{"tokenizer.json", ls_tokenizer_json},
                 {"tokenizer.model", ls_tokenizer_model},
                 {"tekken.json", ls_tokenizer_tekken}};
    const ls_tokenizer_files files = files_of(c, b);
    ls_buf text = {0};
    bool there = false;
    ls_code code = LS_OK;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !there && !code; i++) {
        code = ls_folder_read(c->folder, kinds[i].name, TOKENIZER_BYTES, &text, &there, err);
        if (there && !code && (code = kinds[i].read(out, (ls_str){text.p, text.n}, &files, err)))
            ls_err_prefix(err, "%s/%s", c->folder, kinds[i].name);
    }
    if (!code && !there && !(code = ls_folder_read(c->folder, "vocab.json", TOKENIZER_BYTES, &text, &there, err)) &&
        there) {
        ls_buf merges = {0};
        code = ls_folder_read(c->folder, "merges.txt", TOKENIZER_BYTES, &merges, &there, err);
        if (!code && there &&
            (code = ls_tokenizer_merges(out, (ls_str){text.p, text.n}, (ls_str){merges.p, merges.n}, &files, err)))
            ls_err_prefix(err, "%s", c->folder);
        ls_buf_free(&merges);
    }
    ls_buf_free(&text);
    return code || there ? code
                         : ls_fail(err, LS_E_IO,
                                   "%s: no tokenizer; it needs tokenizer.json, tokenizer.model, tekken.json, or "
                                   "vocab.json with merges.txt",
                                   c->folder);
}

static void add_ends_of(ls_vocab *v, const ls_json *config) {
    const ls_json *eos = ls_json_get(config, "eos_token_id");
    int64_t id;
    if (ls_json_int(eos, &id) && id >= 0 && id <= INT32_MAX) ls_vocab_add_end(v, (int32_t)id);
    for (size_t i = 0; i < ls_json_size(eos); i++)
        if (ls_json_int(ls_json_at(eos, i), &id) && id >= 0 && id <= INT32_MAX) ls_vocab_add_end(v, (int32_t)id);
}

// Tokens that end an answer: eos_token_id of generation_config.json and config.json, one number or several. Warns if a
// file cannot be read, because answers might not stop at their end.
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
        snprintf(note, sizeof note, "%s; the file is ignored, and with it the tokens that end an answer", err.msg);
        o->note(o->ud, note);
    }
    ls_json_free(doc);
    ls_buf_free(&text);
    free(where);
}

ls_code ls_load_template(const ls_checkpoint *c, const char *name, ls_buf *out, ls_buf *variables, ls_err *err) {
    beside b = {0};
    ls_templates all = {0};
    const ls_buf *chosen = NULL;
    ls_vocab *v = NULL;
    ls_code code = c->folder ? read_beside(&b, c->folder, err) : LS_OK;
    if (!code && !(code = ls_templates_read(&all, c, (ls_str){b.config.p, b.config.n}, err)))
        code = ls_templates_choose(&all, name, false, &chosen, err);
    if (!code && chosen) ls_buf_add(out, chosen->p, chosen->n);
    if (!code && c->folder) {
        const ls_tokenizer_files files = files_of(c, &b);
        code = ls_tokenizer_variables(&files, variables, err);
    } else if (!code && ls_gguf_has(c->gguf, "tokenizer.ggml.model") && !(code = ls_vocab_gguf(&v, c->gguf, err)))
        ls_buf_str(variables, ls_vocab_variables(v));
    ls_vocab_free(v);
    ls_templates_free(&all);
    free_beside(&b);
    return code;
}

// A requested template must be usable. If the model's own template is not usable, the error appears when a chat begins.
static ls_code make_chat(ls_model *m, const ls_checkpoint *c, const ls_model_options *o, const beside *b, ls_err *err) {
    const char *name = o->chat_template, *variables = o->template_variables;
    ls_templates all = {0};
    const ls_buf *text = NULL;
    ls_json *given = NULL;
    ls_err why = {0};
    ls_code code =
        variables ? ls_json_parse(&given, variables, strlen(variables), "the template's variables", err) : LS_OK;
    if (code) return code;
    const ls_json *tools = ls_json_get(given, "tools");
    if (!(code = ls_templates_read(&all, c, (ls_str){b->config.p, b->config.n}, &why)))
        code = ls_templates_choose(&all, name, tools && !ls_json_is_null(tools), &text, &why);
    if (!code && !text) why = (ls_err){.msg = "the model has no chat template; set one with --template FILE"};
    else if (!code) code = ls_chat_new(&m->chat, m->vocab, text->p ? text->p : "", text->n, &why);
    snprintf(m->chat_problem, sizeof m->chat_problem, "%.*s", m->chat ? 0 : (int)sizeof m->chat_problem - 1, why.msg);
    m->chat_refused = !m->chat && (all.n || code);
    if (code && name && text) code = ls_fail(err, LS_E_UNSUPPORTED, "%s: %s", name, why.msg);
    else if (code && name) code = ls_fail(err, code, "%s", why.msg);
    else code = LS_OK;
    if (m->chat) ls_vocab_add_end(m->vocab, ls_chat_end(m->chat));
    if (m->chat && variables && !code) code = ls_chat_set(m->chat, variables, strlen(variables), err);
    ls_json_free(given);
    ls_templates_free(&all);
    return code;
}

ls_code ls_load_text(ls_model *m, const ls_checkpoint *c, const ls_model_options *o, ls_err *err) {
    beside b = {0};
    ls_code code = LS_OK;
    if (c->folder) code = read_beside(&b, c->folder, err);
    if (!code && c->folder) code = vocab_of_folder(&m->vocab, c, &b, err);
    else if (!code && !ls_gguf_has(c->gguf, "tokenizer.ggml.model"))
        code = ls_fail(err, LS_E_PARSE, "%s: no tokenizer (metadata tokenizer.ggml.*)", c->files[0].path);
    else if (!code && (code = ls_vocab_gguf(&m->vocab, c->gguf, err))) ls_err_prefix(err, "%s", c->files[0].path);
    if (!code && c->n_tensors && (code = ls_vocab_pad(m->vocab, c->hparams.n_vocab, err)))
        ls_err_prefix(err, "%s", c->files[0].path);
    if (!code && c->folder) {
        add_ends(m->vocab, c->folder, "generation_config.json", &o->engine);
        add_ends(m->vocab, c->folder, "config.json", &o->engine);
    }
    if (!code) code = make_chat(m, c, o, &b, err);
    free_beside(&b);
    return code;
}
