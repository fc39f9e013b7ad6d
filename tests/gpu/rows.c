// What happens to a row between matmuls, against its twins.
#include "tests/gpu/check.h"
#include "tests/gpu/session.h"

#include <math.h>
#include <string.h>

static void embedding_rows_are_the_weights(void) {
    enum { ROWS = 9, THERE = 7, N_EMBD = 512, N_VOCAB = 40 };
    for (int t = 0; t < 2 * MATRIX_TYPES; t++) {
        const int type = matrix_types[t % MATRIX_TYPES];
        const int32_t from = t < MATRIX_TYPES ? 0 : 13; // other devices have the tokens before it, and those behind
        const matrix m = random_matrix(type, N_VOCAB, N_EMBD);
        session s = session_new(ROWS, (lsg_buffers){.n_embd = N_EMBD, .n_vocab = N_VOCAB, .vocab_from = from}, 1, 0);
        const float scale = t % 2 ? 1 : 1.7f;
        s.step->n_rows = THERE;
        for (int r = 0; r < ROWS; r++) s.step->token[r] = r == 1 ? N_VOCAB - 1 : (int32_t)rnd_int(N_VOCAB + 2 * from);
        send_step(&s);
        MUST(lsg_embed(&s.device, &m.device, scale, stream));
        const float *x = take(s.device.x, ROWS * N_EMBD * sizeof *x);
        for (int r = 0; r < ROWS; r++)
            for (int i = 0; i < N_EMBD; i++) {
                const int32_t o = s.step->token[r] - from;
                const float got = x[r * N_EMBD + i],
                            want = o < 0 || o >= N_VOCAB ? 0 : lsg_value(&m.host, o, i) * scale;
                CHECK(r < THERE ? got == want : isnan(got), "type %d: %g instead of %g in row %d", type, (double)got,
                      (double)want, r);
            }
        release();
    }
}

static void sums_are_those_of_the_chunks_in_order(void) {
    enum { ROWS = 5, THERE = 4, CHUNKS = 7 };
    for (int32_t n = 4; n < 3000; n = n * 3 + 4) {
        session s = session_new(ROWS, (lsg_buffers){.n_embd = 32}, (size_t)n * CHUNKS, 0);
        float *sums = room(ROWS * (size_t)n * sizeof *sums);
        for (size_t k = 0; k < s.y_floats; k++) s.host.y[k] = rnd();
        send_y(&s);
        s.step->n_rows = THERE;
        send_step(&s);
        MUST(lsg_arrive(stream)); // as behind a copy
        MUST(lsg_sum(&s.device, CHUNKS, n, sums, stream));
        const float *got = take(sums, THERE * (size_t)n * sizeof *got);
        for (int32_t i = 0; i < THERE * n; i++) {
            float want = 0;
            for (int32_t c = 0; c < CHUNKS; c++) want += s.host.y[(size_t)c * ROWS * (size_t)n + (size_t)i];
            CHECK(got[i] == want, "%d outputs: %g instead of %g", n, (double)got[i], (double)want);
        }
        release();
    }
}

static void taken_rows_are_the_values(void) {
    enum { ROWS = 5, THERE = 4, SLOTS = 3 };
    const int32_t widths[] = {32, 576, 2048};
    for (int i = 0; i < 6; i++) {
        const size_t n = (size_t)widths[i % 3], values = ROWS * n;
        const int32_t normed = i / 3;
        session s = session_new(ROWS, (lsg_buffers){.n_embd = (int32_t)n}, n, 0);
        for (size_t k = 0; k < values; k++) s.host.x[k] = rnd();
        uint16_t *xn = fresh(values * sizeof *xn);
        for (size_t k = 0; k < values; k++) xn[k] = (uint16_t)(0x3F00 + rnd_int(0x80)); // bf16
        upload(s.device.x, s.host.x, values * sizeof(float));
        upload(s.device.xn, xn, values * sizeof *xn);
        s.step->n_rows = THERE;
        send_step(&s);
        float *out = room(values * SLOTS * sizeof *out);
        MUST(lsg_arrive(stream)); // as behind a copy
        MUST(lsg_take_rows(&s.device, normed, out + n, (int64_t)(SLOTS * n), stream));
        const float *got = take(out, values * SLOTS * sizeof *got);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t k = 0; k < SLOTS * n; k++) {
                const int there = r < THERE && k / n == 1;
                const size_t at = r * n + k % n;
                const uint32_t bits = (uint32_t)xn[at] << 16;
                float want = s.host.x[at];
                if (normed) memcpy(&want, &bits, sizeof want);
                const float is = got[r * SLOTS * n + k];
                CHECK(there ? is == want : isnan(is), "width %zu, row %zu, place %zu: %g", n, r, k, (double)is);
            }
        release();
    }
}

static void add_norm_is_its_twin(void) {
    enum { ROWS = 4, THERE = 3 };
    const int32_t widths[] = {32, 96, 576, 2048}, chunks[] = {1, 3, 0};
    for (int i = 0; i < 96; i++) {
        const size_t n = (size_t)widths[i % 4], values = ROWS * n;
        session s = session_new(ROWS, (lsg_buffers){.n_embd = (int32_t)n}, n * 3, 0);
        for (size_t k = 0; k < values; k++) s.host.x[k] = 2 * rnd();
        for (size_t k = 0; k < s.y_floats; k++) s.host.y[k] = rnd();
        upload(s.device.x, s.host.x, values * sizeof(float));
        send_y(&s);
        s.step->n_rows = THERE;
        send_step(&s);
        const lsg_add a = {.chunks = chunks[i / 32],
                           .bias = i / 8 % 2 ? random_floats(n, 1, 0) : NULL,
                           .post_norm = i / 16 % 2 ? random_floats(2 * n, 0.5f, 1) : NULL,
                           .norm = i / 4 % 2 ? random_floats(2 * n, 0.5f, 1) : NULL,
                           .layer_norm = i / 4 % 4 >= 2,
                           .residual_scale = i % 3 ? 1 : 0.22f,
                           .eps = i % 5 ? 1e-5f : 0.3f};
        lsg_add d = a;
        d.bias = put_floats(a.bias, n);
        d.post_norm = put_floats(a.post_norm, 2 * n);
        d.norm = put_floats(a.norm, 2 * n);
        MUST(lsg_add_norm(&s.device, &d, stream));
        lsg_plain_add_norm(&s.host, &a);
        const float *x = take(s.device.x, values * sizeof *x);
        const uint16_t *xn = take(s.device.xn, values * sizeof *xn);
        for (size_t k = 0; k < values; k++) // relative to what is added up
            CHECK(near(x[k], s.host.x[k], 1e-5f), "case %d: %g instead of %g", i, (double)x[k], (double)s.host.x[k]);
        CLOSE_BF16("the norm", xn, s.host.xn, values, 1e-5f); // rows that are not there: NaN in both
        release();
    }
}

// Cache cells that the device or the twin wrote: these ones, alike.
static void check_pages(const session *s, size_t want_written) {
    const size_t most = N_PAGES * s->page_values;
    uint16_t *got = fresh(most * sizeof *got), *want = fresh(most * sizeof *want);
    size_t written = 0, by_twin = 0;
    for (int p = 0; p < N_PAGES; p++) {
        const uint16_t *page = take(s->device_page[p], s->page_values * sizeof *page);
        for (size_t k = 0; k < s->page_values; k++) {
            if (page[k] == 0xFFFF && s->page_of[p][k] == 0xFFFF) continue;
            got[written] = page[k];
            want[written++] = s->page_of[p][k];
            by_twin += s->page_of[p][k] != 0xFFFF;
        }
    }
    CHECK(written == want_written && by_twin == want_written, "%zu and %zu cells are written instead of %zu", written,
          by_twin, want_written);
    CLOSE_BF16("keys and values", got, want, written, 1e-6f);
}

static void rope_kv_is_its_twin(void) {
    enum { ROWS = 6, THERE = 5 };
    const int32_t shapes[][3] = {
        {4, 2, 32}, {2, 2, 16}, {9, 3, 64}, {5, 1, 96}, {8, 1, 128}}; // heads of q, of k; head_dim
    for (int i = 0; i < 60; i++) {
        const int32_t *shape = shapes[i % 5];
        const int qk_norm = i % 4;
        const size_t hd = (size_t)shape[2], nq = (size_t)shape[0] * hd, nk = (size_t)shape[1] * hd, n = nq + 2 * nk,
                     q_norms = qk_norm == LS_QK_NORM_WHOLE ? nq : hd, k_norms = qk_norm == LS_QK_NORM_WHOLE ? nk : hd;
        session s = session_new(
            ROWS, (lsg_buffers){.n_heads = shape[0], .n_kv_heads = shape[1], .head_dim = shape[2], .n_layers = 2},
            2 * n, 0);
        for (size_t k = 0; k < s.y_floats; k++) s.host.y[k] = rnd();
        send_y(&s);
        random_tree(s.step, THERE, 0);
        s.step->length = (int32_t)rnd_int(3000);
        random_columns(s.step->column, ROWS);
        send_step(&s);
        const int32_t dims = i / 4 % 2 ? shape[2] / 2 : shape[2];
        float *freq = fresh((size_t)dims / 2 * sizeof *freq);
        for (int k = 0; k < dims / 2; k++) freq[k] = (float)pow(10000, -2.0 * k / dims);
        const lsg_rope a = {.layer = 1,
                            .chunks = 1 + i % 2,
                            .qk_norm = qk_norm,
                            .bias = i / 3 % 2 ? random_floats(n, 1, 0) : NULL,
                            .q_norm = qk_norm ? random_floats(q_norms, 0.5f, 1) : NULL,
                            .k_norm = qk_norm ? random_floats(k_norms, 0.5f, 1) : NULL,
                            .eps = i / 3 % 2 ? 1e-6f : 0.2f,
                            .attn_scale = 0.125f,
                            .rope_dims = dims,
                            .rope_interleaved = i / 2 % 2,
                            .rope_kind = i / 4 % 2,
                            .unrotated = i % 7 == 6,
                            .temperature = i / 5 % 3 == 2 ? 0.25f : 0,
                            .temperature_length = 700};
        const float magnitude = i / 8 % 2 || qk_norm == LS_QK_NORM_ROTATED ? 1 : 1.2f;
        lsg_rotation turn = {.dims = dims, .magnitude = {magnitude, magnitude}};
        turn.freq[a.rope_kind] = freq;
        lsg_rope d = a;
        d.bias = put_floats(a.bias, n);
        d.q_norm = put_floats(a.q_norm, q_norms);
        d.k_norm = put_floats(a.k_norm, k_norms);
        lsg_rotation device_turn = turn;
        device_turn.freq[a.rope_kind] = put_floats(freq, (size_t)dims / 2);
        MUST(lsg_begin(&s.device, &device_turn, stream));
        MUST(lsg_rope_kv(&s.device, &d, stream));
        lsg_plain_rotation(&s.host, &turn);
        lsg_plain_rope_kv(&s.host, &a);
        const uint16_t *q = take(s.device.q, ROWS * nq * sizeof *q);
        CLOSE_BF16("queries", q, s.host.q, ROWS * nq, 1e-6f);
        check_pages(&s, THERE * 2 * nk);
        release();
    }
}

static void gate_is_its_twin(void) {
    enum { ROWS = 5, THERE = 4, N_FF = 700 };
    for (int i = 0; i < 16; i++) {
        lsg_gating a = {
            .chunks = i % 2 ? 3 : 1, .activation = i / 2 % 4, .ungated = i / 8, .xielu = {0.75f, 1.25f, 0.5f, -1e-6f}};
        const size_t wide = a.ungated ? N_FF : 2 * N_FF;
        session s = session_new(ROWS, (lsg_buffers){.n_ff = N_FF}, 2 * N_FF * 3, 0);
        // Whole 256ths, whose sums are exact, so that both sides take the function of the same number; some saturate.
        for (size_t k = 0; k < s.y_floats; k++) s.host.y[k] = rintf((k % 10 ? 4 : 60) * 256 * rnd()) / 256;
        float *bias = i / 4 % 2 ? random_floats(wide, 256, 0) : NULL;
        for (size_t k = 0; bias && k < wide; k++) bias[k] = rintf(bias[k]) / 256;
        send_y(&s);
        s.step->n_rows = THERE;
        send_step(&s);
        a.bias = put_floats(bias, wide);
        MUST(lsg_gate(&s.device, &a, stream));
        a.bias = bias;
        lsg_plain_gate(&s.host, &a);
        const uint16_t *xn = take(s.device.xn, ROWS * N_FF * sizeof *xn);
        CLOSE_BF16("the gate", xn, s.host.xn, ROWS * N_FF, 1e-30f); // e^88 is the last one that an f32 holds
        release();
    }
}

const gpu_test rows_tests[] = {
    TEST(embedding_rows_are_the_weights),
    TEST(sums_are_those_of_the_chunks_in_order),
    TEST(taken_rows_are_the_values),
    TEST(add_norm_is_its_twin),
    TEST(rope_kv_is_its_twin),
    TEST(gate_is_its_twin),
    {0},
};
