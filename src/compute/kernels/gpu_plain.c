/* The CUDA kernels' results in plain C, on host memory. Sums are in double; values that pass from one kernel to the
 * next are rounded to bf16 or f32 as there. */
#include "compute/kernels/gpu.h"
#include "compute/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>

static double from_bf16(uint16_t bits) {
    return (double)lsk_bf16_to_float(bits);
}
static uint16_t bf16(double x) {
    return ls_to_bf16((float)x);
}

/* y[.][r][i], its chunks added, and the bias. */
static double added(const float *y, int32_t chunks, int32_t rows, int32_t width, const float *bias, int32_t r,
                    int32_t i) {
    double sum = bias ? (double)bias[i] : 0;
    for (int32_t c = 0; c < chunks; c++)
        sum += (double)y[((size_t)c * (size_t)rows + (size_t)r) * (size_t)width + (size_t)i];
    return sum;
}

static double inverse_rms(const double *v, int32_t n, float eps) {
    double sum = 0;
    for (int32_t i = 0; i < n; i++) sum += v[i] * v[i];
    return 1 / sqrt(sum / n + (double)eps);
}

static void norm_heads(double *v, int32_t n, const float *weight, float eps) {
    const double scale = inverse_rms(v, n, eps);
    for (int32_t i = 0; i < n; i++) v[i] *= scale * (double)weight[i];
}

void lsg_plain_matmul(const lsg_matrix *m, const uint16_t *x, float *y, int32_t rows) {
    double *w = malloc((size_t)m->n_in * sizeof *w);
    for (int32_t o = 0; o < m->n_out; o++) {
        for (int32_t k = 0; k < m->n_in; k++) w[k] = (double)lsg_value(m, o, k);
        for (int32_t r = 0; r < rows; r++) {
            double sum = 0;
            for (int32_t k = 0; k < m->n_in; k++) sum += from_bf16(x[(size_t)r * (size_t)m->n_in + (size_t)k]) * w[k];
            y[(size_t)r * (size_t)m->n_out + (size_t)o] = (float)sum;
        }
    }
    free(w);
}

/* v's norm in place. */
static void norm_row(double *v, int32_t n, const float *weight, const lsg_add *a) {
    double mean = 0;
    for (int32_t i = 0; i < n && a->layer_norm; i++) mean += v[i] / n;
    for (int32_t i = 0; i < n; i++) v[i] -= mean;
    const double scale = inverse_rms(v, n, a->eps);
    for (int32_t i = 0; i < n; i++)
        v[i] = v[i] * scale * (double)weight[i] + (a->layer_norm ? (double)weight[n + i] : 0);
}

void lsg_plain_add_norm(const lsg_buffers *b, const lsg_add *a) {
    const int32_t n = b->n_embd;
    double *v = malloc((size_t)n * sizeof *v);
    for (int32_t r = 0; r < b->step->n_rows; r++) {
        float *x = b->x + (size_t)r * (size_t)n;
        if (a->chunks) { /* what the sublayer adds */
            for (int32_t i = 0; i < n; i++) v[i] = added(b->y, a->chunks, b->rows, n, a->bias, r, i);
            if (a->post_norm) norm_row(v, n, a->post_norm, a);
            for (int32_t i = 0; i < n; i++) x[i] = (float)((double)x[i] + v[i] * (double)a->residual_scale);
        }
        for (int32_t i = 0; i < n; i++) v[i] = (double)x[i];
        if (a->norm) norm_row(v, n, a->norm, a); /* what the next matmul reads */
        for (int32_t i = 0; i < n; i++) b->xn[(size_t)r * (size_t)n + (size_t)i] = bf16(v[i]);
    }
    free(v);
}

/* One head's key (value 0) or value (1) of a cache column. */
static uint16_t *cached(const lsg_buffers *b, int32_t layer, int32_t value, int32_t kv_head, int32_t column) {
    const size_t head = (size_t)(layer * 2 + value) * (size_t)b->n_kv_heads + (size_t)kv_head;
    return b->pages[column / LSG_PAGE] + (head * LSG_PAGE + (size_t)(column % LSG_PAGE)) * (size_t)b->head_dim;
}

void lsg_plain_rotation(const lsg_buffers *b, const lsg_rotation *a) {
    const lsg_step *s = b->step;
    for (int32_t kind = 0; kind < 2; kind++)
        for (int32_t r = 0; r < s->n_rows && a->freq[kind]; r++)
            for (int32_t i = 0; i < a->dims / 2; i++) {
                const float angle = (float)(s->length + s->depth[r]) * a->freq[kind][i]; /* f32, as the reference
                                                                                             implementation has it */
                float *turn = b->turns + ((size_t)kind * (size_t)b->rows + (size_t)r) * (size_t)a->dims + 2 * i;
                turn[0] = (float)(cos((double)angle) * (double)a->magnitude[kind]);
                turn[1] = (float)(sin((double)angle) * (double)a->magnitude[kind]);
            }
}

/* One head's values, pairs turned by the angles of the row's position. */
static void rotate(double *v, const lsg_rope *a, const float *turn) {
    const int32_t pairs = a->rope_dims / 2;
    for (int32_t i = 0; i < pairs; i++) {
        const double c = (double)turn[2 * i], s = (double)turn[2 * i + 1];
        double *first = a->rope_interleaved ? v + 2 * i : v + i,
               *second = a->rope_interleaved ? first + 1 : first + pairs;
        const double x = *first, y = *second;
        *first = x * c - y * s;
        *second = x * s + y * c;
    }
}

void lsg_plain_rope_kv(const lsg_buffers *b, const lsg_rope *a) {
    const lsg_step *s = b->step;
    const int32_t hd = b->head_dim, nq = b->n_heads * hd, nk = b->n_kv_heads * hd, n = nq + 2 * nk;
    double *v = malloc((size_t)n * sizeof *v); /* heads of queries, of keys, of values */
    for (int32_t r = 0; r < s->n_rows; r++) {
        for (int32_t i = 0; i < n; i++) v[i] = added(b->y, a->chunks, b->rows, n, a->bias, r, i);
        if (a->qk_norm == LS_QK_NORM_WHOLE) {
            norm_heads(v, nq, a->q_norm, a->eps);
            norm_heads(v + nq, nk, a->k_norm, a->eps);
        }
        for (int32_t h = 0; h < b->n_heads + b->n_kv_heads; h++) {
            double *head = v + h * hd;
            const float *w = h < b->n_heads ? a->q_norm : a->k_norm;
            if (a->qk_norm == LS_QK_NORM_HEAD) norm_heads(head, hd, w, a->eps);
            if (!a->unrotated)
                rotate(head, a, b->turns + ((size_t)a->rope_kind * (size_t)b->rows + (size_t)r) * (size_t)a->rope_dims);
            if (a->qk_norm == LS_QK_NORM_ROTATED) norm_heads(head, hd, w, a->eps);
        }
        double q_scale = (double)a->attn_scale;
        if (a->temperature > 0)
            q_scale *= 1 + (double)a->temperature * log1p((s->length + s->depth[r]) / a->temperature_length);
        for (int32_t i = 0; i < nq; i++) b->q[(size_t)r * (size_t)nq + (size_t)i] = bf16(v[i] * q_scale);
        for (int32_t h = 0; h < b->n_kv_heads; h++) {
            uint16_t *key = cached(b, a->layer, 0, h, s->column[r]), *value = cached(b, a->layer, 1, h, s->column[r]);
            for (int32_t d = 0; d < hd; d++) {
                key[d] = bf16(v[nq + h * hd + d]);
                value[d] = bf16(v[nq + nk + h * hd + d]);
            }
        }
    }
    free(v);
}

/* What one query head sees at logical positions [first, position], whose cache columns are given. */
static void attend_head(const lsg_buffers *b, const lsg_attend *a, const uint16_t *q, int32_t kv_head,
                        const float *sink, const int32_t *columns, int32_t first, int32_t position, uint16_t *to) {
    const int32_t hd = b->head_dim;
    double *out = calloc((size_t)hd, sizeof *out), sum = sink ? 1 : 0;
    float most = sink ? *sink : -INFINITY; /* score of the chunks so far */
    for (int32_t chunk = first / LSG_CHUNK; chunk <= position / LSG_CHUNK; chunk++) {
        const int32_t begin = chunk * LSG_CHUNK > first ? chunk * LSG_CHUNK : first,
                      last = (chunk + 1) * LSG_CHUNK - 1 < position ? (chunk + 1) * LSG_CHUNK - 1 : position;
        float score[LSG_CHUNK], chunk_most = -INFINITY;
        for (int32_t p = begin; p <= last; p++) {
            const uint16_t *key = cached(b, a->layer, 0, kv_head, columns[p]);
            double dot = 0;
            for (int32_t d = 0; d < hd; d++) dot += from_bf16(q[d]) * from_bf16(key[d]);
            const float x = a->softcap > 0 ? a->softcap * tanhf((float)dot / a->softcap) : (float)dot;
            score[p - begin] = x;
            if (x > chunk_most) chunk_most = x;
        }
        const float before = most;
        if (chunk_most > most) most = chunk_most;
        const double fade = exp((double)before - (double)most), share = exp((double)chunk_most - (double)most);
        sum *= fade;
        for (int32_t d = 0; d < hd; d++) out[d] *= fade;
        for (int32_t p = begin; p <= last; p++) {
            const uint16_t *value = cached(b, a->layer, 1, kv_head, columns[p]);
            const double weight = from_bf16(bf16((double)expf(score[p - begin] - chunk_most)));
            sum += weight * share;
            for (int32_t d = 0; d < hd; d++) out[d] += weight * share * from_bf16(value[d]);
        }
    }
    for (int32_t d = 0; d < hd; d++) to[d] = bf16(out[d] / sum);
    free(out);
}

void lsg_plain_attention(const lsg_buffers *b, const lsg_attend *a) {
    const lsg_step *s = b->step;
    int32_t *columns = malloc((size_t)(s->length + LST_MAX_ROWS) * sizeof *columns); /* of a row's logical positions */
    for (int32_t p = 0; p < s->length; p++) columns[p] = b->columns[p];
    for (int32_t r = 0; r < s->n_rows; r++) {
        const int32_t position = s->length + s->depth[r],
                      first = a->window && position + 1 > a->window ? position + 1 - a->window : 0;
        for (int32_t row = r; row >= 0; row = s->parent[row]) columns[s->length + s->depth[row]] = s->column[row];
        for (int32_t h = 0; h < b->n_heads; h++) {
            const size_t at = ((size_t)r * (size_t)b->n_heads + (size_t)h) * (size_t)b->head_dim;
            attend_head(b, a, b->q + at, h / (b->n_heads / b->n_kv_heads), a->sinks ? a->sinks + h : NULL, columns,
                        first, position, b->xn + at);
        }
    }
    free(columns);
}

static double activated(double x, const lsg_gating *a) {
    const float *of = a->xielu;
    if (a->activation == LS_ACT_RELU2) return x > 0 ? x * x : 0;
    if (a->activation == LS_ACT_XIELU) {
        const double linear = (double)of[2] * x;
        if (x > 0) return (double)of[0] * x * x + linear;
        return (expm1(fmin(x, (double)of[3])) - x) * (double)of[1] + linear;
    }
    /* gelu by tanh: x (1 + tanh(v / 2)) / 2 = x / (1 + e^-v), which keeps its digits far below 0 */
    const double v = a->activation == LS_ACT_SILU ? x : 2 * 0.79788456080286536 * (x + 0.044715 * x * x * x);
    return x / (1 + exp(-v));
}

void lsg_plain_gate(const lsg_buffers *b, const lsg_gating *a) {
    const int32_t n = b->n_ff, wide = a->ungated ? n : 2 * n;
    for (int32_t r = 0; r < b->step->n_rows; r++)
        for (int32_t i = 0; i < n; i++) {
            const double g = added(b->y, a->chunks, b->rows, wide, a->bias, r, i),
                         up = a->ungated ? 1 : added(b->y, a->chunks, b->rows, wide, a->bias, r, n + i),
                         x = fmin(g, LS_CLAMP); /* as the clamped activation takes it */
            b->xn[(size_t)r * (size_t)n + (size_t)i] =
                bf16(a->activation == LS_ACT_CLAMPED
                         ? x / (1 + exp(-(double)LS_CLAMP_SLOPE * x)) * (1 + fmax(fmin(up, LS_CLAMP), -LS_CLAMP))
                         : activated(g, a) * up);
        }
}
