// Writes commands and events to the log (base/log.h). Texts of prompts and tokens only if the log may contain them.
#pragma once
#include "source/source.h"

void ls_log_command(const ls_command *c);
void ls_log_event(const ls_event *e); // steps are logged where they are made, for all commands
