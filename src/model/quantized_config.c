// The quantization_config of a config.json.
#include "model/checkpoint_internal.h"

// LS_E_UNSUPPORTED: v is none of the words, which commas separate. shown: them, for the message; NULL: as they are.
static ls_code one_of(const char *what, const ls_json *v, const char *words, const char *shown, ls_err *err) {
    const ls_str text = ls_json_text(v);
    ls_str word;
    for (const char *rest = words; text.p && (word.p = ls_next_word(&rest, ", ", &word.n));)
        if (ls_str_same(text, word)) return LS_OK;
    return ls_fail(err, LS_E_UNSUPPORTED,
                   "quantization_config: %s '%.*s' is not supported (supported: %s); " LS_INSTEAD, what,
                   text.p ? (int)(text.n < 40 ? text.n : 40) : 1, text.p ? text.p : "?", shown ? shown : words);
}

// The bits and the group of integers; a model's groups of modules must agree.
static ls_code read_integers(ls_quant_config *c, const ls_json *of, const char *bits, const char *group, ls_err *err) {
    ls_code code = ls_config_int(of, bits, 1, 64, &c->bits, err);
    return code ? code : ls_config_int(of, group, -1, 1 << 30, &c->group, err);
}

// Outputs and inputs of FP8's scales; NULL: *c stays.
static ls_code read_block(ls_quant_config *c, const ls_json *block, ls_err *err) {
    if (!block) return LS_OK;
    for (size_t i = 0; i < 2; i++) {
        int64_t size;
        if (ls_json_size(block) != 2 || !ls_json_int(ls_json_at(block, i), &size) || size < 1 || size > 1 << 20)
            return ls_fail(err, LS_E_PARSE, "quantization_config: the block of a scale must be two sizes");
        c->block[i] = (int32_t)size;
    }
    return LS_OK;
}

static ls_code read_groups(ls_quant_config *c, const ls_json *groups, ls_err *err) {
    bool first = true;
    for (ls_json_member m = {0}; ls_json_next(groups, &m); first = false) {
        ls_quant_config one = *c;
        const ls_json *weights = ls_json_get(m.value, "weights");
        ls_code code = read_integers(&one, weights, "num_bits", "group_size", err);
        if (!code) code = read_block(&one, ls_json_given(weights, "block_structure"), err);
        if (code) return code;
        if (!first && (one.bits != c->bits || one.group != c->group))
            return ls_fail(
                err, LS_E_UNSUPPORTED,
                "quantization_config: '%.40s' has other bits or groups than the groups before it; " LS_INSTEAD, m.key);
        *c = one;
    }
    return LS_OK;
}

static ls_code read_compressed(ls_quant_config *c, const ls_json *q, ls_err *err) {
    const ls_json *groups = ls_json_get(q, "config_groups"), *format = ls_json_get(q, "format"),
                  *sparse = ls_json_get(ls_json_get(q, "sparsity_config"), "format");
    ls_code code = one_of("format", format,
                          "pack-quantized, float-quantized, int-quantized, naive-quantized, nvfp4-pack-quantized, "
                          "mxfp4-pack-quantized",
                          "pack-, float-, int-, naive-quantized, nvfp4- and mxfp4-pack-quantized", err);
    if (!code && sparse) code = one_of("sparsity format", sparse, "dense", NULL, err);
    if (code) return code;
    if (ls_json_members(ls_json_get(ls_json_get(q, "transform_config"), "config_groups")))
        return ls_fail(err, LS_E_UNSUPPORTED, "quantization_config: 'transform_config' is not supported; " LS_INSTEAD);
    return ls_json_is_object(groups) ? read_groups(c, groups, err)
                                     : ls_fail(err, LS_E_PARSE, "quantization_config has no config_groups");
}

static ls_code read_fp8(ls_quant_config *c, const ls_json *q, ls_err *err) {
    const ls_json *fmt = ls_json_get(q, "fmt");
    const ls_code code = fmt ? one_of("fmt", fmt, "e4m3", NULL, err) : LS_OK;
    return code ? code : read_block(c, ls_json_given(q, "weight_block_size"), err);
}

static ls_code read_gptq(ls_quant_config *c, const ls_json *q, ls_err *err) {
    const ls_json *format = ls_json_get(q, "checkpoint_format");
    c->method = LS_QUANT_GPTQ;
    c->zero_minus_one = !ls_json_is(format, "gptq_v2");
    ls_code code = format ? one_of("checkpoint_format", format, "gptq, gptq_v2", NULL, err) : LS_OK;
    if (!code) code = read_integers(c, q, "bits", "group_size", err);
    if (!code && c->bits != 4 && c->bits != 8)
        code = ls_fail(err, LS_E_UNSUPPORTED,
                       "quantization_config: GPTQ with %d bits is not supported (4, 8); " LS_INSTEAD, c->bits);
    return code;
}

static ls_code read_awq(ls_quant_config *c, const ls_json *q, ls_err *err) {
    const ls_json *version = ls_json_get(q, "version");
    const bool old = ls_json_get(q, "w_bit") != NULL;
    c->method = LS_QUANT_AWQ;
    ls_code code = version ? one_of("AWQ version", version, "gemm, GEMM", "gemm", err) : LS_OK;
    if (!code) code = read_integers(c, q, old ? "w_bit" : "bits", old ? "q_group_size" : "group_size", err);
    if (!code && c->bits != 4)
        code = ls_fail(err, LS_E_UNSUPPORTED, "quantization_config: AWQ with %d bits is not supported (4); " LS_INSTEAD,
                       c->bits);
    return code;
}

ls_code ls_quant_config_read(ls_quant_config *out, const ls_json *config, ls_err *err) {
    const ls_json *q = ls_json_given(config, "quantization_config");
    *out = (ls_quant_config){0};
    if (!q) q = ls_json_given(ls_json_get(config, "text_config"), "quantization_config");
    if (!q) return LS_OK;
    const ls_json *method = ls_json_get(q, "quant_method");
    const ls_code code =
        one_of("quant_method", method, "fp8, fbgemm_fp8, gptq, awq, compressed-tensors, modelopt, mxfp4", NULL, err);
    if (code) return code;
    out->method = LS_QUANT_OTHER;
    if (ls_json_is(method, "compressed-tensors")) return read_compressed(out, q, err);
    if (ls_json_is(method, "modelopt"))
        return one_of("quant_algo", ls_json_get(q, "quant_algo"), "FP8, NVFP4", NULL, err);
    if (ls_json_is(method, "mxfp4")) return LS_OK; // gpt-oss
    if (ls_json_is(method, "gptq")) return read_gptq(out, q, err);
    return ls_json_is(method, "awq") ? read_awq(out, q, err) : read_fp8(out, q, err);
}
