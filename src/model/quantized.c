#include "model/checkpoint_internal.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the parts of a weight

// Endings of names behind the module; LS_PARTS: of activations and keys and values, which are not quantised here.
static const struct {
    const char *ending;
    ls_part part;
} endings[] = {{".weight_scale_inv", LS_PART_SCALE},
               {".weight_scale", LS_PART_SCALE},
               {".scales", LS_PART_SCALE},
               {".weight_packed", LS_PART_WEIGHT},
               {".qweight", LS_PART_WEIGHT},
               {".weight_zero_point", LS_PART_ZERO},
               {".qzeros", LS_PART_ZERO},
               {".weight_g_idx", LS_PART_ORDER},
               {".g_idx", LS_PART_ORDER},
               {".weight_scale_2", LS_PART_GLOBAL},
               {".weight_global_scale", LS_PART_GLOBAL},
               {".weight_shape", LS_PART_SHAPE},
               {".weight", LS_PART_WEIGHT},
               {".input_scale", LS_PARTS},
               {".input_scale_ub", LS_PARTS},
               {".input_zero_point", LS_PARTS},
               {".input_global_scale", LS_PARTS},
               {".k_scale", LS_PARTS},
               {".v_scale", LS_PARTS}};

ls_quantized *ls_quantized_module(ls_checkpoint *c, const char *name, const char *hf, size_t n) {
    const int32_t known = *ls_map_at(&c->modules, ls_hash_name(name, strlen(name)), c->n_quantized);
    if (known < c->n_quantized && !strcmp(c->quantized[known]->name, name)) return c->quantized[known];
    ls_quantized *q = ls_calloc(1, sizeof *q);
    q->module = ls_strndup(hf, n);
    q->name = ls_strdup(name);
    q->experts = q->step = 1;
    c->quantized = ls_grown(c->quantized, (size_t)c->n_quantized, sizeof *c->quantized);
    return c->quantized[c->n_quantized++] = q;
}

ls_code ls_quantized_part(const ls_checkpoint *c, ls_quantized *q, ls_part part, const char *ending,
                          const ls_safetensor *t, uint64_t rows, uint64_t columns, ls_err *err) {
    if (q->part[part].ending)
        return ls_fail(err, LS_E_PARSE, "%s: '%.80s' has both '%s' and '%s'", c->files[c->n_files - 1].path, q->module,
                       q->part[part].ending + 1, ending + 1);
    q->part[part] = (ls_quantized_tensor){ending,          "",        c->n_files - 1, t->n_dims > 2 ? 2 : t->n_dims,
                                          {rows, columns}, t->offset, t->n_bytes};
    memcpy(q->part[part].dtype, t->dtype, sizeof t->dtype);
    return LS_OK;
}

ls_code ls_quantized_take(ls_checkpoint *c, const ls_safetensor *t, bool *taken, ls_err *err) {
    const size_t n_endings = sizeof endings / sizeof *endings;
    size_t i = 0;
    *taken = false;
    while (i < n_endings && !ls_ends_with(t->name, endings[i].ending)) i++;
    if (i == n_endings) return LS_OK;
    const char *ending = endings[i].ending;
    const size_t n = strlen(t->name) - strlen(ending); // of the module's name
    if (!strcmp(ending, ".weight") && (t->type >= 0 || c->quant.method == LS_QUANT_NONE)) return LS_OK;
    char name[96], weight[300];
    const bool known = snprintf(weight, sizeof weight, "%.*s.weight", (int)n, t->name) < (int)sizeof weight &&
                       ls_tensor_name(c->hparams.arch, weight, name, sizeof name);
    const char *path = c->files[c->n_files - 1].path;
    if (endings[i].part == LS_PARTS) *taken = c->quant.method != LS_QUANT_NONE;
    if (!known || *taken) return LS_OK; // a name that is not known is refused as any other
    *taken = true;
    if (c->quant.method == LS_QUANT_NONE)
        return ls_fail(err, LS_E_PARSE,
                       "%s: tensor '%.80s' is of quantised weights, but config.json has no quantization_config", path,
                       t->name);
    if (!*name || (c->hparams.tied && !strcmp(name, "output.weight"))) return LS_OK;
    if (t->n_dims > 2)
        return ls_fail(err, LS_E_PARSE, "%s: tensor '%.80s' has %d dimensions", path, t->name, t->n_dims);
    ls_quantized *q = ls_quantized_module(c, name, t->name, n);
    q->divides |= !strcmp(ending, ".weight_global_scale");
    return ls_quantized_part(c, q, endings[i].part, ending, t, t->n_dims ? t->dim[0] : 1, t->n_dims > 1 ? t->dim[1] : 1,
                             err);
}

bool ls_quantized_take_gguf(ls_checkpoint *c, const ls_gguf_tensor *t) {
    static const struct {
        const char *ending;
        ls_part part;
    } parts[] = {{".weight", LS_PART_WEIGHT}, {".scale", LS_PART_GLOBAL}, {".input_scale", LS_PARTS}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const size_t of_ending = strlen(parts[i].ending);
        const ls_part part = parts[i].part;
        if (t->name.n <= of_ending || memcmp(t->name.p + t->name.n - of_ending, parts[i].ending, of_ending)) continue;
        if (part == LS_PARTS) return true;
        if (part == LS_PART_WEIGHT && t->type != LS_GGML_NVFP4) return false;
        char *name = ls_format("%.*s.weight", (int)(t->name.n - of_ending), t->name.p);
        ls_quantized *q = ls_quantized_module(c, name, name, t->name.n - of_ending);
        free(name);
        if (q->part[part].ending) return false; // a name that occurs twice is refused as any other
        const uint64_t experts = t->dim[2] * t->dim[3];
        const bool weight = part == LS_PART_WEIGHT;
        ls_safetensor as = {.n_dims = 2, .offset = t->offset, .n_bytes = t->n_bytes};
        snprintf(as.dtype, sizeof as.dtype, "%s", ls_ggml_type_name(t->type));
        q->kind = LS_NVFP4_BLOCKS;
        if (weight) q->experts = experts;
        return !ls_quantized_part(c, q, part, parts[i].ending, &as, weight ? t->dim[1] * experts : t->dim[0],
                                  weight ? t->dim[0] : t->dim[1] * experts, NULL);
    }
    return false;
}

// ---- checks

typedef struct {
    const ls_checkpoint *c;
    ls_quantized *q;
    ls_err *err;
} checking;

#define REFUSE(k, code, ...) refuse(k, code, ls_format(__VA_ARGS__))
static ls_code refuse(checking *k, ls_code code, char *why) { // owns why
    int file = 0;
    for (int i = LS_PARTS; i-- > 0;)
        if (k->q->part[i].ending) file = k->q->part[i].file;
    ls_fail(k->err, code, "%s: '%.80s': %s", k->c->files[file].path, k->q->module, why);
    free(why);
    return code;
}

static bool is(const checking *k, ls_part part, const char *dtypes) { // a list with blanks around each
    char one[16];
    snprintf(one, sizeof one, " %s ", k->q->part[part].dtype);
    return strstr(dtypes, one) != NULL;
}

// A part that must have this type, if there is one, and this shape.
static ls_code must(checking *k, ls_part part, const char *dtypes, uint64_t rows, uint64_t columns) {
    const ls_quantized *q = k->q;
    const char *ending = q->part[part].ending;
    if (!is(k, part, dtypes))
        return REFUSE(k, LS_E_UNSUPPORTED, "'%s' has type '%s', not one of%s", ending + 1, q->part[part].dtype, dtypes);
    if (q->part[part].dim[0] != rows || q->part[part].dim[1] != columns)
        return REFUSE(k, LS_E_PARSE, "'%s' is %llu x %llu, expected %llu x %llu", ending + 1,
                      (unsigned long long)q->part[part].dim[0], (unsigned long long)q->part[part].dim[1],
                      (unsigned long long)rows, (unsigned long long)columns);
    return LS_OK;
}

static ls_code read_part(checking *k, ls_part part, unsigned char **out) {
    const ls_quantized *q = k->q;
    *out = ls_malloc(q->part[part].n_bytes + 1);
    const ls_code code =
        ls_file_read(&k->c->files[q->part[part].file], q->part[part].offset, *out, q->part[part].n_bytes, k->err);
    if (code) free(*out);
    return code;
}

static ls_code check_shape(checking *k) { // compressed-tensors states the shape that it packed
    const ls_quantized *q = k->q;
    unsigned char *raw;
    if (!q->part[LS_PART_SHAPE].ending) return LS_OK;
    ls_code code = must(k, LS_PART_SHAPE, " I64 I32 ", 2, 1);
    if (code || (code = read_part(k, LS_PART_SHAPE, &raw))) return code;
    int64_t shape[2] = {0};
    const size_t size = q->part[LS_PART_SHAPE].n_bytes / 2;
    for (size_t i = 0; i < 2; i++) memcpy(&shape[i], raw + i * size, size);
    free(raw);
    if ((uint64_t)shape[0] != q->n_out || (uint64_t)shape[1] != q->n_in)
        return REFUSE(k, LS_E_PARSE, "'weight_shape' says %lld x %lld, but 'weight_packed' has %llu x %llu",
                      (long long)shape[0], (long long)shape[1], (unsigned long long)q->n_out,
                      (unsigned long long)q->n_in);
    return LS_OK;
}

// The inputs group by group. NULL: groups have several sizes. raw: the group of each input.
static int32_t *sorted_inputs(const ls_quantized *q, const unsigned char *raw) {
    uint64_t *at = ls_calloc(q->groups, sizeof *at); // of the group's next input
    int32_t *order = ls_malloc(q->n_in * sizeof *order);
    bool even = true;
    for (uint64_t i = 0; i < q->n_in; i++) {
        int32_t group;
        memcpy(&group, raw + 4 * i, 4);
        if (at[group] < q->group) order[(uint64_t)group * q->group + at[group]++] = (int32_t)i;
        else even = false;
    }
    free(at);
    if (even) return order;
    free(order);
    return NULL;
}

// The groups of the inputs: in turn, or in the order of the part.
static ls_code check_order(checking *k) {
    ls_quantized *q = k->q;
    unsigned char *raw;
    if (!q->part[LS_PART_ORDER].ending) return LS_OK;
    bool ordered = false;
    ls_code code = must(k, LS_PART_ORDER, " I32 ", q->n_in, 1);
    if (code || (code = read_part(k, LS_PART_ORDER, &raw))) return code;
    for (uint64_t i = 0; i < q->n_in && !code; i++) {
        int32_t group;
        memcpy(&group, raw + 4 * i, 4);
        if (group < 0 || (uint64_t)group >= q->groups)
            code =
                REFUSE(k, LS_E_RANGE, "'%s' says that input %llu is in group %d of %llu",
                       q->part[LS_PART_ORDER].ending + 1, (unsigned long long)i, group, (unsigned long long)q->groups);
        ordered |= (uint64_t)group != i / q->group;
    }
    if (!code && ordered) q->order = sorted_inputs(q, raw);
    free(raw);
    q->ordered = ordered;
    return code;
}

// The type whose blocks have the same integers: Q4_0 has q - 8, Q5_0 any q - zero of 4 bits, Q8_0 q - 128.
static ls_code choose_type(checking *k) {
    ls_quantized *q = k->q;
    bool symmetric = true;
    if (q->part[LS_PART_ZERO].ending) {
        unsigned char *zeros;
        ls_code code = read_part(k, LS_PART_ZERO, &zeros);
        if (code) return code;
        for (uint64_t g = 0; g < q->groups && symmetric; g++)
            for (uint64_t row = 0; row < q->n_out && symmetric; row++)
                symmetric = ls_quantized_zero(q, zeros, g, row) == 1 << (q->bits - 1);
        free(zeros);
    }
    if (q->bits == 8 && !symmetric)
        return REFUSE(k, LS_E_UNSUPPORTED,
                      "weights of 8 bits with zero points other than 128 are not supported; " LS_INSTEAD);
    q->type = q->bits == 8 ? LS_GGML_Q8_0 : symmetric ? LS_GGML_Q4_0 : LS_GGML_Q5_0;
    return LS_OK;
}

static ls_code integers(checking *k, uint64_t rows, uint64_t columns, uint64_t groups) {
    static const char *const floats = " F16 BF16 F32 ";
    ls_quantized *q = k->q;
    const bool along_outputs = q->kind == LS_GPTQ || q->kind == LS_AWQ; // scales and zero points: [groups, n_out]
    const uint64_t per = 32 / (uint64_t)q->bits;
    const int32_t group = k->c->quant.group;
    ls_code code = must(k, LS_PART_WEIGHT, " I32 ", rows, columns);
    if (code) return code;
    q->groups = groups;
    q->group = q->n_in / groups;
    q->scale_rows = 1;
    if (q->n_in % groups || q->group % 32 || (group > 0 && q->group != (uint64_t)group) || (group < 0 && groups != 1))
        return REFUSE(k, LS_E_PARSE,
                      "%llu scales for %llu inputs do not fit groups of %d inputs (0: not stated), which must be a "
                      "multiple of 32",
                      (unsigned long long)groups, (unsigned long long)q->n_in, group);
    if ((code = must(k, LS_PART_SCALE, floats, along_outputs ? groups : q->n_out, along_outputs ? q->n_out : groups)))
        return code;
    if (along_outputs && !q->part[LS_PART_ZERO].ending) return REFUSE(k, LS_E_PARSE, "'qzeros' is missing");
    if (q->part[LS_PART_ZERO].ending) {
        if (along_outputs && q->n_out % per)
            return REFUSE(k, LS_E_PARSE, "%llu outputs are not whole words of zero points",
                          (unsigned long long)q->n_out);
        code = along_outputs ? must(k, LS_PART_ZERO, " I32 ", groups, q->n_out / per)
                             : must(k, LS_PART_ZERO, " I32 ", (q->n_out + per - 1) / per, groups);
    }
    if (!code) code = check_shape(k);
    if (!code) code = check_order(k);
    return code ? code : choose_type(k);
}

// One scale for all outputs, one for each, or one for a block.
static ls_code rows_of_bytes(checking *k, int type, const char *dtype) {
    ls_quantized *q = k->q;
    const int32_t *block = k->c->quant.block;
    const uint64_t n = q->part[LS_PART_SCALE].dim[0] * q->part[LS_PART_SCALE].dim[1];
    ls_code code = must(k, LS_PART_WEIGHT, dtype, q->n_out, q->n_in);
    q->type = type;
    q->group = q->n_in;
    q->scale_rows = n == 1 ? q->n_out : 1;
    if (block[0] && n != 1) q->scale_rows = (uint64_t)block[0], q->group = (uint64_t)block[1];
    q->groups = (q->n_in + q->group - 1) / q->group;
    if (!code)
        code = must(k, LS_PART_SCALE, " F32 BF16 F16 ", (q->n_out + q->scale_rows - 1) / q->scale_rows, q->groups);
    if (!code && type == LS_GGML_Q8_0 && q->group < q->n_in && q->group % 32)
        code = REFUSE(k, LS_E_UNSUPPORTED, "blocks of %llu inputs are not supported (multiples of 32); " LS_INSTEAD,
                      (unsigned long long)q->group);
    return code;
}

// Parts that the kind of weight does not have; what is read of the others relies on this.
static ls_code no_other_parts(checking *k) {
    ls_quantized *q = k->q;
    const bool integers = q->kind == LS_GPTQ || q->kind == LS_AWQ || q->kind == LS_PACKED;
    const struct {
        ls_part part;
        bool read;
    } parts[] = {{LS_PART_ZERO, integers}, {LS_PART_GLOBAL, q->kind == LS_NVFP4}, {LS_PART_ORDER, integers}};
    if (!integers) q->bits = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (q->part[parts[i].part].ending && !parts[i].read)
            return REFUSE(k, LS_E_UNSUPPORTED, "'%s' of weights of this format is not supported; " LS_INSTEAD,
                          q->part[parts[i].part].ending + 1);
    return LS_OK;
}

static ls_code fours(checking *k) { // E2M1
    ls_quantized *q = k->q;
    const bool mx = q->kind == LS_MXFP4;
    q->group = mx ? 32 : 16;
    q->groups = q->n_in / q->group;
    q->scale_rows = 1;
    q->type = mx ? LS_GGML_MXFP4 : LS_GGML_NVFP4;
    ls_code code = must(k, LS_PART_WEIGHT, " U8 ", q->n_out, q->n_in / 2);
    if (!code) code = must(k, LS_PART_SCALE, mx ? " U8 " : " F8_E4M3 ", q->n_out, q->groups);
    if (code || mx) return code;
    if (!q->part[LS_PART_GLOBAL].ending)
        return REFUSE(k, LS_E_PARSE,
                      "the scale of the whole weight ('weight_scale_2' or 'weight_global_scale') is missing");
    return must(k, LS_PART_GLOBAL, " F32 ", 1, 1);
}

// NVFP4 of a GGUF file: blocks, and beside them a scale for the matrix, or one for each expert's.
static ls_code gguf_blocks(checking *k) {
    ls_quantized *q = k->q;
    const bool scaled = q->part[LS_PART_GLOBAL].ending != NULL;
    if (!q->part[LS_PART_WEIGHT].ending)
        return REFUSE(k, LS_E_UNSUPPORTED,
                      "'scale' of weights of another type than NVFP4 is not supported; " LS_INSTEAD);
    q->type = LS_GGML_NVFP4;
    q->n_out = q->part[LS_PART_WEIGHT].dim[0], q->n_in = q->part[LS_PART_WEIGHT].dim[1];
    q->group = 16;
    q->groups = q->n_in / q->group;
    q->scale_rows = 1;
    if (scaled && q->part[LS_PART_GLOBAL].dim[0] == 1) q->experts = 1;
    return scaled ? must(k, LS_PART_GLOBAL, " F32 ", q->experts, 1) : LS_OK;
}

static ls_code check(checking *k) {
    ls_quantized *q = k->q;
    if (q->kind == LS_NVFP4_BLOCKS) return gguf_blocks(k);
    const char *weight = q->part[LS_PART_WEIGHT].ending, *scale = q->part[LS_PART_SCALE].ending;
    if (!weight) return REFUSE(k, LS_E_PARSE, "the weight is missing; other parts of it are there");
    if (q->kind == LS_STRIDED)
        return scale ? REFUSE(k, LS_E_PARSE, "'%s' belong to quantised weights, but '%s' has %s", scale + 1, weight + 1,
                              q->part[LS_PART_WEIGHT].dtype)
                     : LS_OK;
    if (!scale) return REFUSE(k, LS_E_PARSE, "the scales are missing");
    const uint64_t a = q->part[LS_PART_WEIGHT].dim[0], b = q->part[LS_PART_WEIGHT].dim[1];
    const uint64_t *scales = q->part[LS_PART_SCALE].dim;
    const ls_quant_config *config = &k->c->quant;
    q->bits = config->bits;
    q->n_out = a, q->n_in = b;
    if (q->part[LS_PART_WEIGHT].n_dims != 2) return REFUSE(k, LS_E_PARSE, "'%s' is no matrix", weight + 1);
    ls_code code;
    if (!strcmp(weight, ".qweight")) {
        if (config->method != LS_QUANT_GPTQ && config->method != LS_QUANT_AWQ)
            return REFUSE(k, LS_E_PARSE, "'qweight' needs the quant_method 'gptq' or 'awq'");
        q->zero_minus_one = config->zero_minus_one;
        q->kind = config->method == LS_QUANT_AWQ ? LS_AWQ : LS_GPTQ;
        if (q->kind == LS_AWQ) q->n_in = a, q->n_out = 8 * b;
        else q->n_in = a * (uint64_t)(32 / q->bits), q->n_out = b;
        code = integers(k, a, b, scales[0]);
    } else if (!strcmp(weight, ".weight_packed") && is(k, LS_PART_WEIGHT, " I32 ")) {
        q->kind = LS_PACKED;
        if (q->bits != 4 && q->bits != 8)
            return REFUSE(k, LS_E_UNSUPPORTED, "packed integers of %d bits are not supported (4, 8); " LS_INSTEAD,
                          q->bits);
        q->n_in = b * (uint64_t)(32 / q->bits);
        code = integers(k, a, b, scales[1]);
    } else if (is(k, LS_PART_WEIGHT, " U8 ")) {
        q->kind = is(k, LS_PART_SCALE, " U8 ") ? LS_MXFP4 : LS_NVFP4;
        q->n_in = 2 * b;
        code = fours(k);
    } else if (is(k, LS_PART_WEIGHT, " I8 ")) {
        q->kind = LS_INT8;
        code = rows_of_bytes(k, LS_GGML_Q8_0, " I8 ");
    } else {
        q->kind = LS_FP8;
        code = rows_of_bytes(k, LS_GGML_BF16, " F8_E4M3 ");
    }
    if (!code) code = no_other_parts(k);
    const unsigned whole = q->type == LS_GGML_NVFP4 ? 64 : 32;
    if (!code && q->n_in % whole)
        code = REFUSE(k, LS_E_UNSUPPORTED, "%llu inputs are not a multiple of %u; " LS_INSTEAD,
                      (unsigned long long)q->n_in, whole);
    return code;
}

// Whether the matrix with that name, if there is one, has the same order of its inputs.
static bool shares_order(const ls_checkpoint *c, const char *name, const ls_quantized *with) {
    if (ls_checkpoint_find(c, name)) return false; // not quantised
    for (int i = 0; i < c->n_quantized; i++) {
        const ls_quantized *q = c->quantized[i];
        if (strcmp(q->name, name)) continue;
        return q->order && q->n_in == with->n_in && !memcmp(q->order, with->order, q->n_in * sizeof *q->order);
    }
    return true;
}

// Only attention's matrices and those of a dense feed-forward part can have their inputs in another order, and those
// of one input in the same.
static bool keeps_order(const ls_checkpoint *c, const ls_quantized *q) {
    static const char *const of_input[][3] = {
        {"attn_q", "attn_k", "attn_v"}, {"ffn_gate", "ffn_up"}, {"attn_qkv"}, {"attn_output"}, {"ffn_down"}};
    char part[32], name[64];
    int layer, end = 0;
    if (sscanf(q->name, "blk.%d.%31[^.].weight%n", &layer, part, &end) != 2 || !end || q->name[end]) return false;
    for (size_t i = 0; i < sizeof of_input / sizeof *of_input; i++) {
        bool among = false, shared = true;
        for (size_t k = 0; k < 3 && of_input[i][k]; k++) {
            snprintf(name, sizeof name, "blk.%d.%s.weight", layer, of_input[i][k]);
            among |= !strcmp(part, of_input[i][k]);
            shared &= shares_order(c, name, q);
        }
        if (among) return shared;
    }
    return false;
}

// Weights whose order cannot be kept are rounded to bf16, which needs no groups.
static void settle_orders(ls_checkpoint *c) {
    bool *keep = ls_calloc((size_t)c->n_quantized + 1, sizeof *keep);
    for (int i = 0; i < c->n_quantized; i++) keep[i] = c->quantized[i]->order && keeps_order(c, c->quantized[i]);
    for (int i = 0; i < c->n_quantized; i++) {
        ls_quantized *q = c->quantized[i];
        if (!q->ordered || keep[i]) continue;
        free(q->order);
        q->order = NULL;
        q->type = LS_GGML_BF16;
    }
    free(keep);
}

ls_code ls_quantized_complete(ls_checkpoint *c, ls_err *err) {
    ls_code code = LS_OK;
    if (c->n_quantized) c->quantized_memory = ls_quantized_memory_new();
    for (int i = 0; i < c->n_quantized && !code; i++) {
        checking k = {c, c->quantized[i], err};
        code = check(&k);
    }
    if (!code) settle_orders(c);
    for (int i = 0; i < c->n_quantized && !code; i++) {
        ls_quantized *q = c->quantized[i];
        if (q->kind != LS_STRIDED) q->n_out /= q->step; // the other rows are another weight's
        const ls_tensor as = {.name = ls_strdup(q->name),
                              .type = q->type,
                              .n_in = q->n_in,
                              .n_out = q->n_out,
                              .file = q->part[LS_PART_WEIGHT].file,
                              .offset = q->part[LS_PART_WEIGHT].offset,
                              .n_bytes = ls_row_bytes(q->type, q->n_in) * q->n_out,
                              .order = q->order,
                              .quantized = q};
        code = ls_checkpoint_add(c, as, err);
    }
    return code;
}

void ls_quantized_free(ls_checkpoint *c) {
    for (int i = 0; i < c->n_quantized; i++) {
        free(c->quantized[i]->module);
        free(c->quantized[i]->name);
        free(c->quantized[i]->order);
        free(c->quantized[i]);
    }
    free(c->quantized);
    ls_quantized_memory_free(c->quantized_memory);
}

// ---- what is said of it

#define FULL "bits of weights beyond bf16's 8"
#define SCALES "bits of scales beyond f16's 11, more of scales below 0.00006"
const ls_quant_format ls_quant_formats[] = {
    {"FP8 (E4M3) with scales for blocks, outputs or all", "fp8, fbgemm_fp8, compressed-tensors, modelopt", LS_GGML_BF16,
     FULL},
    {"GPTQ, 4 bits, symmetric", "gptq, gptq_v2, also with desc_act", LS_GGML_Q4_0, ""},
    {"GPTQ, 4 bits, zero points", "gptq, gptq_v2, also with desc_act", LS_GGML_Q5_0, ""},
    {"GPTQ, 8 bits, symmetric", "gptq, gptq_v2, also with desc_act", LS_GGML_Q8_0, ""},
    {"AWQ, 4 bits, symmetric", "awq (gemm)", LS_GGML_Q4_0, ""},
    {"AWQ, 4 bits, zero points", "awq (gemm)", LS_GGML_Q5_0, ""},
    {"packed integers, 4 bits, symmetric", "compressed-tensors", LS_GGML_Q4_0, SCALES},
    {"packed integers, 4 bits, zero points", "compressed-tensors", LS_GGML_Q5_0, SCALES},
    {"packed integers, 8 bits, symmetric", "compressed-tensors", LS_GGML_Q8_0, SCALES},
    {"integers with an order of groups that matrices of one input do not share, or of experts",
     "gptq, gptq_v2, compressed-tensors", LS_GGML_BF16, FULL},
    {"8-bit integers", "compressed-tensors", LS_GGML_Q8_0, SCALES},
    {"NVFP4, multiplied by its scale", "modelopt", LS_GGML_NVFP4, ""},
    {"NVFP4, divided by its scale", "compressed-tensors", LS_GGML_NVFP4, "the last bit of an f32 scale"},
    {"MXFP4", "compressed-tensors, mxfp4", LS_GGML_MXFP4, ""},
    {0}};

static void describe(const ls_quantized *q, ls_buf *out) {
    static const char *const names[] = {[LS_FP8] = "FP8 (E4M3)", [LS_INT8] = "8-bit integers",    [LS_GPTQ] = "GPTQ",
                                        [LS_AWQ] = "AWQ",        [LS_PACKED] = "packed integers", [LS_NVFP4] = "NVFP4",
                                        [LS_MXFP4] = "MXFP4",    [LS_NVFP4_BLOCKS] = "NVFP4"};
    ls_buf_str(out, names[q->kind]);
    if (q->kind == LS_GPTQ || q->kind == LS_AWQ || q->kind == LS_PACKED) ls_buf_fmt(out, " of %d bits", q->bits);
    if (q->scale_rows > 1 && q->scale_rows < q->n_out)
        ls_buf_fmt(out, ", a scale for %llu x %llu weights", (unsigned long long)q->scale_rows,
                   (unsigned long long)q->group);
    else if (q->group < q->n_in) ls_buf_fmt(out, ", a scale for %llu inputs", (unsigned long long)q->group);
    else ls_buf_str(out, q->scale_rows > 1 ? ", one scale a matrix" : ", a scale for each output");
    if (q->ordered) ls_buf_str(out, ", whose groups are in the order of 'g_idx'");
    ls_buf_fmt(out, ": kept as %s, ", ls_ggml_type_name(q->type));
    if (q->type == LS_GGML_BF16) ls_buf_str(out, "rounded (each weight by at most 0.2%)");
    else if (q->divides) ls_buf_str(out, "with the same integers; scales are rounded to f32");
    else if (q->type == LS_GGML_MXFP4 || q->type == LS_GGML_NVFP4 || !strcmp(q->part[LS_PART_SCALE].dtype, "F16"))
        ls_buf_str(out, "without loss");
    else ls_buf_str(out, "with the same integers; scales are rounded to f16");
}

void ls_quantized_differs(const ls_checkpoint *c, ls_buf *out) {
    for (int i = 0; i < c->n_quantized; i++) {
        ls_buf one = {0};
        if (c->quantized[i]->kind == LS_STRIDED) continue;
        describe(c->quantized[i], &one);
        const bool said = out->n && strstr(out->p, one.p);
        if (!said) ls_buf_fmt(out, "%s%s", out->n ? "; " : "", one.p);
        ls_buf_free(&one);
    }
}
