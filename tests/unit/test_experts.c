// Experts of a mixture: which a forward woke, counted plainly beside ls_experts_count.
#include "base/rng.h"
#include "engine/experts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static uint64_t drawn; // numbers drawn so far

static int32_t below(int32_t n) {
    return (int32_t)(ls_uniform_at(5, drawn++) * n);
}

enum { MOST_ROWS = 20, LAYERS = 3, EXPERTS = 9, USED = 3 };

static int32_t expert[MOST_ROWS * LAYERS * USED];

static const int32_t *took(int32_t row, int32_t layer) {
    return expert + (row * LAYERS + layer) * USED;
}

static bool has(int32_t row, int32_t layer, int32_t x) {
    bool is = false;
    for (int32_t j = 0; j < USED; j++) is |= took(row, layer)[j] == x;
    return is;
}

static void test_count(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        const int32_t rows = 1 + below(MOST_ROWS), n = round % 2 ? rows : 1 + below(rows);
        for (int32_t i = 0; i < rows * LAYERS; i++)
            for (int32_t j = 0; j < USED; j++) expert[i * USED + j] = (below(3) * 3 + j) % EXPERTS;
        int32_t awake[LAYERS], alone[MOST_ROWS], all = 0, want_alone[MOST_ROWS] = {0};
        const lst_experts_seen e = {.n_rows = rows, .n_layers = LAYERS, .n_used = USED, .expert = expert};
        const int32_t count = ls_experts_count(&e, n == rows ? 0 : n, EXPERTS, awake, alone);
        for (int32_t layer = 0; layer < LAYERS; layer++) {
            int32_t want = 0;
            for (int32_t x = 0; x < EXPERTS; x++) {
                int32_t by = 0, last = 0;
                for (int32_t i = 0; i < n; i++)
                    if (has(i, layer, x)) by++, last = i;
                want += by > 0;
                want_alone[last] += by == 1;
            }
            assert_int_equal(awake[layer], want);
            all += want;
        }
        assert_int_equal(count, all);
        assert_int_equal(ls_experts_count(&e, n, EXPERTS, NULL, NULL), all);
        for (int32_t i = 0; i < n; i++) assert_int_equal(alone[i], want_alone[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
