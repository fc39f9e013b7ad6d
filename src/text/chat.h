// A conversation as the model's own chat template writes it (text/jinja.h), for ls_encode_marked.
//
// What comes from the conversation stays text: a special token that a message spells out, whole or in part, is encoded
// as plain text, whatever the template does with the message.
//
// strftime_now gives 26 July 2024 unless the variable `now` says otherwise: the same prompt gives the same tokens.
#pragma once
#include "text/jinja.h"
#include "text/vocab.h"

enum { LS_CHAT_DAY = 1721952000 }; // 26 July 2024, on which the Llama 3 templates fall back

typedef struct ls_chat ls_chat;

// tmpl: the Jinja chat template. LS_E_PARSE, LS_E_UNSUPPORTED, LS_E_RANGE or LS_E_USAGE where it cannot be read, or
// does not render a conversation of one message.
ls_code ls_chat_new(ls_chat **out, const ls_vocab *v, const char *tmpl, size_t n, ls_err *err);
void ls_chat_free(ls_chat *c);
// Variables of the template: an object's text, such as {"enable_thinking": false}; they take the place of earlier ones.
ls_code ls_chat_set(ls_chat *c, const char *json, size_t n, ls_err *err);
const char *ls_chat_hash(const ls_chat *c); // of the template: 16 hexadecimal digits
const char *ls_chat_name(const ls_chat *c); // "template 0123456789abcdef, answers end with <|im_end|>": by its hash
int32_t ls_chat_end(const ls_chat *c);      // the token that ends an answer; -1: the template has none

// Appends what the template makes of the messages. prompt: up to where the next answer begins. LS_E_USAGE: the template
// refuses them.
ls_code ls_chat_render(ls_chat *c, const ls_jinja_message *messages, size_t n, bool prompt, ls_marked *out,
                       ls_err *err);
// The same of a request's variables: an object with `messages` and maybe `tools`. The caller checks the roles of the
// messages, because templates make control tokens of them.
ls_code ls_chat_render_request(ls_chat *c, const ls_json *request, ls_marked *out, ls_err *err);
