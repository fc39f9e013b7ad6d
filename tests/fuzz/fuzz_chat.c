// A chat template: recognised or refused, and a turn rendered with what was recognised.
#include "base/buf.h"
#include "tests/fuzz/input.h"
#include "text/chat.h"

static ls_vocab *vocab(void) {
    static const char *const special[] = {"<s>",
                                          "</s>",
                                          "<|im_start|>",
                                          "<|im_end|>",
                                          "<|im_sep|>",
                                          "<|start_header_id|>",
                                          "<|end_header_id|>",
                                          "<|eot_id|>",
                                          "[INST]",
                                          "[/INST]",
                                          "<start_of_turn>",
                                          "<end_of_turn>",
                                          "<|user|>",
                                          "<|assistant|>",
                                          "<|end|>",
                                          "<|end_of_text|>",
                                          "<|start_of_role|>",
                                          "<|end_of_role|>"};
    enum { N = sizeof special / sizeof *special };
    ls_str tokens[N];
    int32_t types[N];
    ls_vocab *v;
    ls_err err;
    for (int i = 0; i < N; i++) tokens[i] = (ls_str){special[i], strlen(special[i])}, types[i] = 3;
    if (ls_vocab_new(&v, &(ls_vocab_source){tokens, N, types, NULL, 0, "gpt-2", 0, 1}, &err)) abort();
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static ls_vocab *v;
    ls_chat *c;
    ls_err err;
    ls_buf text = {0};
    if (!v) v = vocab();
    if (ls_chat_new(&c, v, (const char *)data, n, &err)) {
        EXPECT(*err.msg);
        return 0;
    }
    ls_chat_render(c, true, NULL, "Hi", 2, &text);
    ls_chat_render(c, false, "Be kind", "Hi", 2, &text);
    ls_buf_free(&text);
    ls_chat_free(c);
    return 0;
}
