// `corpus build` makes a corpus for the method `rest` from the user's texts and code; `corpus info` describes a corpus.
#include "base/system.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "spec/corpus.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILE = 1 << 30, MAX_DEPTH = 64 };

typedef struct {
    const ls_model *model;
    const char *out;
    ls_ids tokens;
    size_t files, skipped, bytes;
} builder;

// inside: found in a folder; there, empty and binary files are skipped. A named file of that kind is an error.
static ls_code add_file(builder *b, const char *path, bool inside, ls_err *err) {
    ls_buf m = {0};
    ls_code code = ls_read_file(&m, path, MAX_FILE, err);
    if (code) return code;
    if (!m.n || memchr(m.p, 0, m.n)) {
        if (inside) b->skipped++;
        else code = ls_fail(err, LS_E_PARSE, "%s: %s", path, m.n ? "binary, not text" : "empty");
    } else if (ls_is_same_file(path, b->out))
        code = ls_fail(err, LS_E_USAGE, "%s is an input; name another output file", path);
    else if (b->tokens.n + m.n > INT32_MAX)
        code = ls_fail(err, LS_E_RANGE, "%s: with this file the corpus is too large; build several corpora", path);
    else if (!(code = ls_encode(b->model->vocab, m.p, m.n, false, &b->tokens, err))) {
        ls_ids_push(&b->tokens, LS_CORPUS_BREAK);
        b->files++;
        b->bytes += m.n;
    }
    ls_buf_free(&m);
    if (!code && !ls_gauge_show(NULL, "reading texts", -1)) code = ls_fail(err, LS_E_CANCELLED, "interrupted");
    return code;
}

static int is_shown(const struct dirent *e) {
    return *e->d_name != '.';
}

static ls_code add_path(builder *b, const char *path, int depth, ls_err *err);

// Reads in order of names, so that the same folder gives the same corpus. Skips hidden files.
static ls_code add_folder(builder *b, const char *path, int depth, ls_err *err) {
    struct dirent **files;
    const int n = scandir(path, &files, is_shown, alphasort);
    if (n < 0) return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    ls_code code = LS_OK;
    for (int i = 0; i < n; i++) {
        char *inside = ls_format("%s/%s", path, files[i]->d_name);
        if (!code) code = add_path(b, inside, depth + 1, err);
        free(inside);
        free(files[i]);
    }
    free(files);
    return code;
}

static ls_code add_path(builder *b, const char *path, int depth, ls_err *err) {
    struct stat st;
    if (depth ? lstat(path, &st) : stat(path, &st)) return ls_fail(err, LS_E_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) return add_folder(b, path, depth, err);
    if (depth && !S_ISREG(st.st_mode)) return LS_OK; // not followed within folders: a link, a socket
    return add_file(b, path, depth > 0, err);
}

static ls_code build(const ls_command_line *c, ls_err *err) {
    if (c->n_args < 2 || !c->out)
        return ls_fail(err, LS_E_USAGE, "usage: logitspec corpus build FILE|FOLDER... --out FILE");
    const uint64_t start = ls_now_ns();
    ls_model model = {0};
    builder b = {.model = &model, .out = c->out};
    ls_model_options how = {.name = c->options.model};
    ls_gauge_watch(&how.engine);
    ls_code code = ls_model_load_text(&model, &how, err);
    for (int i = 1; i < c->n_args && !code; i++) code = add_path(&b, c->args[i], 0, err);
    if (!code && !b.files) code = ls_fail(err, LS_E_RANGE, "no text file was found");
    if (!code) {
        ls_corpus_facts facts = {
            .n = (int64_t)b.tokens.n, .n_vocab = ls_vocab_size(model.vocab), .tokenizer_id = ls_vocab_id(model.vocab)};
        snprintf(facts.tokenizer, sizeof facts.tokenizer, "%s", model.name);
        const int32_t threads = c->options.threads ? c->options.threads : ls_cores();
        code = ls_corpus_write(c->out, b.tokens.p, &facts, threads, ls_gauge_show, NULL, err);
    }
    if (!code && !c->quiet) {
        char skipped[64] = "";
        if (b.skipped) snprintf(skipped, sizeof skipped, "; %zu empty or binary files were skipped", b.skipped);
        ls_say(0, "%s: %zu token%s of %zu file%s (%.1f MB of text) in %.1f s%s", c->out, b.tokens.n - b.files,
               ls_plural(b.tokens.n - b.files), b.files, ls_plural(b.files), (double)b.bytes / 1e6,
               (double)(ls_now_ns() - start) / 1e9, skipped);
        ls_say(LS_COMMANDS, "use it: logitspec --method rest --set rest.corpus=%s", c->out);
    }
    ls_ids_free(&b.tokens);
    ls_model_free(&model);
    return code;
}

static ls_code info(const ls_command_line *c, ls_err *err) {
    ls_corpus *corpus;
    if (c->n_args != 2) return ls_fail(err, LS_E_USAGE, "usage: logitspec corpus info FILE");
    const ls_code code = ls_corpus_open(&corpus, c->args[1], err);
    if (code) return code;
    const ls_corpus_facts *f = &corpus->facts;
    ls_say(0, "%s: %" PRId64 " tokens, including breaks between texts; tokenizer of %s, %d tokens (%016" PRIx64 ")",
           c->args[1], f->n, f->tokenizer, f->n_vocab, f->tokenizer_id);
    ls_corpus_close(corpus);
    return LS_OK;
}

ls_code ls_cmd_corpus(const ls_command_line *c, ls_console *to, ls_err *err) {
    (void)to;
    ls_catch_signals();
    const char *verb = c->n_args ? c->args[0] : "";
    if (!strcmp(verb, "build")) return build(c, err);
    if (!strcmp(verb, "info")) return info(c, err);
    return ls_fail(err, LS_E_USAGE, "usage: logitspec corpus build FILE|FOLDER... --out FILE, or corpus info FILE");
}
