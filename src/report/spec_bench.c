#include "report/spec_bench.h"
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_number(const char *s) {
    const size_t n = strlen(s);
    return n && n < 16 && strspn(s, "0123456789") == n;
}

void ls_spec_bench_line(const ls_result *r, const char *name, const char *category, const char *answer_id,
                        const char *model_id, ls_buf *out) {
    ls_jsonw w = {.out = out};
    ls_jw_open(&w, '{');
    ls_jw_key(&w, "question_id");
    if (is_number(name)) ls_jw_int(&w, strtoll(name, NULL, 10));
    else ls_jw_str(&w, name);
    ls_jw_field_str(&w, "category", category);
    ls_jw_field_str(&w, "answer_id", answer_id);
    ls_jw_field_str(&w, "model_id", model_id);
    ls_jw_field_open(&w, "choices", '[');
    ls_jw_open(&w, '{');
    ls_jw_field_int(&w, "index", 0);
    ls_jw_field_open(&w, "turns", '[');
    for (size_t i = 0; i < r->turns; i++) ls_jw_strn(&w, r->turn[i].text, r->turn[i].n);
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "decoding_steps", '[');
    for (size_t i = 0; i < r->turns; i++) ls_jw_u64(&w, r->turn[i].steps);
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "new_tokens", '[');
    for (size_t i = 0; i < r->turns; i++) ls_jw_u64(&w, r->turn[i].emitted);
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "wall_time", '[');
    for (size_t i = 0; i < r->turns; i++) {
        const double prompt = r->turn[i].prefill_ms;
        ls_jw_num(&w, ((isfinite(prompt) ? prompt : 0) + r->turn[i].decode_ms) / 1e3, 9);
    }
    ls_jw_close(&w, ']');
    ls_jw_field_open(&w, "accept_lengths", '[');
    for (size_t i = 0; i < r->lengths.n; i++) ls_jw_int(&w, r->lengths.p[i]);
    ls_jw_close(&w, ']');
    ls_jw_close(&w, '}');
    ls_jw_close(&w, ']');
    ls_jw_close(&w, '}');
    ls_buf_char(out, '\n');
}
