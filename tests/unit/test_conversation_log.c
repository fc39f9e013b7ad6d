// The log of a conversation where the system fails: memory that cannot be written, a disk that does not respond.
#include "recorded.h"
#include "trace/conversation_log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

static atomic_bool stuck, broken, refused; // refused: the next write, and none after it
static pthread_t of_test;
static atomic_int waiting; // writers in a disk that does not respond

ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
    waiting++;
    while (stuck && !pthread_equal(pthread_self(), of_test)) usleep(1000);
    waiting--;
    return broken || atomic_exchange(&refused, false) ? (errno = ENOSPC, -1) : syscall(SYS_pwrite64, fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at) {
    return pwrite(fd, p, n, at);
}

static ls_session *session;
static ls_runner run;
static const ls_setup setup = {.decode = {.method = "ar", .max_tokens = 400, .sampling = {.top_p = 1}},
                               .format = LS_FORMAT_RAW};

static ls_conversation_log *begin(void) {
    ls_conversation_log *c;
    ls_err err = {0};
    assert_int_equal(ls_session_new(&session, &model, &setup.decode, &err), LS_OK);
    assert_int_equal(ls_conversation_log_new(&c, model.vocab, &err), LS_OK);
    run = (ls_runner){
        .session = session, .model = &model, .setup = &setup, .sinks[0] = ls_conversation_log_sink(c), .n_sinks = 1};
    return c;
}

static void say(void) {
    static const char prompt[] = "Retrieval";
    const ls_str text = {prompt, sizeof prompt - 1};
    assert_int_equal(ls_runner_begin(&run, ls_runner_turns(&run), text, NULL, NULL, NULL), LS_OK);
    while (ls_runner_active(&run)) assert_int_equal(ls_runner_step(&run, NULL), LS_OK);
}

static void end(ls_conversation_log *c) {
    ls_runner_free(&run);
    ls_session_free(session);
    ls_conversation_log_free(c);
    unlink(path);
}

static int saved_steps(ls_conversation_log *c) {
    ls_err err = {0};
    ls_code code;
    bool torn;
    assert_int_equal(ls_conversation_log_save(c, path, &err), LS_OK);
    const int n = read_all(&code, &torn, &err);
    assert_int_equal(code, LS_OK);
    assert_false(torn);
    return n;
}

// A busy machine may write later than within the second that the log waits.
static bool is_lost_soon(ls_conversation_log *c, ls_err *err) {
    bool lost = false;
    for (int s = 0; s < 60 && !lost; s++) {
        assert_false(ls_conversation_log_failed(c, true, err)); // there is no file
        lost = ls_conversation_log_lost(c, err);
    }
    return lost;
}

// Whoever decodes is told once, when it happens, and not only when something is to be saved.
static void a_lost_log_is_told_once(void **state) {
    (void)state;
    ls_conversation_log *c = begin();
    ls_err err = {0};
    char where[80];
    say();
    assert_false(ls_conversation_log_failed(c, true, &err));
    assert_false(ls_conversation_log_lost(c, &err));
    broken = true;
    say();
    assert_true(is_lost_soon(c, &err));
    assert_string_equal(err.msg, "the conversation can no longer be saved: the disk is full");
    say();
    assert_false(ls_conversation_log_lost(c, &err));
    assert_int_equal(ls_conversation_log_save(c, path, &err), LS_E_IO);
    assert_non_null(strstr(err.msg, "the disk is full"));
    assert_false(ls_conversation_log_rescue(c, path, where, sizeof where));
    broken = false;
    stuck = true;
    ls_conversation_log_clear(c); // nothing is left that could be incomplete
    ls_session_reset(session);
    say(); // before the thread has come to it
    assert_false(ls_conversation_log_lost(c, &err));
    stuck = false;
    assert_int_equal(saved_steps(c), 400);
    unlink(path);
    assert_true(ls_conversation_log_rescue(c, path, where, sizeof where));
    assert_string_equal(where, path);
    end(c);
}

// Decoding goes on; the wait and the memory have a bound.
static void a_disk_that_does_not_respond_stops_nobody(void **state) {
    (void)state;
    ls_conversation_log *c = begin();
    ls_err err = {0};
    char where[80];
    assert_int_equal(ls_conversation_log_autosave(c, path, &err), LS_OK);
    say();
    assert_false(ls_conversation_log_failed(c, true, &err));
    stuck = true;
    say(); // 400 steps wait
    while (!waiting) usleep(1000);
    assert_false(ls_conversation_log_failed(c, true, &err)); // after a second
    assert_false(ls_conversation_log_lost(c, &err));
    assert_true(ls_conversation_log_rescue(c, "/nonexistent", where, sizeof where)); // what was written is in the file
    assert_string_equal(where, path);
    bool lost = false; // how much the writer had taken before it came to the disk is the processor's
    for (int i = 0; i < 8 && !lost; i++) say(), lost = ls_conversation_log_lost(c, &err);
    assert_true(lost);
    assert_string_equal(err.msg, "the conversation can no longer be saved: the disk does not respond");
    say();
    assert_false(ls_conversation_log_lost(c, &err));
    assert_int_equal(ls_conversation_log_save(c, path, &err), LS_E_IO);
    ls_conversation_log_clear(c);
    assert_int_equal(access(path, F_OK), -1);
    assert_false(ls_conversation_log_rescue(c, NULL, where, sizeof where));
    ls_session_reset(session);
    say(); // before the disk responds
    assert_false(ls_conversation_log_lost(c, &err));
    assert_false(ls_conversation_log_rescue(c, path, where, sizeof where)); // of what was cleared
    stuck = false;
    assert_int_equal(saved_steps(c), 400);
    unlink(path);
    assert_int_equal(ls_conversation_log_autosave(c, path, &err), LS_OK);
    say();
    assert_false(ls_conversation_log_failed(c, true, &err) || ls_conversation_log_lost(c, &err));
    end(c);
}

// The thread is in a write for the old conversation, which then fails.
static void a_clearing_ends_what_fails_before_it(void **state) {
    (void)state;
    ls_conversation_log *c = begin();
    ls_err err = {0};
    stuck = true;
    say();
    while (!waiting) usleep(1000);
    ls_conversation_log_clear(c);
    ls_session_reset(session);
    refused = true;
    stuck = false;
    while (refused) usleep(1000);
    say();
    assert_int_equal(saved_steps(c), 400);
    assert_false(ls_conversation_log_lost(c, &err));
    end(c);
}

static void a_log_that_cannot_begin_says_why(void **state) {
    (void)state;
    struct rlimit before, none;
    ls_conversation_log *c;
    ls_err err = {0};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const ls_code code = ls_conversation_log_new(&c, model.vocab, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(code, LS_E_IO);
    assert_null(c);
    assert_string_equal(err.msg, "cannot record the conversation: Too many open files");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_log_is_told_once), cmocka_unit_test(a_disk_that_does_not_respond_stops_nobody),
        cmocka_unit_test(a_clearing_ends_what_fails_before_it), cmocka_unit_test(a_log_that_cannot_begin_says_why)};
    of_test = pthread_self();
    return cmocka_run_group_tests(tests, recorded_set_up, recorded_tear_down);
}
