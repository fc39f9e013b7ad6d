#include "compute/lst_error.h"

static thread_local std::string last_error;

void lst::set_error(const std::string &text) {
    last_error = text;
    for (char &c : last_error)
        if (c == '\n' || c == '\r') c = ' '; // one line
}

extern "C" const char *lst_last_error(void) {
    return last_error.c_str();
}
