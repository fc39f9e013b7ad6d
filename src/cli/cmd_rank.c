// A rank other than 0 of a model that several processes share; --devices and launchers start it.
#include "cli/commands.h"
#include "engine/ranks.h"

ls_code ls_cmd_rank(const ls_command_line *c, ls_console *to, ls_err *err) {
    (void)c, (void)to;
    return ls_follow(err);
}
