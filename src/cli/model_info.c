// What a model file says of itself.
#include "base/jsonw.h"
#include "cli/commands.h"
#include "model/gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    ls_str architecture, name;
    uint32_t context; // 0: not said
    uint64_t bytes;
    struct {
        int type, n;
        uint64_t bytes;
    } types[32]; // in the order of the file
    int n_types;
} facts;

static void collect(facts *f, const ls_gguf *g) {
    char key[128];
    if (ls_gguf_str(g, "general.architecture", &f->architecture, NULL)) f->architecture = (ls_str){"?", 1};
    if (ls_gguf_str(g, "general.name", &f->name, NULL)) f->name = (ls_str){"?", 1};
    snprintf(key, sizeof key, "%.*s.context_length", (int)(f->architecture.n < 64 ? f->architecture.n : 64),
             f->architecture.p);
    if (ls_gguf_u32(g, key, &f->context, NULL)) f->context = 0;
    for (int i = 0; i < ls_gguf_n_tensors(g); i++) {
        const ls_gguf_tensor *t = ls_gguf_tensor_at(g, i);
        int k = 0;
        while (k < f->n_types && f->types[k].type != t->type) k++;
        if (k == (int)(sizeof f->types / sizeof *f->types)) continue;
        if (k == f->n_types) f->types[f->n_types++].type = t->type;
        f->types[k].n++;
        f->types[k].bytes += t->n_bytes;
        f->bytes += t->n_bytes;
    }
}

static void add_line(ls_buf *out, const char *what, ls_str s) {
    ls_buf_fmt(out, "%-13s ", what);
    for (size_t i = 0; i < s.n && i < 200; i++) ls_buf_char(out, (unsigned char)s.p[i] < 0x20 ? '?' : s.p[i]);
    ls_buf_char(out, '\n');
}

ls_code ls_model_describe(const char *path, ls_buf *out, bool json, ls_err *err) {
    ls_gguf *g;
    struct stat st;
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: only GGUF files are described", path);
    const ls_code code = ls_gguf_open(&g, path, err);
    if (code) return code;
    facts f = {0};
    collect(&f, g);
    if (json) {
        ls_jsonw w = {.out = out};
        ls_jw_open(&w, '{');
        ls_jw_key(&w, "architecture"), ls_jw_strn(&w, f.architecture.p, f.architecture.n);
        ls_jw_key(&w, "name"), ls_jw_strn(&w, f.name.p, f.name.n);
        ls_jw_field_int(&w, "context", f.context);
        ls_jw_field_int(&w, "tensors", ls_gguf_n_tensors(g));
        ls_jw_field_u64(&w, "tensor_bytes", f.bytes);
        ls_jw_key(&w, "types");
        ls_jw_open(&w, '{');
        for (int i = 0; i < f.n_types; i++) ls_jw_field_int(&w, ls_ggml_type_name(f.types[i].type), f.types[i].n);
        ls_jw_close(&w, '}');
        ls_jw_close(&w, '}');
    } else {
        add_line(out, "architecture", f.architecture);
        add_line(out, "title", f.name);
        if (f.context) ls_buf_fmt(out, "%-13s %u tokens\n", "context", f.context);
        ls_buf_fmt(out, "%-13s %d, %" PRIu64 " bytes:", "tensors", ls_gguf_n_tensors(g), f.bytes);
        for (int i = 0; i < f.n_types; i++)
            ls_buf_fmt(out, "%s %d of %s", i ? "," : "", f.types[i].n, ls_ggml_type_name(f.types[i].type));
        ls_buf_char(out, '\n');
    }
    ls_gguf_free(g);
    return LS_OK;
}
