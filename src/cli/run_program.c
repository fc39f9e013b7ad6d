#include "cli/run_program.h"
#include "cli/commands.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

ls_code ls_run_program(char *const *arguments, const char *needed, ls_err *err) {
    pid_t pid;
    int status;
    posix_spawnattr_t attributes;
    sigset_t defaults;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    sigaction(SIGINT, &ignore, &old);
    posix_spawnattr_init(&attributes);
    sigemptyset(&defaults);
    if (old.sa_handler != SIG_IGN) sigaddset(&defaults, SIGINT);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int failed = posix_spawnp(&pid, arguments[0], NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    if (failed) sigaction(SIGINT, &old, NULL);
    if (failed == ENOENT) return ls_fail(err, LS_E_IO, "%s is not found in PATH: %s", arguments[0], needed);
    if (failed) return ls_fail(err, LS_E_IO, "%s cannot be started: %s", arguments[0], strerror(failed));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    sigaction(SIGINT, &old, NULL);
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return LS_OK;
    if ((WIFEXITED(status) && WEXITSTATUS(status) == LS_EXIT_INTERRUPTED) || WIFSIGNALED(status)) return LS_E_CANCELLED;
    return LS_E_IO;
}
