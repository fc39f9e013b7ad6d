#include "base/mem.h"
#include "model/checkpoint_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_tensors(ls_checkpoint *c, const ls_gguf *g, int file) {
    for (int i = 0; i < ls_gguf_n_tensors(g); i++) {
        const ls_gguf_tensor *t = ls_gguf_tensor_at(g, i);
        ls_checkpoint_add(c, (ls_tensor){.name = ls_strndup(t->name.p, t->name.n),
                                         .type = t->type,
                                         .n_in = t->dim[0],
                                         .n_out = t->dim[1] * t->dim[2] * t->dim[3],
                                         .file = file,
                                         .offset = t->offset,
                                         .n_bytes = t->n_bytes});
    }
}

// The offset of the part number in NAME-00002-of-00003.gguf; 0: the name has another form.
static size_t split_number(const char *path) {
    const size_t n = strlen(path), tail = strlen("-00001-of-00001.gguf");
    int end = 0;
    unsigned no, of;
    if (n < tail || sscanf(path + n - tail, "-%5u-of-%5u.gguf%n", &no, &of, &end) != 2 || (size_t)end != tail) return 0;
    return n - tail + 1;
}

static ls_code open_first(ls_checkpoint *c, const char *path, ls_err *err) {
    const ls_code code = ls_checkpoint_add_file(c, path, err);
    return code ? code : ls_gguf_open(&c->gguf, &c->files[0], err);
}

ls_code ls_checkpoint_of_gguf(ls_checkpoint *c, const char *path, bool text, ls_err *err) {
    uint32_t count = 1;
    char *first = ls_strdup(path);
    const size_t at = split_number(path);
    ls_code code = open_first(c, path, err); // an unsplit file may have a part's name
    if (!code && at && ls_gguf_has(c->gguf, "split.count") && memcmp(path + at, "00001", 5) != 0) {
        memcpy(first + at, "00001", 5); // it has the metadata NOLINT(bugprone-not-null-terminated-result): amid a name
        ls_gguf_free(c->gguf);
        c->gguf = NULL;
        ls_file_close(&c->files[--c->n_files]);
        code = open_first(c, first, err);
    }
    const bool opened = !code;
    if (!code && ls_gguf_has(c->gguf, "split.count")) {
        code = ls_gguf_u32(c->gguf, "split.count", &count, err);
        if (!code && (!count || count > 99999 || (count > 1 && !at)))
            code = ls_fail(err, LS_E_PARSE, "this file is one of %u parts, so its name must be NAME-00001-of-%05u.gguf",
                           count, count);
    }
    const bool only_text = !code && count == 1 && !ls_gguf_n_tensors(c->gguf);
    if (only_text && !text) code = ls_fail(err, LS_E_PARSE, "the file has no tensors, so only tokenize can use it");
    if (!code && !only_text) code = ls_hparams_gguf(&c->hparams, c->gguf, err);
    if (code && opened) ls_err_prefix(err, "%s", first);
    for (uint32_t i = 0; i < count && !code; i++) {
        ls_gguf *part = NULL;
        if (i) {
            char number[12];
            snprintf(number, sizeof number, "%05u", i + 1);
            memcpy(first + at, number, 5);
            code = ls_checkpoint_add_file(c, first, err);
            if (!code) code = ls_gguf_open(&part, &c->files[i], err);
        }
        if (!code) add_tensors(c, part ? part : c->gguf, c->n_files - 1);
        ls_gguf_free(part);
    }
    uint32_t tensors = (uint32_t)c->n_tensors;
    if (!code && count > 1 && ls_gguf_has(c->gguf, "split.tensors.count") &&
        !(code = ls_gguf_u32(c->gguf, "split.tensors.count", &tensors, err)) && tensors != (uint32_t)c->n_tensors)
        code = ls_fail(err, LS_E_PARSE, "%s: the parts have %d tensors instead of %u", path, c->n_tensors, tensors);
    free(first);
    return code;
}
