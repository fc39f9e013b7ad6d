// Quantised weights of a folder's safetensors, as their libraries write them. A weight is several tensors there: packed
// numbers, scales, perhaps zero points and the groups of the inputs. It becomes one tensor of a GGUF type whose blocks
// have the same integers and scales; where no type does, it is rounded to bf16.
#pragma once
#include "base/json.h"
#include "model/checkpoint.h"

// Reads quantization_config of a config.json. LS_E_UNSUPPORTED: the message has the method or format and what to do.
ls_code ls_quant_config_read(ls_quant_config *out, const ls_json *config, ls_err *err);

// Every format that is read beside GGUF's types: what writes it, the type that is kept, and what is lost.
typedef struct {
    const char *name, *writers;
    int type; // ls_ggml_type
    const char *loss;
} ls_quant_format;
extern const ls_quant_format ls_quant_formats[]; // ends with a NULL name

// How the model's weights are quantised in the file, how they are kept, and what is lost; "": they are not.
void ls_quantized_differs(const ls_checkpoint *c, ls_buf *out);
