// The screen.
#include "cli/commands.h"
int ls_cmd_chat(const ls_command_line *c) { (void)c; return 1; }
