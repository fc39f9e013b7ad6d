#include "tests/gpu/session.h"
#include "tests/gpu/check.h"
#include "compute/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#define NUMBER(name, ...) LS_GGML_##name,
const int matrix_types[MATRIX_TYPES] = {LS_GGML_TYPES(NUMBER)};

matrix random_matrix(int type, int64_t n_out, int64_t n_in) {
    matrix m;
    unsigned char *raw = random_raw(type, n_out, n_in);
    if (lsg_matrix_init(&m.host, type, n_out, n_in, H100)) abort();
    const size_t bytes = lsg_matrix_bytes(&m.host);
    uint8_t *host = memset(fresh(bytes), 0, bytes);
    const int64_t first = n_out / 2; // in two parts, as stacked tensors are
    lsg_pack_rows(&m.host, host, first, type, raw + (size_t)first * lsk_row_bytes(type, n_in), n_out - first);
    lsg_pack_rows(&m.host, host, 0, type, raw, first);
    free(raw);
    m.device = m.host;
    m.host.weights = host;
    m.device.weights = put(host, bytes);
    return m;
}

session session_new(int32_t rows, lsg_buffers sizes, size_t y_of_row, int32_t attention_chunks) {
    session s = {.host = sizes, .device = sizes, .y_floats = (size_t)rows * y_of_row};
    const size_t r = (size_t)rows, q = (size_t)sizes.n_heads * (size_t)sizes.head_dim;
    size_t widest = (size_t)sizes.n_embd > q ? (size_t)sizes.n_embd : q;
    if ((size_t)sizes.n_ff > widest) widest = (size_t)sizes.n_ff;
    s.page_values = 2 * (size_t)(sizes.n_layers * sizes.n_kv_heads) * LSG_PAGE * (size_t)sizes.head_dim;
    s.host.rows = s.device.rows = rows;
    s.host.step = s.step = fresh(sizeof(lsg_step));
    memset(s.step, 0, sizeof *s.step);
    s.step->keep_row = s.step->head_row = -1;
    s.device.step = room(sizeof(lsg_step));
#define BOTH(field, bytes)                                                                                             \
    s.host.field = fresh(bytes);                                                                                       \
    s.device.field = room(bytes)
    BOTH(result, sizeof(lsg_result));
    BOTH(columns, CONTEXT * sizeof(int32_t));
    BOTH(ancestors, sizeof(int16_t) * LST_MAX_ROWS * LST_MAX_ROWS);
    BOTH(x, r * (size_t)sizes.n_embd * sizeof(float));
    BOTH(xn, r * widest * sizeof(uint16_t));
    BOTH(q, r * q * sizeof(uint16_t));
    BOTH(y, s.y_floats * sizeof(float));
    BOTH(part_o, (size_t)attention_chunks * r * q * sizeof(float));
    BOTH(part_ml, (size_t)attention_chunks * r * (size_t)sizes.n_heads * 2 * sizeof(float));
    s.host.parts = s.device.parts = (size_t)attention_chunks * r;
    BOTH(turns, 2 * r * (size_t)sizes.head_dim * sizeof(float));
    BOTH(logits, r * (size_t)sizes.n_vocab * sizeof(float));
    BOTH(last, (size_t)sizes.n_vocab * sizeof(float));
    BOTH(keys, lsg_keys_count(rows, sizes.n_vocab) * sizeof(uint64_t));
    BOTH(slices, r * (size_t)((sizes.n_vocab + LSG_SLICE - 1) / LSG_SLICE) * LSG_SLICE_FLOATS * sizeof(float));
#undef BOTH
    for (int i = 0; i < N_PAGES; i++) {
        s.page_of[i] = fresh(s.page_values * sizeof(uint16_t));
        s.device_page[i] = room(s.page_values * sizeof(uint16_t));
    }
    uint16_t **pages = fresh(sizeof s.page_of);
    memcpy(pages, s.page_of, sizeof s.page_of);
    s.host.pages = pages;
    s.device.pages = put(s.device_page, sizeof s.device_page);
    return s;
}

void send_step(const session *s) {
    upload((void *)(uintptr_t)s->device.step, s->step, sizeof *s->step);
}
void send_y(const session *s) {
    upload(s->device.y, s->host.y, s->y_floats * sizeof(float));
}

void random_tree(lsg_step *s, int32_t n, int chain) {
    s->n_rows = n;
    for (int32_t i = 0; i < n; i++) {
        s->parent[i] = i == 0 ? -1 : chain || rnd_int(2) ? i - 1 : (int32_t)rnd_int((uint32_t)i);
        s->depth[i] = i == 0 ? 0 : s->depth[s->parent[i]] + 1;
    }
}

void random_columns(int32_t *columns, int32_t n) {
    static int32_t all[CONTEXT];
    for (int32_t i = 0; i < CONTEXT; i++) all[i] = i;
    for (int32_t i = 0; i < n; i++) {
        const int32_t at = i + (int32_t)rnd_int((uint32_t)(CONTEXT - i)), c = all[at];
        all[at] = all[i];
        columns[i] = all[i] = c;
    }
}
