// Results of a benchmark of methods: what was measured where, a result for each prompt and method, and their tables.
// The JSON file holds all of it: it is read back to go on with an interrupted benchmark, to be shown in another form,
// and to be compared with another one.
#pragma once
#include "base/err.h"
#include "base/jsonw.h"
#include "decode/totals.h"

typedef struct {
#define TEXT(field, words) char field[128];
#define NUMBER(field, words, unit) double field;
#include "report/manifest.def"
#undef TEXT
#undef NUMBER
} ls_manifest;

typedef struct {
    char label[80];
    char promise[16]; // ls_promise_name: "text", "odds" or "none"
    bool plain;
} ls_bench_method;

typedef struct {
    char *name, *category, *task; // owned; task: see decode/suite.h, what tables are by
    char text[17];                // the begin of the SHA-256 of its turns' texts
} ls_bench_prompt;

typedef struct {
    ls_manifest manifest;
    char settings[65]; // SHA-256 of what the results depend on: settings, methods, prompts
    ls_bench_method *methods;
    ls_bench_prompt *prompts;
    ls_result *results; // [prompt][method]
    int n;              // methods
    char against[24];   // what the speedups are over: "ar", or "single-row forwards" timed in the same runs
    char judged[80];    // the method whose output the others must equal: the first that is exact; "": none
    int reference;      // its index; -1: it is not here
    int ar;             // the method that decodes plainly; -1: none
    int32_t max_tokens, repeat;
    bool exact;             // the engine's rows
    size_t planned;         // prompts that it is to have
    size_t n_prompts, done; // that there is room for; that are complete
    size_t disturbed;       // of those done: other programs had the processors however often they were tried
    char **left_out;        // why a line or a prompt of the suite is not in it; owned
    size_t n_left_out;
    ls_ids resumed; // after how many prompts the benchmark was interrupted and went on
} ls_bench;

// Makes room for results, and finds reference and ar; methods, prompts and what is judged are set (owned from now on).
void ls_bench_begin(ls_bench *b);
void ls_bench_free(ls_bench *b);
void ls_bench_leave_out(ls_bench *b, const char *why);
ls_result *ls_bench_result(const ls_bench *b, size_t prompt, int method);
// Sums the prompts of a category (NULL: all) that are done.
ls_total ls_bench_total(const ls_bench *b, int method, const char *category);
// The tasks in order of appearance, NULL-terminated, and behind each one the categories that are part of it, as the
// eight of mt_bench are; owned by the caller, the names borrowed.
const char **ls_bench_categories(const ls_bench *b);
bool ls_bench_is_task(const ls_bench *b, const char *category); // else part of one
// Over plain decoding with the prompts' time in both; NAN: there is no plain decoding in it.
double ls_bench_speedup_with_prompt(const ls_bench *b, const ls_total *t, const char *category);
// As Spec-Bench's evaluation/speed.py has it: the mean of the prompts' tokens/s over that of plain decoding. prompt:
// its time is counted too (as there).
double ls_bench_speedup_of_means(const ls_bench *b, const ls_total *t, const char *category, bool prompt);
// The time that reading weights, keys and values once a forward takes at the measured bandwidth, over the time of the
// steps; NAN: not known.
double ls_bench_of_limit(const ls_bench *b, const ls_total *t);
bool ls_bench_equal(const ls_bench *b); // every method that promises the text wrote the reference's
// Appends a line where other programs disturbed prompts.
void ls_bench_tell_busy(const ls_bench *b, ls_buf *out);

// ---- its forms
void ls_bench_json(const ls_bench *b, ls_buf *out);
// LS_E_PARSE names the file and what is wrong with it. Takes no number on trust.
ls_code ls_bench_read(ls_bench *out, const char *path, ls_err *err);
void ls_bench_text(const ls_bench *b, ls_buf *out); // for a terminal
void ls_bench_markdown(const ls_bench *b, ls_buf *out);
void ls_bench_csv(const ls_bench *b, ls_buf *out);
void ls_bench_html(const ls_bench *b, ls_buf *out);
// Spec-Bench's answer file of one method.
void ls_bench_answers(const ls_bench *b, int method, ls_buf *out);
void ls_manifest_json(const ls_manifest *m, ls_jsonw *w);     // one object
void ls_manifest_text(const ls_manifest *m, ls_buf *out);     // a line each
void ls_manifest_markdown(const ls_manifest *m, ls_buf *out); // a table

// What two benchmarks of the same prompts say of each method that both have: how much faster the second is, with a 95%
// interval by resampling prompts. LS_E_RANGE: they have no prompt or no method in common.
ls_code ls_bench_diff(const ls_bench *a, const ls_bench *b, ls_buf *out, bool json, ls_err *err);
