// What a Hugging Face folder says beside its tokenizer: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json, merged as PreTrainedTokenizerBase._from_pretrained of transformers 4.57 merges them, with the
// defaults of the tokenizer's class; and the table of tokens that its readers fill.
#pragma once
#include "base/json.h"
#include "text/vocab_internal.h"

typedef struct {
    const char *name; // "bos_token", ...; NULL: one of additional_special_tokens
    ls_str text;
    ls_added flags; // its id is -1
    bool flagged;   // the file states the flags
    bool guessed;   // the usual name of a class that no file states
    bool absent;    // guessed, and the tokenizer has no such token
} ls_named_token;

typedef struct {
    ls_str text;
    ls_added token; // its id is the file's
} ls_listed_token;

typedef struct {
    ls_json *config, *special_map, *more; // NULL: not there
    ls_named_token *named;                // later ones of a name replace earlier ones
    size_t n_named;
    ls_map by_name, by_text; // hash -> index into named; of additional_special_tokens their text is the name
    ls_listed_token *added;  // added_tokens_decoder, else added_tokens.json
    size_t n_added;
    bool guessed;          // no file states the class: it is the model's usual one
    const char *class;     // without "Fast"; NULL: none is known
    bool own_rule;         // the class decides what a text begins and ends with, whatever a post-processor says:
    bool add_bos, add_eos; // that
    bool llama;            // LlamaTokenizer, which alone reads `legacy` and, of a tokenizer.model, add_prefix_space
    bool legacy;           // every stretch between special tokens gets the space that a text begins with
    int prefix_space;      // add_prefix_space: 1, 0, -1: not said
} ls_tokenizer_config;

// The flags of a token's object; special: where it does not say.
ls_added ls_added_flags(const ls_json *t, bool special);
// LS_E_PARSE with the file and the entry. ls_tokenizer_config_free in any case.
ls_code ls_tokenizer_config_read(ls_tokenizer_config *c, const ls_tokenizer_files *files, ls_err *err);
void ls_tokenizer_config_free(ls_tokenizer_config *c);
// What templates are given: an object of names and spellings, as JSON text.
void ls_tokenizer_config_variables(const ls_tokenizer_config *c, ls_buf *out);

// ---- the tokens that a file lists, before they become a vocabulary, and those of them that are searched in texts
// first

typedef struct {
    ls_str *tokens;  // [n] borrowed; p NULL: no token has the id
    int32_t *types;  // [n]
    double *scores;  // [n] where scored
    size_t n, limit; // ids are below limit, which bounds the memory
    bool scored;
    bool complete; // the file lists all tokens: what is only guessed to be one is not added
    bool renames;  // an added token takes the place of the model's (sentencepiece), else that is an error
    ls_added *added;
    size_t n_added;
    // the rest is the table's own
    size_t room;
    int32_t *added_at;        // [n] index into added + 1; 0: none
    ls_map in_model, by_text; // of the model itself, and added ones: hash -> id
} ls_token_table;

void ls_token_table_free(ls_token_table *t);
// Ids below n exist; new ones are unused and have no text. False: n is beyond the limit.
bool ls_token_table_reach(ls_token_table *t, int64_t n);
// Token `id`, below n, is one of the model itself.
void ls_token_table_put(ls_token_table *t, int64_t id, ls_str text, int32_t type);
int32_t ls_token_table_id(const ls_token_table *t, ls_str text); // of an added token or of the model; -1: none
// Adds a token, or changes the flags of one that was added. id -1: where the model has it, else behind all.
ls_code ls_token_table_add(ls_token_table *t, ls_str text, int64_t id, ls_added flags, ls_err *err);
// What a configuration adds and names, in transformers' order.
ls_code ls_token_table_configure(ls_token_table *t, ls_tokenizer_config *c, ls_err *err);
void ls_token_table_lend(const ls_token_table *t, ls_vocab_source *src);                               // what it lists
int32_t ls_token_table_named(const ls_token_table *t, const ls_tokenizer_config *c, const char *name); // -1: none

// ---- shared by the readers of Hugging Face's files

// tokenizer.json's contents, of the file that messages name. by_class: written for vocab.json and merges.txt,
// whose class alone says what a text begins with.
ls_code ls_tokenizer_document(ls_vocab **out, ls_str text, const char *name, const ls_tokenizer_files *beside,
                              bool by_class, ls_err *err);
