// Model files: GGUF headers and whole checkpoints made of them, config.json, safetensors headers. What parses is looked
// at to its ends.
#include "base/json.h"
#include "model/checkpoint.h"
#include "model/checkpoint_internal.h"
#include "tests/fuzz/input.h"

#include <unistd.h>

enum { DATA = 1 << 20 }; // zeros behind the header: where tensors may lie

static volatile unsigned sum;

static void checkpoint(const uint8_t *data, size_t n) {
    ls_err err;
    ls_checkpoint *c;
    const char *path = fuzz_file(data, n);
    if (truncate(path, (off_t)n + DATA)) abort();
    if (ls_checkpoint_open(&c, path, &err)) return;
    for (int i = 0; i < c->n_tensors; i++) {
        char bytes[4096];
        if (c->tensors[i].n_bytes <= sizeof bytes && ls_checkpoint_read(c, i, 0, c->tensors[i].n_bytes, bytes, &err))
            abort(); // it lies inside
        sum += (unsigned)strlen(c->tensors[i].name);
    }
    sum += (unsigned)ls_checkpoint_parameters(c);
    ls_checkpoint_close(c);
}

static void gguf(const uint8_t *data, size_t n) {
    ls_gguf *g;
    ls_err err;
    bool more;
    ls_hparams h;
    if (ls_gguf_parse(&g, data, n, n + DATA, &more, &err)) return;
    for (int i = 0; i < g->n_tensors; i++) {
        const ls_gguf_tensor *t = &g->tensors[i];
        if (t->offset > n + DATA || t->n_bytes > n + DATA - t->offset) abort();
    }
    if (!ls_hparams_gguf(&h, g, NULL, &err)) sum += (unsigned)h.n_layers;
    ls_gguf_free(g);
}

static void json(const uint8_t *data, size_t n) {
    ls_json *doc;
    ls_err err;
    ls_hparams h;
    ls_safetensors s;
    if (!ls_safetensors_parse(&s, (const char *)data, n, 8 + n + DATA, &err)) {
        for (size_t i = 0; i < s.n; i++)
            if (s.tensors[i].offset + s.tensors[i].n_bytes > 8 + n + DATA) abort();
        ls_safetensors_free(&s);
    }
    if (ls_json_parse(&doc, (const char *)data, n, "config.json", &err)) return;
    if (!ls_hparams_config(&h, doc, &err)) sum += (unsigned)h.n_layers;
    ls_quant_config quant;
    if (!ls_quant_config_read(&quant, doc, &err)) sum += (unsigned)quant.bits;
    ls_json_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n > 4 && !memcmp(data, "GGUF", 4)) {
        gguf(data, n);
        checkpoint(data, n);
    } else json(data, n);
    return 0;
}
