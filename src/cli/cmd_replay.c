// `replay TRACE`: the screen on a recording, without a model.
#include "cli/commands.h"
#include "ui/app.h"

#include <string.h>
#include <unistd.h>

ls_code ls_cmd_replay(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_replay_options opt = {.path = c->n_args ? c->args[0] : NULL, .paused = c->paused};
    ls_code code = LS_OK;
    if (c->n_args == 2) opt.rival = c->args[1];
    if (!opt.path || c->n_args > 2)
        code = ls_fail(err, LS_E_USAGE, "usage: logitspec replay TRACE [RIVAL] (files of --trace)");
    else code = ls_speed_read(c->speed, true, &opt.speed, err);
    if (!code && !ls_is_scripted(c) && (!isatty(STDOUT_FILENO) || (!isatty(STDIN_FILENO) && strcmp(opt.path, "-"))))
        code = ls_fail(err, LS_E_USAGE, "the screen needs a terminal; without one, 'logitspec inspect' prints steps");
    if (!code && c->paused && c->cast && !c->script)
        code = ls_fail(err, LS_E_USAGE, "--cast and --paused cannot be combined: the asciicast would never end");
    char from_pipe[32];
    if (!code && !strcmp(opt.path, "-") && !ls_is_scripted(c)) {
        code = ls_keys_from_terminal(from_pipe, sizeof from_pipe, err);
        opt.path = from_pipe;
    }
    ui_options screen = {.given.recording = true};
    return code ? code : ls_show(ls_source_replay(&opt, err), &screen, c, to, err);
}
