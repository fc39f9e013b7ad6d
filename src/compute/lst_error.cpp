#include "compute/lst_error.h"

static thread_local std::string last_error;

void lst::set_error(const std::string &text) {
    last_error = text;
    for (char &c : last_error)
        if (c == '\n' || c == '\r') c = ' '; // one line
}

lst::Error lst::cancelled() {
    return Error(LST_E_CANCELLED, "interrupted");
}

void lst::check_tokens(const int32_t *tokens, int32_t n, int32_t n_vocab) {
    for (int32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            throw Error(LST_E_ARG, "token id " + std::to_string(tokens[i]) + " is outside the vocabulary");
}

extern "C" const char *lst_last_error(void) {
    return last_error.c_str();
}
