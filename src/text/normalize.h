// Normalises text before it is split: Unicode forms by utf8proc, replacements, sentencepiece's rules.
// References: Hugging Face tokenizers' normalizers; sentencepiece's normalizer.cc.
#pragma once
#include "base/map.h"
#include "text/regex.h"
#include "text/vocab.h"

#include <stdbool.h>
#include <stdint.h>

enum { LS_MARK_FIRST = 2 }; // beside LS_MARK_TEXT: of the first character of the whole text

typedef enum { LS_NFC, LS_NFD, LS_NFKC, LS_NFKD, LS_LOWERCASE, LS_STRIP_ACCENTS } ls_form;

enum { LS_NORMALIZER_STEPS = 32 };
typedef struct ls_normalizer ls_normalizer; // steps, in the order in which they were added
ls_normalizer *ls_normalizer_new(void);
void ls_normalizer_free(ls_normalizer *z);
// Each is LS_E_UNSUPPORTED beyond LS_NORMALIZER_STEPS steps; LS_E_PARSE: a charsmap whose sizes do not fit.
ls_code ls_normalizer_add_form(ls_normalizer *z, ls_form form, ls_err *err);
ls_code ls_normalizer_add_strip(ls_normalizer *z, bool left, bool right, ls_err *err);
ls_code ls_normalizer_add_prepend(ls_normalizer *z, const char *p, size_t n, ls_err *err);
ls_code ls_normalizer_add_replace(ls_normalizer *z, const char *pattern, size_t n, ls_regex_kind kind, const char *by,
                                  size_t n_by, ls_err *err);
ls_code ls_normalizer_add_precompiled(ls_normalizer *z, const void *blob, size_t n,
                                      ls_err *err); // as tokenizers reads it
ls_code ls_normalizer_add_sentencepiece(ls_normalizer *z, const ls_sentencepiece_rules *rules, ls_err *err);
bool ls_normalizer_is_empty(const ls_normalizer *z);
// text must be UTF-8, and the result is. kept (may be NULL): symbols that sentencepiece's rules leave alone. False: the
// file's rules make the text more than 64 times as long, or take too many steps.
bool ls_normalize(const ls_normalizer *z, ls_regex_scratch *s, const ls_trie *kept, ls_marked *text);
bool ls_is_space(uint32_t cp); // Unicode's White_Space
bool ls_is_word(uint32_t cp);  // \w of Unicode's regular expressions

// Of characters, by Unicode's tables; a mapping to several characters is not made.
uint32_t ls_upper(uint32_t c);
uint32_t ls_lower(uint32_t c);
uint32_t ls_title(uint32_t c);
bool ls_is_letter(uint32_t c);
bool ls_is_digit(uint32_t c); // decimal
bool ls_has_case(uint32_t c);
const char *ls_normalize_version(void); // of the library
