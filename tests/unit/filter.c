// CMOCKA_FILTER='a_second_*' build/tests/test_session runs only the tests whose names match.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

__attribute__((constructor)) static void filter(void) {
    const char *pattern = getenv("CMOCKA_FILTER");
    if (pattern && *pattern) cmocka_set_test_filter(pattern);
}
