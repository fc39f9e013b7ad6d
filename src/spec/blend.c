#include "spec/blend.h"

static const float PRIOR_TRIALS = 6, MEMORY = 400;
static const double BEYOND =
    0.25; // factor for a look-up's probability if the token is not among the second model's best

int32_t ls_blend_key(const ls_views *v) {
    static const float p_below[LS_BLEND_MODEL - 1] = {0.02f, 0.05f, 0.1f, 0.2f, 0.35f, 0.5f, 0.7f, 0.9f};
    static const double looked_below[LS_BLEND_LOOKED - 2] = {0.05, 0.15, 0.3, 0.5, 0.75};
    int32_t model = 0, looked = 0;
    if (v->p >= 0) {
        while (model < LS_BLEND_MODEL - 1 && v->p >= p_below[model]) model++;
        model = 1 + 2 * model + v->chosen;
    }
    if (v->looked >= 0) {
        while (looked < LS_BLEND_LOOKED - 2 && v->looked >= looked_below[looked]) looked++;
        looked++;
    }
    return model * LS_BLEND_LOOKED + looked;
}

double ls_blend_rate(const ls_blend *b, const ls_views *v) {
    const int32_t key = ls_blend_key(v);
    const double p = v->p > 0 ? (double)v->p : 0, looked = v->looked > 0 ? v->looked : 0,
                 either = v->p < 0 ? looked * BEYOND : 1 - (1 - p) * (1 - looked);
    return ((double)b->hit[key] + (double)PRIOR_TRIALS * either) / (double)(b->trial[key] + PRIOR_TRIALS);
}

void ls_blend_learn(ls_blend *b, int32_t key, bool hit) {
    b->hit[key] += hit;
    b->trial[key] += 1;
    if (b->trial[key] > MEMORY) {
        b->hit[key] /= 2;
        b->trial[key] /= 2;
    }
}
