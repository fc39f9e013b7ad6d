// gpt-oss in a folder: the matrices of all experts of a layer are one tensor, with rows of gate and up in turn. They
// are MXFP4 ("_blocks" and "_scales", [expert][output][group of inputs]), or floats that lie the other way
// ([expert][input][output], as transformers writes a model whose weights it has converted). Each becomes the tensors of
// a GGUF file: ffn_gate_exps, ffn_up_exps and ffn_down_exps, and their biases.
#include "model/checkpoint_internal.h"

#include <stdio.h>
#include <string.h>

typedef enum { BLOCKS, SCALES, BIAS, FLOATS } form;

// The matrix and the form that the rest of a name ("gate_up_proj_blocks") tells; false: another tensor.
static bool parse(const char *rest, bool *gate_up, form *what) {
    static const char *const endings[] = {[BLOCKS] = "_blocks", [SCALES] = "_scales", [BIAS] = "_bias", [FLOATS] = ""};
    static const char *const matrices[] = {"down_proj", "gate_up_proj"};
    for (int m = 0; m < 2; m++) {
        const size_t n = strlen(matrices[m]);
        for (int i = BLOCKS; i <= FLOATS && !strncmp(rest, matrices[m], n); i++)
            if (!strcmp(rest + n, endings[i])) {
                *gate_up = m;
                *what = (form)i;
                return true;
            }
    }
    return false;
}

static ls_code check(const ls_checkpoint *c, const ls_safetensor *t, form what, uint64_t rows, uint64_t columns,
                     ls_err *err) {
    const char *path = c->files[c->n_files - 1].path;
    const uint64_t want[][4] = {[BLOCKS] = {rows, columns / 32, 16},
                                [SCALES] = {rows, columns / 32},
                                [BIAS] = {rows},
                                [FLOATS] = {columns, rows}};
    bool fits = t->n_dims > 1 && t->n_dims < 5 && t->dim[0] == (uint64_t)c->hparams.n_experts;
    int n = 1;
    for (; n < 4 && want[what][n - 1]; n++) fits &= n < t->n_dims && t->dim[n] == want[what][n - 1];
    if (!fits || n != t->n_dims) {
        char expected[80];
        int at = snprintf(expected, sizeof expected, "%d", c->hparams.n_experts);
        for (int i = 0; i < n - 1; i++)
            at += snprintf(expected + at, sizeof expected - (size_t)at, " x %llu", (unsigned long long)want[what][i]);
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%.80s' has another shape than %s, which config.json states", path,
                       t->name, expected);
    }
    if (what <= SCALES ? strcmp(t->dtype, "U8") != 0 : t->type < 0)
        return ls_fail(err, LS_E_UNSUPPORTED, "%s: tensor '%.80s' has type '%s'; supported: %s", path, t->name,
                       t->dtype, what <= SCALES ? "U8" : "F32, F16, BF16");
    if (what <= SCALES && c->quant.method == LS_QUANT_NONE)
        return ls_fail(err, LS_E_PARSE,
                       "%s: tensor '%.80s' is of quantised weights, but config.json has no quantization_config", path,
                       t->name);
    return LS_OK;
}

ls_code ls_experts_take(ls_checkpoint *c, const ls_safetensor *t, bool *taken, ls_err *err) {
    static const char *const endings[] = {
        [BLOCKS] = "__blocks", [SCALES] = "__scales", [BIAS] = ".bias", [FLOATS] = ".weight"};
    const ls_hparams *h = &c->hparams;
    const char *at = strstr(t->name, ".mlp.experts.");
    char router[300], inp[96];
    bool gate_up;
    form what;
    *taken = false;
    if (!h->arch->fused || !at || !parse(at + strlen(".mlp.experts."), &gate_up, &what)) return LS_OK;
    const int before = (int)(at - t->name);
    const int n = snprintf(router, sizeof router, "%.*s.mlp.router.weight", before, t->name);
    if (n >= (int)sizeof router || !ls_tensor_name(h->arch, router, inp, sizeof inp)) return LS_OK;
    const uint64_t experts = (uint64_t)h->n_experts, step = gate_up ? 2 : 1,
                   n_out = (uint64_t)(gate_up ? h->n_ff_expert : h->n_embd),
                   n_in = (uint64_t)(gate_up ? h->n_embd : h->n_ff_expert);
    ls_code code = check(c, t, what, step * n_out, n_in, err);
    *taken = true;
    for (uint64_t i = 0; i < step && !code; i++) {
        char name[96];
        snprintf(name, sizeof name, "%.*sffn_%s_exps.%s", (int)(strstr(inp, "ffn_") - inp), inp,
                 !gate_up ? "down"
                 : i      ? "up"
                          : "gate",
                 what == BIAS ? "bias" : "weight");
        ls_quantized *q =
            ls_quantized_module(c, name, t->name, (size_t)(strstr(at, "_proj") - t->name) + strlen("_proj"));
        q->experts = experts;
        q->start = i;
        q->step = step;
        const ls_part part = what == SCALES ? LS_PART_SCALE : LS_PART_WEIGHT;
        const uint64_t rows = experts * step * n_out;
        if (what == BLOCKS) code = ls_quantized_part(c, q, part, endings[what], t, rows, n_in / 2, err);
        else if (what == SCALES) code = ls_quantized_part(c, q, part, endings[what], t, rows, n_in / 32, err);
        else {
            q->kind = LS_STRIDED;
            q->type = t->type;
            q->n_in = what == BIAS ? n_out : n_in;
            q->n_out = what == BIAS ? experts : experts * n_out;
            q->column = what == BIAS ? step : step * n_out;
            code = ls_quantized_part(c, q, part, endings[what], t, experts * q->n_in, q->column, err);
        }
    }
    return code;
}
