// A mixture of experts: the whole way of a row, and that its bits do not depend on the rows beside it.
#include "tests/gpu/check.h"
#include "tests/gpu/session.h"
#include "compute/kernels/kernels.h"

#include <math.h>
#include <string.h>

enum { D = 256, FF = 96, EXPERTS = 6, USED = 3, MOST_ROWS = 40, MIXTURES = 2, INDEX = 1 };

typedef struct {
    matrix gate_up[EXPERTS], down[EXPERTS];
    const uint8_t **all_gate_up, **all_down; // the device's
    float *router, *inner, *outer;           // the host's: weights [EXPERTS + 1][D], biases of experts
    const float *router_at, *inner_at, *outer_at;
} mixture;

static mixture random_mixture(int type) {
    mixture m;
    const uint8_t *gate_up[EXPERTS], *down[EXPERTS];
    for (int e = 0; e < EXPERTS; e++) {
        m.gate_up[e] = random_matrix(type, 2 * FF, D);
        m.down[e] = random_matrix(type, D, FF);
        gate_up[e] = m.gate_up[e].device.weights;
        down[e] = m.down[e].device.weights;
    }
    m.all_gate_up = put(gate_up, sizeof gate_up);
    m.all_down = put(down, sizeof down);
    m.router = random_floats((EXPERTS + 1) * D, 0.2f, 0);
    m.inner = random_floats((size_t)EXPERTS * 2 * FF, 1, 0);
    m.outer = random_floats((size_t)EXPERTS * D, 1, 0);
    m.router_at = put_floats(m.router, (EXPERTS + 1) * D);
    m.inner_at = put_floats(m.inner, (size_t)EXPERTS * 2 * FF);
    m.outer_at = put_floats(m.outer, (size_t)EXPERTS * D);
    return m;
}

typedef struct {
    const float *sum, *weight;
    const int32_t *chosen;
} answer;

// The sums of n rows x, of a step that is launched for `rows`.
static answer run_mixture(const mixture *m, const uint16_t *x, const float *shared, int32_t n, int32_t rows) {
    const lsg_matrix *up = &m->gate_up[0].device, *down = &m->down[0].device;
    const size_t r = (size_t)rows, pairs = r * USED, lists = r * MIXTURES * USED,
                 wide = (size_t)(up->cut.chunks * 2 * FF > down->cut.chunks * D ? up->cut.chunks * 2 * FF
                                                                                : down->cut.chunks * D);
    session s = session_new(rows, (lsg_buffers){.n_embd = D}, USED * wide, 0);
    lsg_experts e = {.n = EXPERTS, .used = USED, .mixtures = MIXTURES, .n_ff = FF};
    e.logits = room(r * (EXPERTS + 1) * sizeof(float));
    e.chosen = room(lists * sizeof(int32_t)), e.weight = room(lists * sizeof(float));
    e.begin = room((EXPERTS + 1) * sizeof(int32_t)), e.pair = room(pairs * sizeof(int32_t));
    e.row = room(pairs * sizeof(int32_t)), e.expert = room(pairs * sizeof(int32_t));
    e.x = room(pairs * D * sizeof(uint16_t)), e.act = room(pairs * FF * sizeof(uint16_t));
    e.shared = room(r * D * sizeof(float)), e.sum = room(r * D * sizeof(float));
    s.step->n_rows = n;
    send_step(&s);
    upload(s.device.xn, x, (size_t)n * D * sizeof *x);
    upload(e.shared, shared, (size_t)n * D * sizeof *shared);
    const lsg_router router = {INDEX, EXPERTS + 1, m->router_at, NULL, NULL, LS_ROUTER_BEST, 0, 1, 1, 1};
    const lsg_gating gating = {.chunks = up->cut.chunks, .activation = LS_ACT_CLAMPED, .bias = m->inner_at};
    const int32_t places = (int32_t)pairs;
    MUST(lsg_route(&s.device, &e, &router, stream));
    MUST(lsg_matmul_experts(up, m->all_gate_up, e.begin, EXPERTS, e.x, s.device.y, places, rows, stream));
    MUST(lsg_gate_experts(&s.device, &e, &gating, stream));
    MUST(lsg_matmul_experts(down, m->all_down, e.begin, EXPERTS, e.act, s.device.y, places, rows, stream));
    MUST(lsg_sum_experts(&s.device, &e, INDEX, down->cut.chunks, m->outer_at, 2, stream));
    return (answer){take(e.sum, (size_t)n * D * sizeof(float)), take(e.weight, lists * sizeof(float)),
                    take(e.chosen, lists * sizeof(int32_t))};
}

// A row's sum in plain C, by the experts that it took.
static void check_row(const mixture *m, const uint16_t *x, const float *shared, const int32_t *chosen,
                      const float *weight, const float *got, int type) {
    double logit[EXPERTS + 1] = {0}, all = 0, out[D] = {0};
    for (int e = 0; e <= EXPERTS; e++)
        for (int i = 0; i < D; i++) logit[e] += (double)m->router[e * D + i] * (double)bf16_value(x[i]);
    for (int j = 0; j < USED; j++) {
        all += exp(logit[chosen[j]]);
        for (int e = 0; e < EXPERTS; e++) { // whoever is not in front of it is not better
            int taken = 0;
            for (int k = 0; k <= j; k++) taken |= chosen[k] == e;
            CHECK(taken || logit[e] <= logit[chosen[j]] + 1e-4, "expert %d is better than %d", e, chosen[j]);
        }
    }
    for (int j = 0; j < USED; j++) {
        const int e = chosen[j];
        const double share = exp(logit[e]) / all;
        CHECK(near(weight[j], (float)share, 1e-4f), "weight %g instead of %g", (double)weight[j], share);
        float inner[2 * FF], y[D];
        uint16_t act[FF];
        lsg_plain_matmul(&m->gate_up[e].host, x, inner, 1);
        lsg_step one = {.n_rows = 1};
        const lsg_buffers b = {.step = &one, .rows = 1, .n_ff = FF, .y = inner, .xn = act};
        lsg_plain_gate(&b, &(lsg_gating){.chunks = 1, .activation = LS_ACT_CLAMPED, .bias = m->inner + e * 2 * FF});
        lsg_plain_matmul(&m->down[e].host, act, y, 1);
        for (int i = 0; i < D; i++) out[i] += share * ((double)y[i] + (double)m->outer[e * D + i]);
    }
    for (int i = 0; i < D; i++) {
        out[i] += (double)shared[i] / (1 + exp(-logit[EXPERTS]));
        CHECK(near(got[i], (float)out[i], 0.02f), "type %d: %g instead of %g", type, (double)got[i], out[i]);
    }
}

static void a_mixture_is_right_and_a_row_the_same_in_any_company(void) {
    static const int32_t some[] = {1, 5, 8, 13, 24, 33, MOST_ROWS};
    for (int t = 0; t < MATRIX_TYPES; t++) {
        if (ls_ggml_layout_of(matrix_types[t])->values > 32) continue; // which FF inputs do not hold
        const mixture m = random_mixture(matrix_types[t]);
        uint16_t x[MOST_ROWS * D];
        random_bf16(x, MOST_ROWS * D, 1);
        memcpy(x + 7 * D, x + 2 * D, 4 * D * sizeof *x); // rows that take the same experts
        const float *shared = random_floats((size_t)MOST_ROWS * D, 1, 0);
        const answer all = run_mixture(&m, x, shared, MOST_ROWS, MOST_ROWS);
        for (int r = 0; r < MOST_ROWS; r++) {
            const size_t list = (size_t)(r * MIXTURES + INDEX) * USED;
            if (r % 4 == 0)
                check_row(&m, x + r * D, shared + r * D, all.chosen + list, all.weight + list, all.sum + r * D,
                          matrix_types[t]);
        }
        for (size_t i = 0; i < LENGTH(some); i++) {
            const int32_t n = some[i], first = (int32_t)rnd_int((uint32_t)(MOST_ROWS - n + 1)),
                          rows = n == 1 && i % 2 ? 1 : (n + 7) / 8 * 8;
            const answer few = run_mixture(&m, x + first * D, shared + first * D, n, rows);
            CHECK(!memcmp(few.sum, all.sum + first * D, (size_t)n * D * sizeof(float)),
                  "type %d: %d rows from %d on differ from the same among %d", matrix_types[t], n, first, MOST_ROWS);
        }
        release();
    }
}

// What is not a number stays in its row.
static void a_row_that_is_not_finite_leaves_the_others_alone(void) {
    const mixture m = random_mixture(LS_GGML_Q8_0);
    uint16_t x[8 * D];
    random_bf16(x, 8 * D, 1);
    const float *shared = random_floats((size_t)8 * D, 1, 0);
    const answer before = run_mixture(&m, x, shared, 8, 8);
    x[3 * D + 5] = 0x7FC0;
    const answer after = run_mixture(&m, x, shared, 8, 8);
    for (int r = 0; r < 8; r++)
        if (r != 3) CHECK(!memcmp(before.sum + r * D, after.sum + r * D, D * sizeof(float)), "row %d is another", r);
    for (int i = 0; i < D; i++) CHECK(isnan(after.sum[3 * D + i]), "value %d is a number", i);
    release();
}

// The experts of a row in plain C: the best scores with biases, of the best groups.
static void choose_plainly(const lsg_router *a, const double *logit, const float *bias, double *choice,
                           double *weight) {
    const int size = EXPERTS / a->groups;
    double score[EXPERTS], sums[EXPERTS], all = 0, of_row = 0;
    int taken[EXPERTS] = {0};
    for (int e = 0; e < EXPERTS; e++) all += exp(logit[e]);
    for (int e = 0; e < EXPERTS; e++) {
        score[e] = a->kind == LS_ROUTER_SIGMOID ? 1 / (1 + exp(-logit[e])) : exp(logit[e]) / all;
        choice[e] = score[e] + (a->choice_bias ? (double)bias[e] : 0);
    }
    for (int g = 0; g < a->groups; g++) {
        double first = -1e9, second = -1e9;
        for (int i = g * size; i < (g + 1) * size; i++)
            if (choice[i] > first) second = first, first = choice[i];
            else if (choice[i] > second) second = choice[i];
        sums[g] = first + second;
    }
    for (int g = 0; g < a->groups; g++) {
        int better = 0;
        for (int i = 0; i < a->groups; i++) better += sums[i] > sums[g];
        for (int i = g * size; i < (g + 1) * size && better >= a->groups_used; i++) choice[i] = -1e9;
    }
    for (int j = 0; j < USED; j++) {
        int best = -1;
        for (int e = 0; e < EXPERTS; e++)
            if (!taken[e] && (best < 0 || choice[e] > choice[best])) best = e;
        taken[best] = 1;
        of_row += score[best];
    }
    for (int e = 0; e < EXPERTS; e++)
        weight[e] = !taken[e] ? 0 : (double)a->scale * score[e] / (a->sum_experts ? of_row : 1);
}

static void a_router_chooses_by_scores_biases_and_groups(void) {
    float biases[EXPERTS];
    for (int e = 0; e < EXPERTS; e++) biases[e] = 0.1f * (float)(e * 7 % 5) - 0.2f;
    const float *bias_at = put_floats(biases, EXPERTS);
    const lsg_router kinds[] = {
        {.kind = LS_ROUTER_ALL, .scale = 1, .groups = 1, .groups_used = 1},
        {.kind = LS_ROUTER_ALL, .choice_bias = bias_at, .sum_experts = 1, .scale = 1.5f, .groups = 1, .groups_used = 1},
        {.kind = LS_ROUTER_SIGMOID, .sum_experts = 1, .scale = 1, .groups = 1, .groups_used = 1},
        {.kind = LS_ROUTER_SIGMOID, .choice_bias = bias_at, .scale = 2.5f, .groups = 3, .groups_used = 2},
    };
    enum { ROWS = 16 };
    const float *weights = random_floats(EXPERTS * D, 0.1f, 0), *weights_at = put_floats(weights, EXPERTS * D);
    uint16_t x[ROWS * D];
    random_bf16(x, ROWS * D, 1);
    for (size_t k = 0; k < LENGTH(kinds); k++) {
        lsg_router a = kinds[k];
        a.n_out = EXPERTS;
        a.weights = weights_at;
        session s = session_new(ROWS, (lsg_buffers){.n_embd = D}, D, 0);
        const size_t pairs = ROWS * USED;
        lsg_experts e = {.n = EXPERTS, .used = USED, .mixtures = 1, .n_ff = FF};
        e.logits = room(ROWS * (EXPERTS + 1) * sizeof(float));
        e.chosen = room(pairs * sizeof(int32_t)), e.weight = room(pairs * sizeof(float));
        e.begin = room((EXPERTS + 1) * sizeof(int32_t)), e.pair = room(pairs * sizeof(int32_t));
        e.row = room(pairs * sizeof(int32_t)), e.expert = room(pairs * sizeof(int32_t));
        e.x = room(pairs * D * sizeof(uint16_t));
        s.step->n_rows = ROWS;
        send_step(&s);
        upload(s.device.xn, x, sizeof x);
        MUST(lsg_route(&s.device, &e, &a, stream));
        const int32_t *chosen = take(e.chosen, pairs * sizeof(int32_t));
        const float *got = take(e.weight, pairs * sizeof(float));
        for (int r = 0; r < ROWS; r++) {
            double logit[EXPERTS] = {0}, choice[EXPERTS], wanted[EXPERTS];
            for (int o = 0; o < EXPERTS; o++)
                for (int i = 0; i < D; i++) logit[o] += (double)weights[o * D + i] * (double)bf16_value(x[r * D + i]);
            choose_plainly(&a, logit, biases, choice, wanted);
            for (int j = 0; j < USED; j++) {
                const int32_t at = chosen[r * USED + j];
                CHECK(!j || choice[at] <= choice[chosen[r * USED + j - 1]] + 1e-5, "row %d is not sorted", r);
                CHECK(near(got[r * USED + j], (float)wanted[at], 1e-4f), "router %zu, row %d: expert %d has %g, not %g",
                      k, r, at, (double)got[r * USED + j], wanted[at]);
            }
        }
    }
    release();
}

const gpu_test experts_tests[] = {
    TEST(a_mixture_is_right_and_a_row_the_same_in_any_company),
    TEST(a_router_chooses_by_scores_biases_and_groups),
    TEST(a_row_that_is_not_finite_leaves_the_others_alone),
    {0},
};
