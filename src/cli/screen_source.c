#include "cli/screen_source.h"
#include "base/mem.h"
#include "cli/variant.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// Each setup of the source is that of a variant, with the options from which it was read.
static const ls_variant *of_setup(const ls_setup *s) {
    return (const ls_variant *)((const char *)s - offsetof(ls_variant, setup.s));
}

static void free_setup(ls_setup *s) {
    ls_variant *c = (ls_variant *)of_setup(s);
    ls_variant_free(c);
    free(c);
}

// now: what is in force; NULL: nothing is yet. The model was loaded by the first setup; later ones do not use theirs.
static ls_setup *setup_of(ls_variant *c, const ls_setup *now) {
    ls_run_setup_init(&c->setup, &c->options);
    if (!now) return &c->setup.s;
    // without a set seed, keeps the one that was drawn at the start
    if (!c->options.seed.set) c->setup.s.decode.sampling.seed = now->decode.sampling.seed;
    c->setup.s.decode.note = now->decode.note;
    c->setup.s.decode.ud = now->decode.ud;
    return &c->setup.s;
}

static ls_setup *changed(const ls_setup *now, const char *assignment, ls_err *err) {
    static const char *const fixed[] = {"model.", "trace.", "ui."};
    const char *eq = strchr(assignment, '=');
    ls_code code = eq ? LS_OK : ls_fail(err, LS_E_USAGE, "set KEY=VALUE is expected, such as 'set decode.max_rows=16'");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!code && !strncmp(assignment, fixed[i], strlen(fixed[i])))
            code = ls_fail(err, LS_E_USAGE, "model.*, trace.* and ui.* cannot change while the program runs");
    if (code) return NULL;
    ls_variant *c = ls_calloc(1, sizeof *c);
    char *key = ls_strndup(assignment, (size_t)(eq - assignment));
    ls_options_copy(&c->options, &of_setup(now)->options);
    code = ls_options_set(&c->options, key, eq + 1, "set", err);
    free(key);
    if (!code) return setup_of(c, now);
    ls_options_free(&c->options);
    free(c);
    return NULL;
}

static ls_setup *variant(const ls_setup *now, const char *text, ls_err *err) {
    ls_variant *list;
    int n;
    if (ls_variants_read(&list, &n, "compare", text, &of_setup(now)->options, err)) return NULL;
    if (n == 1) return &list->setup.s;
    ls_variants_free(list, n);
    ls_fail(err, LS_E_USAGE, "compare takes one method, such as 'compare suffix:16'");
    return NULL;
}

ls_source *ls_screen_source_open(const ls_options *o, const char *keep, const char *unkept, bool *failed, ls_err *err) {
    ls_variant *first = ls_calloc(1, sizeof *first);
    ls_options_copy(&first->options, o);
    const ls_live_options opt = {.setup = setup_of(first, NULL),
                                 .trace = first->options.trace,
                                 .trace_level = ls_trace_level_named(first->options.trace_level),
                                 .keep = keep,
                                 .unkept = unkept,
                                 .forget = !o->history,
                                 .failed = failed,
                                 .changed = changed,
                                 .variant = variant,
                                 .free_setup = free_setup};
    ls_source *source = ls_source_live(&opt);
    if (source) return source;
    free_setup(opt.setup);
    ls_fail(err, LS_E_IO, "cannot start a thread: the system has no memory or file descriptors left");
    return NULL;
}
