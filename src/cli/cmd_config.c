// `config show`: the effective value of every option and where it came from.
#include "cli/commands.h"

#include <string.h>
#include <unistd.h>

int ls_cmd_config(const ls_command_line *c) {
    if (c->n_args != 1 || strcmp(c->args[0], "show")) {
        ls_err err;
        ls_fail(&err, LS_E_USAGE, "usage: logitspec config show");
        return ls_complain(&err);
    }
    ls_buf out = {0};
    ls_options_show(&c->options, &out);
    ls_wrap(&out, 0, ls_columns(STDOUT_FILENO), LS_COMMANDS); // users copy it as YAML
    return ls_print(&out) ? LS_EXIT_OK : LS_EXIT_FAILED;
}
