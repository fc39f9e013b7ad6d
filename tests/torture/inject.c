// Loaded into the program with LD_PRELOAD: counts calls of each kind from main() on and fails the n-th. Allocations and
// threads are caught by their symbols. System calls are caught by a seccomp filter that traps those made from libc's
// text, so that stdio's own calls, which no symbol shows, count too; the kernel's loader and children that are executed
// are left alone, since their code lies elsewhere. Linux on x86-64.
//
//   TORTURE_KIND   one of kind_names; none: only count
//   TORTURE_N      the first call that fails, from 1; for `heap` the bytes that may be in use at once
//   TORTURE_TIMES  how many calls in a row fail; 0: all from there on. 1 where it is not set
//   TORTURE_ERROR  errno; 0: reads and writes are short instead
//   TORTURE_STATE  a file of sizeof(struct state) bytes: what was counted, where the first failure hit
//   TORTURE_STOP   set: SIGTRAP at the first failure, for a debugger
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <ucontext.h>
#include <unistd.h>

enum kind {
    MEMORY,
    HEAP,
    THREAD,
    OPEN,
    READ,
    WRITE, // regular files
    PRINT, // descriptor 1 that is no terminal
    CLOSE,
    SYNC,
    TRUNCATE,
    RENAME,
    UNLINK,
    STAT,
    LOCK,
    MKDIR,
    SEEK,
    LIST,
    DESCRIPTOR,
    MAP,
    WAIT,
    MODE,
    KINDS
};
static const char *const kind_names[KINDS] = {"memory", "heap", "thread",   "open",       "read",   "write", "print",
                                              "close",  "sync", "truncate", "rename",     "unlink", "stat",  "lock",
                                              "mkdir",  "seek", "list",     "descriptor", "map",    "wait",  "mode"};

enum { MOST_FRAMES = 32 };
struct state {
    atomic_long count[KINDS];
    atomic_long failed;       // calls that were made to fail
    long base;                // where the program is loaded
    long frames[MOST_FRAMES]; // of the first failure
};

static struct {
    enum kind kind;
    long n, times, error;
    bool armed, stop;
} plan = {.kind = KINDS};
static struct state nowhere, *state = &nowhere;
static atomic_long in_use; // bytes

// ---- what fails

static _Thread_local bool inside; // of this library's own calls

// Text of libraries that follow a NULL where they find no memory: allocations in them are never refused.
enum { MOST_FRAGILE = 4 };
struct text {
    uint64_t from, to;
};
static struct text fragile[MOST_FRAGILE];
static int n_fragile;

// Counts a failure, and keeps where the first one hit. False: it may not happen here.
static bool take_place(enum kind kind) {
    void *at[MOST_FRAMES];
    bool may = true;
    inside = true;
    const int n = backtrace(at, MOST_FRAMES);
    for (int i = 0; i < n && (kind == MEMORY || kind == HEAP); i++)
        for (int f = 0; f < n_fragile; f++)
            may &= (uint64_t)at[i] < fragile[f].from || (uint64_t)at[i] >= fragile[f].to;
    if (may && !atomic_fetch_add(&state->failed, 1)) {
        for (int i = 0; i < n; i++) state->frames[i] = (long)at[i];
        if (plan.stop) raise(SIGTRAP);
    }
    inside = false;
    return may;
}

static bool fails(enum kind kind) {
    if (!plan.armed || inside) return false;
    const long now = atomic_fetch_add(&state->count[kind], 1) + 1;
    if (kind != plan.kind || now < plan.n || (plan.times && now >= plan.n + plan.times)) return false;
    return take_place(kind);
}

// ---- memory

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void __libc_free(void *p);

static bool refuses(size_t n) {
    bool no = fails(MEMORY);
    if (plan.armed && !inside && plan.kind == HEAP) {
        const long now = atomic_load(&in_use) + (long)n;
        long most = atomic_load(&state->count[HEAP]);
        while (now > most && !atomic_compare_exchange_weak(&state->count[HEAP], &most, now)) {
        }
        if (plan.n && now > plan.n) no = take_place(HEAP);
    }
    if (no) errno = ENOMEM;
    return no;
}

static void *taken(void *p) {
    if (p) atomic_fetch_add(&in_use, (long)malloc_usable_size(p));
    return p;
}

void *malloc(size_t n) {
    return refuses(n) ? NULL : taken(__libc_malloc(n));
}
void *calloc(size_t n, size_t size) {
    return refuses(n * size) ? NULL : taken(__libc_calloc(n, size));
}
void *realloc(void *p, size_t n) {
    if (refuses(n)) return NULL;
    const long before = p ? (long)malloc_usable_size(p) : 0;
    void *q = __libc_realloc(p, n);
    if (q || !n) atomic_fetch_sub(&in_use, before);
    return taken(q);
}
void *memalign(size_t alignment, size_t n) {
    return refuses(n) ? NULL : taken(__libc_memalign(alignment, n));
}
void *aligned_alloc(size_t alignment, size_t n) {
    return memalign(alignment, n);
}
int posix_memalign(void **out, size_t alignment, size_t n) {
    void *p = memalign(alignment, n);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}
void free(void *p) {
    if (p) atomic_fetch_sub(&in_use, (long)malloc_usable_size(p));
    __libc_free(p);
}

// ---- threads, and masks that must not hold the trap's signal

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *ud) {
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) real = dlsym(RTLD_NEXT, "pthread_create");
    return fails(THREAD) ? EAGAIN : real(t, a, run, ud);
}

static const sigset_t *without_trap(const sigset_t *set, sigset_t *copy) {
    if (!set) return NULL;
    *copy = *set;
    sigdelset(copy, SIGSYS);
    return copy;
}
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
    static int (*real)(int, const sigset_t *, sigset_t *);
    sigset_t copy;
    if (!real) real = dlsym(RTLD_NEXT, "pthread_sigmask");
    return real(how, how == SIG_UNBLOCK ? set : without_trap(set, &copy), old);
}
int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    const int error = pthread_sigmask(how, set, old);
    if (error) errno = error;
    return error ? -1 : 0;
}
int sigaction(int number, const struct sigaction *a, struct sigaction *old) {
    static int (*real)(int, const struct sigaction *, struct sigaction *);
    struct sigaction copy;
    if (!real) real = dlsym(RTLD_NEXT, "sigaction");
    if (a) {
        copy = *a;
        sigdelset(&copy.sa_mask, SIGSYS);
    }
    return real(number, a ? &copy : NULL, old);
}

// ---- what may fail: a locale that cannot be loaded is C

char *setlocale(int category, const char *name) {
    static char *(*real)(int, const char *);
    if (!real) real = dlsym(RTLD_NEXT, "setlocale");
    const bool before = inside;
    inside = true;
    char *result = real(category, name);
    inside = before;
    return result;
}

// ---- system calls

// The instruction lies in this library, so the filter lets it pass.
static __attribute__((noinline)) long call(long number, const greg_t *r) {
    register long a4 __asm__("r10") = r[REG_R10];
    register long a5 __asm__("r8") = r[REG_R8];
    register long a6 __asm__("r9") = r[REG_R9];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(r[REG_RDI]), "S"(r[REG_RSI]), "d"(r[REG_RDX]), "r"(a4), "r"(a5), "r"(a6)
                     : "rcx", "r11", "memory");
    return result;
}
static long call3(long number, long a, long b, long c) {
    greg_t r[NGREG] = {0};
    r[REG_RDI] = a, r[REG_RSI] = b, r[REG_RDX] = c;
    return call(number, r);
}

static mode_t type_of(long fd) {
    struct stat st;
    return call3(SYS_fstat, fd, (long)&st, 0) ? 0 : st.st_mode & S_IFMT;
}

static const unsigned short trapped[] = {
    SYS_open,      SYS_openat,     SYS_creat,      SYS_read,       SYS_pread64,    SYS_readv,        SYS_write,
    SYS_pwrite64,  SYS_writev,     SYS_close,      SYS_fsync,      SYS_fdatasync,  SYS_ftruncate,    SYS_truncate,
    SYS_rename,    SYS_renameat,   SYS_renameat2,  SYS_link,       SYS_linkat,     SYS_unlink,       SYS_unlinkat,
    SYS_rmdir,     SYS_stat,       SYS_lstat,      SYS_fstat,      SYS_newfstatat, SYS_statx,        SYS_access,
    SYS_faccessat, SYS_faccessat2, SYS_readlink,   SYS_readlinkat, SYS_flock,      SYS_fcntl,        SYS_mkdir,
    SYS_mkdirat,   SYS_lseek,      SYS_getdents64, SYS_pipe2,      SYS_eventfd2,   SYS_memfd_create, SYS_dup,
    SYS_dup2,      SYS_dup3,       SYS_mmap,       SYS_poll,       SYS_ppoll,      SYS_wait4,        SYS_fchmod,
    SYS_chmod,     SYS_fchmodat,   SYS_fchown};

static enum kind kind_of(long number, const greg_t *r) {
    const long fd = r[REG_RDI];
    mode_t type;
    switch (number) {
    case SYS_open:
    case SYS_openat:
    case SYS_creat: return OPEN;
    case SYS_read:
    case SYS_pread64:
    case SYS_readv: type = type_of(fd); return S_ISREG(type) || (fd == STDIN_FILENO && !S_ISCHR(type)) ? READ : KINDS;
    case SYS_write:
    case SYS_pwrite64:
    case SYS_writev:
        if (fd == STDERR_FILENO) return KINDS; // a failure has to be said somewhere
        type = type_of(fd);
        return fd == STDOUT_FILENO && !S_ISCHR(type) ? PRINT : S_ISREG(type) ? WRITE : KINDS;
    case SYS_close: return CLOSE;
    case SYS_fsync:
    case SYS_fdatasync: return SYNC;
    case SYS_ftruncate:
    case SYS_truncate: return TRUNCATE;
    case SYS_rename:
    case SYS_renameat:
    case SYS_renameat2:
    case SYS_link:
    case SYS_linkat: return RENAME;
    case SYS_unlink:
    case SYS_unlinkat:
    case SYS_rmdir: return UNLINK;
    case SYS_flock: return LOCK;
    case SYS_mkdir:
    case SYS_mkdirat: return MKDIR;
    case SYS_lseek: return SEEK;
    case SYS_getdents64: return LIST;
    case SYS_pipe2:
    case SYS_eventfd2:
    case SYS_memfd_create:
    case SYS_dup:
    case SYS_dup2:
    case SYS_dup3: return DESCRIPTOR;
    case SYS_mmap: return MAP;
    case SYS_poll:
    case SYS_ppoll:
    case SYS_wait4: return WAIT;
    case SYS_fchmod:
    case SYS_chmod:
    case SYS_fchmodat:
    case SYS_fchown: return MODE;
    case SYS_fcntl:
        switch (r[REG_RSI]) {
        case F_SETLK:
        case F_SETLKW:
        case F_OFD_SETLK:
        case F_OFD_SETLKW: return LOCK;
        case F_DUPFD:
        case F_DUPFD_CLOEXEC: return DESCRIPTOR;
        default: return KINDS;
        }
    default: return STAT;
    }
}

static void on_trap(int signal_number, siginfo_t *info, void *ud) {
    (void)signal_number;
    greg_t *r = ((ucontext_t *)ud)->uc_mcontext.gregs;
    const long number = info->si_syscall;
    const int before = errno;
    const enum kind kind = plan.armed && !inside ? kind_of(number, r) : KINDS;
    if (kind == KINDS || !fails(kind)) r[REG_RAX] = call(number, r);
    else if (plan.error) {
        r[REG_RAX] = -plan.error;
        if (kind == CLOSE) call(number, r); // Linux closes it whatever it reports
    } else {
        greg_t less[NGREG];
        memcpy(less, r, sizeof less);
        if (number != SYS_readv && number != SYS_writev && less[REG_RDX] > 1) less[REG_RDX] /= 2;
        r[REG_RAX] = call(number, less);
    }
    errno = before;
}

static int find_texts(struct dl_phdr_info *info, size_t size, void *ud) {
    static const char *const names[] = {"/libncursesw.so", "/libtinfo.so", "/libcrypto.so"};
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    struct text *t = name && !strncmp(name, "/libc.so", 8) ? ud : NULL;
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (!strncmp(name, names[i], strlen(names[i])) && n_fragile < MOST_FRAGILE) t = &fragile[n_fragile++];
    for (int i = 0; t && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        t->from = info->dlpi_addr + p->p_vaddr;
        t->to = t->from + p->p_memsz;
    }
    return 0;
}

// The filter compares the lower half of an address only: one program start in 3,000 puts libc across a boundary of 4
// GB, and is begun again, at other addresses. False: libc was not found.
static struct text libc;
static bool find_libc(char **argv) {
    dl_iterate_phdr(find_texts, &libc);
    if (libc.from >> 32 == libc.to >> 32) return libc.to;
    execv("/proc/self/exe", argv);
    return false;
}

static bool install_filter(void) {
    unsigned char
        one; // glibc 2.41 maps what getrandom() needs while it holds all signals back: now, before that is trapped
    if (getrandom(&one, 1, 0) != 1) return false;
    enum { N = sizeof trapped / sizeof *trapped, HEAD = 8 };
    struct sock_filter code[HEAD + N + 2];
    const unsigned at = offsetof(struct seccomp_data, instruction_pointer);
    int n = 0;
    const int allow = HEAD + N, trap = HEAD + N + 1;
#define JUMP(op, value, yes, no)                                                                                       \
    code[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | (op) | BPF_K, value, (unsigned char)((yes) ? (yes)-n - 1 : 0),    \
                                           (unsigned char)((no) ? (no)-n - 1 : 0)),                                    \
    n++
#define LOAD(offset) code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(offset))
    LOAD(offsetof(struct seccomp_data, arch));
    JUMP(BPF_JEQ, AUDIT_ARCH_X86_64, 0, allow);
    LOAD(at + 4);
    JUMP(BPF_JEQ, (unsigned)(libc.from >> 32), 0, allow);
    LOAD(at);
    JUMP(BPF_JGE, (unsigned)libc.from, 0, allow);
    JUMP(BPF_JGE, (unsigned)libc.to, allow, 0);
    LOAD(offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N; i++) JUMP(BPF_JEQ, trapped[i], trap, 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    struct sigaction a = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    const struct sock_fprog program = {(unsigned short)n, code};
    return !sigaction(SIGSYS, &a, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

// ---- from main() on

static long number_of(const char *name, long otherwise) {
    const char *s = getenv(name);
    return s ? atol(s) : otherwise;
}

static bool begin(void) {
    const char *kind = getenv("TORTURE_KIND"), *path = getenv("TORTURE_STATE");
    for (int k = 0; kind && k < KINDS; k++)
        if (!strcmp(kind, kind_names[k])) plan.kind = (enum kind)k;
    plan.n = number_of("TORTURE_N", 0);
    plan.times = number_of("TORTURE_TIMES", 1);
    plan.error = number_of("TORTURE_ERROR", ENOMEM);
    plan.stop = getenv("TORTURE_STOP") != NULL;
    if (kind && plan.kind == KINDS) return false;
    const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *p = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p != MAP_FAILED) state = p;
        close(fd);
    }
    void *warm[2];
    backtrace(warm, 2); // it loads a library the first time
    dlsym(RTLD_NEXT, "pthread_create");
    unsetenv("LD_PRELOAD");
    if (plan.kind == HEAP) state->count[HEAP] = in_use;
    Dl_info about;

    if (dladdr((void *)getauxval(AT_ENTRY), &about)) state->base = (long)about.dli_fbase;
    plan.armed = install_filter();
    return plan.armed;
}

static int (*real_main)(int, char **, char **);
static int torture_main(int argc, char **argv, char **environment) {
    if (!find_libc(argv) || !begin()) _exit(125);
    return real_main(argc, argv, environment);
}
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*at_end)(void), void *stack_end) {
    __typeof__(&__libc_start_main) real = dlsym(RTLD_NEXT, "__libc_start_main");
    real_main = main;
    return real(torture_main, argc, argv, init, fini, at_end, stack_end);
}
