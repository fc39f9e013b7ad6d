// Checks the machine. The detail of a failed check says what to do.
#include "base/json.h"
#include "base/mem.h"
#include "base/file.h"
#include "base/err.h"
#include "base/system.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/model_info.h"
#include "decode/bigrams.h"
#include "engine/device.h"
#include "engine/measured.h"
#include "engine/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <langinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    ls_buf text;
    ls_jsonw json;
    ls_buf json_text;
    ls_buf table; // printed below the checks
    bool open;    // the object of the last check may get more fields
    bool failed;
    int n_measured; // measurements that were listed
} report;

static void end(report *r) {
    if (r->open) ls_jw_close(&r->json, '}');
    r->open = false;
}

// Adds a check. The caller may add fields to r->json.
__attribute__((format(printf, 5, 6))) static void check(report *r, const char *what, bool ok, bool needed,
                                                        const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *detail = ls_format_list(fmt, ap);
    va_end(ap);
    end(r);
    ls_sanitize_row(&r->text, "%-8s %-14s %s", ok ? "ok" : needed ? "MISSING" : "note", what, detail);
    ls_jw_open(&r->json, '{');
    ls_jw_field_str(&r->json, "check", what);
    ls_jw_field_bool(&r->json, "ok", ok);
    ls_jw_field_bool(&r->json, "needed", needed);
    ls_jw_field_str(&r->json, "detail", detail);
    r->open = true;
    r->failed |= !ok && needed;
    free(detail);
}

static void check_program(report *r) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    const uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE),
                   room = ls_memory_free();
    check(r, "program", true, true, "logitspec " LS_VERSION ", %ld processor%s, %llu MiB of memory, %llu of them free",
          processors, ls_plural(processors), (unsigned long long)(memory >> 20), (unsigned long long)(room >> 20));
    ls_jw_field_str(&r->json, "version", LS_VERSION);
    ls_jw_field_int(&r->json, "processors", processors);
    ls_jw_field_u64(&r->json, "memory_bytes", memory);
    ls_jw_field_u64(&r->json, "free_bytes", room);
}

static void check_compute(report *r, const ls_engine_options *opt) {
    ls_compute_facts torch;
    ls_err err = {0};
    if (ls_compute_look(&torch, &err)) check(r, "compute", false, true, "%s", err.msg);
    else
        check(r, "compute", true, true, "kernels for %s%s", torch.level,
              strcmp(torch.level, "portable") ? "" : ": plain C for any CPU, several times slower than vector kernels");
    ls_jw_field_str(&r->json, "level", torch.level);
    check(r, "libtorch", *torch.torch, opt->reference, "%s", *torch.torch ? torch.torch : torch.no_torch);
    ls_jw_field_str(&r->json, "library", torch.torch);
}

// Whether the context (of --context, or the default) is within that of the model and fits into memory with the weights.
static void check_context(report *r, const ls_checkpoint *c, const ls_engine_options *opt, const char *device) {
    const bool gpu = strcmp(device, "cpu") != 0; // check_device checks the memory of a GPU
    const ls_hparams *h = &c->hparams;
    const uint64_t room = gpu ? 0 : ls_memory_free(), weights = ls_cpu_weights(c, opt, NULL),
                   each = ls_hparams_kv_bytes(h, gpu ? (int32_t)sizeof(uint16_t) : ls_kv_value_bytes_most(opt));
    const int32_t tokens = opt->context ? opt->context : gpu ? h->n_context : ls_cpu_context(c, opt, room);
    const uint64_t kv = each * (uint64_t)tokens;
    const bool known = tokens <= ls_longest_context(h);
    ls_err no_room;
    ls_buf text = {0};
    ls_buf_fmt(&text, "%d of the model's %d tokens: the KV cache takes at most %llu MiB, weights about %llu", tokens,
               ls_longest_context(h), (unsigned long long)(kv >> 20), (unsigned long long)(weights >> 20));
    if (room) ls_buf_fmt(&text, "; %llu MiB are free", (unsigned long long)(room >> 20));
    if (!known) ls_buf_fmt(&text, ": use --context %d or less", ls_longest_context(h));
    const bool fits = !known || !ls_cpu_fits(c, opt, room, &no_room);
    check(r, "context", known && fits, true, "%s", fits ? text.p : no_room.msg);
    ls_jw_field_int(&r->json, "tokens", tokens);
    ls_jw_field_int(&r->json, "model_tokens", ls_longest_context(h));
    ls_jw_field_u64(&r->json, "kv_bytes", kv);
    ls_jw_field_u64(&r->json, "weight_bytes", weights);
    if (room) ls_jw_field_u64(&r->json, "free_bytes", room);
    ls_buf_free(&text);
}

// Which device runs the model, and why; describes the GPUs.
static void check_device(report *r, const ls_checkpoint *c, const ls_engine_options *opt) {
    ls_device_choice choice;
    ls_err err = {0};
    ls_gpus gpus;
    ls_gpus_look(&gpus);
    for (int i = 0; i < gpus.n; i++) {
        char what[16];
        snprintf(what, sizeof what, "cuda:%d", i);
        check(r, what, true, false, "%s; %llu of %llu MiB free%s", gpus.gpu[i].name,
              (unsigned long long)(gpus.gpu[i].free_bytes >> 20), (unsigned long long)(gpus.gpu[i].total_bytes >> 20),
              gpus.gpu[i].compiled ? ""
                                   : "; the library has no machine code for this GPU, so the driver compiles the "
                                     "kernels at the first start ('make cuda CUDA_ARCH=all' adds the code)");
    }
    if (!gpus.n) check(r, "gpu", false, false, "%s", gpus.problem);
    if (!c) return;
    if (ls_device_choose(&choice, c, opt, &err)) check(r, "device", false, true, "%s", err.msg);
    else {
        check(r, "device", true, true, "--device %s runs on %s: %s", opt->device, choice.device, choice.why);
        check_context(r, c, opt, choice.device);
    }
}

static void check_model(report *r, const ls_model_options *model, const char *card) {
    ls_model m;
    ls_err err = {0};
    if (ls_model_load_text(&m, model, &err)) {
        check(r, "model", false, true, "%s", err.msg);
        check_device(r, NULL, &model->engine);
        return;
    }
    check(r, "model", true, true, "%s: vocabulary of %d tokens, chat %s", *m.file ? m.file : m.name,
          ls_vocab_size(m.vocab), m.chat ? ls_chat_name(m.chat) : m.chat_problem);
    if (m.checkpoint) check_device(r, m.checkpoint, &model->engine);
    if (card && m.checkpoint) {
        end(r);
        if (ls_device_model(card, m.checkpoint, &model->engine, &r->table, &r->json, &err))
            check(r, "device-model", false, true, "%s", err.msg);
    } else if (card) check(r, "device-model", false, true, "the model has no weights");
    ls_model_free(&m);
}

static void check_terminal(report *r) {
    const char *term = getenv("TERM"), *charset = nl_langinfo(CODESET);
    bool ok = term && *term && strcmp(term, "dumb") && !strcmp(charset, "UTF-8");
    check(r, "terminal", ok, false, "TERM=%s, characters %s%s", term ? term : "(unset)", charset,
          strcmp(charset, "UTF-8") ? ": drawing with ASCII; for line drawing, use a UTF-8 locale (LANG=C.UTF-8)" : "");
}

static void check_log(report *r) {
    const char *asked = getenv("LOGITSPEC_LOG");
    check(r, "log", true, false, "%s; a log has the text of prompts and answers only with --log-text",
          asked && *asked ? asked : "none; --log FILE or LOGITSPEC_LOG=FILE writes one");
}

static void check_config(report *r) {
    char *path = ls_data_path("configs/default.yaml");
    bool ok = !access(path, R_OK);
    check(r, "configuration", ok, false, "%s%s", path, ok ? "" : ": not found, using built-in values");
    free(path);
}

// Whether the ranks connect, and how long an exchange takes.
static void check_ranks(report *r, const ls_engine_options *opt) {
    ls_ranks_speed speed = {0};
    ls_err err = {0};
    ls_devices devices;
    ls_code code = ls_ranks_wanted(&devices, opt, &err);
    if (!code && devices.n < 2) return;
    if (!code) code = ls_ranks_try(&speed, opt, &err);
    if (code) {
        check(r, "ranks", false, true, "%s", err.msg);
        return;
    }
    const double mb_per_s = (speed.n - 1) * (double)LS_RANKS_LARGE / speed.large_us;
    check(r, "ranks", true, true,
          "%d, on %s: each receives 4 KiB from every other rank in %.0f us, 1 MiB in %.0f us (%.0f MB/s)", speed.n,
          speed.hosts, speed.small_us, speed.large_us, mb_per_s);
    ls_jw_field_int(&r->json, "ranks", speed.n);
    ls_jw_field_num(&r->json, "exchange_us", speed.small_us, 6);
    ls_jw_field_num(&r->json, "mb_per_s", mb_per_s, 6);
}

// The paths of the user's files, which may not exist yet.
static void check_files(report *r) {
    static const struct {
        const char *what, *variable, *fallback, *name;
    } places[] = {{"settings", "XDG_CONFIG_HOME", ".config", "config.yaml"},
                  {"prompts", "XDG_STATE_HOME", ".local/state", "history"},
                  {"costs", "XDG_CACHE_HOME", ".cache", "costs"},
                  {"bigrams", "XDG_CACHE_HOME", ".cache", "bigrams"}};
    ls_buf text = {0};
    bool ok = true;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *path = ls_user_path(places[i].variable, places[i].fallback, places[i].name);
        ok &= path != NULL;
        ls_buf_fmt(&text, "%s%s %s%s", i ? "; " : "", places[i].what, path ? path : "nowhere (HOME is not set)",
                   path && access(path, F_OK) ? " (none yet)" : "");
        free(path);
    }
    check(r, "your files", ok, false, "%s", text.p);
    ls_buf_free(&text);
}

// Local time to the minute; "?": not known.
static ls_short_text date_of(time_t at) {
    ls_short_text t = {"?"};
    struct tm day;
    if (localtime_r(&at, &day)) strftime(t.s, sizeof t.s, "%Y-%m-%d %H:%M", &day);
    return t;
}

// The parts of the key (engine/measured.c): version | sha256 | device | arithmetic | kernel | library | threads |
// processor.
static void show_measured(void *ud, const char *what, const char *key, const ls_measured *is) {
    static const char *const how[] = {"with few forwards; to be measured again when idle",
                                      "on a busy machine; to be measured again", "on an idle machine"};
    enum { SHA256 = 1, DEVICE, DTYPE, THREADS = 6, PARTS = 8 };
    report *r = ud;
    char *copy = ls_strdup(key), *part[PARTS] = {copy};
    int n = 1;
    for (char *p = copy; n < PARTS && (p = strstr(p, " | ")); p += 3) {
        *p = 0;
        part[n++] = p + 3;
    }
    if (n > THREADS) {
        check(r, "measured", true, false, "%s of model %.12s, %s, %s, %s: %s, %s", what, part[SHA256], part[DEVICE],
              part[DTYPE], part[THREADS], date_of((time_t)is->when).s, how[is->how]);
        ls_jw_field_str(&r->json, "what", what);
        ls_jw_field_str(&r->json, "key", key);
        ls_jw_field_int(&r->json, "when", is->when);
        ls_jw_field_str(&r->json, "how", ls_measured_hows[is->how]);
        r->n_measured++;
    }
    free(copy);
}

// Lists the cached measurements.
static void check_measured(report *r) {
    ls_measured_list(show_measured, r);
    if (!r->n_measured) check(r, "measured", true, false, "nothing yet: the first start measures threads and forwards");
}

static void forget(report *r) {
    const int n = ls_measured_forget();
    check(r, "measured", true, false, "%d measurement%s removed", n, ls_plural(n));
}

// Measures the fastest number of threads and the cost of forwards, and caches both for later runs.
static ls_code calibrate(report *r, ls_model *m, ls_err *err) {
    ls_cost_curve z;
    ls_costs_noise noise;
    char line[LS_COSTS_NOTE];
    ls_code code = ls_threads_choose(m, true, ls_gauge_show, NULL, err);
    if (!code) code = ls_costs_get(&z, m, LS_COSTS_ANEW, LS_BUSY, &noise, ls_gauge_show, NULL, err);
    if (code) return code;
    ls_buf text = {0};
    ls_buf_fmt(&text, "%s, %d thread%s, %s: one row %.2f ms at %d tokens of context;", m->engine->dtype,
               m->engine->threads, ls_plural(m->engine->threads), m->engine->kernel, z.base_ms[0], z.cost_context);
    for (int i = 1; i < LS_COST_SIZES; i++)
        ls_buf_fmt(&text, "%s %d rows x%.2f", i > 1 ? "," : "", ls_cost_rows[i], z.base_ms[i] / z.base_ms[0]);
    ls_buf_fmt(&text, "; each row of a large tree adds %.3f ms per 1000 tokens of context", 1e3 * z.slope_ms);
    if (z.expert_ms > 0)
        ls_buf_fmt(&text, "; one row takes %.0f experts, 8 rows %.0f, and each further one adds %.3f ms",
                   ls_cost_awake(&z, 1), ls_cost_awake(&z, 8), z.expert_ms);
    if (ls_costs_note(&noise, line)) ls_buf_fmt(&text, "; %s", line);
    check(r, "costs", !noise.busy, true, "%s", text.p);
    ls_jw_field_int(&r->json, "context_len", z.cost_context);
    ls_jw_field_ids(&r->json, "rows", ls_cost_rows, LS_COST_SIZES);
    ls_jw_field_open(&r->json, "ms", '[');
    for (int i = 0; i < LS_COST_SIZES; i++) ls_jw_num(&r->json, z.base_ms[i], 5);
    ls_jw_close(&r->json, ']');
    ls_jw_field_num(&r->json, "slope_ms", z.slope_ms, 5);
    if (z.expert_ms > 0) ls_jw_field_num(&r->json, "expert_ms", z.expert_ms, 5);
    ls_buf_free(&text);
    return LS_OK;
}

// Asks the model what follows each token; an interrupt keeps what is there.
static ls_code learn_bigrams(report *r, ls_model *m, const ls_setup *s, ls_err *err) {
    char *path = NULL;
    int32_t n = 0;
    const uint64_t start = ls_now_ns();
    const ls_code code = ls_bigrams_learn(m, s->format, s->system, true, ls_gauge_show, NULL, &n, &path, err);
    if (!code)
        check(r, "bigrams", true, true, "what %s chooses after each of %d tokens, in %.1f s: %s", m->name, n,
              (double)(ls_now_ns() - start) / 1e9, path);
    free(path);
    return code;
}

// What needs the whole model.
static void ask_model(report *r, ls_setup *s, const ls_command_line *c) {
    ls_model m = {0};
    ls_err err = {0};
    ls_gauge_watch(&s->model.engine);
    const ls_code loaded = ls_model_load(&m, &s->model, &err);
    if (c->calibrate && (loaded || calibrate(r, &m, &err))) check(r, "costs", false, true, "%s", err.msg);
    if (c->bigrams && (loaded || learn_bigrams(r, &m, s, &err))) check(r, "bigrams", false, true, "%s", err.msg);
    ls_model_free(&m);
}

// What drafters keep of earlier answers (spec/recall.h); forget: removes it.
static void check_drafts(report *r, bool forget) {
    char *folder = ls_user_path("XDG_STATE_HOME", ".local/state", "drafts");
    DIR *dir = folder ? opendir(folder) : NULL;
    double bytes = 0;
    time_t newest = 0;
    int n = 0, removed = 0;
    struct stat st;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) continue;
        n++;
        bytes += (double)st.st_size;
        if (st.st_mtime > newest) newest = st.st_mtime;
        if (forget) removed += !unlinkat(dirfd(dir), e->d_name, 0);
    }
    if (dir) closedir(dir);
    if (forget)
        check(r, "drafts", removed == n, true, "%d of %d file%s of earlier answers removed", removed, n, ls_plural(n));
    else if (n)
        check(r, "drafts", true, false,
              "%d file%s of earlier answers, %.1f MB, the newest of %s, in %s; doctor --forget-drafts removes them", n,
              ls_plural(n), bytes / 1e6, date_of(newest).s, folder);
    else check(r, "drafts", true, false, "nothing of earlier answers is kept (logitspec.file: auto keeps it)");
    free(folder);
}

ls_code ls_cmd_doctor(const ls_command_line *c, ls_console *to, ls_err *err) {
    (void)err;
    report r = {0};
    r.json.out = &r.json_text;
    ls_jw_open(&r.json, '[');
    check_program(&r);
    ls_run_setup setup;
    ls_run_setup_init(&setup, &c->options);
    check_compute(&r, &setup.s.model.engine);
    check_model(&r, &setup.s.model, c->device_model);
    check_ranks(&r, &setup.s.model.engine);
    check_config(&r);
    check_files(&r);
    if (c->forget) forget(&r);
    else check_measured(&r);
    check_drafts(&r, c->forget_drafts);
    check_log(&r);
    check_terminal(&r);
    if (c->calibrate || c->bigrams) ask_model(&r, &setup.s, c);
    ls_run_setup_free(&setup);
    end(&r);
    ls_jw_close(&r.json, ']');
    ls_buf_char(&r.json_text, '\n');
    const size_t table = ls_wrap(&r.text, 0, ls_columns(STDOUT_FILENO), 24);
    if (r.table.p) ls_buf_str(&r.text, r.table.p);
    ls_wrap(&r.text, table, ls_columns(STDOUT_FILENO), 2);
    ls_buf_free(&r.table);
    to->out = c->json ? r.json_text : r.text;
    ls_buf_free(c->json ? &r.text : &r.json_text);
    if (r.failed) to->status = LS_EXIT_FAILED;
    return LS_OK;
}
