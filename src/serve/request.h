// Reads the body of a request, in the forms of OpenAI's and Anthropic's APIs. Bodies are not trusted: text in them
// stays text (text/chat.h), and a field that is not known or not supported is refused with its name. Any thread.
#pragma once
#include "base/json.h"
#include "compute/lst.h"
#include "decode/drafting.h"

typedef enum { LS_API_CHAT, LS_API_COMPLETIONS, LS_API_MESSAGES, LS_API_TOKENIZE, LS_API_DETOKENIZE, LS_APIS } ls_api;

// Most of a body: bytes, nested brackets, and values (each takes about a hundred bytes of memory).
enum { LS_BODY_BYTES = 8 << 20, LS_BODY_DEPTH = 64, LS_BODY_VALUES = 1 << 18 };

typedef struct {
    ls_api api;
    ls_json *chat; // variables of the chat template: messages, tools; NULL: `text` is the prompt
    ls_buf text;   // the prompt; of a chat the last user's message
    ls_ids tokens; // to detokenize
    char **stops;  // NULL-terminated; NULL: none
    lst_sampling sampling;
    int32_t max_tokens;
    int32_t top_logprobs; // alternatives of each token
    bool stream, usage;   // usage: a last event has it
    bool logprobs;
    bool token_ids; // the answer has the tokens of prompt and text
    bool tools;
} ls_request;

// What a request without a field gets.
typedef struct {
    const ls_decode_options *decode;
    bool seeded;               // decode->sampling.seed is that of all requests; else each draws its own
    const char *system;        // as in ls_prompt_encode
    const char *const *models; // the names of the model, NULL-terminated
} ls_request_defaults;

// LS_E_USAGE or LS_E_PARSE: the message is for the client. LS_E_UNSUPPORTED: another model is asked for.
ls_code ls_request_read(ls_request *out, ls_api api, ls_str body, const ls_request_defaults *d, ls_err *err);
void ls_request_free(ls_request *r);

// ---- for request.c and request_messages.c

// Fills r->chat, r->text and r->tools, as chat templates take them, from the request's body. system: the message of a
// conversation without one, or NULL.
ls_code ls_request_messages(ls_request *r, const ls_json *body, const char *system, ls_err *err);
