// Reads the hyper-parameters of a decoder from GGUF metadata or a Hugging Face config.json. Sources: llama.cpp's
// gguf-py constants and the config classes of transformers.
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "model/gguf.h"
#include "model/hparams.h"

// Reads the metadata; ls_checkpoint_open sets n_vocab and tied. LS_E_UNSUPPORTED: the message has the unknown value and
// the supported values.
// as: read the keys of general.architecture, whatever it is, as those of this architecture; NULL: it must be known.
ls_code ls_hparams_gguf(ls_hparams *out, const ls_gguf *g, const ls_arch *as, ls_err *err);
// config: a parsed config.json.
ls_code ls_hparams_config(ls_hparams *out, const ls_json *config, ls_err *err);

// An integer of a config.json; without the key, or null, *out stays. LS_E_RANGE: it is not from lo to hi.
ls_code ls_config_int(const ls_json *config, const char *key, int64_t lo, int64_t hi, int32_t *out, ls_err *err);

// Shared by both. The check also sets n_ff of a model without dense layers.
ls_code ls_hparams_check(ls_hparams *h, ls_err *err);
const ls_arch *ls_arch_find(ls_str name, bool hf); // NULL: not known
// What a layer of the architecture does otherwise than Llama's; "": nothing.
void ls_arch_differs(const ls_arch *a, ls_buf *out);
// The same of a model, with its numbers.
void ls_hparams_differs(const ls_hparams *h, ls_buf *out);
// KV cache bytes of one token, at value_bytes per number.
uint64_t ls_hparams_kv_bytes(const ls_hparams *h, int32_t value_bytes);
// Frequencies of `kind`: base^(-2i / dims), each divided by factor.
void ls_rope_plain(ls_hparams *h, int kind, double base, double factor);
// YaRN: frequencies that turn at least `fast` times in the original context stay, those that turn at most `slow` times
// are divided by factor, and the others are mixed linearly by their index. sharp: the ends of the mix are not rounded
// to indices.
typedef struct {
    double factor, original, fast, slow, magnitude;
    bool sharp;
} ls_yarn;
void ls_rope_yarn(ls_hparams *h, double base, const ls_yarn *y);
// 0.1 * weight * ln(factor) + 1: YaRN's magnitude; 1 if factor is at most 1.
double ls_yarn_magnitude(double factor, double weight);
// One layer's xIELU from the checkpoint's numbers.
void ls_xielu_set(ls_hparams *h, int layer, double alpha_p, double alpha_n, double beta, double eps);
// The longest context that --context may choose; without --context it is n_context.
int32_t ls_longest_context(const ls_hparams *h);
// Puts longrope's frequencies for a context of n tokens into rope_freq.
void ls_rope_for_context(ls_hparams *h, int32_t n);
