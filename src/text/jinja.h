// The part of Jinja that chat templates are written in, to see what a template writes for a given conversation. Set up
// as Hugging Face's apply_chat_template is (trim_blocks, lstrip_blocks, loop controls, raise_exception, tojson), with
// no tools and no documents, and add_generation_prompt true.
//
// A chat is not rendered with it: a rendered text no longer tells the template's own special tokens from those that a
// user spelled out. It is what a named frame (text/chat_frames.h) is checked against.
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

typedef struct {
    const char *role;
    ls_str content;
} ls_jinja_message;

// Appends what the template writes. LS_E_UNSUPPORTED: a construct that is not known here; LS_E_PARSE: broken syntax;
// LS_E_USAGE: the template itself refused the conversation (raise_exception); LS_E_RANGE: too much of something. The
// message begins with "line N: ". strftime_now counts as not defined, so that a template with a fixed date to fall back
// on uses it; called all the same, it gives 26 July 2024: the same prompt always gives the same tokens.
ls_code ls_jinja_render(const char *tmpl, size_t n, const ls_jinja_message *messages, size_t n_messages,
                        const char *bos, const char *eos, ls_buf *out, ls_err *err);

// Python's str.strip(): what is left without the white space at either end.
ls_str ls_strip(ls_str s);
