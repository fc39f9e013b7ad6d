// The quantization_config of a config.json.
#include "model/checkpoint_internal.h"
#include "model/quantized.h"

static bool any_of(const ls_json *v, const char *const *names) {
    for (; *names; names++)
        if (ls_json_is(v, *names)) return true;
    return false;
}

static ls_code not_read(const char *what, const ls_json *v, const char *known, ls_err *err) {
    size_t n = 0;
    const char *text = ls_json_str(v, &n);
    return ls_fail(err, LS_E_UNSUPPORTED,
                   "quantization_config: %s '%.*s' is not supported (supported: %s); " LS_INSTEAD, what,
                   text ? (int)(n < 40 ? n : 40) : 1, text ? text : "?", known);
}

// The bits and the group of integers; a model's groups of modules must agree.
static ls_code read_integers(ls_quant_config *c, const ls_json *of, const char *bits, const char *group, ls_err *err) {
    ls_code code = ls_config_int(of, bits, 1, 64, &c->bits, err);
    return code ? code : ls_config_int(of, group, -1, 1 << 30, &c->group, err);
}

// Outputs and inputs of FP8's scales; without it *c stays.
static ls_code read_block(ls_quant_config *c, const ls_json *block, ls_err *err) {
    if (!block || ls_json_is_null(block)) return LS_OK;
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
        if (!code) code = read_block(&one, ls_json_get(weights, "block_structure"), err);
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
    static const char *const formats[] = {"pack-quantized",
                                          "float-quantized",
                                          "int-quantized",
                                          "naive-quantized",
                                          "nvfp4-pack-quantized",
                                          "mxfp4-pack-quantized",
                                          NULL};
    const ls_json *format = ls_json_get(q, "format"),
                  *sparse = ls_json_get(ls_json_get(q, "sparsity_config"), "format");
    if (!any_of(format, formats))
        return not_read("format", format, "pack-, float-, int-, naive-quantized, nvfp4- and mxfp4-pack-quantized", err);
    if (sparse && !ls_json_is(sparse, "dense")) return not_read("sparsity format", sparse, "dense", err);
    if (ls_json_members(ls_json_get(ls_json_get(q, "transform_config"), "config_groups")))
        return ls_fail(err, LS_E_UNSUPPORTED, "quantization_config: 'transform_config' is not supported; " LS_INSTEAD);
    const ls_json *groups = ls_json_get(q, "config_groups");
    return ls_json_is_object(groups) ? read_groups(c, groups, err)
                                     : ls_fail(err, LS_E_PARSE, "quantization_config has no config_groups");
}

static ls_code read_fp8(ls_quant_config *c, const ls_json *q, ls_err *err) {
    const ls_json *fmt = ls_json_get(q, "fmt");
    if (fmt && !ls_json_is(fmt, "e4m3")) return not_read("fmt", fmt, "e4m3", err);
    return read_block(c, ls_json_get(q, "weight_block_size"), err);
}

ls_code ls_quant_config_read(ls_quant_config *out, const ls_json *config, ls_err *err) {
    const ls_json *q = ls_json_get(config, "quantization_config");
    *out = (ls_quant_config){0};
    if (!q || ls_json_is_null(q)) q = ls_json_get(ls_json_get(config, "text_config"), "quantization_config");
    if (!q || ls_json_is_null(q)) return LS_OK;
    const ls_json *method = ls_json_get(q, "quant_method");
    ls_code code = LS_OK;
    out->method = LS_QUANT_OTHER;
    if (ls_json_is(method, "fp8") || ls_json_is(method, "fbgemm_fp8")) return read_fp8(out, q, err);
    if (ls_json_is(method, "compressed-tensors")) return read_compressed(out, q, err);
    if (ls_json_is(method, "modelopt")) {
        static const char *const algorithms[] = {"FP8", "NVFP4", NULL};
        const ls_json *algorithm = ls_json_get(q, "quant_algo");
        return any_of(algorithm, algorithms) ? LS_OK : not_read("quant_algo", algorithm, "FP8, NVFP4", err);
    }
    if (ls_json_is(method, "mxfp4")) return LS_OK; // gpt-oss
    if (ls_json_is(method, "gptq")) {
        static const char *const formats[] = {"gptq", "gptq_v2", NULL};
        const ls_json *format = ls_json_get(q, "checkpoint_format");
        out->method = LS_QUANT_GPTQ;
        out->zero_minus_one = !ls_json_is(format, "gptq_v2");
        if (format && !any_of(format, formats)) return not_read("checkpoint_format", format, "gptq, gptq_v2", err);
        code = read_integers(out, q, "bits", "group_size", err);
        if (!code && out->bits != 4 && out->bits != 8)
            code = ls_fail(err, LS_E_UNSUPPORTED,
                           "quantization_config: GPTQ with %d bits is not supported (4, 8); " LS_INSTEAD, out->bits);
        return code;
    }
    if (ls_json_is(method, "awq")) {
        static const char *const versions[] = {"gemm", "GEMM", NULL};
        const ls_json *version = ls_json_get(q, "version");
        out->method = LS_QUANT_AWQ;
        if (version && !any_of(version, versions)) return not_read("AWQ version", version, "gemm", err);
        const bool old = ls_json_get(q, "w_bit") != NULL;
        code = read_integers(out, q, old ? "w_bit" : "bits", old ? "q_group_size" : "group_size", err);
        if (!code && out->bits != 4)
            code = ls_fail(err, LS_E_UNSUPPORTED,
                           "quantization_config: AWQ with %d bits is not supported (4); " LS_INSTEAD, out->bits);
        return code;
    }
    return not_read("quant_method", method, "fp8, fbgemm_fp8, gptq, awq, compressed-tensors, modelopt, mxfp4", err);
}
