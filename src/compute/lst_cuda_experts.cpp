// The feed-forward part of a mixture of experts on a GPU (kernels/gpu_experts.cu). Every rank has the whole router, so
// all of them group the same pairs of rows and experts; each computes its part of every expert's outputs.
#include "compute/lst_cuda_kv_cache.h"

using namespace lst::device;

// The feed-forward part of rows whose input is xn, into expert_rows.
void CudaKvCache::put_mixture(const lsg_buffers &b, const lst::Mixture &x) {
    const ls_hparams &hp = m->hp;
    const lsg_stream s = stream.s;
    const Experts &at = m->experts[(size_t)x.index];
    const int32_t pairs = b.rows * chosen.used, n_shared = x.shared.down.n_out ? ls_range_size(held.shared_ff) : 0;
    const lsg_experts e{hp.n_experts,
                        chosen.used,
                        chosen.layers,
                        ls_range_size(held.expert_ff),
                        expert_logits.get(),
                        chosen_at.get(),
                        expert_weights.get(),
                        begin.get(),
                        pair.get(),
                        pair_row.get(),
                        pair_expert.get(),
                        pair_x.get(),
                        pair_act.get(),
                        shared_rows.get(),
                        m->ranks ? sums.get() : expert_rows.get()};
    const lsg_router router{x.index,         x.router.n_out,  (const float *)x.router.device.weights,
                            at.router_bias,  at.choice_bias,  hp.arch->router,
                            hp.sum_experts,  hp.expert_scale, hp.n_expert_groups,
                            hp.n_groups_used};
    check(lsg_route(&b, &e, &router, s), "a router");
    if (n_shared) {
        const lsg_matrix &gate_up = x.shared.gate_up.device, &down = x.shared.down.device;
        put_matmul(x.shared.gate_up, b.xn, b.y, b.rows, &b.step->n_rows, "a matmul");
        lsg_buffers wide = b;
        wide.n_ff = n_shared;
        wide.xn = e.act;
        const lsg_gating gating{gate_up.cut.chunks, hp.arch->activation, 0, nullptr, {}};
        check(lsg_gate(&wide, &gating, s), "the shared expert");
        if (m->ranks) put_gather(of_shared_ff, e.act, e.act, b.rows);
        put_matmul(x.shared.down, e.act, b.y, b.rows, &b.step->n_rows, "a matmul");
        check(lsg_sum(&b, down.cut.chunks, x.shared.down.n_out, e.shared, s), "the shared expert");
    }
    const lsg_matrix &gate_up = x.experts[0].gate_up.device, &down = x.experts[0].down.device;
    check(lsg_matmul_experts(&gate_up, at.gate_up, e.begin, e.n, e.x, b.y, pairs, b.rows, s), "the experts");
    const lsg_gating gating{gate_up.cut.chunks, hp.arch->activation, 0, at.gate_up_bias, {}};
    check(lsg_gate_experts(&b, &e, &gating, s), "the experts");
    if (m->ranks) put_gather(of_expert_ff, e.act, e.act, b.rows);
    check(lsg_matmul_experts(&down, at.down, e.begin, e.n, e.act, b.y, pairs, b.rows, s), "the experts");
    const int32_t shared = !n_shared ? 0 : x.router.n_out > hp.n_experts ? 2 : 1;
    lsg_buffers part = b;
    part.n_embd = x.experts[0].down.n_out;
    check(lsg_sum_experts(&part, &e, x.index, down.cut.chunks, at.down_bias, shared, s), "the experts");
    if (m->ranks) put_gather(of_embd, e.sum, expert_rows.get(), b.rows); // one exchange for all of a row's experts
}

void CudaKvCache::fetch_chosen() {
    const auto n = (size_t)std::exchange(not_fetched, 0);
    if (!n || !chosen.layers) return;
    check(lsg_use(m->index), "choosing the GPU");
    chosen.resize(n);
    check(lsg_download(chosen.expert.data(), chosen_at.get(), chosen.expert.size() * sizeof(int32_t), stream.s),
          "the experts");
    check(lsg_download(chosen.weight.data(), expert_weights.get(), chosen.weight.size() * sizeof(float), stream.s),
          "the experts");
    check(lsg_sync(stream.s), "the experts");
}
