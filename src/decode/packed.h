// A stored step: its record without unused room. A record has room for 256 rows; most trees
// have a few. It never changes and is counted, so that an event, the screen and the conversation to be saved own one
// copy together. Any thread.
#pragma once
#include "decode/step.h"

ls_packed *ls_pack(const ls_step *s);             // one owner: the caller
ls_packed *ls_packed_share(ls_packed *p);         // one more owner; returns p
void ls_packed_free(ls_packed *p);                // of one owner; accepts NULL
void ls_unpack(const ls_packed *p, ls_step *out); // all but the room that is not in use
