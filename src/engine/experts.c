#include "engine/engine.h"
#include "base/mem.h"

#include <stdlib.h>

int32_t ls_experts_count(const lst_experts_seen *e, int32_t n_rows, int32_t n_experts, int32_t *awake, int32_t *alone) {
    enum { NOBODY = -1, SEVERAL = -2 };
    const int32_t n = n_rows ? n_rows : e->n_rows;
    int32_t *by = ls_malloc(sizeof *by * (size_t)(n_experts > 0 ? n_experts : 1)), all = 0; // the row that took it
    for (int32_t i = 0; alone && i < n; i++) alone[i] = 0;
    for (int32_t layer = 0; layer < e->n_layers; layer++) {
        int32_t count = 0;
        for (int32_t x = 0; x < n_experts; x++) by[x] = NOBODY;
        for (int32_t i = 0; i < n; i++) {
            const int32_t *took = e->expert + ((size_t)i * (size_t)e->n_layers + (size_t)layer) * (size_t)e->n_used;
            for (int32_t j = 0; j < e->n_used; j++) {
                count += by[took[j]] == NOBODY;
                by[took[j]] = by[took[j]] == NOBODY ? i : SEVERAL;
            }
        }
        for (int32_t x = 0; alone && x < n_experts; x++)
            if (by[x] >= 0) alone[by[x]]++;
        if (awake) awake[layer] = count;
        all += count;
    }
    free(by);
    return all;
}
