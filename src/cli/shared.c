#include "cli/shared.h"
#include "base/split.h"
#include "engine/ranks.h"

#include <math.h>
#include <string.h>

// Assumed latency of an exchange (us) and bandwidth of a link, for a rough estimate (`doctor --devices` measures them).
// If ranks are on GPUs, rows are copied to the host before each exchange and back to the device after it: HOST_US per
// exchange, at PCIE_GB_PER_S.
typedef struct {
    const char *name;
    double us, gb_per_s;
    bool gpus, unused; // gpus: directly between GPUs; unused: not supported by this program
} link;
static const link links[] = {
    {"one machine", 3, 3, false, false}, {"100 Gbit/s", 25, 12.5, false, false}, {"NVLink", 8, 450, true, true}};
static const double HOST_US = 15, PCIE_GB_PER_S = 20;
enum { LINKS = sizeof links / sizeof *links };

static double ms_of(const ls_shared *s, const link *l, int32_t rows) {
    const double bytes = rows * s->bytes_of_row;
    double us = s->rounds * l->us + bytes / l->gb_per_s / 1e3;
    if (s->on_gpus && !l->gpus) us += s->rounds * HOST_US + bytes / PCIE_GB_PER_S / 1e3;
    return us / 1e3;
}

static double share_of(ls_range part, int32_t whole) {
    return (double)ls_range_size(part) / whole;
}

// The share of a tensor that a rank holds, 0 to 1.
static double part_of(const ls_tensor *t, const ls_hparams *h, const ls_shard *p) {
    const char *name = t->name;
    if (t->n_out == 1) return 1;
    if (!strncmp(name, "token_embd", 10) || !strncmp(name, "output.", 7)) return share_of(p->vocab, h->n_vocab);
    if (strstr(name, "attn_qkv"))
        return (double)(ls_range_size(p->heads) + 2 * ls_range_size(p->kv_heads)) / (h->n_heads + 2 * h->n_kv_heads);
    if (strstr(name, "attn_q")) return share_of(p->heads, h->n_heads);
    if (strstr(name, "attn_k") || strstr(name, "attn_v")) return share_of(p->kv_heads, h->n_kv_heads);
    if (strstr(name, "ffn_gate") || strstr(name, "ffn_up")) return share_of(p->ff, h->n_ff);
    return share_of(p->embd, h->n_embd);
}

static uint64_t weights_of(const ls_checkpoint *c, const ls_shard *p) {
    const ls_hparams *h = &c->hparams;
    double weights = 0;
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const ls_ggml_layout *l = ls_ggml_layout_of(t->n_out > 1 ? t->type : LS_GGML_F32);
        weights += (double)(t->n_in * t->n_out) * l->kept / 32 * part_of(t, h, p);
        // a tied embedding is kept twice: as the output head, and in the type of the file
        if (h->tied && !strncmp(t->name, "token_embd", 10)) weights += (double)t->n_bytes * part_of(t, h, p);
    }
    return (uint64_t)weights;
}

ls_code ls_share_out(ls_shared *out, const ls_checkpoint *c, const char *devices, const char *card, ls_err *err) {
    const ls_hparams *h = &c->hparams;
    *out = (ls_shared){0};
    ls_devices d;
    const ls_code code = ls_devices_read(&d, devices, NULL, err);
    const bool a_number = devices && !devices[strspn(devices, "0123456789")];
    const int32_t most = ls_most_ranks(h->n_heads, h->n_ff, h->n_embd, h->n_vocab);
    if (code) return code;
    if (card && d.n < 2)
        return ls_fail(err, LS_E_USAGE,
                       "--device-model needs --devices with several ranks here; for one GPU, use 'logitspec doctor "
                       "--device-model %s'",
                       card);
    if (d.n < 2) return LS_OK;
    if (d.n > most)
        return ls_fail(err, LS_E_RANGE, "%d ranks are too many for this model with %d attention heads: use at most %d",
                       d.n, h->n_heads, most);
    if (card && d.gpu[0] < 0 && !a_number)
        return ls_fail(err, LS_E_USAGE, "--device-model %s is a GPU, but --devices %.60s names CPUs", card, devices);
    out->n = d.n;
    out->on_gpus = card || d.gpu[0] >= 0;
    for (int32_t rank = 0; rank < d.n; rank++) {
        const ls_shard p = ls_rank_holds(h, rank, d.n, out->on_gpus);
        const uint64_t weights = weights_of(c, &p),
                       token = ls_hparams_kv_bytes(h, out->on_gpus ? sizeof(uint16_t) : sizeof(float)) /
                               (uint64_t)h->n_kv_heads * (uint64_t)ls_range_size(p.kv_heads);
        if (token > out->token) out->token = token;
        if (weights <= out->weights) continue;
        out->weights = weights;
        const ls_code found = card ? ls_card_step_ms(card, c, &p, &out->card, out->compute_ms, err) : LS_OK;
        if (found) return found;
    }
    const double others = d.n - 1, all = d.n, values = out->on_gpus ? 2 : 4; // bytes of a matmul's input value
    out->rounds = 4 * h->n_layers + 5;
    out->bytes_of_row = (double)h->n_layers *
                            (4.0 * 2 * h->n_embd + values * (h->n_ff + (double)h->n_heads * h->head_dim)) * others /
                            all +
                        4.0 * h->n_embd * others;
    return LS_OK;
}

void ls_bytes_text(ls_buf *out, double bytes) {
    if (bytes >= 1e9) ls_buf_fmt(out, "%.2f GB", bytes / 1e9);
    else ls_buf_fmt(out, "%.0f MB", ceil(bytes / 1e6));
}

void ls_shared_text(const ls_shared *s, ls_buf *out) {
    if (s->n < 2) return;
    ls_buf_fmt(out, "\nshared by %-3d ", s->n);
    ls_bytes_text(out, (double)s->weights);
    ls_buf_fmt(out, " of weights (as in the file) and at most %.0f KB per token on the largest rank\n",
               (double)s->token / 1e3);
    ls_buf_fmt(out, "exchanges     %d per step, one after the other; ", s->rounds);
    ls_bytes_text(out, s->bytes_of_row * LS_PAPER_ROWS);
    ls_buf_fmt(out, " to each rank for %d rows\nestimate      ", LS_PAPER_ROWS);
    if (s->card)
        ls_buf_fmt(out, "computing on %d of %s: %.2f to %.2f ms for 1 to %d rows; with exchanges\n              ", s->n,
                   s->card->spelled, s->compute_ms[0], s->compute_ms[1], LS_PAPER_ROWS);
    else ls_buf_fmt(out, "exchanges of 1 to %d rows: ", LS_PAPER_ROWS);
    for (int i = 0; i < LINKS; i++) {
        if (links[i].gpus && !s->on_gpus) continue;
        ls_buf_fmt(out, "%s%s%s %.2f to %.2f ms", i ? ", " : "", links[i].unused ? "by " : "", links[i].name,
                   s->compute_ms[0] + ms_of(s, &links[i], 1), s->compute_ms[1] + ms_of(s, &links[i], LS_PAPER_ROWS));
        if (links[i].unused) ls_buf_str(out, " (not used: GPUs exchange through their hosts)");
    }
    ls_buf_str(out, "\n              latencies and bandwidths are assumed; 'doctor --devices' measures them");
}

void ls_shared_json(const ls_shared *s, ls_jsonw *w) {
    if (s->n < 2) return;
    ls_jw_field_open(w, "shared", '{');
    ls_jw_field_int(w, "ranks", s->n);
    ls_jw_field_u64(w, "weight_bytes", s->weights);
    ls_jw_field_u64(w, "context_token_bytes", s->token);
    ls_jw_field_int(w, "rounds", s->rounds);
    ls_jw_field_num(w, "bytes_of_row", s->bytes_of_row, 9);
    if (s->card) {
        ls_jw_field_str(w, "card", s->card->spelled);
        ls_jw_field_num(w, "compute_ms_1", s->compute_ms[0], 6);
        ls_jw_field_num(w, "compute_ms_64", s->compute_ms[1], 6);
    }
    ls_jw_field_open(w, "exchanges", '[');
    for (int i = 0; i < LINKS; i++) {
        if (links[i].gpus && !s->on_gpus) continue;
        ls_jw_open(w, '{');
        ls_jw_field_str(w, "over", links[i].name);
        ls_jw_field_bool(w, "used", !links[i].unused);
        ls_jw_field_num(w, "ms_1", ms_of(s, &links[i], 1), 6);
        ls_jw_field_num(w, "ms_64", ms_of(s, &links[i], LS_PAPER_ROWS), 6);
        ls_jw_close(w, '}');
    }
    ls_jw_close(w, ']');
    ls_jw_close(w, '}');
}
