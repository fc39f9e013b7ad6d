// What every fuzz target shares: its input as a file, and what it demands of the code under test. A demand that is not
// met says why and aborts, which libFuzzer and `make test` report with the input.
#pragma once
#include "base/err.h"
#include "ui/canvas.h"
#include "ui/state.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define EXPECT(what) ((what) ? (void)0 : fuzz_fail(__FILE__, __LINE__, "expected " #what))
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

const char *fuzz_file(const uint8_t *data, size_t n); // the path of a file with these bytes; valid until the next call
const char *fuzz_folder(void);                        // an empty folder of this process, for what writes files
void fuzz_said(ls_code code, const ls_err *err);      // a failure says what is wrong

// Output is well-formed, whatever was put into it.
void fuzz_json(const char *p, size_t n);            // one document, no key twice
void fuzz_json_lines(const char *p, size_t n);      // a document a line
void fuzz_csv(const char *p, size_t n, int cells);  // RFC 4180, so many cells in every line
void fuzz_markup(const char *p, size_t n);          // XML, or HTML with a doctype; only the elements that we write
void fuzz_shown(const char *p, size_t n, int ansi); // lines for a terminal: no control but (ansi) our own sequences

// The screen at that size holds nothing that a terminal would obey; where it is filmed, its picture is well-formed.
void fuzz_screen(ui_state *s, int rows, int cols, ui_film *film, double seconds);
void fuzz_clock(void); // begins a time in which nobody waits
