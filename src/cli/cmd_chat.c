// The screen.
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/contender.h"
#include "ui/app.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    ls_options options, before; // the source's thread has its own: they change while it runs
    ls_run_setup setup;
    ls_contender *rival; // the last that was asked for
    int n_rivals;
} live_options;

// Fills setup from the options as they are now.
static void refresh(live_options *l, ls_setup *setup) {
    const ls_setup before = *setup;
    ls_run_setup_free(&l->setup);
    ls_run_setup_init(&l->setup, &l->options);
    if (!l->options.seed.set) l->setup.s.decode.sampling.seed = before.decode.sampling.seed; // drawn once
    l->setup.s.model = before.model;
    l->setup.s.decode.note = before.decode.note;
    l->setup.s.decode.ud = before.decode.ud;
    *setup = l->setup.s;
}

static ls_code change(void *ud, const char *assignment, ls_setup *setup, ls_err *err) {
    static const char *const fixed[] = {"model.", "trace.", "ui."};
    live_options *l = ud;
    if (!assignment) { // what was set last has no effect
        ls_options_free(&l->options);
        ls_options_copy(&l->options, &l->before);
        refresh(l, setup);
        return LS_OK;
    }
    const char *eq = strchr(assignment, '=');
    if (!eq) return ls_fail(err, LS_E_USAGE, "set KEY=VALUE is expected, such as 'set decode.budget=16'");
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (!strncmp(assignment, fixed[i], strlen(fixed[i])))
            return ls_fail(err, LS_E_USAGE, "model.*, trace.* and ui.* do not change while it runs");
    ls_options_free(&l->before);
    ls_options_copy(&l->before, &l->options);
    char *key = ls_strndup(assignment, (size_t)(eq - assignment));
    const ls_code code = ls_options_set(&l->options, key, eq + 1, "set", err);
    free(key);
    if (!code) refresh(l, setup);
    return code;
}

// Another way to decode with everything else as it is now.
static ls_code rival(void *ud, const char *text, const ls_setup *setup, ls_decode_options *out, ls_err *err) {
    live_options *l = ud;
    ls_contenders_free(l->rival, l->n_rivals);
    l->rival = NULL;
    l->n_rivals = 0;
    const ls_code code = ls_contenders_read(&l->rival, &l->n_rivals, "compare", text, &l->options, err);
    if (code) return code;
    if (l->n_rivals != 1)
        return ls_fail(err, LS_E_USAGE, "compare takes one way to decode, such as 'compare suffix:16'");
    *out = l->rival[0].setup.s.decode;
    out->max_tokens = setup->decode.max_tokens;
    out->sampling = setup->decode.sampling;
    out->stops = setup->decode.stops;
    return LS_OK;
}

int ls_cmd_chat(const ls_command_line *c) {
    ls_err err = {0};
    ls_buf prompt = {0};
    if (c->prompt_file && !strcmp(c->prompt_file, "-")) {
        ls_fail(&err, LS_E_USAGE, "the screen reads keys from standard input; give the prompt by --prompt or a file");
        return ls_complain(&err);
    }
    if (ls_read_prompt(c, false, &prompt, &err)) return ls_complain(&err);
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        bool has_prompt = prompt.n > 0;
        ls_buf_free(&prompt);
        if (has_prompt) return ls_cmd_generate(c); // without a terminal: plain streaming text
        ls_fail(&err, LS_E_USAGE, "the screen needs a terminal; without one: logitspec generate --prompt TEXT");
        return ls_complain(&err);
    }
    const ls_options *o = &c->options;
    live_options live = {0};
    ls_options_copy(&live.options, o);
    ls_run_setup_init(&live.setup, &live.options);
    ls_live_options opt = {.setup = live.setup.s,
                           .trace = live.options.trace,
                           .trace_level = ls_trace_level_named(live.options.trace_level),
                           .set = change,
                           .rival = rival,
                           .ud = &live};
    ls_source *source = ls_source_live(&opt);
    ls_code code = source ? LS_OK : ls_fail(&err, LS_E_IO, "the system refuses another thread");
    int status = LS_EXIT_OK;
    if (source)
        code = ui_run(source,
                      &(ui_options){.theme = o->theme,
                                    .color = ls_wants_color(o, STDOUT_FILENO),
                                    .mouse = o->mouse,
                                    .ambiguous_wide = !strcmp(o->ambiguous_width, "wide"),
                                    .ascii = o->ascii,
                                    .prompt = prompt.n ? prompt.p : NULL},
                      &status, &err);
    if (code) status = ls_complain(&err);
    ls_contenders_free(live.rival, live.n_rivals);
    ls_run_setup_free(&live.setup);
    ls_options_free(&live.options);
    ls_options_free(&live.before);
    ls_buf_free(&prompt);
    return status;
}
