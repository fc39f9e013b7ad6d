// Logits and what is said about them: the best, sums, the chosen path, sampling.
#include "base/rng.h"
#include "tests/gpu/check.h"
#include "tests/gpu/session.h"
#include "compute/kernels/kernels.h"

#include <math.h>
#include <string.h>

static void fetch_result(const session *s) {
    download(s->host.result, s->device.result, sizeof(lsg_result));
}

// A head's step: what it says and the logits come to the host.
static void run_head(const session *s, const lsg_head *h) {
    send_step(s);
    MUST(lsg_begin(&s->device, &(lsg_rotation){0}, stream));
    MUST(lsg_arrive(stream));
    MUST(lsg_head_rows(&s->device, h, stream));
    fetch_result(s);
    download(s->host.logits, s->device.logits, (size_t)s->host.rows * (size_t)s->host.n_vocab * sizeof(float));
}

// The logits are y as it stands.
static lsg_head plain_head(const session *s, int32_t sampled) {
    return (lsg_head){.rows = s->host.rows, .chunks = 1, .y = s->device.y, .scale = 1, .sampled = sampled};
}
static session logits_session(int32_t rows, int32_t n_vocab) {
    return session_new(rows, (lsg_buffers){.n_vocab = n_vocab}, (size_t)n_vocab, 0);
}

static int same(float a, float b) {
    return a == b || (isnan(a) && isnan(b));
}

static void check_top(const session *s, int32_t row) {
    static int32_t ids[LSG_TOP];
    static float values[LSG_TOP];
    const lsg_result *got = s->host.result;
    const int32_t n = s->host.n_vocab;
    lsk_level("portable")->top(s->host.logits + (size_t)row * (size_t)n, n, LSG_TOP, ids, values);
    for (int i = 0; i < LSG_TOP; i++)
        CHECK(got->top_id[i] == ids[i] && got->top_logit[i] == values[i],
              "%d tokens: place %d has %d, %g instead of %d, %g", (int)n, i, (int)got->top_id[i],
              (double)got->top_logit[i], (int)ids[i], (double)values[i]);
}

static void check_logits(int i, const session *s, const lsg_head *h, int32_t r) {
    const size_t n = (size_t)s->host.n_vocab, row = (size_t)r * n;
    for (size_t o = 0; o < n; o++) {
        float v = h->y[row + o];
        for (int32_t c = 1; c < h->chunks; c++) v += h->y[(size_t)(c * h->rows) * n + row + o];
        if (h->bias) v += h->bias[o];
        v *= h->scale;
        if (h->softcap > 0) v = h->softcap * tanhf(v / h->softcap);
        const float got = s->host.logits[row + o];
        CHECK(h->softcap > 0 ? near(got, v, 1e-5f) : got == v, "case %d: logit %zu of row %d is %g instead of %g", i, o,
              (int)r, (double)got, (double)v);
    }
}

static void check_row(int i, const session *s, int32_t r) {
    const size_t n = (size_t)s->host.n_vocab;
    lst_row want;
    const lst_row *got = &s->host.result->row[r];
    lsk_level("portable")->row_stats(s->host.logits + (size_t)r * n, (int32_t)n, &want);
    for (int k = 0; k < LST_ROW_TOP; k++)
        CHECK(got->top_id[k] == want.top_id[k] && got->top_logit[k] == want.top_logit[k],
              "case %d, %zu tokens: place %d of row %d is %d instead of %d", i, n, k, (int)r, (int)got->top_id[k],
              (int)want.top_id[k]);
    CHECK(near(got->lse, want.lse, 1e-5f), "case %d: log-sum-exp %g instead of %g", i, (double)got->lse,
          (double)want.lse);
    CHECK(near(got->entropy, want.entropy, 1e-4f), "case %d: entropy %g instead of %g", i, (double)got->entropy,
          (double)want.entropy);
    CHECK(got->chosen == want.top_id[0] && got->chosen_logit == want.top_logit[0], "case %d: not the best is chosen",
          i);
    const int32_t p = s->step->parent[r];
    CHECK(same(got->parent_logit, p < 0 ? NAN : s->host.logits[(size_t)p * n + (size_t)s->step->token[r]]) &&
              same(got->parent_lse, p < 0 ? NAN : s->host.result->row[p].lse),
          "case %d: the parent of row %d", i, (int)r);
}

static void head_describes_rows(void) {
    enum { ROWS = 3, CHUNKS = 3 };
    const int32_t vocabs[] = {208, 5000, 49152, 70000, 4096, 4097, 513, 3};
    for (int i = 0; i < 24; i++) {
        const int32_t n = vocabs[i % 8], there = i % 3 ? ROWS : ROWS - 1;
        const int in_place = i == 3 || i == 7; // y is the logits, as they are or changed
        const int ties = i / 2 % 2, chunks = 1 + i / 8;
        session s = session_new(ROWS, (lsg_buffers){.n_vocab = n}, (size_t)n * CHUNKS, 0);
        for (size_t k = 0; k < s.y_floats; k++) s.host.y[k] = ties ? floorf(8 * rnd()) / 4 : 8 * rnd() / (float)chunks;
        if (i % 4 == 2)
            for (int32_t k = 0; k < n; k++)
                s.host.y[k] = k % 7 ? -0.0f : k % 14 ? 0 : -INFINITY; // row 0: hardly any differ
        const lsg_head h = {.rows = ROWS,
                            .chunks = in_place ? 1 : chunks,
                            .y = s.host.y,
                            .bias = i % 4 == 3 ? random_floats((size_t)n, 1, 0) : NULL,
                            .scale = i % 4 == 1 ? 0.5f : 1,
                            .softcap = i % 5 == 2 ? 15 : 0};
        lsg_head d = h;
        d.y = in_place ? s.device.logits : s.device.y;
        d.bias = put_floats(h.bias, (size_t)n);
        if (in_place) upload(s.device.logits, s.host.y, (size_t)n * ROWS * sizeof(float));
        else send_y(&s);
        random_tree(s.step, there, 0);
        for (int r = 0; r < ROWS; r++) s.step->token[r] = (int32_t)rnd_int((uint32_t)n);
        run_head(&s, &d);
        CHECK(!s.host.result->bad, "case %d: finite logits are bad", i);
        for (int32_t r = 0; r < there; r++) {
            check_logits(i, &s, &h, r);
            check_row(i, &s, r);
        }
        check_top(&s, s.host.result->last_row);
        // and of any row, with the same memory
        const int32_t row = there - 1, *rows[] = {put(&row, sizeof row), NULL};
        for (int k = 0; k < 2; k++) {
            lsg_result *to = s.device.result;
            MUST(lsg_top(s.device.logits, n, rows[k], s.device.keys, to->top_id, to->top_logit, stream));
            fetch_result(&s);
            check_top(&s, k ? 0 : row);
        }
        release();
    }
}

static void head_says_what_is_not_finite(void) {
    enum { ROWS = 2, N = 5000 };
    const float values[] = {NAN, INFINITY, -INFINITY, -NAN};
    const session s = logits_session(ROWS, N);
    const lsg_head d = plain_head(&s, 0);
    random_tree(s.step, ROWS, 1);
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < ROWS * N; k++) s.host.y[k] = rnd();
        const int at = i % 2 ? (int)rnd_int(ROWS * N) : i < 8 ? 0 : ROWS * N - 1;
        s.host.y[at] = values[i / 2 % 4];
        send_y(&s);
        run_head(&s, &d);
        CHECK(s.host.result->bad == (i / 2 % 4 != 2), "%g at %d: bad is %d", (double)values[i / 2 % 4], at,
              (int)s.host.result->bad);
    }
    for (int k = 0; k < N; k++) s.host.y[k] = rnd(), s.host.y[N + k] = -INFINITY; // nothing can follow a row
    send_y(&s);
    run_head(&s, &d);
    CHECK(s.host.result->bad, "no logit is finite: not bad");
    s.step->n_rows = 1; // that row is not there
    run_head(&s, &d);
    CHECK(!s.host.result->bad, "a row that is not there makes it bad");
}

// What is said about the rows of a tree whose tokens may be their parents' best ones. The depth of the path's end.
static int32_t check_path(const session *s, const int32_t *best, const float *last) {
    const lsg_step *step = s->step;
    const lst_row *got = s->host.result->row;
    int on_way[LST_MAX_ROWS];
    int32_t want = 0;
    for (int32_t r = 0; r < step->n_rows; r++) {
        const int32_t p = step->parent[r], token = step->token[r];
        on_way[r] = p < 0 || (on_way[p] && best[p] == token);
        if (on_way[r] && step->depth[r] > step->depth[want]) want = r;
        float logit = step->last_known ? last[token] : NAN, lse = step->last_known ? step->last_lse : NAN;
        if (p >= 0) {
            logit = s->host.y[p * s->host.n_vocab + token];
            lse = got[p].lse;
        }
        CHECK(same(logit, got[r].parent_logit), "row %d: %g instead of %g at its parent", (int)r,
              (double)got[r].parent_logit, (double)logit);
        CHECK(same(lse, got[r].parent_lse), "row %d: log-sum-exp", (int)r);
        CHECK(got[r].chosen == best[r], "row %d: %d is chosen, not %d", (int)r, (int)got[r].chosen, (int)best[r]);
    }
    CHECK(s->host.result->last_row == want, "%d rows: the path ends in %d, not in %d", (int)step->n_rows,
          (int)s->host.result->last_row, (int)want);
    check_top(s, want);
    return step->depth[want];
}

static void head_follows_the_chosen_path(void) {
    enum { ROWS = LST_MAX_ROWS, FEW = 48, N = 208 };
    const session s = logits_session(ROWS, N);
    const lsg_head d = plain_head(&s, 0);
    lsg_step *step = s.step;
    int32_t longest = 0;
    const float *last = random_floats(N, 1, 0);
    upload(s.device.last, last, N * sizeof *last);
    for (int i = 0; i < 60; i++) {
        const int32_t n = i % 5 ? 1 + (int32_t)rnd_int(FEW) : i % 2 ? FEW : ROWS;
        random_tree(step, n, i % 4 == 0);
        int32_t best[ROWS];
        for (int32_t r = 0; r < ROWS; r++) {
            for (int k = 0; k < N; k++) s.host.y[r * N + k] = rnd();
            best[r] = (int32_t)rnd_int(N);
            s.host.y[r * N + best[r]] = 2;
        }
        // often the chosen one, so that siblings hold the same
        for (int32_t r = 0; r < n; r++) step->token[r] = r && rnd_int(5) ? best[step->parent[r]] : (int32_t)rnd_int(N);
        step->head_row = i % 10 == 9 ? n - 1 : -1;
        step->last_known = i % 2;
        step->last_lse = 3.25f;
        send_y(&s);
        run_head(&s, &d);
        const lsg_result *got = s.host.result;
        if (step->head_row >= 0) { // the only row of logits
            CHECK(got->last_row == 0 && isnan(got->row[0].parent_logit) && isnan(got->row[0].parent_lse) &&
                      got->row[0].chosen == best[0],
                  "the only row: last %d, chosen %d", (int)got->last_row, (int)got->row[0].chosen);
            check_top(&s, 0);
            continue;
        }
        const int32_t depth = check_path(&s, best, last);
        if (depth > longest) longest = depth;
    }
    CHECK(longest > 3, "no path was followed");
}

// ---- sampling

static void sample_by(lsg_step *step, double temperature, int32_t top_k, double top_p) {
    step->sampled = 1;
    step->temperature = temperature;
    step->top_k = top_k;
    step->top_p = top_p;
}

typedef struct {
    double temperature;
    int32_t top_k;
    double top_p;
} rule;

// Draws of each row by each rule, of logits that reach from -spread to spread, beside the CPU's. spread 0: they fall
// from token to token.
static void compare_draws(const session *s, const rule *how, size_t n_how, float spread, int *draws, int *differ) {
    const lsg_head d = plain_head(s, 1);
    const int32_t rows = s->host.rows, n = s->host.n_vocab;
    for (size_t i = 0; i < n_how; i++) {
        sample_by(s->step, how[i].temperature, how[i].top_k, how[i].top_p);
        for (int32_t r = 0; r < rows; r++) s->step->uniform[r] = ls_uniform_at(42 + i, (uint64_t)r);
        for (int32_t k = 0; k < rows * n; k++) s->host.y[k] = spread > 0 ? spread * rnd() : -0.001f * (float)(k % n);
        send_y(s);
        run_head(s, &d);
        for (int32_t r = 0; r < rows; r++) {
            const float *logits = s->host.logits + (size_t)r * (size_t)n;
            const lst_row *got = &s->host.result->row[r];
            CHECK(got->chosen >= 0 && got->chosen < n && got->chosen_logit == logits[got->chosen], "row %d: token %d",
                  (int)r, (int)got->chosen);
            (*draws)++;
            *differ += got->chosen !=
                       ls_sample(logits, n, how[i].temperature, how[i].top_k, how[i].top_p, 42 + i, (uint64_t)r);
        }
    }
}

static void sampling_chooses_as_the_cpu(void) {
    enum { ROWS = 64, N = 700, FEW_ROWS = 6, MANY = 5 * LSG_SLICE - 7 };
    static const rule how[] = {{1, 0, 1},   {0.7, 40, 1}, {1.3, 0, 0.9}, {0.8, 50, 0.95},
                               {2, 1, 0.5}, {0.05, 0, 1}, {1, N, 0.3}};
    const session s = logits_session(ROWS, N), many = logits_session(FEW_ROWS, MANY);
    const lsg_head d = plain_head(&s, 1);
    const lst_row *got = s.host.result->row;
    random_tree(s.step, ROWS, 1);
    random_tree(many.step, FEW_ROWS, 1);
    int draws = 0, differ = 0;
    compare_draws(&s, how, LENGTH(how), 6, &draws, &differ);
    compare_draws(&s, how, LENGTH(how), 6, &draws, &differ);
    // where slices name fewer tokens than may be chosen and more, and where a few hold all the mass and where none do
    compare_draws(&many, how, LENGTH(how), 2000, &draws, &differ);
    compare_draws(&many, how, LENGTH(how), 3, &draws, &differ);
    // and where more of them stand above those than a list holds
    compare_draws(&many, how, LENGTH(how), 0, &draws, &differ);
    // The device's masses are 40-bit integers of a float exponential, the CPU's are doubles: the sum up to a token may
    // fall on the other side of u, or of top_p, where both lie within some 1e-6 of each other.
    CHECK(differ * 1000 <= draws, "%d of %d draws are not the CPU's", differ, draws);
    // where the step says so, the best is taken
    s.step->sampled = 0;
    run_head(&s, &d);
    for (int r = 0; r < ROWS; r++) CHECK(got[r].chosen == got[r].top_id[0], "row %d is sampled", r);
    // the only row has the random number of the row that it is
    sample_by(s.step, 1, 0, 1);
    for (int i = 0; i < 20; i++) {
        s.step->head_row = 5 + i;
        s.step->uniform[5 + i] = ls_uniform_at(1, (uint64_t)i);
        run_head(&s, &d);
        CHECK(got[0].chosen == ls_sample(s.host.logits, N, 1, 0, 1, 1, (uint64_t)i), "the only row, draw %d", i);
    }
}

static void sampling_has_the_right_frequencies(void) {
    enum { ROWS = 128, N = 24, BLOCKS = 4, DRAWS = ROWS * BLOCKS, TOP_K = 9 };
    const double temperature = 1.5, top_p = 0.8;
    const session s = logits_session(ROWS, N);
    const lsg_head d = plain_head(&s, 1);
    float logits[N];
    for (int k = 0; k < N; k++) logits[k] = floorf(4 * rnd()); // with ties
    for (int r = 0; r < ROWS; r++) memcpy(s.host.y + r * N, logits, sizeof logits);
    send_y(&s);
    random_tree(s.step, ROWS, 1);
    int order[N]; // best first, ties: lower id first
    double p[N], total = 0;
    for (int k = 0; k < N; k++) {
        int at = k;
        for (; at > 0 && logits[order[at - 1]] < logits[k]; at--) order[at] = order[at - 1];
        order[at] = k;
        total += p[k] = exp((double)logits[k] / temperature);
    }
    for (int how = 0; how < 3; how++) { // of all, of the best, of the most likely
        sample_by(s.step, temperature, how == 1 ? TOP_K : 0, how == 2 ? top_p : 1);
        int seen[N] = {0}, n = 0;
        for (int i = 0; i < BLOCKS; i++) {
            for (int r = 0; r < ROWS; r++) s.step->uniform[r] = ((double)(i * ROWS + r) + 0.5) / DRAWS; // evenly
            run_head(&s, &d);
            for (int r = 0; r < ROWS; r++) seen[s.host.result->row[r].chosen]++;
        }
        double kept = 0;
        while (n < (how == 1 ? TOP_K : N) && (how != 2 || kept < top_p * total)) kept += p[order[n++]];
        for (int k = 0; k < N; k++) { // evenly spaced numbers: each token takes its part of them, but for its ends
            const double want = k < n ? p[order[k]] / kept * DRAWS : 0;
            CHECK(fabs(seen[order[k]] - want) <= 1.001, "how %d: token %d is drawn %d times, not %g", how, order[k],
                  seen[order[k]], want);
        }
    }
}

const gpu_test head_tests[] = {
    TEST(head_describes_rows),         TEST(head_says_what_is_not_finite),       TEST(head_follows_the_chosen_path),
    TEST(sampling_chooses_as_the_cpu), TEST(sampling_has_the_right_frequencies), {0},
};
