// Loading a model by name: file, checksum, hyper-parameters, vocabulary, chat template, engine; and its draft models.
#pragma once
#include "engine/engine.h"
#include "text/chat.h"
#include "text/vocab.h"

struct ls_checkpoint; // model/checkpoint.h
struct ls_gguf;       // model/gguf.h
typedef struct ls_loaded_draft_model ls_loaded_draft_model;

typedef struct {
    ls_engine *engine;
    ls_vocab *vocab;
    ls_chat *chat; // NULL: the model has no usable chat template; see chat_problem
    char chat_problem[512];
    bool chat_refused; // it has templates, but none is usable
    char name[64];     // display name such as "SmolLM2-135M-Instruct", from the file
    char file[512];    // "" for the scripted model
    char sha256[65];
    struct ls_checkpoint *checkpoint;    // NULL: the scripted model, or no tensors
    ls_loaded_draft_model *draft_models; // beside it
    bool (*stop)(void *ud);              // from the options of ls_model_load
    void *stop_ud;
    uint64_t worked_ns; // when the last forward of a turn ended
    void *costs;        // owned by engine/measured.h, from malloc, until the program ends; NULL: none
} ls_model;

typedef struct {
    const char *name; // "default", "script[:MS]" (the scripted model, MS milliseconds per forward), a name of the
                      // registry, a GGUF file, or a Hugging Face folder
    const char *chat_template;      // see ls_load_template; NULL: the model's own
    const char *template_variables; // a JSON object, see ls_chat_set; NULL: none
    ls_engine_options engine;
} ls_model_options;

// The file of a model name. Owned by the caller; NULL for the scripted model.
char *ls_model_path(const char *name);
ls_code ls_model_load(ls_model *out, const ls_model_options *opt, ls_err *err);
// Loads only vocabulary and chat template: no checksum, no engine, no compute library.
ls_code ls_model_load_text(ls_model *out, const ls_model_options *opt, ls_err *err);
// The same, but also accepts a GGUF file without tensors; then out->checkpoint is NULL.
ls_code ls_model_load_vocabulary(ls_model *out, const ls_model_options *opt, ls_err *err);
void ls_model_free(ls_model *m);

// The SHA-256 that identifies a model in traces and caches. It is the hash of the model's file. If the weights are in
// several files, it is the hash of the lines "SHA256  NAME" of all of them and config.json. The opened file is hashed,
// even if another file has its path by now. The cache folder keeps the hashes of unchanged files (ls_file_key), which
// are not read again. Also fills the hashes of c->files. LS_E_CANCELLED: progress (may be NULL) returned false.
ls_code ls_model_hash(const struct ls_checkpoint *c, char out[65], ls_progress progress, void *ud, ls_err *err);

// ---- vocabulary and chat template, from GGUF metadata or the files of a folder

// Fills vocab, and chat or chat_problem. Uses the template and variables of the options, if any. Messages begin with
// the path.
ls_code ls_load_text(ls_model *m, const struct ls_checkpoint *c, const ls_model_options *o, ls_err *err);
// The text of a template, empty if there is none; and the template's variables, as JSON text. Chooses as transformers'
// get_chat_template: `name` of the model's own templates (NULL: tool_use if there are tools, otherwise default); then a
// file, or a name of configs/chat. The messages of LS_E_USAGE and LS_E_IO list the available templates.
ls_code ls_load_template(const struct ls_checkpoint *c, const char *name, ls_buf *out, ls_buf *variables, ls_err *err);
// The vocabulary of a GGUF file, from tokenizer.ggml.*. Kinds gpt2 (BPE with merges, its pre-tokenizer by a name of
// text/pretok.def), gemma4 (the same, over characters), llama (sentencepiece BPE) and t5 (Unigram). LS_E_UNSUPPORTED:
// another kind, or an unknown pre-tokenizer.
ls_code ls_vocab_gguf(ls_vocab **out, const struct ls_gguf *g, ls_err *err);

// ---- the scripted model: a deterministic language model over bytes. It predicts from n-gram matches in a small
// built-in text plus fixed noise. Like a model, it repeats itself and varies in confidence. It needs no files, so
// decoding, screen and traces are tested with it. Vocabulary: 256 byte tokens, then <|im_start|> and <|im_end|>.

// delay_ms: simulated time of a forward, for tests of pausing and cancelling; negative: a mixture of experts with
// made-up routers and costs. n_context: 0 for 4096.
ls_engine *ls_engine_script_new(int delay_ms, int32_t n_context);
ls_code ls_script_vocab(ls_vocab **out, ls_err *err);
extern const char ls_script_chat_template[];

// ---- a draft model beside the target, loaded once and shared by all drafters that use it

// The request for a draft model.
typedef struct {
    const char *name;    // as for ls_model_load; NULL or "": the target's own file
    const char *weights; // format of its weights in memory; "auto": as in the file
    const char *device;  // "auto": the target's
    int32_t threads;     // 0: as for the target
} ls_draft_model_want;

// Loads it, or returns the model that an equal request loaded before. Its tokenizer must equal the target's: the
// message of LS_E_UNSUPPORTED has the first token that differs. Only special tokens at the end may differ; then
// *differs is the first of them (otherwise -1), and the draft model must not be given this token or later ones. Owned
// by the target's ls_model until ls_model_free; an unused one is freed when another is loaded.
ls_code ls_draft_model_get(ls_model *target, const ls_draft_model_want *want, ls_model **out, int32_t *differs,
                           ls_err *err);
void ls_draft_model_done(ls_model *target, ls_model *draft_model); // releases one use
