#include "cli/device_model.h"
#include "engine/device.h"

#include <string.h>

enum { LENGTH = 512 }; // tokens of context in the table

static ls_code card_named(const lsg_card **out, const char *name, ls_err *err) {
    char known[200] = "";
    for (const lsg_card *c = lsg_cards; c->name; c++) {
        if (!strcmp(c->name, name)) {
            *out = c;
            return LS_OK;
        }
        const size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", c->name);
    }
    return ls_fail(err, LS_E_RANGE, "--device-model '%s' is unknown; expected one of %s", name, known);
}

static double sum_us(const lsg_cost *c, int n) {
    double us = 0;
    for (int i = 0; i < n; i++) us += c[i].us;
    return us;
}

static uint64_t kv_bytes(const lsg_shape *s, int32_t context) {
    return sizeof(uint16_t) * (uint64_t)lsg_page_values(s) * (uint64_t)((context + LSG_PAGE - 1) / LSG_PAGE);
}

static void write_json(ls_jsonw *w, const lsg_card *card, const ls_gpu_model *m, int32_t context, const lsg_cost *one,
                       const lsg_cost *tree, int n) {
    ls_jw_open(w, '{');
    ls_jw_field_str(w, "check", "device-model");
    ls_jw_field_str(w, "card", card->spelled);
    ls_jw_field_bool(w, "estimate", true);
    ls_jw_field_u64(w, "weight_bytes", m->weight_bytes);
    ls_jw_field_int(w, "context", context);
    ls_jw_field_u64(w, "session_bytes", lsg_session_bytes(&m->shape, context));
    ls_jw_field_u64(w, "kv_bytes", kv_bytes(&m->shape, context));
    ls_jw_field_int(w, "length", LENGTH);
    ls_jw_field_open(w, "kernels", '[');
    for (int i = 0; i < n; i++) {
        ls_jw_open(w, '{');
        ls_jw_field_str(w, "kernel", one[i].kernel);
        ls_jw_field_int(w, "launches", one[i].launches);
        const lsg_cost *of[] = {&one[i], &tree[i]};
        for (int k = 0; k < 2; k++) {
            ls_jw_field_open(w, k ? "rows_64" : "rows_1", '{');
            ls_jw_field_num(w, "us", of[k]->us, 6);
            ls_jw_field_str(w, "bound", of[k]->bound);
            ls_jw_field_num(w, "bytes", of[k]->bytes, 15);
            ls_jw_field_num(w, "cache_bytes", of[k]->again, 15);
            ls_jw_field_num(w, "sum_bytes", of[k]->sums, 15);
            ls_jw_field_num(w, "instructions", of[k]->instructions, 15);
            ls_jw_field_num(w, "blocks", (double)of[k]->blocks, 15);
            ls_jw_field_num(w, "resident", (double)of[k]->resident, 15);
            ls_jw_close(w, '}');
        }
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
    ls_jw_field_num(w, "us_1", sum_us(one, n), 6);
    ls_jw_field_num(w, "us_64", sum_us(tree, n), 6);
    ls_jw_close(w, '}');
}

ls_code ls_device_model(const char *name, const ls_checkpoint *c, const ls_engine_options *opt, ls_buf *text,
                        ls_jsonw *json, ls_err *err) {
    const lsg_card *card = NULL;
    if (card_named(&card, name, err)) return err->code;
    ls_gpu_model m;
    ls_gpu_model_of(&m, c, opt->weights, card->gpu, NULL);
    lsg_cost one[LSG_KERNELS], tree[LSG_KERNELS];
    const int n = lsg_step_costs(card, &m.shape, m.formats, 1, LENGTH, one);
    lsg_step_costs(card, &m.shape, m.formats, LS_PAPER_ROWS, LENGTH, tree);
    const int32_t context = opt->context ? opt->context : c->hparams.n_context;
    const double us = sum_us(one, n), of_tree = sum_us(tree, n);
    ls_buf_fmt(text,
               "\nEstimate, not measured: a step on one %s after %d tokens, from its nominal %.0f GB/s of memory and "
               "the bytes and instructions of the kernels (src/gpu/cost.c)\n\n",
               card->spelled, LENGTH, card->gb_s);
    ls_buf_fmt(text, "%-22s%9s%12s%14s%12s%14s\n", "kernel", "launches", "1 row, us", "bound by", "64 rows, us",
               "bound by");
    for (int i = 0; i < n; i++)
        ls_buf_fmt(text, "%-22s%9d%12.0f%14s%12.0f%14s\n", one[i].kernel, one[i].launches, one[i].us, one[i].bound,
                   tree[i].us, tree[i].bound);
    ls_buf_fmt(text, "%-22s%9s%12.0f%14s%12.0f   x%.2f\n\n", "total", "", us, "", of_tree, of_tree / us);
    ls_buf_fmt(
        text,
        "plain decoding %.0f tokens/s; weights %.0f MiB, a session %.0f MiB, the KV cache of %d tokens %.0f MiB\n",
        1e6 / us, (double)m.weight_bytes / (1 << 20), (double)lsg_session_bytes(&m.shape, context) / (1 << 20), context,
        (double)kv_bytes(&m.shape, context) / (1 << 20));
    write_json(json, card, &m, context, one, tree, n);
    ls_gpu_model_free(&m);
    return LS_OK;
}

ls_code ls_card_step_ms(const char *name, const ls_checkpoint *c, const ls_shard *own, const lsg_card **which,
                        double ms[2], ls_err *err) {
    if (card_named(which, name, err)) return err->code;
    ls_gpu_model m;
    ls_gpu_model_of(&m, c, "auto", (*which)->gpu, own);
    lsg_cost costs[LSG_KERNELS];
    for (int i = 0; i < 2; i++)
        ms[i] = sum_us(costs, lsg_step_costs(*which, &m.shape, m.formats, i ? LS_PAPER_ROWS : 1, LENGTH, costs)) / 1e3;
    ls_gpu_model_free(&m);
    return LS_OK;
}
