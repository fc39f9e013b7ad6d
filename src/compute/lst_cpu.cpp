#include "compute/lst_cpu.h"

#include <algorithm>
#include <cstdlib>

#include <sys/mman.h>

using namespace lst::cpu;

namespace {

const Arithmetic arithmetics[] = {
    {"f32", "f32 from packed weights", LSK_ARITH_F32, LSK_ARITH_F32, "f32"},
    {"i16", "16-bit integer inputs", LSK_ARITH_I16, LSK_ARITH_I16, "bf16"},
    {"i8", "8-bit integer inputs, 16-bit for the largest of q/k/v and down", LSK_ARITH_I8, LSK_ARITH_MIXED, "bf16"},
    {"bf16", "bf16 weights and inputs", LSK_ARITH_BF16, LSK_ARITH_BF16, "bf16"},
};

bool rounds(const Arithmetic &a) { // to integers
    return a.usual == LSK_ARITH_I8 || a.usual == LSK_ARITH_I16;
}

// auto: i8 where integer dot products make it the fastest (its perplexity on the default model is within 0.3% of f32's,
// tests/bench/results), else f32, which loaded() changes to bf16 for weights of bf16.
const Arithmetic &choose(std::string dtype, bool can_integers, bool fast_integers) {
    if (dtype == "auto") dtype = can_integers && fast_integers ? "i8" : "f32";
    for (const Arithmetic &a : arithmetics)
        if (dtype == a.dtype) {
            if (rounds(a) && !can_integers) // a group of 32 stays in one head
                throw lst::Error(LST_E_ARG, "dtype '" + dtype + "' needs a head size of a multiple of 32; use f32");
            return a;
        }
    throw lst::Error(LST_E_ARG, "dtype '" + dtype + "' is unknown (auto, f32, i16, i8, bf16)");
}

} // namespace

const lsk_table &lst::cpu::pick_kernels() {
    if (const lsk_table *kernels = lsk_pick()) return *kernels;
    std::string levels;
    for (int i = 0; lsk_level_name(i); i++) levels += std::string(i ? ", " : "") + lsk_level_name(i);
    throw lst::Error(LST_E_ARG, std::string("LOGITSPEC_CPU='") + getenv("LOGITSPEC_CPU") + "' is not a CPU level (" +
                                    levels + ")");
}

void Weights::Unmap::operator()(uint8_t *p) const {
    munmap(p, size);
}

uint8_t *Weights::take(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    if (bytes > left) {
        const size_t size = (std::max(bytes, next_size) + PAGE - 1) / PAGE * PAGE;
        // a page more, of which so much is given back that the block begins where a large page does
        uint8_t *p = (uint8_t *)mmap(nullptr, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) throw std::bad_alloc();
        const size_t before = -(uintptr_t)p % PAGE;
        if (before) munmap(p, before);
        munmap(p + before + size, PAGE - before);
        p += before;
        blocks.emplace_back(p, Unmap{size});
        madvise(p, size, MADV_HUGEPAGE); // not everywhere, and nothing else depends on it
        left = size;
        next_size = std::min(2 * next_size, (size_t)MOST);
    }
    const auto &block = blocks.back();
    uint8_t *p = block.get() + block.get_deleter().size - left;
    left -= bytes;
    return p;
}

lsk_arith CpuModel::arith_of(lst::Care care) const {
    if (care == lst::Care::exact) return LSK_ARITH_F32;
    return care == lst::Care::more ? arithmetic->careful : arithmetic->usual;
}

lsk_arith CpuModel::packing(lst::Care care) const {
    const lsk_arith arith = arith_of(care);
    return arith == LSK_ARITH_BF16 && kernels->unpacks ? LSK_ARITH_BF16_PACKED : arith;
}

bool CpuModel::matrix_begin(lst::Linear &l, const std::vector<lst::Stacked> &stacked, lst::Care care) {
    const lsk_arith arith = arith_of(care);
    int32_t first = 0;
    l.arith = arith == LSK_ARITH_BF16 ? arith : LSK_ARITH_F32;
    for (const lst::Stacked &s : stacked) {
        const size_t bytes = lsk_pack_bytes(s.type, s.n_out, l.n_in, packing(care));
        if (!bytes) return false;
        lst::Linear::Section section = {first, {}};
        lsk_pack_init(&section.packed, s.type, s.n_out, l.n_in, packing(care));
        section.packed.data = storing ? store->stage(bytes) : packed.take(bytes);
        if (lsk_takes_integers(section.packed.format)) {
            l.arith = arith;
            integers = true;
        }
        all_bf16 &= care == lst::Care::exact || section.packed.format == LSK_BF16;
        weight_bytes += bytes;
        l.sections.push_back(section);
        first += (int32_t)s.n_out;
    }
    return true;
}

void CpuModel::matrix_rows(lst::Linear &l, int64_t row, int type, const uint8_t *raw, int64_t n) {
    if (l.paired) { // the rows are some of a tile, and halves are whole blocks
        const int64_t half = l.n_out / 2, at = row % half;
        row = at / LS_SHARD_FF * 2 * LS_SHARD_FF + row / half * LS_SHARD_FF + at % LS_SHARD_FF;
    }
    size_t section = l.sections.size() - 1;
    while (l.sections[section].first > row) section--;
    lsk_pack_rows(&l.sections[section].packed, row - l.sections[section].first, type, raw, n);
}

bool CpuModel::embedding_begin(const lst_tensor &t, int kept_type) {
    lsk_matrix of_head;
    lsk_pack_init(&of_head, t.type, t.n_out, t.n_in, packing(lst::Care::usual));
    if (hp.tied && kept_type == t.type && lsk_packs_back(&of_head, t.type)) return false;
    embd_type = t.type;
    embd_row_bytes = lsk_row_bytes(t.type, t.n_in);
    embd = lst::Array<uint8_t>((int64_t)t.n_bytes);
    return true;
}

void CpuModel::embedding_rows(int64_t row, int, const uint8_t *raw, int64_t n) {
    std::copy_n(raw, (size_t)n * embd_row_bytes, embd.data() + (size_t)row * embd_row_bytes);
}

void CpuModel::embedding_row(int32_t token, float *out) const {
    if (embd) lsk_dequant_row(embd_type, embd.data() + (size_t)token * embd_row_bytes, hp.n_embd, out);
    else lsk_packed_row(&head.sections[0].packed, token, out);
}

void CpuModel::loaded() {
    if ((asked == "i8" || asked == "i16") && !integers)
        throw lst::Error(LST_E_ARG, "dtype '" + asked +
                                        "' needs weights of 2 to 8 bits, which this model does not have: add "
                                        "--weights q8, or choose another dtype");
    if (rounds(*arithmetic) && !integers) arithmetic = &choose("f32", true, false); // plain weights keep f32
    if (asked == "auto" && all_bf16) multiply_bf16();
    kv_bf16 = (asked_kv == "auto" ? std::string(arithmetic->kv) : asked_kv) == "bf16";
}

// Weights of bf16 keep their bits in bf16 arithmetic; where products of pairs are one instruction, rows cost half.
void CpuModel::multiply_bf16() {
    if (!kernels->matmul_bf16) return;
    arithmetic = &choose("bf16", true, false);
    const auto use = [](lst::Linear &l) { l.arith = LSK_ARITH_BF16; };
    for (lst::Layer &l : layers) {
        lst::each_linear(l, use, use);
        if (l.mixture) l.mixture->router.arith = LSK_ARITH_F32;
    }
    head.arith = LSK_ARITH_BF16;
}

void CpuModel::info(lst_model_info_t *info) const {
    snprintf(info->device, sizeof info->device, "cpu");
    const std::string kv = kv_bf16 ? "bf16" : "f32", unusual = kv == arithmetic->kv ? "" : " kv " + kv;
    snprintf(info->dtype, sizeof info->dtype, "%s%s", arithmetic->dtype, unusual.c_str());
    snprintf(info->kernel, sizeof info->kernel, "%s, %s%s", kernels->name, arithmetic->kernel,
             kv_bf16 ? ", bf16 keys and values" : "");
    info->kv_value_bytes = (int32_t)kv_value_bytes();
    snprintf(info->version, sizeof info->version, "logitspec " LS_VERSION);
    if (rounds(*arithmetic) && !kernels->peak_int)
        snprintf(info->slow, sizeof info->slow,
                 "dtype %s is slow on this CPU, because its level (%s) has no integer dot products; --dtype f32 is "
                 "many times as fast",
                 arithmetic->dtype, kernels->name);
}

std::unique_ptr<lst_model> lst::make_model(const ls_hparams &hp, const lst_open_options &opt) {
    if (std::string device = opt.device; device != "auto" && device != "cpu")
        throw lst::Error(LST_E_ARG, "device '" + device + "' is not in this library (only cpu)");
    auto m = std::make_unique<CpuModel>();
    m->asked = opt.dtype;
    m->asked_kv = opt.kv;
    if (m->asked_kv != "auto" && m->asked_kv != "f32" && m->asked_kv != "bf16")
        throw lst::Error(LST_E_ARG, "keys and values as '" + m->asked_kv + "' are unknown on a CPU (auto, f32, bf16)");
    m->kernels = &lst::cpu::pick_kernels();
    m->arithmetic = &choose(m->asked, hp.head_dim % 32 == 0, m->kernels->peak_int);
    if (opt.expert_memory && opt.ranks)
        throw lst::Error(LST_E_ARG, "--expert-memory is not supported with ranks: omit it, or the ranks");
    if (opt.expert_memory && hp.n_experts)
        m->store = std::make_unique<lst::cpu::ExpertStore>(opt.expert_folder, opt.expert_memory);
    return m;
}

extern "C" uint64_t lst_packed_bytes(int32_t type, int64_t n_out, int64_t n_in, const char *dtype, int32_t head_dim,
                                     int32_t *rows) {
    uint64_t bytes = 0;
    lst::guard([&] {
        CpuModel m;
        m.kernels = &lst::cpu::pick_kernels();
        m.arithmetic = &choose(dtype, head_dim % 32 == 0, m.kernels->peak_int);
        const lsk_arith arith = m.packing(lst::Care::usual);
        bytes = lsk_pack_bytes(type, n_out, n_in, arith);
        lsk_matrix as_packed;
        if (bytes) lsk_pack_init(&as_packed, type, n_out, n_in, arith);
        if (rows) *rows = bytes && lsk_packs_back(&as_packed, type);
    });
    return bytes;
}

extern "C" int lst_device(int32_t i, lst_device_info *info) {
    return lst::guard([&] {
        if (i) throw lst::Error(LST_E_ARG, "lst_device: there is no such device");
        *info = {};
        snprintf(info->name, sizeof info->name, "%s", lst::cpu::pick_kernels().name);
        info->compiled = 1;
        snprintf(info->version, sizeof info->version, "logitspec " LS_VERSION);
    });
}
