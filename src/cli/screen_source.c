#include "cli/screen_source.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

// Fills setup from the current options.
static void refresh(ls_screen_source *l, ls_setup *setup) {
    const ls_setup before = *setup;
    ls_run_setup_free(&l->setup);
    ls_run_setup_init(&l->setup, &l->options);
    // without a set seed, keeps the one that was drawn at the start
    if (!l->options.seed.set) l->setup.s.decode.sampling.seed = before.decode.sampling.seed;
    l->setup.s.model = before.model;
    l->setup.s.decode.note = before.decode.note;
    l->setup.s.decode.ud = before.decode.ud;
    *setup = l->setup.s;
}

static ls_code change(void *ud, const char *assignment, ls_setup *setup, ls_err *err) {
    static const char *const fixed[] = {"model.", "trace.", "ui."};
    ls_screen_source *l = ud;
    if (!assignment) { // NULL: reverts the last setting
        ls_options_free(&l->options);
        ls_options_copy(&l->options, &l->before);
        refresh(l, setup);
        return LS_OK;
    }
    const char *eq = strchr(assignment, '=');
    if (!eq) return ls_fail(err, LS_E_USAGE, "set KEY=VALUE is expected, such as 'set decode.budget=16'");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strncmp(assignment, fixed[i], strlen(fixed[i])))
            return ls_fail(err, LS_E_USAGE, "model.*, trace.* and ui.* cannot change while the program runs");
    ls_options_free(&l->before);
    ls_options_copy(&l->before, &l->options);
    char *key = ls_strndup(assignment, (size_t)(eq - assignment));
    const ls_code code = ls_options_set(&l->options, key, eq + 1, "set", err);
    free(key);
    if (!code) refresh(l, setup);
    return code;
}

// Reads the method of a rival; limits, sampling and stop texts are those of the current setup.
static ls_code rival(void *ud, const char *text, const ls_setup *setup, ls_decode_options *out, ls_err *err) {
    ls_screen_source *l = ud;
    ls_contenders_free(l->rival, l->n_rivals);
    l->rival = NULL;
    l->n_rivals = 0;
    const ls_code code = ls_contenders_read(&l->rival, &l->n_rivals, "compare", text, &l->options, err);
    if (code) return code;
    if (l->n_rivals != 1) return ls_fail(err, LS_E_USAGE, "compare takes one method, such as 'compare suffix:16'");
    *out = l->rival[0].setup.s.decode;
    out->max_tokens = setup->decode.max_tokens;
    out->sampling = setup->decode.sampling;
    out->stops = setup->decode.stops;
    return LS_OK;
}

ls_source *ls_screen_source_open(ls_screen_source *l, const ls_options *o, const char *keep, ls_err *err) {
    *l = (ls_screen_source){0};
    ls_options_copy(&l->options, o);
    ls_run_setup_init(&l->setup, &l->options);
    const ls_live_options opt = {.setup = l->setup.s,
                                 .trace = l->options.trace,
                                 .trace_level = ls_trace_level_named(l->options.trace_level),
                                 .keep = keep,
                                 .forget = !o->history,
                                 .failed = &l->failed,
                                 .set = change,
                                 .rival = rival,
                                 .ud = l};
    ls_source *source = ls_source_live(&opt);
    if (!source) ls_fail(err, LS_E_IO, "cannot start a thread: the system has no memory or file descriptors left");
    return source;
}

void ls_screen_source_free(ls_screen_source *l) {
    ls_contenders_free(l->rival, l->n_rivals);
    ls_run_setup_free(&l->setup);
    ls_options_free(&l->options);
    ls_options_free(&l->before);
}
