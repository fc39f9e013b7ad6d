// The conversation and the tools of a request, as chat templates take them.
#pragma once
#include "serve/request.h"

// Fills r->chat, r->text and r->tools from the request's body. system: the message of a conversation without one, or
// NULL.
ls_code ls_request_messages(ls_request *r, const ls_json *body, const char *system, ls_err *err);
