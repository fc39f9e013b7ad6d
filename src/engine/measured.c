#include "engine/measured.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// The shortest time of `repeats` forwards of a tree with `rows` rows (a root with typical branches of four), ms.
// same: instead, the rows after the root are equal, so that all take the same experts. *awake (may be NULL): experts
// that it woke; 0: no mixture.
static ls_code measure_tree(ls_kv_cache *t, int32_t rows, bool same, int repeats, double *best_ms, double *awake,
                            ls_err *err) {
    static const lst_sampling greedy = {.top_p = 1};
    int32_t ids[LST_MAX_ROWS], parents[LST_MAX_ROWS];
    lst_row *out = ls_malloc(sizeof *out * LST_MAX_ROWS);
    for (int32_t i = 0; i < rows; i++) {
        ids[i] = same ? 0 : i % t->engine->n_vocab;
        parents[i] = i == 0 ? -1 : same || i % 4 == 1 ? 0 : i - 1;
    }
    ls_code code = LS_OK;
    for (int r = 0; r < repeats && !code; r++) {
        const uint64_t start = ls_now_ns();
        code = t->forward_tree(t, ids, parents, rows, &greedy, out, err);
        const double ms = (double)(ls_now_ns() - start) / 1e6;
        if (r == 0 || ms < *best_ms) *best_ms = ms;
    }
    free(out);
    lst_experts_seen seen = {0};
    if (!code && awake && t->experts) code = t->experts(t, &seen, err);
    if (!code && awake) *awake = seen.n_layers ? ls_experts_count(&seen, rows, t->engine->n_experts, NULL, NULL) : 0;
    return code;
}

static ls_code measure_forward(ls_kv_cache *t, int32_t rows, int repeats, double *best_ms, ls_err *err) {
    return measure_tree(t, rows, false, repeats, best_ms, NULL, err);
}

char *ls_measured_path(const ls_model *m, const char *threads, char key[LS_MEASURED_KEY]) {
    char processor[128];
    ls_processor_name(processor, sizeof processor);
    const ls_engine *e = m->engine;
    char experts[40] = ""; // in memory, if not all are: the others are read during a forward
    if (e->expert_memory) snprintf(experts, sizeof experts, "%llu bytes | ", (unsigned long long)e->expert_memory);
    snprintf(key, LS_MEASURED_KEY, "%s | %s | %s | %s | %s | %s | %s%s threads | %s", LS_VERSION, m->sha256, e->device,
             e->dtype, e->kernel, e->version, experts, threads, processor);
    if (!*m->file) return NULL;
    uint32_t hash = 2166136261u; // FNV-1a; the file repeats the key, so a collision is only a miss
    for (const char *p = key; *p; p++) hash = (hash ^ (unsigned char)*p) * 16777619u;
    char *name = ls_format("costs/%.12s-%s-%08x.txt", m->sha256, m->engine->dtype, hash);
    char *path = ls_user_path("XDG_CACHE_HOME", ".cache", name);
    free(name);
    return path;
}

const char *const ls_measured_hows[] = {"briefly", "busy", "quietly"};

static ls_measured measured_now(ls_measured_how how) {
    return (ls_measured){.when = time(NULL), .how = how};
}

// Whether the measurement is still valid: it was undisturbed, or it is less than ten minutes old.
static bool lasts(const ls_measured *m) {
    enum { AGAIN_S = 600 };
    const int64_t age = time(NULL) - m->when; // negative if the clock was set back
    return m->how == LS_MEASURED_QUIETLY || (age >= 0 && age < AGAIN_S);
}

typedef struct {
    char magic[64], key[LS_MEASURED_KEY];
    ls_measured is;
} head;

static bool read_line(FILE *f, char *line, int size) {
    if (!fgets(line, size, f)) return false;
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    return end != NULL;
}

// Opens the file, positioned after its first three lines. NULL: it does not exist, or is not of this program.
static FILE *open_file(const char *path, head *h) {
    FILE *f = fopen(path, "re");
    char word[16] = "";
    int how = 0;
    const bool ok = f && read_line(f, h->magic, sizeof h->magic) && read_line(f, h->key, sizeof h->key) &&
                    fscanf(f, "measured %" SCNd64 " %15s", &h->is.when, word) == 2;
    while (how < LS_MEASURED_HOWS && strcmp(word, ls_measured_hows[how])) how++;
    h->is.how = (ls_measured_how)how;
    if (ok && how < LS_MEASURED_HOWS) return f;
    if (f) fclose(f);
    return NULL;
}

// Opens the file and reads its first three lines: magic, key, and the data of *is. NULL: there is no file for this key.
static FILE *open_measured(const char *path, const char *magic, const char *key, ls_measured *is) {
    head h;
    FILE *f = open_file(path, &h);
    if (!f) return NULL;
    *is = h.is;
    if (!strcmp(h.magic, magic) && !strcmp(h.key, key)) return f;
    fclose(f);
    return NULL;
}

// Tells each of this program's files in the folder, or removes it if each is NULL; returns their number.
static int walk(ls_measured_each each, void *ud) {
    static const char own[] = "logitspec-";
    char *folder = ls_user_path("XDG_CACHE_HOME", ".cache", "costs");
    DIR *d = folder ? opendir(folder) : NULL;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char *path = ls_format("%s/%s", folder, e->d_name);
        head h;
        FILE *f = *e->d_name == '.' ? NULL : open_file(path, &h);
        if (f) fclose(f);
        if (f && !strncmp(h.magic, own, sizeof own - 1)) {
            if (each) each(ud, strstr(h.magic, "threads") ? "threads" : "costs", h.key, &h.is);
            else unlink(path);
            n++;
        }
        free(path);
    }
    if (d) closedir(d);
    free(folder);
    return n;
}

void ls_measured_list(ls_measured_each each, void *ud) {
    walk(each, ud);
}

int ls_measured_forget(void) {
    return walk(NULL, NULL);
}

// Replaces the file: these three lines, then the given text. On an error nothing is written.
static void write_measured(const char *path, const char *magic, const char *key, const ls_measured *is,
                           const ls_buf *text) {
    ls_buf all = {0};
    ls_buf_fmt(&all, "%s\n%s\nmeasured %" PRId64 " %s\n", magic, key, is->when, ls_measured_hows[is->how]);
    ls_buf_add(&all, text->p, text->n);
    ls_make_folders(path);
    ls_write_file(path, &all, NULL); // if this fails, the next run measures again
    ls_buf_free(&all);
}

// ---- costs of forwards

enum { CONTEXT = 256 };
static const char costs_magic[] = "logitspec-costs 6";

void ls_costs_of_two(ls_cost_curve *z, double one, double few, int32_t n_few) {
    if (few < one) few = one;
    *z = (ls_cost_curve){0};
    for (int i = 0; i < LS_COST_SIZES; i++) {
        const double rows = ls_cost_rows[i], most = n_few;
        z->base_ms[i] = rows < most ? one + (few - one) * (rows - 1) / (most - 1) : few * rows / most;
    }
}

// On a slow engine, where each row takes as long as the first, measuring all sizes would take minutes. So two sizes are
// measured once in an empty context, and the cost above is proportional. Steps correct it like any other measurement.
ls_code ls_costs_measure_briefly(ls_cost_curve *z, ls_kv_cache *t, ls_err *err) {
    enum { FEW = 3 }; // an index of ls_cost_rows
    double one, few;
    *z = (ls_cost_curve){0};
    ls_code code = measure_forward(t, 1, 2, &one, err);
    if (!code) code = measure_forward(t, ls_cost_rows[FEW], 1, &few, err);
    if (code) return code;
    ls_costs_of_two(z, one, few, ls_cost_rows[FEW]);
    return LS_OK;
}

enum { EXPERT_ROWS = 8 };

// Lowers *ms to the time of rows that take the same experts; *awake: these. Does nothing without a mixture.
static ls_code measure_few_experts(ls_kv_cache *t, double *ms, double *awake, ls_err *err) {
    double once;
    if (!t->experts) return LS_OK;
    const ls_code code = measure_tree(t, EXPERT_ROWS, true, 1, &once, awake, err);
    if (!code) *ms = fmin(*ms, once);
    return code;
}

// The time of an expert, by the difference to the same number of rows that wake more of them.
static void set_expert(ls_cost_curve *z, double few_ms, double awake) {
    const double more = ls_cost_awake(z, EXPERT_ROWS) - awake, most = ls_cost_most_expert_ms(z);
    if (!isfinite(few_ms) || more <= 0) return;
    z->expert_ms = fmin(most, fmax(0, ls_cost_ms(z, EXPERT_ROWS, z->cost_context) - few_ms) / more);
}

// For the first answer: measures a few sizes in an empty context, with linear interpolation. The largest size is
// measured only if it takes less than NOTICED_MS, as on a GPU, where the choice of the tree depends on it.
static ls_code measure_at_once(ls_cost_curve *z, ls_kv_cache *t, ls_err *err) {
    enum { SIZES = 4, LARGE = 2 };
    static const int32_t rows[SIZES] = {1, 4, 16, 64};
    static const double NOTICED_MS = 100;
    double ms[SIZES], awake[SIZES], few_ms = INFINITY;
    size_t n = SIZES - 1;
    *z = (ls_cost_curve){0};
    ls_code code = measure_forward(t, rows[LARGE], 1, &ms[LARGE], err); // warm-up of threads, pages and buffers
    if (!code && ms[LARGE] * rows[n] / rows[LARGE] < NOTICED_MS) n = SIZES;
    for (size_t i = 0; i < n && !code; i++) {
        code = measure_tree(t, rows[i], false, 1, &ms[i], &awake[i], err);
        if (i) ms[i] = fmax(ms[i], ms[i - 1]);
    }
    if (!code) ls_cost_of_points(z, rows, ms, awake, n);
    if (!code) code = measure_few_experts(t, &few_ms, &awake[0], err);
    if (!code) set_expert(z, few_ms, awake[0]);
    return code;
}

void ls_costs_window(ls_cost_curve *z, const ls_engine *e) {
    z->window = e->window;
    z->local = e->n_layers ? (double)e->n_local / e->n_layers : 0;
}

static ls_code measure_costs(ls_cost_curve *z, ls_kv_cache *t, double *one_again, ls_progress progress, void *ud,
                             ls_err *err) {
    enum { REPEATS = 4, REPEATS_LARGE = 2, LARGE = 16, SLOPE_ROWS = 16 };
    static const lst_sampling greedy = {.top_p = 1};
    const int32_t most = ls_cost_rows[LS_COST_SIZES - 1];
    int32_t context = CONTEXT, filler[CONTEXT];
    if (context > t->engine->n_context - most) context = t->engine->n_context > most ? t->engine->n_context - most : 1;
    for (int32_t i = 0; i < context; i++) filler[i] = i % t->engine->n_vocab;
    double ms, short_ms = 0, long_ms = 0, few_ms = INFINITY, awake = 0;
    lst_row last;
    *z = (ls_cost_curve){.cost_context = context};
    ls_costs_window(z, t->engine);
    ls_code code = t->rewind(t, 0, err); // an earlier attempt has filled it
    // the largest forward comes first and does not count: it warms up threads, pages and buffers
    if (!code) code = measure_forward(t, most, 1, &ms, err);
    if (!code) code = measure_forward(t, SLOPE_ROWS, REPEATS, &short_ms, err);
    const uint64_t start = ls_now_ns();
    if (!code) code = t->prefill(t, filler, context, &greedy, &last, NULL, NULL, err);
    z->prefill_ms = (double)(ls_now_ns() - start) / 1e6 / context;
    // Measure all sizes in turn, several times, so that a temporary disturbance does not affect each time of one size.
    for (int round = 0; round < REPEATS && !code; round++)
        for (int i = 0; i < LS_COST_SIZES && !code; i++) {
            const double done = (double)(round * LS_COST_SIZES + i) / (REPEATS * LS_COST_SIZES);
            if (round >= REPEATS_LARGE && ls_cost_rows[i] >= LARGE) break;
            if (progress && !progress(ud, "measuring forwards", done))
                code = ls_fail(err, LS_E_CANCELLED, "the measurement of forwards was cancelled");
            else code = measure_tree(t, ls_cost_rows[i], false, 1, &ms, &z->awake[i], err);
            if (!round || ms < z->base_ms[i]) z->base_ms[i] = ms;
            if (!code && ls_cost_rows[i] == EXPERT_ROWS) code = measure_few_experts(t, &few_ms, &awake, err);
        }
    for (int i = LS_COST_SIZES - 1; i > 0; i--) // fewer rows cannot cost more, and noise makes times longer
        z->base_ms[i - 1] = fmin(z->base_ms[i - 1], z->base_ms[i]);
    if (!code) set_expert(z, few_ms, awake);
    if (!code) code = measure_forward(t, SLOPE_ROWS, REPEATS, &long_ms, err);
    if (!code) code = measure_forward(t, 1, REPEATS, one_again, err);
    if (long_ms > short_ms)
        z->slope_ms = (long_ms - short_ms) / ls_cost_context_rows(SLOPE_ROWS) / ls_cost_seen(z, context);
    return code;
}

// Other programs only make forwards slower, so the shortest of several times is the most accurate.
static void take_shorter(ls_cost_curve *z, const ls_cost_curve *other) {
    for (int i = 0; i < LS_COST_SIZES; i++) z->base_ms[i] = fmin(z->base_ms[i], other->base_ms[i]);
    z->prefill_ms = fmin(z->prefill_ms, other->prefill_ms);
    z->slope_ms = fmin(z->slope_ms, other->slope_ms);
    z->expert_ms = fmin(fmin(z->expert_ms, other->expert_ms), ls_cost_most_expert_ms(z));
}

static ls_code measure_until_idle(ls_cost_curve *z, ls_kv_cache *t, double busy, ls_costs_noise *noise,
                                  ls_progress progress, void *ud, ls_err *err) {
    enum { ATTEMPTS = 3 };
    static const double APART = 1.25; // largest ratio of two one-row times; on idle machines it was up to 1.1
    static const uint64_t PATIENCE_NS = 4000000000;
    const uint64_t start = ls_now_ns();
    *noise = (ls_costs_noise){.busy = true};
    for (int attempt = 0; noise->busy && attempt < (ls_now_ns() - start < PATIENCE_NS ? ATTEMPTS : 1); attempt++) {
        ls_cost_curve fresh;
        ls_cpu_wait load = {0};
        double again = 0;
        ls_cpu_wait_share(&load, 0);
        const ls_code code = measure_costs(&fresh, t, &again, progress, ud, err);
        if (code) return code;
        noise->waited = ls_cpu_wait_share(&load, 0);
        noise->apart = fmax(again, fresh.base_ms[0]) / fmin(again, fresh.base_ms[0]);
        noise->busy = busy < 0 || (busy <= 1 && (noise->waited > busy || noise->apart > APART));
        fresh.base_ms[0] = fmin(again, fresh.base_ms[0]);
        if (attempt) take_shorter(z, &fresh);
        else *z = fresh;
    }
    return LS_OK;
}

bool ls_costs_note(const ls_costs_noise *n, char *out) {
    char how[80];
    if (!n->busy) return false;
    if (n->waited > LS_BUSY) snprintf(how, sizeof how, "waited %.0f%% of the time for a processor", 100 * n->waited);
    else snprintf(how, sizeof how, "the time of one row varied by a factor of %.1f", n->apart);
    snprintf(out, LS_COSTS_NOTE, "the machine is busy (%s): %s", how,
             n->kept ? "the earlier measured costs of rows are used"
                     : "the costs of rows are measured again in ten minutes");
    return true;
}

typedef struct {
    ls_cost_curve curve;
    ls_measured is;
} kept_costs;

static bool load_costs(kept_costs *k, const char *path, const char *key) {
    ls_cost_curve in = {0};
    FILE *f = open_measured(path, costs_magic, key, &k->is);
    if (!f) return false;
    bool ok = fscanf(f, " context %d slope %lf prefill %lf expert %lf", &in.cost_context, &in.slope_ms, &in.prefill_ms,
                     &in.expert_ms) == 4 &&
              in.cost_context >= 0 && in.prefill_ms >= 0 && in.prefill_ms < 1e6 && in.slope_ms >= 0 &&
              in.slope_ms < 1e3 && in.expert_ms >= 0 && in.expert_ms < 1e6;
    for (int i = 0; ok && i < LS_COST_SIZES; i++) {
        int rows;
        ok = fscanf(f, "%d %lf %lf", &rows, &in.base_ms[i], &in.awake[i]) == 3 && rows == ls_cost_rows[i] &&
             in.base_ms[i] > 0 && in.base_ms[i] < 1e7 && in.awake[i] >= 0 && in.awake[i] < 1e7;
    }
    fclose(f);
    k->curve = in;
    return ok && in.expert_ms <= 1.001 * ls_cost_most_expert_ms(&in); // rounded
}

static void save(const kept_costs *k, const char *path, const char *key) {
    const ls_cost_curve *z = &k->curve;
    ls_buf text = {0};
    ls_buf_fmt(&text, "context %d slope %.9g prefill %.6g expert %.9g\n", z->cost_context, z->slope_ms, z->prefill_ms,
               z->expert_ms);
    for (int i = 0; i < LS_COST_SIZES; i++)
        ls_buf_fmt(&text, "%d %.6g %.6g\n", ls_cost_rows[i], z->base_ms[i], z->awake[i]);
    write_measured(path, costs_magic, key, &k->is, &text);
    ls_buf_free(&text);
}

static bool will_do(const ls_measured *is, ls_costs_wish wish) {
    return wish == LS_COSTS_AT_ONCE ? is->how == LS_MEASURED_BUSY || lasts(is)
                                    : wish == LS_COSTS_MEASURED && is->how != LS_MEASURED_BRIEFLY && lasts(is);
}

bool ls_costs_due(const ls_model *m) {
    const kept_costs *k = m->costs;
    return k && !will_do(&k->is, LS_COSTS_MEASURED);
}

ls_code ls_costs_get(ls_cost_curve *out, ls_model *m, ls_costs_wish wish, double busy, ls_costs_noise *noise,
                     ls_progress progress, void *ud, ls_err *err) {
    const bool slow = m->engine->slow && wish != LS_COSTS_ANEW;
    char key[LS_MEASURED_KEY], threads[32];
    kept_costs before, now = {0};
    *noise = (ls_costs_noise){0};
    snprintf(threads, sizeof threads, "%d", m->engine->threads);
    char *path = ls_measured_path(m, threads, key);
    if (!path) busy = 2; // the times of the scripted model have no meaning
    const bool kept = path && load_costs(&before, path, key);
    if (!kept && m->costs) before = *(const kept_costs *)m->costs; // used if no file can be written
    if ((kept || m->costs) && will_do(&before.is, wish)) now = before;
    else {
        ls_kv_cache *t;
        ls_code code = m->engine->kv_cache(m->engine, 0, &t, err);
        if (!code)
            code = slow                       ? ls_costs_measure_briefly(&now.curve, t, err)
                   : wish == LS_COSTS_AT_ONCE ? measure_at_once(&now.curve, t, err)
                                              : measure_until_idle(&now.curve, t, busy, noise, progress, ud, err);
        if (t) t->free(t);
        if (code) {
            free(path);
            return code;
        }
        now.is = measured_now(slow || wish == LS_COSTS_AT_ONCE ? LS_MEASURED_BRIEFLY
                              : noise->busy                    ? LS_MEASURED_BUSY
                                                               : LS_MEASURED_QUIETLY);
        noise->kept = noise->busy && kept && before.is.how == LS_MEASURED_QUIETLY;
        if (noise->kept) now = before;
        else if (kept && now.is.how == LS_MEASURED_BRIEFLY && before.is.how == LS_MEASURED_BRIEFLY)
            take_shorter(&now.curve, &before.curve);
        if (path && !slow && !noise->kept) save(&now, path, key);
    }
    ls_log("costs, measured %s: 1 row %.3f ms, 8 rows %.3f, 64 rows %.3f%s", ls_measured_hows[now.is.how],
           ls_cost_ms(&now.curve, 1, now.curve.cost_context), ls_cost_ms(&now.curve, 8, now.curve.cost_context),
           ls_cost_ms(&now.curve, 64, now.curve.cost_context), noise->busy ? "; the machine is busy" : "");
    if (path && !slow) { // other sessions of this process begin with them
        m->costs = ls_realloc(m->costs, sizeof now);
        memcpy(m->costs, &now, sizeof now);
    }
    *out = now.curve;
    ls_costs_window(out, m->engine);
    free(path);
    return LS_OK;
}

// ---- the number of threads

static const char threads_magic[] = "logitspec-threads 3";

// The largest number below n of the form 2^k or 3 * 2^k; 0: there is none.
static int32_t next_below(int32_t n) {
    int32_t power = 1;
    if (n <= 1) return 0;
    while (2 * power < n) power *= 2;
    return power + power / 2 < n ? power + power / 2 : power;
}

ls_code ls_threads_fastest(int32_t usual, int32_t most, ls_threads_timer time, void *ud, const double *share,
                           int32_t *best, ls_err *err) {
    double usual_ms, usual_again, best_ms, again, ms;
    *best = usual;
    ls_code code = time(ud, usual, &usual_ms, err);
    best_ms = usual_ms;
    int32_t n = most > usual ? most : next_below(usual);
    for (int in_vain = 0; !code && n && in_vain < 2; n = next_below(n > usual ? usual : n)) {
        code = time(ud, n, &ms, err);
        if (!code && ms < best_ms) {
            *best = n;
            best_ms = ms;
            in_vain = 0;
        } else if (n < usual) in_vain++;
    }
    if (code || *best == usual) return code;
    code = time(ud, *best, &again, err);
    if (!code) code = time(ud, usual, &usual_again, err);
    if (!code && !(fmax(best_ms, again) < *share * fmin(usual_ms, usual_again))) *best = usual;
    return code;
}

// ---- of a model

typedef struct {
    ls_engine *engine;
    ls_kv_cache *t;
    int calls;    // of time_forwards, so far
    bool waited;  // with the usual number, threads had to wait for a CPU
    double share; // another number must take less than this share of the usual number's time
    ls_progress progress;
    void *ud;
} trial;

static ls_code time_forwards(void *ud, int32_t n, double *ms, ls_err *err) {
    enum { FEW = 4, REPEATS = 5 };
    static const double MUCH = 1 / 1.5; // with 8 processors shown but 2 given, 2 threads took 1 / 2.2
    trial *x = ud;
    double one, few;
    // The number of trials is unknown, so progress approaches 1 asymptotically.
    if (x->progress && !x->progress(x->ud, "measuring threads", 1 - 1.0 / ++x->calls))
        return ls_fail(err, LS_E_CANCELLED, "the measurement of threads was cancelled");
    ls_cpu_wait load = {0};
    ls_code code = x->engine->use_threads(x->engine, n, err);
    if (!code) code = measure_forward(x->t, 1, 1, &one, err); // also starts the threads, before anything is read
    ls_cpu_wait_share(&load, 0);
    if (!code) code = measure_forward(x->t, 1, REPEATS, &one, err);
    if (!code) code = measure_forward(x->t, FEW, REPEATS, &few, err);
    // If another program uses one of two processors, one thread is the fastest, and it never waits.
    if (n == x->engine->usual_threads && ls_cpu_wait_share(&load, 0) > LS_BUSY) {
        x->waited = true;
        x->share = MUCH;
    }
    if (!code) *ms = one + few;
    return code;
}

// Number of layers to time: the first layers of a large model are enough for a comparison; 0: all.
static int32_t layers_to_time(const ls_engine *e) {
    static const double BYTES = 256e6;
    const double of_head = e->row_macs ? (double)e->head_macs / (double)e->row_macs : 0,
                 layer = (double)e->weight_bytes * (1 - of_head) / e->n_layers;
    return BYTES < layer * e->n_layers ? (int32_t)(BYTES / layer) + 1 : 0;
}

// *busy: even with the fastest number, threads waited for a CPU; *sure: with one thread for each core, none waited.
static ls_code measure_threads(ls_engine *e, bool *busy, bool *sure, ls_progress progress, void *ud, ls_err *err) {
    int32_t best;
    double ms;
    trial x = {.engine = e, .share = 0.97, .progress = progress, .ud = ud};
    ls_cpu_wait load = {0};
    ls_code code = e->kv_cache(e, layers_to_time(e), &x.t, err);
    if (!code) code = ls_threads_fastest(e->usual_threads, e->most_threads, time_forwards, &x, &x.share, &best, err);
    // With too many threads they wait for each other's CPUs, so the waits are measured only with the fastest number.
    // A thread's counters vanish when it exits, so the set of threads must not change after the first reading.
    if (!code) code = time_forwards(&x, best, &ms, err);
    ls_cpu_wait_share(&load, 0);
    for (int i = 0; i < 2 && !code; i++) code = time_forwards(&x, best, &ms, err);
    *busy = ls_cpu_wait_share(&load, 0) > LS_BUSY;
    *sure = !*busy && !x.waited;
    if (x.t) x.t->free(x.t);
    return code;
}

static bool load_threads(ls_engine *e, const char *path, const char *key, ls_measured *is) {
    int32_t n;
    FILE *f = path ? open_measured(path, threads_magic, key, is) : NULL;
    const bool ok = f && fscanf(f, " threads %d", &n) == 1 && !e->use_threads(e, n, NULL);
    if (f) fclose(f);
    return ok;
}

ls_code ls_threads_choose(ls_model *m, bool again, ls_progress progress, void *ud, ls_err *err) {
    ls_engine *e = m->engine;
    if (!e->use_threads || e->slow) return LS_OK;
    char range[64], key[LS_MEASURED_KEY];
    snprintf(range, sizeof range, "%d to %d", e->usual_threads, e->most_threads);
    char *path = ls_measured_path(m, range, key);
    ls_code code = LS_OK;
    ls_measured is;
    bool kept = load_threads(e, path, key, &is);
    if (again || !kept || !lasts(&is)) {
        bool busy, sure;
        code = measure_threads(e, &busy, &sure, progress, ud, err);
        kept = kept && (code || busy || (!sure && is.how == LS_MEASURED_QUIETLY)) && load_threads(e, path, key, &is);
        if ((code || busy) && !kept) e->use_threads(e, e->usual_threads, NULL);
        if (!code && path && !(kept && is.how == LS_MEASURED_QUIETLY)) {
            ls_buf text = {0};
            is = measured_now(sure ? LS_MEASURED_QUIETLY : LS_MEASURED_BUSY);
            ls_buf_fmt(&text, "threads %d\n", e->threads);
            write_measured(path, threads_magic, key, &is, &text);
            ls_buf_free(&text);
        }
    }
    ls_log("threads %d of %s", e->threads, range);
    free(path);
    return code == LS_E_CANCELLED ? code : LS_OK;
}

// ---- plain decode steps

enum { PROBE_EVERY = 64 };

bool ls_plain_due(const ls_plain_cost *a, int32_t context) {
    return !a->n_timed || abs(context - a->at) >= PROBE_EVERY;
}

void ls_plain_bound(ls_plain_cost *a, double step_us) {
    double sorted[LS_PLAIN_RECENT];
    a->recent[a->n_steps++ % LS_PLAIN_RECENT] = step_us;
    if (a->n_steps < LS_PLAIN_RECENT) return;
    memcpy(sorted, a->recent, sizeof sorted);
    ls_sort(sorted, LS_PLAIN_RECENT);
    if (sorted[LS_PLAIN_RECENT / 2] < a->us) a->us = sorted[LS_PLAIN_RECENT / 2];
}

double ls_plain_spread(const ls_plain_cost *a) {
    double sorted[LS_PLAIN_RECENT];
    const int n = a->n_timed < LS_PLAIN_RECENT ? (int)a->n_timed : LS_PLAIN_RECENT, cut = n / 6;
    if (!n) return 0;
    memcpy(sorted, a->timed, sizeof sorted);
    ls_sort(sorted, (size_t)n);
    return (sorted[n - 1 - cut] - sorted[cut]) / 2 / sorted[n / 2];
}

ls_code ls_plain_measure(ls_plain_cost *a, ls_kv_cache *kv_cache, int32_t token, const lst_sampling *s, double host_us,
                         ls_err *err) {
    double t[3];
    const int32_t parent = -1;
    for (int i = 0; i < 3; i++) {
        lst_row row;
        uint64_t start = ls_now_ns();
        ls_code code = kv_cache->forward_tree(kv_cache, &token, &parent, 1, s, &row, err);
        if (code) return code;
        t[i] = a->timed[a->n_timed++ % LS_PLAIN_RECENT] = (double)(ls_now_ns() - start) / 1e3;
    }
    ls_sort(t, 3);
    double us = t[1] + host_us;
    a->us = a->us > 0 ? 0.5 * a->us + 0.5 * us : us; // average two measurements to reduce noise
    a->at = kv_cache->length(kv_cache);
    return LS_OK;
}
