#include "engine/device.h"
#include "base/ggml.h"
#include "base/mem.h"
#include "base/system.h"
#include "engine/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- a model in GPU memory

// Maps the name of a layer's tensor to the matrix that it is stacked into.
static const struct {
    const char *part;
    lsg_which which;
} parts[] = {{"attn_q", LSG_QKV},
             {"attn_k", LSG_QKV},
             {"attn_v", LSG_QKV},
             {"attn_qkv", LSG_QKV},
             {"attn_output", LSG_OUT},
             {"ffn_gate", LSG_GATE_UP},
             {"ffn_up", LSG_GATE_UP},
             {"ffn_down", LSG_DOWN},
             {"ffn_gate_exps", LSG_EXPERT_GATE_UP},
             {"ffn_up_exps", LSG_EXPERT_GATE_UP},
             {"ffn_gate_up_exps", LSG_EXPERT_GATE_UP},
             {"ffn_down_exps", LSG_EXPERT_DOWN},
             {"ffn_gate_shexp", LSG_SHARED_GATE_UP},
             {"ffn_up_shexp", LSG_SHARED_GATE_UP},
             {"ffn_down_shexp", LSG_SHARED_DOWN}};

// A tensor's place in the model.
typedef struct {
    lsg_which which; // LSG_MATRICES: in none of the layers' matrices
    int layer;
    int expert; // -1: of no single expert
    bool bias;
} place;

static place place_of(const ls_tensor *t, const ls_hparams *h) {
    place p = {.which = LSG_MATRICES, .expert = -1};
    char name[32], kind[16];
    if (sscanf(t->name, "blk.%d.%31[^.].%15s", &p.layer, name, kind) != 3 || p.layer < 0 || p.layer >= h->n_layers)
        return p;
    const char *rest = kind + strspn(kind, "0123456789"); // "7.weight" of a single expert
    if (rest > kind && *rest == '.') p.expert = atoi(kind), rest++;
    p.bias = !strcmp(rest, "bias");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (!strcmp(name, parts[k].part) && (p.bias || !strcmp(rest, "weight"))) p.which = parts[k].which;
    if (p.expert < 0) return p;
    p.which = p.which == LSG_GATE_UP ? LSG_EXPERT_GATE_UP : p.which == LSG_DOWN ? LSG_EXPERT_DOWN : LSG_MATRICES;
    if (p.which == LSG_MATRICES || p.expert >= h->n_experts) p = (place){.which = LSG_MATRICES, .expert = -1};
    return p;
}

lsg_which ls_matrix_of(const ls_tensor *t, const ls_hparams *h) {
    return place_of(t, h).which;
}

enum { UNSET = -1 };

// As in lst_open.cpp, quantised tensors of different formats are stacked as 8 bits with scales and minima
// (CudaModel::common_type), others as unquantised numbers.
static void put(int *type, int of_tensor) {
    if (*type == UNSET) *type = of_tensor;
    else if (lsg_format_of(*type) != lsg_format_of(of_tensor) || (*type != of_tensor && lsg_format_of(*type) != LSG_Q4))
        *type = ls_ggml_layout_of(*type)->values == 1 || ls_ggml_layout_of(of_tensor)->values == 1 ? LS_GGML_F32
                                                                                                   : LS_GGML_Q5_1;
}

void ls_gpu_model_of(ls_gpu_model *out, const ls_checkpoint *c, const char *weights, lsg_gpu gpu, const ls_shard *own) {
    const ls_hparams *h = &c->hparams;
    const int keep = ls_ggml_kept(weights), layers = h->n_layers;
    int(*types)[LSG_MATRICES] = ls_calloc((size_t)layers, sizeof *types);
    for (int i = 0; i < layers; i++)
        for (int k = 0; k < LSG_MATRICES; k++) types[i][k] = UNSET;
    *out =
        (ls_gpu_model){.shape = lsg_shape_of(h, gpu, own), .formats = ls_calloc((size_t)layers, sizeof *out->formats)};
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const int kept = keep >= 0 ? keep : t->order ? LS_GGML_BF16 : t->type;
        const place at = place_of(t, h);
        const bool embedding = !strcmp(t->name, "token_embd.weight");
        if (embedding && (!h->tied || kept != t->type)) // the embedding's rows stay in the file's format
            out->weight_bytes += lsg_matrix_size(lsg_format_of(t->type),
                                                 own ? ls_range_size(own->vocab) : (int64_t)t->n_out, (int64_t)t->n_in);
        if (h->tied ? embedding : !strcmp(t->name, "output.weight")) put(&types[0][LSG_HEAD], kept);
        if (at.which != LSG_MATRICES && !at.bias) put(&types[at.layer][at.which], kept);
    }
    for (int i = 0; i < layers; i++)
        for (lsg_which k = 0; k < LSG_MATRICES; k++) {
            int32_t n_out, n_in;
            const int type = types[k == LSG_HEAD ? 0 : i][k];
            out->formats[i][k] = type == UNSET ? LSG_NO_FORMAT : lsg_format_of(type);
            if (type == UNSET || (k == LSG_HEAD && i)) continue;
            lsg_matrix_shape(&out->shape, k, &n_out, &n_in);
            const bool of_experts = k == LSG_EXPERT_GATE_UP || k == LSG_EXPERT_DOWN;
            out->weight_bytes +=
                lsg_matrix_size(out->formats[i][k], n_out, n_in) * (of_experts ? (uint64_t)h->n_experts : 1);
            if (k == LSG_EXPERT_DOWN) // its router is floats
                out->weight_bytes += sizeof(float) * (uint64_t)(h->n_experts + 1) * (uint64_t)h->n_embd;
        }
    free(types);
}

void ls_gpu_model_free(ls_gpu_model *m) {
    free(m->formats);
    *m = (ls_gpu_model){0};
}

// A kernel reads all experts of a layer, so that they must be kept alike. Those that have tensors of their own may not
// be: then false, and err has why.
static bool experts_are_alike(const ls_checkpoint *c, const char *weights, ls_err *err) {
    typedef struct {
        int gate_up, down;
        bool biased;
    } expert;
    const ls_hparams *h = &c->hparams;
    const int keep = ls_ggml_kept(weights);
    const size_t each = (size_t)h->n_experts, n = (size_t)h->n_layers * each;
    if (!n) return true;
    expert *all = ls_malloc(n * sizeof *all);
    for (size_t i = 0; i < n; i++) all[i] = (expert){UNSET, UNSET, false};
    for (int i = 0; i < c->n_tensors; i++) {
        const place at = place_of(&c->tensors[i], h);
        if (at.expert < 0) continue;
        expert *e = &all[(size_t)at.layer * each + (size_t)at.expert];
        if (at.bias) e->biased = true;
        else put(at.which == LSG_EXPERT_DOWN ? &e->down : &e->gate_up, keep < 0 ? c->tensors[i].type : keep);
    }
    bool alike = true;
    for (size_t i = 0; i < n && alike; i++) {
        const expert *e = &all[i], *first = &all[i - i % each];
        const bool formats = lsg_format_of(e->gate_up) == lsg_format_of(first->gate_up) &&
                             lsg_format_of(e->down) == lsg_format_of(first->down);
        alike = formats && e->biased == first->biased;
        if (!formats)
            ls_fail(err, LS_E_UNSUPPORTED,
                    "the experts of layer %zu have weights of several formats, which a GPU does not read at once (with "
                    "--weights q8 or bf16 it does)",
                    i / each);
        else if (!alike)
            ls_fail(err, LS_E_UNSUPPORTED,
                    "some experts of layer %zu have biases and others have none, which a GPU does not add", i / each);
    }
    free(all);
    return alike;
}

// ---- choosing a device

static int32_t context_in(const ls_hparams *h, uint64_t room) {
    if (room >= (uint64_t)h->n_context || h->n_context <= LS_MIN_CONTEXT) return h->n_context;
    return room < LS_MIN_CONTEXT ? LS_MIN_CONTEXT : (int32_t)room;
}

int32_t ls_context_for(const ls_hparams *h, uint64_t kv_bytes, uint64_t memory) {
    return memory ? context_in(h, memory / 2 / kv_bytes) : h->n_context;
}

int32_t ls_kv_value_bytes_most(const ls_engine_options *opt) {
    return opt->kv && !strcmp(opt->kv, "bf16") ? sizeof(uint16_t) : sizeof(float);
}

// ---- a model in the memory of the CPU

uint64_t ls_cpu_weight_bytes(const ls_checkpoint *c, const char *weights, const char *dtype, uint64_t *experts) {
    const ls_hparams *h = &c->hparams;
    uint64_t sum = 0, of_experts = 0;
    const int as = ls_ggml_kept(weights);
    for (int i = 0; i < c->n_tensors; i++) {
        const ls_tensor *t = &c->tensors[i];
        const bool embedding = !strcmp(t->name, "token_embd.weight"), floats = strstr(t->name, ".ffn_gate_inp") != NULL;
        const int type = floats ? LS_GGML_F32 : as < 0 ? t->type : as;
        int32_t rows = 0;
        uint64_t bytes = t->n_in * t->n_out * sizeof(float); // of a vector
        if (t->n_out > 1)
            bytes = lst_packed_bytes(type, (int64_t)t->n_out, (int64_t)t->n_in, dtype, h->head_dim, &rows);
        // Rows of the embedding are read in the type of the file, or from the head of a tied model that has their bits.
        if (embedding && (!h->tied || !rows || type != t->type)) sum += t->n_bytes;
        if (embedding && !h->tied) continue;
        sum += bytes;
        const lsg_which which = ls_matrix_of(t, h);
        if (which == LSG_EXPERT_GATE_UP || which == LSG_EXPERT_DOWN) of_experts += bytes;
    }
    if (experts) *experts = of_experts;
    return sum;
}

uint64_t ls_cpu_weights(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t *experts) {
    const char *dtype = opt->dtype ? opt->dtype : "auto", *kept = opt->weights ? opt->weights : "auto";
    uint64_t of_experts;
    const uint64_t all = opt->reference // unpacked
                             ? ls_cpu_weight_bytes(c, strcmp(dtype, "bf16") ? "f32" : "bf16", "f32", &of_experts)
                             : ls_cpu_weight_bytes(c, kept, dtype, &of_experts);
    const bool some = opt->expert_memory && !opt->reference && opt->expert_memory < of_experts;
    const uint64_t left = some ? opt->expert_memory : of_experts;
    if (experts) *experts = left;
    return all - of_experts + left;
}

static unsigned long long mib(uint64_t bytes) {
    return (unsigned long long)(bytes >> 20);
}

ls_code ls_cpu_fits(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t room, ls_err *err) {
    uint64_t experts;
    const int32_t tokens = opt->context ? opt->context : LS_MIN_CONTEXT;
    const uint64_t weights = ls_cpu_weights(c, opt, &experts),
                   each = ls_hparams_kv_bytes(&c->hparams, ls_kv_value_bytes_most(opt)), kv = each * (uint64_t)tokens;
    if (!room || weights + kv <= room) return LS_OK;
    ls_engine_options q4 = *opt, bf16 = *opt;
    q4.weights = "q4";
    bf16.dtype = "bf16";
    char of_experts[64] = "", instead[100] = "use a smaller model";
    if (experts) snprintf(of_experts, sizeof of_experts, ", of which experts %llu", mib(experts));
    if (weights + each * LS_MIN_CONTEXT <= room)
        snprintf(instead, sizeof instead, "use --context %llu or less", (unsigned long long)((room - weights) / each));
    else if (opt->reference)
        snprintf(instead, sizeof instead, "use %sthe default engine, or a smaller model",
                 ls_cpu_weights(c, &bf16, NULL) + kv <= room ? "--dtype bf16, " : "");
    else if (experts && weights - experts + kv < room / 2)
        snprintf(instead, sizeof instead, "use --expert-memory %llu (experts are then read from a file)",
                 mib(room - (weights - experts + kv)) * 3 / 4);
    else if (ls_cpu_weights(c, &q4, NULL) + kv <= room)
        snprintf(instead, sizeof instead, "use --weights q4 or a smaller model");
    return ls_fail(
        err, LS_E_RANGE,
        "the model needs about %llu MiB of memory (weights %llu%s; %d tokens of context %llu), but only %llu "
        "MiB are free: %s",
        mib(weights + kv), mib(weights), of_experts, tokens, mib(kv), mib(room), instead);
}

int32_t ls_cpu_context(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t room) {
    const uint64_t weights = ls_cpu_weights(c, opt, NULL), left = room > weights ? room - weights : room ? 1 : 0;
    return ls_context_for(&c->hparams, ls_hparams_kv_bytes(&c->hparams, ls_kv_value_bytes_most(opt)), left);
}

void ls_cpu_says(const ls_checkpoint *c, const ls_engine_options *opt, uint64_t room, char *out, size_t size) {
    uint64_t experts;
    const uint64_t weights = ls_cpu_weights(c, opt, &experts);
    char of_experts[64] = "";
    if (experts) snprintf(of_experts, sizeof of_experts, " (experts %llu)", mib(experts));
    *out = 0;
    if (weights > room / 2 && room)
        snprintf(out, size, "the weights will take about %llu%s of the %llu MiB of memory that are free", mib(weights),
                 of_experts, mib(room));
}

// ---- GPUs

// Keys and values are bf16.
static uint64_t gpu_kv_bytes(const ls_hparams *h, const ls_shard *own) {
    const int32_t heads = own ? ls_range_size(own->kv_heads) : h->n_kv_heads;
    return ls_hparams_kv_bytes(h, sizeof(uint16_t)) / (uint64_t)h->n_kv_heads * (uint64_t)heads;
}

static bool has_nvidia_device(void) {
    static const char *const places[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg", "/dev/nvhost-gpu"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (!access(places[i], F_OK)) return true;
    return getenv("LOGITSPEC_LSTORCH_CUDA") != NULL;
}

void ls_gpus_look(ls_gpus *out) {
    *out = (ls_gpus){0};
    const lst_decoder *lib;
    ls_err err = {0};
    if (!has_nvidia_device())
        snprintf(out->problem, sizeof out->problem, "this machine has no NVIDIA GPU (no /dev/nvidiactl)");
    else if (ls_decoder_load(&lib, LS_DECODER_GPU, &err)) snprintf(out->problem, sizeof out->problem, "%s", err.msg);
    else {
        while (out->n < LS_MAX_GPUS && !lib->device(out->n, &out->gpu[out->n])) out->n++;
        if (!out->n) snprintf(out->problem, sizeof out->problem, "%s", lib->last_error());
    }
}

static int gpu_number(const char *device) { // device: "cuda" or "cuda:N"
    return device[4] ? atoi(device + 5) : 0;
}

// own: this rank's part of the model; NULL: the whole model.
static bool gpu_fits(const lst_device_info *g, const ls_shard *own, const ls_checkpoint *c,
                     const ls_engine_options *opt, ls_err *err) {
    const int32_t context = opt->context ? opt->context : LS_MIN_CONTEXT;
    ls_gpu_model m;
    ls_gpu_model_of(&m, c, opt->weights, (lsg_gpu){g->multiprocessors, g->shared_kib}, own);
    const uint64_t weights = m.weight_bytes, work = lsg_kv_cache_bytes(&m.shape, context),
                   kv = gpu_kv_bytes(&c->hparams, own) * (uint64_t)context;
    ls_gpu_model_free(&m);
    if (weights + work + kv <= g->free_bytes) return true;
    ls_fail(err, LS_E_RANGE,
            "%s needs about %llu MiB of GPU memory (weights %llu, %d tokens of context %llu, forwards %llu), "
            "but only %llu MiB are free: %suse a shorter --context, or --device cpu",
            own ? "a rank's part of the model" : "the model", (unsigned long long)((weights + work + kv) >> 20),
            (unsigned long long)(weights >> 20), context, (unsigned long long)(kv >> 20),
            (unsigned long long)(work >> 20), (unsigned long long)(g->free_bytes >> 20),
            strcmp(opt->weights, "q4") ? "use --weights q8 or q4, " : "");
    return false;
}

static ls_code no_such_gpu(const char *asked, int n, ls_err *err) {
    return ls_fail(err, LS_E_RANGE, "%s: there %s only %d GPU%s (cuda:0%s)", asked, n > 1 ? "are" : "is", n,
                   n > 1 ? "s" : "", n > 1 ? " and on" : "");
}

// A rank never falls back to another kind of device, because all ranks must compute the same values.
static ls_code choose_for_ranks(ls_device_choice *out, const ls_devices *d, const ls_checkpoint *c,
                                const ls_engine_options *opt, ls_err *err) {
    const bool on_gpus = d->gpu[0] >= 0;
    snprintf(out->device, sizeof out->device, on_gpus ? "cuda:%d" : "cpu", d->gpu[0]);
    snprintf(out->why, sizeof out->why, "%d ranks on %s share the model", d->n, on_gpus ? "GPUs" : "CPUs");
    if (!on_gpus) return LS_OK;
    ls_err mixed;
    if (!experts_are_alike(c, opt->weights, &mixed))
        return ls_fail(err, mixed.code, "%s: use ranks on CPUs", mixed.msg);
    ls_gpus gpus;
    ls_gpus_look(&gpus);
    if (!gpus.n) return ls_fail(err, LS_E_BACKEND, "ranks cannot use GPUs: %s", gpus.problem);
    for (int32_t rank = 0; rank < (d->launched ? 1 : d->n); rank++) { // a launcher's other ranks check their own memory
        char name[40];
        snprintf(name, sizeof name, "rank %d on cuda:%d", rank, d->gpu[rank]);
        if (d->gpu[rank] >= gpus.n) return no_such_gpu(name, gpus.n, err);
        const ls_shard part = ls_rank_holds(&c->hparams, rank, d->n, true);
        ls_err no_room;
        if (!gpu_fits(&gpus.gpu[d->gpu[rank]], &part, c, opt, &no_room))
            return ls_fail(err, no_room.code, "%s: %s", name, no_room.msg);
    }
    return LS_OK;
}

ls_code ls_device_choose(ls_device_choice *out, const ls_checkpoint *c, const ls_engine_options *opt, ls_err *err) {
    ls_err no_room;
    ls_gpus gpus;
    ls_devices devices;
    *out = (ls_device_choice){0};
    const ls_code code = ls_ranks_wanted(&devices, opt, err);
    if (code) return code;
    if (devices.n > 1 && opt->reference)
        return ls_fail(err, LS_E_USAGE,
                       "--engine reference does not share a model between ranks: omit it, or the ranks");
    if (devices.n > 1) return choose_for_ranks(out, &devices, c, opt, err);
    snprintf(out->device, sizeof out->device, "%s", opt->device);
    snprintf(out->why, sizeof out->why, "selected by --device");
    const bool is_auto = !strcmp(opt->device, "auto");
    if (opt->reference) { // libtorch tells whether it can use the device
        if (is_auto) snprintf(out->device, sizeof out->device, "cpu");
        snprintf(out->why, sizeof out->why, "--engine reference, which is not exact");
        return LS_OK;
    }
    if (is_auto) {
        snprintf(out->device, sizeof out->device, "cpu");
        if (strcmp(opt->dtype, "auto") && strcmp(opt->dtype, "bf16")) {
            snprintf(out->why, sizeof out->why, "dtype %.20s is CPU-only", opt->dtype);
            return LS_OK;
        }
        if (opt->kv && strcmp(opt->kv, "auto") && strcmp(opt->kv, "bf16")) {
            snprintf(out->why, sizeof out->why, "a KV cache in %.20s is CPU-only", opt->kv);
            return LS_OK;
        }
    } else if (!strcmp(opt->device, "cpu")) return LS_OK;
    ls_gpus_look(&gpus);
    const int number = is_auto ? 0 : gpu_number(opt->device), n = gpus.n;
    if (!n) {
        snprintf(out->why, sizeof out->why, "%s", gpus.problem);
        return is_auto ? LS_OK
                       : ls_fail(err, LS_E_BACKEND, "--device %s cannot be used: %s", opt->device, gpus.problem);
    }
    if (number >= n) {
        char name[40];
        snprintf(name, sizeof name, "--device %.20s", opt->device);
        return no_such_gpu(name, n, err);
    }
    if (!experts_are_alike(c, opt->weights, &no_room)) {
        if (!is_auto) return ls_fail(err, no_room.code, "%s: use --device cpu", no_room.msg);
        snprintf(out->why, sizeof out->why, "%.580s", no_room.msg);
        char *said = ls_format("the model runs on the CPU: %s", no_room.msg);
        if (opt->note) opt->note(opt->ud, said);
        free(said);
        return LS_OK;
    }
    if (!gpu_fits(&gpus.gpu[number], NULL, c, opt, &no_room)) {
        snprintf(out->why, sizeof out->why, "%.580s", no_room.msg);
        return is_auto ? LS_OK : ls_fail(err, no_room.code, "%s", no_room.msg);
    }
    if (is_auto) {
        snprintf(out->device, sizeof out->device, "cuda");
        snprintf(out->why, sizeof out->why, "the model fits into the GPU's memory");
    }
    return LS_OK;
}

ls_code ls_device_context(int32_t *out, const lst_decoder *lib, const ls_checkpoint *c, const char *device,
                          const ls_shard *own, uint64_t kv_bytes, ls_err *err) {
    const ls_hparams *h = &c->hparams;
    if (!strcmp(device, "cpu")) {
        *out = ls_context_for(h, kv_bytes, ls_memory_free());
        return LS_OK;
    }
    lst_device_info info = {0};
    if (lib->device(gpu_number(device), &info)) return ls_call_failed(lib->last_error(), LST_E_BACKEND, err);
    const lsg_shape shape = lsg_shape_of(h, (lsg_gpu){info.multiprocessors, info.shared_kib}, own);
    const uint64_t work = lsg_kv_cache_bytes(&shape, h->n_context),
                   left = info.free_bytes > work ? info.free_bytes - work : 0;
    *out = context_in(h, left / gpu_kv_bytes(h, own));
    return LS_OK;
}

ls_code ls_limits_measure(lst_limits_t *out, int32_t threads, uint64_t bytes, ls_err *err) {
    *out = (lst_limits_t){0};
    const int failure = lst_limits(threads, bytes, out);
    return failure ? ls_call_failed(lst_last_error(), failure, err) : LS_OK;
}
