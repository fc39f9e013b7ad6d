#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "cli/commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PROMPT_BYTES = 64 << 20 };

void ls_warn_of_gaps(const ls_trace_gaps *g, const char *file) {
    ls_buf text = {0};
    ls_trace_gaps_text(g, &text);
    ls_gauge_clear();
    if (text.n) ls_warn("%s%s%s", file ? file : "", file ? ": " : "", text.p);
    ls_buf_free(&text);
}

bool ls_write_out(const char *p, size_t n) {
    static bool told; // once for all writes of a command
    ls_gauge_clear();
    const bool ok = fwrite(n ? p : "", 1, n, stdout) == n && !fflush(stdout) && !ferror(stdout);
    if (!ok && !told) ls_warn("cannot write to standard output: %s", ls_write_reason(errno));
    told |= !ok;
    return ok;
}

bool ls_print(ls_buf *text) {
    ls_buf shown = {0};
    ls_sanitize_text(&shown, text->p, text->n);
    const bool ok = ls_write_out(shown.p, shown.n);
    ls_buf_free(&shown);
    ls_buf_free(text);
    return ok;
}

void ls_say(int left, const char *fmt, ...) {
    ls_buf line = {0};
    va_list ap;
    va_start(ap, fmt);
    char *text = ls_format_list(fmt, ap);
    va_end(ap);
    ls_sanitize_row(&line, "%s", text);
    ls_wrap(&line, 0, ls_columns(STDOUT_FILENO), left);
    ls_gauge_clear();
    fwrite(line.p, 1, line.n, stdout);
    ls_buf_free(&line);
    free(text);
}

static void print_note(void *ud, const char *text) {
    (void)ud;
    ls_gauge_clear();
    ls_warn("%s", text);
}

static uint64_t draw_seed(void) {
    return ls_seed_draw() >> 11; // below 2^53: exact in any JSON reader
}

void ls_settle_seed(ls_options *o) {
    if (!o->seed.set) o->seed = (ls_opt_SEED){true, draw_seed()};
}

static ls_engine_options engine_options(const ls_options *o) {
    const bool kept = !strcmp(o->dtype, "f16") || !strcmp(o->dtype, "q8") || !strcmp(o->dtype, "q4");
    return (ls_engine_options){.device = o->device,
                               .devices = o->devices,
                               .reference = !strcmp(o->engine, "reference"),
                               .dtype = kept ? "auto" : o->dtype,
                               .weights = kept && !strcmp(o->weights, "auto") ? o->dtype : o->weights,
                               .kv = o->kv,
                               .threads = o->threads,
                               .context = o->context,
                               .expert_memory = (uint64_t)o->expert_memory << 20};
}

// Whether a later entry NAME=VALUE has the name of entry i.
static bool is_overruled(const ls_opt_LIST *all, size_t i) {
    const size_t n = strcspn(all->p[i], "=");
    for (size_t k = i + 1; k < all->n; k++)
        if (strcspn(all->p[k], "=") == n && !strncmp(all->p[k], all->p[i], n)) return true;
    return false;
}

// Writes NAME=VALUE entries as a JSON object. A value that is valid JSON is inserted, any other becomes a string.
static void write_variables(ls_buf *out, const ls_opt_LIST *all) {
    ls_json *json;
    if (!all->n) return;
    ls_jsonw w = ls_jw_begin(out);
    for (size_t i = 0; i < all->n; i++) {
        if (is_overruled(all, i)) continue;
        const char *equals = strchr(all->p[i], '='), *value = equals ? equals + 1 : "true";
        ls_jw_any_key(&w, all->p[i], equals ? (size_t)(equals - all->p[i]) : strlen(all->p[i]));
        char *list = ls_format("[%s]", value); // wrapped in a list, because a JSON document must be a list or an object
        const bool is_json = !ls_json_parse(&json, list, strlen(list), "", NULL);
        if (is_json && ls_json_size(json) == 1) ls_buf_str(out, value);
        else ls_jw_str(&w, value);
        if (is_json) ls_json_free(json);
        free(list);
        w.comma = true;
    }
    ls_jw_close(&w, '}');
}

void ls_run_setup_init(ls_run_setup *r, const ls_options *o) {
    *r = (ls_run_setup){0};
    write_variables(&r->variables, &o->variables);
    r->s = (ls_setup){
        .model = {.name = o->model,
                  .chat_template = o->chat_template,
                  .template_variables = r->variables.p,
                  .engine = engine_options(o)},
        .decode = {.method = o->method,
                   .max_rows = o->max_rows,
                   .knobs = o->knobs,
                   .draft = {.model = o->draft_model,
                             .weights = o->draft_weights,
                             .head = o->draft_head,
                             .layers = o->draft_layers,
                             .depth = o->draft_depth,
                             .width = o->draft_width,
                             .threads = o->draft_threads,
                             .device = o->draft_device,
                             .overlap = !strcmp(o->draft_overlap, "on")    ? LS_OVERLAP_ON
                                        : !strcmp(o->draft_overlap, "off") ? LS_OVERLAP_OFF
                                                                           : LS_OVERLAP_AUTO},
                   .reflection = o->reflection,
                   .note = print_note,
                   .max_tokens = o->max_tokens,
                   .sampling = {.temperature = o->temperature,
                                .top_k = o->top_k,
                                .top_p = o->top_p,
                                .seed = o->seed.set ? o->seed.value : draw_seed()},
                   .stops = (const char *const *)o->stop.p},
        .format = !strcmp(o->format, "chat")  ? LS_FORMAT_CHAT
                  : !strcmp(o->format, "raw") ? LS_FORMAT_RAW
                                              : LS_FORMAT_AUTO,
        .system = o->system,
    };
    ls_sizing_read(&r->s.decode.sizing, "", o->sizing, NULL); // cannot fail: ls_options_set checked all three
    ls_accept_read(&r->s.decode.accept, "", o->acceptance, NULL);
    ls_cost_read(&r->s.decode.costs, "", o->costs, NULL);
    r->s.config = (const char *const *)(r->config = ls_calloc(2 * (size_t)ls_options_count() + 1, sizeof *r->config));
    for (int i = 0; i < ls_options_count(); i++) {
        ls_buf value = {0};
        ls_options_value(o, i, &value);
        ls_buf_str(&value, "");
        r->config[2 * i] = (char *)ls_options_key(i);
        r->config[2 * i + 1] = value.p;
    }
}

void ls_run_setup_free(ls_run_setup *r) {
    for (int i = 0; r->config && i < ls_options_count(); i++) free(r->config[2 * i + 1]);
    free(r->config);
    ls_buf_free(&r->variables);
}

ls_code ls_read_prompt(const ls_command_line *c, bool required, ls_buf *out, ls_err *err) {
    if (c->prompt) ls_buf_str(out, c->prompt);
    else if (c->prompt_file) {
        int unopened = 0;
        const ls_code code = strcmp(c->prompt_file, "-")
                                 ? ls_read_any(out, c->prompt_file, MAX_PROMPT_BYTES, &unopened, err)
                                 : ls_read_all(out, stdin, "standard input", MAX_PROMPT_BYTES, err);
        if (unopened) ls_fail(err, code, "cannot read the prompt %s: %s", c->prompt_file, strerror(unopened));
        if (code) return code;
    }
    if (!out->n && required)
        return ls_fail(err, LS_E_USAGE,
                       c->prompt || c->prompt_file
                           ? "the prompt is empty"
                           : "a prompt is needed: --prompt TEXT or --prompt-file FILE (- is standard input)");
    return LS_OK;
}

ls_code ls_count_read(const char *flag, const char *text, int32_t least, int32_t most, int32_t *out, ls_err *err) {
    char *end = NULL;
    *out = 0;
    if (!text) return LS_OK;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < least || n > most) {
        if (most == INT32_MAX)
            return ls_fail(err, LS_E_USAGE, "%s %.40s: expected a whole number, %d or more", flag, text, least);
        return ls_fail(err, LS_E_USAGE, "%s %.40s: expected a number from %d to %d", flag, text, least, most);
    }
    *out = (int32_t)n;
    return LS_OK;
}

static ls_code wrong_steps(const char *at, size_t least, size_t most, ls_err *err) {
    char known[64] = "";
    if (most < SIZE_MAX) snprintf(known, sizeof known, "; there are %zu to %zu", least, most);
    else if (least) snprintf(known, sizeof known, "; the first is %zu", least);
    return ls_fail(err, LS_E_USAGE, "--step '%.40s': expected steps such as 5 or 5,17,20-22%s", at, known);
}

// Reads the range at p. Returns its end, a comma or the end of the list; NULL: it is malformed.
static const char *read_range(const char *p, size_t *first, size_t *last) {
    char *end;
    if (!isdigit((unsigned char)*p)) return NULL;
    *first = *last = strtoul(p, &end, 10);
    if (*end == '-' && isdigit((unsigned char)end[1])) *last = strtoul(end + 1, &end, 10);
    return *end && *end != ',' ? NULL : end;
}

ls_code ls_steps_check(const char *list, size_t least, size_t most, ls_err *err) {
    size_t first, last;
    for (const char *p = list, *end;; p = end + 1) {
        end = read_range(p, &first, &last);
        if (!end || first < least || last > most || last < first || last == SIZE_MAX)
            return wrong_steps(p, least, most, err);
        if (!*end) return LS_OK;
    }
}

bool ls_steps_next(const char **list, size_t *first, size_t *last) {
    const char *end = read_range(*list, first, last);
    if (end) *list = end + (*end == ',');
    return end != NULL;
}

bool ls_steps_has(const char *list, size_t step) {
    for (size_t first, last; ls_steps_next(&list, &first, &last);)
        if (step >= first && step <= last) return true;
    return false;
}

ls_code ls_speed_read(const char *text, bool max, double *out, ls_err *err) {
    char *end = NULL;
    *out = 1;
    if (!text) return LS_OK;
    if (max && !strcmp(text, "max")) return *out = 0, LS_OK;
    *out = strtod(text, &end);
    if (end != text && !*end && *out > 0 && *out <= 1e6) return LS_OK;
    return ls_fail(err, LS_E_USAGE, "--speed is '%.40s', expected a number above 0 (1: as recorded)%s", text,
                   max ? " or max" : "");
}

ls_code ls_no_thread(ls_err *err) {
    return ls_fail(err, LS_E_IO, "cannot start a thread: the system has no memory or file descriptors left");
}

bool ls_wants_color(const ls_options *o, int fd) {
    const char *no = getenv("NO_COLOR");
    if (!strcmp(o->color, "always")) return true;
    return strcmp(o->color, "never") && !(no && *no) && isatty(fd);
}
