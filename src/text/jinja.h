// Chat templates: Jinja as Hugging Face's apply_chat_template sets it up (trim_blocks, lstrip_blocks, loop controls,
// the `generation` tag, raise_exception, strftime_now, its own tojson; an immutable sandbox). Parsed once, rendered
// often.
//
// A byte of what is rendered has the mark 1 where it comes from the conversation (but for roles, of which templates
// make control tokens), else 0: marks travel with the bytes through every operation (trimming, slicing, case, tojson,
// ...), so that no text of a user becomes a control token.
//
// Not here: include, import, extends, block, recursive loops, asynchronous things, and the filters of HTML and of
// layout that no chat template uses; using one is an error that names it.
//
// Bounded: MiB of memory, steps, depth. A template is used by one thread at a time.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>

typedef struct ls_jinja ls_jinja;

// LS_E_PARSE: broken syntax; LS_E_UNSUPPORTED; LS_E_RANGE: too large. The message begins with "line N: ".
ls_code ls_jinja_parse(ls_jinja **out, const char *tmpl, size_t n, ls_err *err);
void ls_jinja_free(ls_jinja *t); // accepts NULL

typedef struct {
    const char *role;
    ls_str content; // any bytes
} ls_jinja_message;

// What a template is rendered with.
typedef struct {
    // objects of variables, or NULL; the strings of messages, tools and documents are marked. names: the tokens that
    // have one, of which `variables` may replace some
    const ls_json *names, *variables;
    const ls_json *request; // variables that replace those: `messages` with further keys, `tools`; or NULL
    // where there are any: `messages`; add_generation_prompt: the text is to end where an answer begins
    const ls_jinja_message *messages;
    size_t n_messages;
    bool prompt;
    int64_t now; // for strftime_now: seconds since 1970, taken as local time
} ls_jinja_context;

// Appends what the template writes. LS_E_USAGE: it refuses the conversation (raise_exception), or an operation fails as
// it does in the reference; LS_E_UNSUPPORTED, LS_E_RANGE. The message begins with "line N: ".
ls_code ls_jinja_render(ls_jinja *t, const ls_jinja_context *context, ls_marked *out, ls_err *err);
