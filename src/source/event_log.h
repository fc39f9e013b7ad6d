// What the log (base/log.h) says of commands and events. Texts of prompts and tokens only where it is to hold them.
#pragma once
#include "source/source.h"

void ls_log_command(const ls_command *c);
void ls_log_event(const ls_event *e); // steps are logged where they are made, for all commands
