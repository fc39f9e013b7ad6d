// Errors: every fallible function returns an ls_code and, if asked, one finished line of text.
// The innermost place writes the message (what, where, what to do); outer places may prefix it once.
#pragma once
#include <stdarg.h>
#include <stdbool.h>

typedef enum {
    LS_OK = 0,
    LS_E_IO,          // the operating system refused
    LS_E_PARSE,       // malformed input
    LS_E_RANGE,       // a value outside its limits
    LS_E_UNSUPPORTED, // well-formed, but not something this program can do
    LS_E_BACKEND,     // the compute library failed
    LS_E_CANCELLED,   // stopped on request
    LS_E_USAGE,       // wrong command line or configuration (exit code 2)
} ls_code;

typedef struct {
    ls_code code;
    char msg[512]; // one line, NUL-terminated
} ls_err;

// Called by long work: the share that is done, 0 to 1 (negative: not known), and what it does. False cancels it.
typedef bool (*ls_progress)(void *ud, const char *stage, double fraction);

#define ls_plural(n) ((n) == 1 ? "" : "s") // the ending of a counted noun, for any kind of number

// Stores code and message in err (may be NULL). Its value is the code, so callers can `return ls_fail(...)`. It is a
// macro so that compilers and checkers know the code and see that statements after a failure are not reached.
#define ls_fail(err, code, ...) (ls_err_set(err, code, __VA_ARGS__), ls_err_code(code))
void ls_err_set(ls_err *err, ls_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static inline ls_code ls_err_code(ls_code code) {
    return code;
}
// Puts "prefix: " in front of the message that err already holds; returns err's code.
ls_code ls_err_prefix(ls_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Appends "; what" to the message: the state of the work after the error.
ls_code ls_err_suffix(ls_err *err, const char *what);
