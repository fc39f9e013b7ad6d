// The tokens that a file lists, before they become a vocabulary, and those of them that are searched in texts first.
#pragma once
#include "text/tokenizer_config.h"

typedef struct {
    ls_str *tokens;  // [n] borrowed; p NULL: no token has the id
    int32_t *types;  // [n]
    double *scores;  // [n] where scored
    size_t n, limit; // ids are below limit, which bounds the memory
    bool scored;
    bool complete; // the file lists all tokens: what is only guessed to be one is not added
    bool renames;  // an added token takes the place of the model's (sentencepiece), else that is an error
    int32_t (*find)(const void *ud, ls_str text); // an id of the model itself; -1: it has no such token
    const void *ud;
    ls_added *added;
    size_t n_added;
    // the rest is the table's own
    size_t room;
    int32_t *added_at; // [n] index into added + 1; 0: none
    ls_map by_text;    // added tokens: hash -> id
} ls_token_table;

void ls_token_table_free(ls_token_table *t);
// Ids below n exist; new ones are unused and have no text. False: n is beyond the limit.
bool ls_token_table_reach(ls_token_table *t, int64_t n);
int32_t ls_token_table_id(const ls_token_table *t, ls_str text); // of an added token or of the model; -1: none
// Adds a token, or changes the flags of one that was added. id -1: where the model has it, else behind all.
ls_code ls_token_table_add(ls_token_table *t, ls_str text, int64_t id, ls_added flags, ls_err *err);
// What a configuration adds and names, in transformers' order.
ls_code ls_token_table_configure(ls_token_table *t, ls_tokenizer_config *c, ls_err *err);
int32_t ls_token_table_named(const ls_token_table *t, const ls_tokenizer_config *c, const char *name); // -1: none

// ---- shared by the readers of Hugging Face's files

// tokenizer.json's contents, of the file that messages name. by_class: written for vocab.json and merges.txt,
// whose class alone says what a text begins with.
ls_code ls_tokenizer_document(ls_vocab **out, ls_str text, const char *name, const ls_tokenizer_files *beside,
                              bool by_class, ls_err *err);
bool ls_base64(ls_buf *out, ls_str s);      // appends the bytes; false: it is not base64
void ls_byte_alphabet(uint32_t cp_of[256]); // GPT-2's: the character that stands for each byte
