// The screen.
#include "base/mem.h"
#include "base/file.h"
#include "cli/plain_chat.h"
#include "cli/screen_source.h"
#include "trace/kept.h"
#include "ui/app.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// At a sudden end: what was kept stays, and the next start offers it.
static void unlock(void *ud, char *said, size_t n) {
    (void)ud, (void)said, (void)n;
    ls_kept_end(true);
}

ls_code ls_cmd_chat(const ls_command_line *c, ls_console *to, ls_err *err) {
    ls_buf prompt = {0};
    if (c->prompt_file && !strcmp(c->prompt_file, "-"))
        return ls_fail(err, LS_E_USAGE,
                       "the screen reads keys from standard input; pass the prompt with --prompt or from a file");
    if (c->plain && ls_is_scripted(c))
        return ls_fail(err, LS_E_USAGE, "--plain has no screen, so --script and --cast do not work with it");
    ls_code code = ls_read_prompt(c, false, &prompt, err);
    if (code) return code;
    if (!c->plain && !ls_is_scripted(c) && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
        bool has_prompt = prompt.n > 0;
        ls_buf_free(&prompt);
        if (has_prompt) return ls_cmd_generate(c, to, err); // without a terminal: plain streaming text
        return ls_fail(
            err, LS_E_USAGE,
            "the screen needs a terminal; without one, use logitspec generate --prompt TEXT or logitspec chat --plain");
    }
    const ls_options *o = &c->options;
    // a conversation that ^C, a signal or a crash ends is offered at the next start
    const bool keeps = o->history && !c->plain && !ls_is_scripted(c);
    ls_err unkept = {0};
    ls_rescue_add(unlock, NULL); // the first one runs last: others may take a path
    char **left = keeps ? ls_kept_left() : NULL, *keep = keeps ? ls_kept_path(&unkept) : NULL;
    bool failed = false;
    ls_source *source = ls_screen_source_open(o, keep, *unkept.msg ? unkept.msg : NULL, &failed, err);
    code = source ? LS_OK : err->code;
    char *history = o->history ? ls_user_path("XDG_STATE_HOME", ".local/state", "history") : NULL;
    ui_options screen;
    if (source && (code = ls_screen_options(o, &screen, err))) source->close(source);
    if (!code) {
        screen.history = history;
        screen.given.left = (const char *const *)left;
        screen.given.keep = keep;
        screen.prompt = prompt.n ? prompt.p : NULL;
        code =
            c->plain ? ls_plain_chat(source, &screen, &to->status, err) : ls_show(source, &screen, c, &to->status, err);
    }
    if (!to->status && failed) to->status = LS_EXIT_FAILED;
    ls_rescue_remove(unlock, NULL);
    ls_kept_end(code || to->status != LS_EXIT_OK); // after a failure, keeps the conversation for the next start
    ls_kept_free(left);
    free(keep);
    free(history);
    ls_buf_free(&prompt);
    return code;
}
