// The feed-forward part of a mixture of experts. Rows are grouped by the experts that they take, so that a step reads
// an expert's weights once. A row's bits do not depend on the grouping: kernels compute each row alone, and the outputs
// of a row's experts are added in the order of its own router.
#include "compute/lst_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace lst::cpu;

namespace {

// The `most` best of n, best first (ties: the lower number).
void best_of(const float *value, int32_t n, int32_t most, int32_t *best) {
    int32_t found = 0;
    for (int32_t e = 0; e < n; e++) { // sorted by insertion: few are used
        int32_t at = found;
        while (at > 0 && value[e] > value[best[at - 1]]) at--;
        if (at >= most) continue;
        found = std::min(found + 1, most);
        for (int32_t i = found - 1; i > at; i--) best[i] = best[i - 1];
        best[at] = e;
    }
}

// Turns a row's logits into scores; choice: scores with biases, of experts of other groups than the best ones -inf.
void score_experts(const ls_hparams &hp, const float *bias, float *score, float *choice) {
    const int32_t n = hp.n_experts, groups = hp.n_expert_groups, size = n / groups;
    const float most = *std::max_element(score, score + n);
    float all = 0;
    for (int32_t e = 0; e < n; e++)
        if (hp.arch->router == LS_ROUTER_SIGMOID) score[e] = 1 / (1 + std::exp(-score[e]));
        else all += score[e] = std::exp(score[e] - most);
    for (int32_t e = 0; e < n; e++) {
        if (hp.arch->router != LS_ROUTER_SIGMOID) score[e] /= all;
        choice[e] = bias ? score[e] + bias[e] : score[e];
    }
    if (groups == 1) return;
    std::vector<float> sum((size_t)groups);
    std::vector<int32_t> best((size_t)groups);
    for (int32_t g = 0; g < groups; g++) {
        int32_t two[2];
        const float *of = choice + g * size;
        best_of(of, size, 2, two);
        sum[(size_t)g] = of[two[0]] + of[two[1]];
    }
    best_of(sum.data(), groups, groups, best.data());
    for (int32_t i = hp.n_groups_used; i < groups; i++)
        std::fill_n(choice + best[(size_t)i] * size, size, -std::numeric_limits<float>::infinity());
}

// Whether experts are chosen by scores. Otherwise logits do, which are in the same order.
bool by_scores(const ls_hparams &hp, const lst::Mixture &mixture) {
    return hp.arch->router == LS_ROUTER_SIGMOID || mixture.choice_bias;
}

// The experts of one row, best first, and their weights. choice: room for n values, if scores choose.
void choose_experts(const ls_hparams &hp, const lst::Mixture &mixture, float *logits, float *choice, int32_t *expert,
                    float *weight) {
    const int32_t n = hp.n_experts, used = hp.n_experts_used;
    const bool scored = by_scores(hp, mixture);
    if (scored) score_experts(hp, mixture.choice_bias.data(), logits, choice);
    best_of(scored ? choice : logits, n, used, expert);
    const float most = logits[expert[0]];
    const bool divided = hp.arch->router == LS_ROUTER_BEST || hp.sum_experts;
    float all = 0, of_row = 0;
    for (int32_t i = 0; i < used; i++)
        of_row += weight[i] = scored ? logits[expert[i]] : std::exp(logits[expert[i]] - most);
    for (int32_t e = 0; e < n && !scored && !divided; e++) all += std::exp(logits[e] - most);
    // probabilities of all experts, divided by the row's sum, are those of the row's experts alone
    const float by = divided ? std::max(of_row, 1e-20f) : scored ? 1 : all;
    for (int32_t i = 0; i < used; i++) weight[i] = weight[i] / by * hp.expert_scale;
}

// of(row): the row's experts.
template <class F> void group_rows(ExpertRows &e, int32_t rows, int32_t n_experts, int32_t used, F &&of) {
    std::fill(e.begin.begin(), e.begin.end(), 0);
    for (int32_t i = 0; i < rows; i++)
        for (int32_t j = 0; j < used; j++) e.begin[(size_t)of(i)[j] + 1]++;
    e.awake.clear();
    for (int32_t x = 0; x < n_experts; x++) {
        if (e.begin[(size_t)x + 1]) e.awake.push_back(x);
        e.begin[(size_t)x + 1] += e.begin[(size_t)x];
    }
    for (int32_t i = 0; i < rows * used; i++) {
        const int32_t pair = e.begin[(size_t)of(i / used)[i % used]]++;
        e.pair[(size_t)i] = pair;
        e.row[(size_t)pair] = i / used;
    }
    for (int32_t x = n_experts; x > 0; x--) e.begin[(size_t)x] = e.begin[(size_t)x - 1];
    e.begin[0] = 0;
}

// Copies the prepared input of a pair's row to the pair.
void copy_input(const lsk_table &k, const lst::Linear &l, const float *x, const Prepared &from, int32_t rows,
                int32_t row, ExpertRows &to, int32_t pairs, int32_t pair) {
    const int64_t d = l.n_in;
    if (takes_bf16(k, l.arith)) std::copy_n(from.bf16.data() + row * d, d, to.x_in.bf16.data() + pair * d);
    else if (l.arith == LSK_ARITH_F32 || l.arith == LSK_ARITH_BF16) std::copy_n(x + row * d, d, to.x.data() + pair * d);
    else
        for (int64_t g = 0; g < d / 32; g++)
            to.x_in.groups[(size_t)(g * pairs + pair)] = from.groups[(size_t)(g * rows + row)];
}

void add_scaled(float *sum, const float *x, float scale, int32_t n) {
    for (int32_t i = 0; i < n; i++) sum[i] += scale * x[i];
}

// Calls body(expert, tiles) for this thread's share of the tiles of all awake experts' matrices, which have one shape.
template <class F> void each_share(const ExpertRows &e, const lst::Linear &one, const Team &team, F &&body) {
    const int32_t unit = unit_of(one), tiles = tiles_of(one), units = (tiles + unit - 1) / unit;
    const ls_range share = ls_share((int64_t)units * (int64_t)e.awake.size(), team.t, team.n);
    for (int32_t at = share.from, to; at < share.to; at = to) {
        const int32_t i = at / units;
        to = std::min((i + 1) * units, share.to);
        body(e.awake[(size_t)i], ls_range{(at - i * units) * unit, std::min((to - i * units) * unit, tiles)});
    }
}

} // namespace

const lst::Linear &lst::cpu::prepared_for(const lst::Layer &l) {
    if (!l.mixture) return l.gate_up;
    const lst::Linear &shared = l.mixture->shared.gate_up, &expert = l.mixture->experts[0].gate_up;
    return shared.n_out && expert.arith == LSK_ARITH_F32 ? shared : expert;
}

void lst::cpu::resize_experts(CpuKvCache &s, int32_t rows) {
    const ls_hparams &hp = s.m->hp;
    ExpertRows &e = s.experts;
    const int64_t pairs = (int64_t)rows * hp.n_experts_used, d = hp.n_embd, ff = hp.n_ff_expert, wide = hp.n_ff_shared;
    e.logits = lst::Floats(rows * ((int64_t)hp.n_experts + 1));
    bool scored = false;
    for (const lst::Layer &l : s.m->layers) scored |= l.mixture && by_scores(hp, *l.mixture);
    if (scored) e.choice = lst::Floats((int64_t)rows * hp.n_experts);
    for (std::vector<int32_t> *v : {&e.pair, &e.row}) v->resize((size_t)pairs);
    e.begin.resize((size_t)hp.n_experts + 1);
    e.x = lst::Floats(pairs * d);
    e.gate_up = lst::Floats(pairs * 2 * ff);
    e.act = lst::Floats(pairs * ff);
    e.out = lst::Floats(pairs * d);
    e.x_in.resize((int32_t)pairs, d);
    e.act_in.resize((int32_t)pairs, ff);
    if (!wide) return;
    e.shared_gate_up = lst::Floats(rows * 2 * wide);
    e.shared_act = lst::Floats(rows * wide);
    e.shared_out = lst::Floats(rows * d);
    e.shared_act_in.resize(rows, wide);
}

bool lst::cpu::run_mixture(Team &team, lst::Mixture &mixture, int32_t first_row, int32_t rows, const float *x,
                           const Prepared &x_in, float *y) {
    CpuKvCache &s = team.s;
    const ls_hparams &hp = s.m->hp;
    const ls_shard &part = s.m->part();
    ExpertRows &e = s.experts;
    const lst::Expert &one = mixture.experts[0], &shared = mixture.shared;
    const int32_t used = hp.n_experts_used, pairs = rows * used, n_logits = mixture.router.n_out,
                  n_ff = ls_range_size(part.expert_ff),
                  d = ls_range_size(part.embd); // of this rank
    const bool has_shared = shared.down.n_out > 0;
    float *mine = s.m->ranks ? s.mine.data() : nullptr;
    const auto experts_of = [&](int32_t row) {
        return s.chosen.expert.data() + s.chosen.at(first_row + row, mixture.index);
    };
    const auto weights_of = [&](int32_t row) {
        return s.chosen.weight.data() + s.chosen.at(first_row + row, mixture.index);
    };
    const auto row_logits = [&](int32_t row) { return e.logits.data() + (int64_t)row * n_logits; };
    // whole rows that ranks gathered
    const auto prepare_row = [&](const lst::Linear &next, Prepared &in, float *act, int32_t n) {
        return [=, &s, &next, &in](int32_t i) {
            for (int32_t at = 0; at < next.n_in; at += 32)
                prepare(s, next.arith, in, n, i, act + (int64_t)i * next.n_in + at, at, 32);
        };
    };

    team.linear(mixture.router, x, x_in, e.logits.data(), rows);
    team.each_row(LST_PART_NORMS, rows, [&](int32_t i) {
        if (mixture.router.bias) add_scaled(row_logits(i), mixture.router.bias.data(), 1, n_logits);
        float *choice = e.choice ? e.choice.data() + (int64_t)i * hp.n_experts : nullptr;
        choose_experts(hp, mixture, row_logits(i), choice, experts_of(i), weights_of(i));
    });
    std::unique_lock<std::mutex> in_memory; // until all threads have passed the last barrier
    if (team.t == 0) {
        group_rows(e, rows, hp.n_experts, used, experts_of);
        if (s.m->store) try {
                in_memory = s.m->store->take(mixture, e.awake, s.experts_read);
            } catch (...) {
                s.failure = std::current_exception();
            }
    }
    team.meet(LST_PART_NORMS);
    if (s.failure) return false;
    if (rows > 1)
        team.each_row(LST_PART_NORMS, pairs, [&](int32_t p) {
            copy_input(*s.m->kernels, one.gate_up, x, x_in, rows, e.row[(size_t)p], e, pairs, p);
        });

    if (has_shared) {
        float *out = e.shared_gate_up.data(), *act = mine ? mine : e.shared_act.data();
        const ls_range tiles = team.multiply(shared.gate_up, x, x_in, out, rows, 0, rows);
        activate_tiles(s, shared.gate_up, out, nullptr, rows, tiles, act, shared.down, e.shared_act_in, rows, 0);
        if (mine) team.meet(LST_PART_LINEAR);
        if (!team.gather(rows, &ls_shard::shared_ff, 1, e.shared_act.data(), LST_PART_ACTIVATION,
                         prepare_row(shared.down, e.shared_act_in, e.shared_act.data(), rows)))
            return false;
    }
    each_share(e, one.gate_up, team, [&](int32_t expert, ls_range tiles) {
        const lst::Linear &l = mixture.experts[(size_t)expert].gate_up;
        const int32_t first = e.begin[(size_t)expert], count = e.begin[(size_t)expert + 1] - first;
        float *out = e.gate_up.data() + (int64_t)first * l.n_out,
              *act = (mine ? mine : e.act.data()) + (int64_t)first * n_ff;
        if (rows > 1) team.multiply_tiles(l, e.x.data(), e.x_in, out, pairs, first, count, tiles);
        else team.multiply_tiles(l, x, x_in, out, 1, 0, 1, tiles);
        activate_tiles(s, l, out, nullptr, count, tiles, act, one.down, e.act_in, pairs, first);
    });
    team.meet(LST_PART_LINEAR);
    if (!team.gather(pairs, &ls_shard::expert_ff, 1, e.act.data(), LST_PART_ACTIVATION,
                     prepare_row(one.down, e.act_in, e.act.data(), pairs)))
        return false;

    each_share(e, one.down, team, [&](int32_t expert, ls_range tiles) {
        const lst::Linear &l = mixture.experts[(size_t)expert].down;
        const int32_t first = e.begin[(size_t)expert], count = e.begin[(size_t)expert + 1] - first;
        team.multiply_tiles(l, e.act.data(), e.act_in, e.out.data() + (int64_t)first * d, pairs, first, count, tiles);
    });
    if (has_shared)
        team.multiply(shared.down, e.shared_act.data(), e.shared_act_in, e.shared_out.data(), rows, 0, rows);
    team.meet(LST_PART_LINEAR);
    const ls_range share = ls_share((int64_t)rows * d, team.t, team.n); // of all rows' values, one row after another
    for (int32_t at = share.from, end; at < share.to; at = end) {
        const int32_t row = at / d, from = at - row * d;
        end = std::min((row + 1) * d, share.to);
        float *sum = (mine ? mine : y) + at;
        std::fill_n(sum, end - at, 0.0f);
        for (int32_t j = 0; j < used; j++) {
            float *out = e.out.data() + (int64_t)e.pair[(size_t)(row * used + j)] * d + from;
            const lst::Floats &bias = mixture.experts[(size_t)experts_of(row)[j]].down.bias;
            if (bias) add_scaled(out, bias.data() + from, 1, end - at);
            add_scaled(sum, out, weights_of(row)[j], end - at);
        }
        const float gate = n_logits > hp.n_experts ? 1 / (1 + std::exp(-row_logits(row)[hp.n_experts])) : 1;
        if (has_shared) add_scaled(sum, e.shared_out.data() + (int64_t)row * d + from, gate, end - at);
    }
    team.meet(LST_PART_NORMS);
    return team.gather(rows, &ls_shard::embd, 1, y, LST_PART_NORMS, [](int32_t) {});
}
