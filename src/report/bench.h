// Results of a benchmark of methods: the manifest, a result for each prompt and method, and their tables.
// The JSON file contains everything: the program reads it to resume an interrupted benchmark, to print it in another
// format, and to compare it with another benchmark.
#pragma once
#include "base/err.h"
#include "decode/totals.h"
#include "report/table.h"

typedef struct {
#define TEXT(field, words) char field[LS_COST_TEXT]; // the longest is of costs
#define NUMBER(field, words, unit) double field;
#include "report/manifest.def"
} ls_manifest;

typedef struct {
    char label[80];
    char guarantee[16]; // ls_guarantee_name: "text", "distribution" or "none"
    bool plain;
} ls_bench_method;

typedef struct {
    char *name, *category, *task; // owned; task: see decode/suite.h, tables have a column for each task
    char text[17];                // the first 16 hex digits of the SHA-256 of its turns' texts
} ls_bench_prompt;

typedef struct {
    ls_manifest manifest;
    char settings[65]; // SHA-256 of all inputs of the results: settings, methods, prompts
    ls_bench_method *methods;
    ls_bench_prompt *prompts;
    ls_result *results; // [prompt][method]
    int n;              // methods
    char against[24];   // the baseline of the speedups: "plain", or "single-row forwards" timed in the same runs
    char judged[80];    // the method whose output the others must equal: the first exact one; "": none
    int reference;      // its index; -1: it is not in this benchmark
    int plain;          // index of plain decoding; -1: none
    int32_t max_tokens, repeat;
    bool exact;             // the engine's rows
    size_t planned;         // prompts of the whole benchmark
    size_t n_prompts, done; // prompts with allocated results; complete prompts
    size_t disturbed;       // complete prompts during which the machine stayed busy in every attempt
    char **left_out;        // why a line or a prompt of the suite was skipped; owned
    size_t n_left_out;
    ls_ids resumed; // number of complete prompts at each resumption
} ls_bench;

// Allocates the results, and finds reference and plain. The caller has set methods, prompts and judged; the benchmark
// owns them from now on.
void ls_bench_begin(ls_bench *b);
void ls_bench_free(ls_bench *b);
// The benchmark with n of its methods, in this order; everything within the results stays b's.
ls_bench ls_bench_view(const ls_bench *b, const int *methods, int n);
void ls_bench_view_free(ls_bench *view);
void ls_bench_leave_out(ls_bench *b, const char *why);
ls_result *ls_bench_result(const ls_bench *b, size_t prompt, int method);
// Sums the complete prompts of a category (NULL: all), which both the method and plain decoding answered, with the 95%
// interval of the speedup.
ls_total ls_bench_total(const ls_bench *b, int method, const char *category);
// The tasks in order of appearance, NULL-terminated, and behind each one the categories that are part of it, as the
// eight of mt_bench are; owned by the caller, the names borrowed.
const char **ls_bench_categories(const ls_bench *b);
// Further speedups over plain decoding; NAN: the benchmark has none.
typedef struct {
    double with_prompt; // with the prefill in both times
    // as Spec-Bench's evaluation/speed.py has it: the mean of the prompts' tokens/s over that of plain decoding, with
    // the prompts' time (as there) and without
    double of_means_with_prompt, of_means;
} ls_bench_speedups;
ls_bench_speedups ls_bench_over_plain(const ls_bench *b, const ls_total *t, const char *category);
// Lower bound of the time / measured time of the steps. The bound is one read of weights, keys and values per forward
// at the measured bandwidth. NAN: not known.
double ls_bench_of_limit(const ls_bench *b, const ls_total *t);
double ls_tokens_per_s(uint64_t tokens, double us); // NAN: the time is not known
bool ls_bench_equal(const ls_bench *b);             // every exact method emitted the reference's tokens
// Appends a warning if other programs disturbed prompts.
void ls_bench_tell_busy(const ls_bench *b, ls_buf *out);

// ---- its forms
void ls_bench_json(const ls_bench *b, ls_buf *out);
// Checks every number. LS_E_PARSE: the message names the file and the invalid field.
ls_code ls_bench_read(ls_bench *out, const char *path, ls_err *err);
void ls_export_answers(const ls_bench *b, ls_buf *out); // as ls_export_spec_bench, of the first method
// In any form but SVG and CAST; JSONL: Spec-Bench's answers of the first method.
void ls_bench_write(const ls_bench *b, ls_form form, ls_buf *out);
// The tables of the methods and of the categories, and what they mean: the middle of ls_bench_write.
void ls_bench_tables(const ls_bench *b, ls_form form, ls_buf *out);
// A row for each method, and behind each one a row for each of these categories (NULL: none).
ls_table ls_bench_totals(const ls_bench *b, const char *const *categories);
void ls_manifest_json(const ls_manifest *m, ls_jsonw *w); // one object
void ls_manifest_show(const ls_manifest *m, ls_form form, ls_buf *out);

// Compares two benchmarks of the same prompts: for each common method, how much faster the second is, with a 95%
// interval by resampling prompts. LS_E_RANGE: they have no prompt or no method in common.
ls_code ls_bench_diff(const ls_bench *a, const ls_bench *b, ls_buf *out, bool json, ls_err *err);
