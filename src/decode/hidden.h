// The hidden states of a KV cache's committed text, for a trained head that drafts from them: collected from its
// forwards (lst_hidden), and kept in the memory of the head's device. The committed text shows which rows of a tree
// were kept.
#pragma once
#include "engine/trained.h"

#include <stddef.h>

typedef struct ls_hidden ls_hidden;

// Collects the hidden states that feed the head from the KV cache's later forwards; one ls_hidden per KV cache.
// LS_E_UNSUPPORTED: the engine has no hidden states. t and head are borrowed and outlive it.
ls_code ls_hidden_new(ls_hidden **out, ls_kv_cache *kv, ls_trained *head, ls_err *err);
void ls_hidden_free(ls_hidden *s); // accepts NULL

// The committed text is context[0..n): finds it among the rows that were seen since the last call.
void ls_hidden_follow(ls_hidden *s, const int32_t *context, size_t n);
// After that: the values of tokens *from .. n - 1 are known ([..][n_values], in the memory of the head's device); NULL:
// not those of the last token (*from is n then). Borrowed until the next forward or call.
const float *ls_hidden_values(const ls_hidden *s, size_t least, size_t n, size_t *from);
// Frees the values of the first n tokens, except for a few of the last ones.
void ls_hidden_forget(ls_hidden *s, size_t n);
