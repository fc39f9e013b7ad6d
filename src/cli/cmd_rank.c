// A rank other than 0 of a model that several processes share; --devices and launchers start it.
#include "cli/commands.h"
#include "engine/ranks.h"

int ls_cmd_rank(const ls_command_line *c) {
    (void)c;
    ls_err err = {0};
    return ls_follow(&err) ? ls_complain(&err) : LS_EXIT_OK;
}
