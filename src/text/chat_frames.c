#include "text/chat_frames.h"

#define CHATML(ROLE) "<|im_start|>" ROLE "\n"
#define LLAMA3(ROLE) "<|start_header_id|>" ROLE "<|end_header_id|>\n\n"
#define GRANITE(ROLE) "<|start_of_role|>" ROLE "<|end_of_role|>"
#define COMMAND(ROLE) "<|START_OF_TURN_TOKEN|><|" ROLE "_TOKEN|>"
#define DEEPSEEK(ROLE) "<\uff5c" ROLE "\uff5c>"
#define DEEPSEEK_END "<\uff5cend\u2581of\u2581sentence\uff5c>"
#define KNOWLEDGE "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

// clang-format off
const ls_chat_frame ls_chat_frames[] = {
    {"chatml", LS_SYSTEM_BLOCK, {CHATML("system"), "<|im_end|>\n"},
     {CHATML("user"), "<|im_end|>\n" CHATML("assistant")}, "<|im_end|>\n", "<|im_end|>", "<|im_start|> <|im_end|>"},
    {"phi-4", LS_SYSTEM_BLOCK, {"<|im_start|>system<|im_sep|>", "<|im_end|>"},
     {"<|im_start|>user<|im_sep|>", "<|im_end|><|im_start|>assistant<|im_sep|>"}, "<|im_end|>", "<|im_end|>",
     "<|im_start|> <|im_sep|> <|im_end|>"},
    {"llama-3", LS_SYSTEM_BLOCK, {LLAMA3("system"), "<|eot_id|>"},
     {LLAMA3("user"), "<|eot_id|>" LLAMA3("assistant")}, "<|eot_id|>", "<|eot_id|>",
     "<|start_header_id|> <|end_header_id|> <|eot_id|>"},
    {"llama-3.1", LS_SYSTEM_BLOCK, {LLAMA3("system") KNOWLEDGE, "<|eot_id|>"},
     {LLAMA3("user"), "<|eot_id|>" LLAMA3("assistant")}, "<|eot_id|>", "<|eot_id|>",
     "<|start_header_id|> <|end_header_id|> <|eot_id|>"},
    {"llama-2", LS_SYSTEM_FIRST, {"<<SYS>>\n", "\n<</SYS>>\n\n"}, {"[INST] ", " [/INST]"}, " \2\1", "\2", ""},
    {"llama-2-one-bos", LS_SYSTEM_FIRST, {"<<SYS>>\n", "\n<</SYS>>\n\n"}, {"[INST] ", " [/INST]"}, " \2", "\2", ""},
    {"mistral-v0", LS_SYSTEM_FIRST, {"", "\n\n"}, {"[INST] ", " [/INST]"}, "\2", "\2", ""},
    {"mistral-v0.1", LS_SYSTEM_FIRST, {"", "\n\n"}, {"[INST] ", " [/INST]"}, "\2 ", "\2", ""},
    {"mistral-v1", LS_SYSTEM_FIRST, {"", "\n\n"}, {" [INST] ", " [/INST]"}, "\2", "\2", ""},
    {"mistral-v3", LS_SYSTEM_LATEST, {"", "\n\n"}, {"[INST] ", "[/INST]"}, "\2", "\2", "[INST] [/INST]"},
    {"mistral-v3-tekken", LS_SYSTEM_LATEST, {"", "\n\n"}, {"[INST]", "[/INST]"}, "\2", "\2", "[INST] [/INST]"},
    {"mistral-v7", LS_SYSTEM_BLOCK, {"[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"}, {"[INST] ", "[/INST]"}, "\2", "\2",
     "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [INST] [/INST]"},
    {"mistral-v7-tekken", LS_SYSTEM_BLOCK, {"[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"}, {"[INST]", "[/INST]"}, "\2", "\2",
     "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [INST] [/INST]"},
    {"vicuna", LS_SYSTEM_BLOCK, {"", " "}, {"USER: ", " ASSISTANT:"}, "\2", "\2", ""},
    {"vicuna-lines", LS_SYSTEM_BLOCK, {"", "\n\n"}, {"USER: ", "\nASSISTANT:"}, "\2\n", "\2", ""},
    {"gemma", LS_SYSTEM_FIRST, {"", "\n\n"}, {"<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n"},
     "<end_of_turn>\n", "<end_of_turn>", "<start_of_turn> <end_of_turn>"},
    {"phi-3", LS_SYSTEM_BLOCK, {"<|system|>\n", "<|end|>\n"}, {"<|user|>\n", "<|end|>\n<|assistant|>\n"},
     "<|end|>\n", "<|end|>", "<|user|> <|assistant|> <|end|>"},
    {"phi-4-mini", LS_SYSTEM_BLOCK, {"<|system|>", "<|end|>"}, {"<|user|>", "<|end|><|assistant|>"}, "<|end|>",
     "<|end|>", "<|user|> <|assistant|> <|end|>"},
    {"zephyr", LS_SYSTEM_BLOCK, {"<|system|>\n", "\2\n"}, {"<|user|>\n", "\2\n<|assistant|>\n"}, "\2\n", "\2", ""},
    {"olmo-2", LS_SYSTEM_BLOCK, {"<|system|>\n", "\n"}, {"<|user|>\n", "\n<|assistant|>\n"}, "\2\n", "\2", ""},
    {"granite", LS_SYSTEM_BLOCK, {GRANITE("system"), "<|end_of_text|>\n"},
     {GRANITE("user"), "<|end_of_text|>\n" GRANITE("assistant")}, "<|end_of_text|>\n", "<|end_of_text|>",
     "<|start_of_role|> <|end_of_role|> <|end_of_text|>"},
    {"deepseek", LS_SYSTEM_BLOCK, {"", "\n\n"}, {"User: ", "\n\nAssistant:"}, "\2", "\2", ""},
    {"deepseek-r1", LS_SYSTEM_BLOCK, {"", ""}, {DEEPSEEK("User"), DEEPSEEK("Assistant")}, DEEPSEEK_END, DEEPSEEK_END,
     DEEPSEEK("User") " " DEEPSEEK("Assistant") " " DEEPSEEK_END},
    {"command-r", LS_SYSTEM_BLOCK, {COMMAND("SYSTEM"), "<|END_OF_TURN_TOKEN|>"},
     {COMMAND("USER"), "<|END_OF_TURN_TOKEN|>" COMMAND("CHATBOT")}, "<|END_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
     "<|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|>"},
};
// clang-format on
const size_t ls_n_chat_frames = sizeof ls_chat_frames / sizeof *ls_chat_frames;
