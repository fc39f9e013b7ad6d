// Files that the program keeps or is given, told apart by how they begin:
//   LSCORPUS            a corpus; c...: tokens that one is made of, searched as a plain loop searches them
//   logitspec-history   what a drafter remembers; h...: tokens that it is made of
//   logitspec-costs, logitspec-threads  measured forwards, and how many threads were fastest; the second line is
//                       replaced by the key that is looked for
//   [                   the prompts of earlier sessions
//   anything else       a suite of prompts
#include "base/file.h"
#include "base/mem.h"
#include "report/report.h"
#include "engine/measured.h"
#include "spec/corpus.h"
#include "spec/drafter.h"
#include "spec/stream.h"
#include "tests/fuzz/input.h"
#include "ui/edit.h"

#include <math.h>
#include <unistd.h>

enum { VOCAB = 300, TOKENIZER = 7 };

static bool begins(const uint8_t *data, size_t n, const char *word) {
    return n >= strlen(word) && !memcmp(data, word, strlen(word));
}

static void write_file(const char *path, const void *p, size_t n) {
    FILE *f = fopen(path, "w");
    EXPECT(f && fwrite(p, 1, n, f) == n && !fclose(f));
}

static char *path_of(const char *name) {
    return ls_format("%s/%s", fuzz_folder(), name);
}

// ---- drafters with a file

static void is_silent(void *ud, const char *text) {
    (void)ud;
    fuzz_fail(__FILE__, __LINE__, text);
}

static void is_line(void *ud, const char *text) {
    (void)ud;
    EXPECT(*text && !strchr(text, '\n'));
}

// Makes it, lets it draft where the conversation says `context`, and frees it, which writes its file.
static ls_code draft(const char *name, const char *file, const int32_t *context, size_t n,
                     void (*note)(void *ud, const char *text), ls_err *err) {
    enum { MOST = 64 };
    static const int32_t top[] = {3, 1, 2};
    static const float top_p[] = {0.5f, 0.25f, 0.125f};
    const ls_method *m = ls_method_find(name);
    ls_knob_value *knobs = ls_calloc(ls_knob_count(), sizeof *knobs);
    ls_drafter *d = NULL;
    ls_knob_defaults(knobs);
    for (size_t i = 0; i < ls_knob_count(); i++) {
        if (ls_knob_at(i)->kind == LS_KNOB_FILE) knobs[i].text = file;
        if (!strcmp(ls_knob_at(i)->key, "cacheback.leaders")) knobs[i].number = 64;
        if (!strcmp(ls_knob_at(i)->key, "suffix.tokens")) knobs[i].number = 1000;
    }
    const ls_draft_setup setup = {.knobs = knobs + ls_knob_offset(m),
                                  .tokenizer = "test",
                                  .n_vocab = VOCAB,
                                  .tokenizer_id = TOKENIZER,
                                  .note = note};
    const ls_code code = ls_drafter_make(&d, m, &setup, err);
    ls_tree *tree = ls_tree_new();
    for (size_t at = n / 2; !code && at < n; at += 1 + n / 4) {
        const ls_draft_state s = {.context = context,
                                  .n_context = at,
                                  .root = context[at],
                                  .top_ids = top,
                                  .top_p = top_p,
                                  .n_top = sizeof top / sizeof *top};
        d->observe(d, context, at, false);
        d->propose(d, &s, MOST, tree);
        EXPECT(tree->n >= 1 && tree->n <= MOST && tree->nodes[0].token == s.root);
        for (int32_t i = 1; i < tree->n; i++)
            EXPECT(tree->nodes[i].token >= 0 && tree->nodes[i].token < VOCAB && tree->nodes[i].parent >= 0 &&
                   tree->nodes[i].parent < i);
    }
    if (!code) d->free(d);
    free(tree);
    free(knobs);
    return code;
}

// Bytes as tokens of the vocabulary.
static size_t tokens_of(const uint8_t *data, size_t n, int32_t *out, size_t most) {
    for (size_t i = 0; i < n && i < most; i++) out[i] = data[i];
    return n < most ? n : most;
}

static bool others(const char *path, const uint8_t *data, size_t n) { // it was kept, for another vocabulary perhaps
    ls_buf m = {0};
    if (ls_read_file(&m, path, SIZE_MAX, NULL)) return false; // nothing was learned, so nothing was written
    const bool same = m.n == n && !memcmp(m.p, data, n);
    ls_buf_free(&m);
    return same;
}

static void history(const uint8_t *data, size_t n) {
    ls_err err = {0};
    enum { CONTEXT = 64, LIMIT = 500 };
    static char *path;
    int32_t context[CONTEXT];
    const size_t n_context = tokens_of(data + n / 2, n - n / 2, context, CONTEXT);
    const char *const methods[] = {"suffix", "cacheback", "logitspec"};
    const char *method = methods[n % 3], *kind = n % 3 == 2 ? "memory" : "history";
    if (!path) path = path_of("history");
    if (*data == 'h') { // any numbers as tokens
        ls_stream h;
        int32_t ids[LIMIT];
        const size_t most = (n - 1) / sizeof *ids < LIMIT ? (n - 1) / sizeof *ids : LIMIT;
        if (most) memcpy(ids, data + 1, most * sizeof *ids);
        const ls_draft_setup setup = {.tokenizer = "test", .tokenizer_id = TOKENIZER, .note = is_silent};
        EXPECT(!ls_stream_open(&h, kind, path, LIMIT, &setup, NULL));
        ls_stream_observe(&h, ids, most, true);
        ls_stream_close(&h);
    } else write_file(path, data, n);
    const ls_code code = draft(method, path, context, n_context, is_line, &err);
    fuzz_said(code, &err);
    if (code || others(path, data, n)) EXPECT(draft(method, path, context, n_context, is_line, NULL) == code);
    else EXPECT(!draft(method, path, context, n_context, is_silent, NULL)); // what it wrote is a history
    unlink(path);
}

// ---- corpora

static void look_up(const ls_corpus *c, const int32_t *tail, int32_t n) {
    int32_t length, token;
    const ls_corpus_range r = ls_corpus_find(c, tail, n, 16, &length);
    EXPECT(length >= 0 && length <= n && (length ? r.lo < r.hi : r.lo == r.hi));
    for (int32_t i = r.lo; i < r.hi;) {
        const ls_corpus_range next = ls_corpus_next(c, r, length, i, &token);
        EXPECT(token >= LS_CORPUS_BREAK && token < c->facts.n_vocab);
        i = next.hi > i ? next.hi : i + 1; // a damaged file's ranges may be empty
    }
}

static int32_t occurs(const int32_t *text, int32_t n, const int32_t *gram, int32_t k) { // how often
    int32_t times = 0;
    for (int32_t i = 0; i + k <= n; i++) times += !memcmp(text + i, gram, (size_t)k * sizeof *gram);
    return times;
}

// Bytes are tokens, zeros stand between documents.
static void made_corpus(const char *path, const uint8_t *data, size_t n) {
    enum { MOST = 512, ASKED = 8 };
    int32_t text[MOST];
    const ls_corpus_facts facts = {
        .n = (int64_t)tokens_of(data, n, text, MOST), .n_vocab = VOCAB, .tokenizer_id = TOKENIZER};
    const int32_t size = (int32_t)facts.n;
    ls_corpus *c;
    ls_err err = {0};
    bool any = false;
    for (int32_t i = 0; i < size; i++) {
        if (!text[i]) text[i] = LS_CORPUS_BREAK;
        any |= text[i] >= 0;
    }
    const ls_code code = ls_corpus_write(path, text, &facts, 1, NULL, NULL, &err);
    fuzz_said(code, &err);
    EXPECT(!code == any);
    if (code) return;
    EXPECT(!ls_corpus_open(&c, path, &err));
    for (int32_t end = size; end > 0 && end > size - ASKED; end--) {
        int32_t length, k = 0; // of the text's ending there, as far as it is of one document
        while (k < 5 && k < end && text[end - 1 - k] >= 0) k++;
        const ls_corpus_range r = ls_corpus_find(c, text + end - k, k, 16, &length);
        EXPECT(length == k && (!k || r.hi - r.lo == occurs(text, size, text + end - k, k)));
        look_up(c, text + end - k, k);
    }
    ls_corpus_close(c);
    int32_t context[] = {1, 2, 3, text[0] < 0 ? 4 : text[0]};
    EXPECT(!draft("rest", path, context, 4, is_silent, NULL));
    unlink(path);
}

static void corpus(const uint8_t *data, size_t n) {
    static char *path;
    ls_corpus *c;
    ls_err err = {0};
    if (!path) path = path_of("corpus");
    if (*data == 'c') {
        made_corpus(path, data + 1, n - 1);
        return;
    }
    const char *file = fuzz_file(data, n);
    const ls_code code = ls_corpus_open(&c, file, &err);
    fuzz_said(code, &err);
    if (code) return;
    for (int32_t i = 0; i < 4; i++) {
        const int32_t tail[] = {i, data[n - 1], data[n / 2]};
        look_up(c, tail, 1 + i % 3);
    }
    ls_corpus_close(c);
    const int32_t context[] = {1, 2, 3, data[n / 2]};
    const ls_code made = draft("rest", file, context, 4, is_silent, &err);
    fuzz_said(made, &err);
}

// ---- costs

static int forwards;

static ls_code forward(ls_kv_cache *b, const int32_t *ids, const int32_t *parents, int32_t n, const lst_sampling *s,
                       lst_row *rows, ls_err *err) {
    (void)b, (void)ids, (void)parents, (void)n, (void)s, (void)rows, (void)err;
    forwards++;
    return LS_OK;
}

static ls_code prefill(ls_kv_cache *b, const int32_t *ids, int32_t n, const lst_sampling *s, lst_row *last,
                       ls_progress progress, void *ud, ls_err *err) {
    (void)b, (void)ids, (void)n, (void)s, (void)last, (void)progress, (void)ud, (void)err;
    return LS_OK;
}

static ls_code rewind_kv_cache(ls_kv_cache *b, int32_t n, ls_err *err) {
    (void)b, (void)n, (void)err;
    return LS_OK;
}

static void free_kv_cache(ls_kv_cache *t) {
    (void)t;
}

static ls_code kv_cache(ls_engine *e, int32_t layers, ls_kv_cache **out, ls_err *err) {
    static ls_kv_cache only;
    (void)err, (void)layers;
    only = (ls_kv_cache){
        .engine = e, .forward_tree = forward, .prefill = prefill, .rewind = rewind_kv_cache, .free = free_kv_cache};
    *out = &only;
    return LS_OK;
}

static void expect_curve(const ls_cost_curve *z) {
    static const double path[] = {1, 0.9, 0.5, 0.5, 0.1, 0};
    static const int32_t contexts[] = {0, 1, 1000, 1 << 20};
    for (size_t k = 0; k < sizeof contexts / sizeof *contexts; k++) {
        for (int32_t rows = 1; rows <= 256; rows += rows < 8 ? 1 : 31) {
            const double ms = ls_cost_ms(z, rows, contexts[k]);
            EXPECT(isfinite(ms) && ms >= 0);
        }
        const int32_t n = ls_cost_choose(z, path, 6, contexts[k], NULL);
        EXPECT(n >= 1 && n <= 6);
        ls_cost_may_pay(z, 0.5, 3, contexts[k]);
    }
}

static ls_engine engine = {
    .n_vocab = VOCAB, .n_context = 4096, .n_layers = 1, .device = "cpu", .dtype = "f32", .kv_cache = kv_cache};
static ls_model model = {.engine = &engine, .file = "model", .sha256 = "0123456789abcdef"};

// Writes the input where what was measured with so many threads is kept, its second line replaced by the key.
static char *keep(const uint8_t *data, size_t n, const char *threads) {
    char key[LS_MEASURED_KEY];
    setenv("XDG_CACHE_HOME", fuzz_folder(), 1);
    char *path = ls_measured_path(&model, threads, key);
    const uint8_t *first = memchr(data, '\n', n),
                  *second = first ? memchr(first + 1, '\n', (size_t)(data + n - first - 1)) : NULL;
    ls_buf file = {0};
    ls_buf_add(&file, data, first ? (size_t)(first + 1 - data) : n);
    if (first) ls_buf_fmt(&file, "%s\n", key);
    if (second) ls_buf_add(&file, second + 1, (size_t)(data + n - second - 1));
    ls_make_folders(path);
    write_file(path, file.p, file.n);
    ls_buf_free(&file);
    forwards = 0;
    return path;
}

static void costs(const uint8_t *data, size_t n) {
    ls_costs_noise noise;
    ls_cost_curve z;
    char *path = keep(data, n, "0");
    engine.threads = 0;
    EXPECT(!ls_costs_get(&z, &model, LS_COSTS_MEASURED, 2, &noise, NULL, NULL, NULL));
    expect_curve(&z);
    if (!forwards) {
        for (int32_t rows = 1; rows < 70; rows += 9)
            ls_cost_observe(&z, rows, 300, rows % 2 ? rows * 7 : -1, rows * 0.25);
        expect_curve(&z);
    }
    unlink(path);
    free(path);
}

static ls_code use_threads(ls_engine *e, int32_t n, ls_err *err) {
    if (n < 1 || n > e->most_threads) return ls_fail(err, LS_E_RANGE, "not so many");
    e->threads = n;
    return LS_OK;
}

static void threads(const uint8_t *data, size_t n) {
    char *path = keep(data, n, "4 to 8");
    engine.use_threads = use_threads;
    engine.threads = 0;
    engine.usual_threads = 4;
    engine.most_threads = 8;
    EXPECT(!ls_threads_choose(&model, false, NULL, NULL, NULL));
    EXPECT(engine.threads >= 1 && engine.threads <= 8);
    engine.use_threads = NULL;
    unlink(path);
    free(path);
}

// ---- prompts

static void earlier_prompts(const uint8_t *data, size_t n) {
    static char *path;
    ui_state s;
    ui_edit again = {0};
    if (!path) path = path_of("prompts");
    write_file(path, data, n);
    ui_state_init(&s);
    ui_history_load(&s.typed.prompt, path);
    for (int i = 0; i < 4; i++) {
        ui_on_key(&s, (ui_key){.code = UI_KEY_UP});
        if (i == 3) ui_on_key(&s, (ui_key){.code = UI_KEY_DOWN});
        fuzz_screen(&s, 24, 60, NULL, 0);
    }
    ui_edit_set(&s.typed.prompt, "another, \"quoted\"");
    free(ui_edit_take(&s.typed.prompt));
    EXPECT(!ui_history_add(&s.typed.prompt, path, NULL));
    ui_history_load(&again, path); // all that could be read, and what was added
    EXPECT(again.n_history == s.typed.prompt.n_history);
    for (size_t i = 0; i < again.n_history; i++)
        EXPECT(*again.history[i] && !strcmp(again.history[i], s.typed.prompt.history[i]));
    ui_edit_free(&again);
    ui_state_free(&s);
    unlink(path);
}

static void suite(const uint8_t *data, size_t n) {
    static ls_report r;
    ls_suite suite;
    ls_err err = {0};
    const ls_code code = ls_suite_read(&suite, fuzz_file(data, n), true, &err);
    fuzz_said(code, &err);
    if (code) return;
    if (!r.n_turns) {
        EXPECT(!ls_report_add(&r, "tests/fuzz/trace/level-steps.jsonl", NULL, NULL, &err) &&
               !ls_report_finish(&r, &err));
    }
    size_t lines = 0; // that are not blank
    for (const uint8_t *at = data, *end = data + n, *next; at < end; at = next + 1) {
        const uint8_t *line = at;
        if (!(next = memchr(at, '\n', (size_t)(end - at)))) next = end;
        while (line < next && strchr(" \t\r", *line) && *line) line++;
        lines += line < next;
    }
    EXPECT(suite.n == lines);
    for (size_t i = 0; i < suite.n; i++) EXPECT(suite.items[i].n_turns && suite.items[i].turns[0].n);
    ls_buf *prompt = &r.turns[0].header.prompt_text, out = {0}; // as if that had been asked
    ls_buf_clear(prompt);
    ls_buf_add(prompt, suite.items[0].turns[0].p, suite.items[0].turns[0].n);
    ls_export_spec_bench(&r, &suite, &out);
    fuzz_json_lines(out.p, out.n);
    ls_buf_free(&out);
    ls_suite_free(&suite);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (!n) return 0;
    if (begins(data, n, "LSC") || *data == 'c') corpus(data, n);
    else if (begins(data, n, "logitspec-c")) costs(data, n);
    else if (begins(data, n, "logitspec-t")) threads(data, n);
    else if (begins(data, n, "logitspec-h") || *data == 'h') history(data, n);
    else if (*data == '[') earlier_prompts(data, n);
    else suite(data, n);
    return 0;
}
