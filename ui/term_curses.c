#include "ui/term_curses.h"
#include "base/mem.h"
#include "base/rescue.h"
#include "base/visible.h"

#include <curses.h>
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { PASTE_BEGIN = KEY_MAX + 1, PASTE_END, MOUSE_SGR, MOUSE_OLD };

static struct {
    SCREEN *screen;
    FILE *out;
    int saved[2], caught; // descriptors 1 and 2 as they were; the hidden file
    off_t told;           // of the hidden file: bytes that are in the log
    int wake[2];
    volatile sig_atomic_t signal, stop_asked, continued;
    void (*resized)(int); // curses' own handler of SIGWINCH
    struct termios tty;
    const ui_theme *theme;
    int colors; // 0: none
    bool mouse;
} term;

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
// Clicks with positions in decimal (SGR): the older form ends at column 223.
static const char mouse_on[] = "\033[?1000h\033[?1006h", mouse_off[] = "\033[?1006l\033[?1000l";

static void tell(const char *sequence) {
    fputs(sequence, term.out);
    fflush(term.out);
}

// What the terminal sends beside keys; off while another program has it.
static void reports(bool on) {
    tell(on ? paste_on : paste_off);
    if (term.mouse) tell(on ? mouse_on : mouse_off);
}

static void wake(void) {
    const int error = errno;
    const ssize_t n = write(term.wake[1], "!", 1); // a full pipe ends the wait all the same
    (void)n;
    errno = error;
}

static void on_signal(int number) {
    term.signal = number;
    wake();
}

// The signal came from outside: ui_term_suspend restores the terminal before the process stops.
static void on_stop(int number) {
    (void)number;
    term.stop_asked = 1;
    wake();
}

static void on_continue(int number) {
    (void)number;
    term.continued = 1;
    wake();
}

// Curses only notes the new size until a key is read. The signal may come while nobody waits for keys, so it must end
// the next wait.
static void on_resize(int number) {
    term.resized(number);
    wake();
}

// Only calls that are safe in a signal handler: a fixed string that leaves curses' screen, and the tty's modes.
static void leave(void) {
    static const char restore[] = "\033[?2004l\033[?1000l\033[?1002l\033[?1006l\033[0m\033[?1049l\033[?25h\r\n";
    if (write(term.saved[0], restore, sizeof restore - 1) >= 0) tcsetattr(STDIN_FILENO, TCSANOW, &term.tty);
}

static void on_crash(int number) {
    leave();
    raise(number); // SA_RESETHAND: the default action, with the right status
}

// Standard output and error go to where they went before the screen; what libraries wrote meanwhile is told.
static void give_back_outputs(void) {
    dup2(term.saved[0], STDOUT_FILENO);
    dup2(term.saved[1], STDERR_FILENO);
    char text[4096];
    ssize_t n = term.caught >= 0 ? pread(term.caught, text, sizeof text, 0) : 0;
    ls_buf shown = {0};
    ls_visible_text(&shown, text, n > 0 ? (size_t)n : 0);
    if (shown.n) fwrite(shown.p, 1, shown.n, stderr);
    ls_buf_free(&shown);
}

// Guards curses and the terminal: the message that memory has run out must be the last output there, whichever thread
// writes it.
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

// The message must reach the terminal. The lock stays held, so nothing is drawn any more.
static void on_sudden_end(void *ud, char *said, size_t n) {
    (void)ud, (void)said, (void)n;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_timedlock(&lock, &until); // a terminal that takes no bytes may hold it
    if (!term.screen) return;
    leave();
    give_back_outputs();
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &a, NULL);
}

static void init_colors(const ui_theme *theme) {
    term.colors = 0;
    if (ui_theme_has_colors(theme) && has_colors()) {
        start_color();
        use_default_colors();
        term.colors = COLORS >= 256 ? 256 : COLORS >= 8 ? 16 : 0;
    }
    term.theme = term.colors ? theme : ui_theme_find("mono");
    for (int r = 0; r < UI_ROLES && term.colors; r++) {
        const ui_style *s = &term.theme->style[r];
        init_pair((short)(r + 1), term.colors == 256 ? s->fg256 : s->fg16, term.colors == 256 ? s->bg256 : s->bg16);
    }
}

static ls_code open_screen(const ui_term_options *o, ls_err *err) {
    memset(&term, 0, sizeof term);
    tcgetattr(STDIN_FILENO, &term.tty);
    term.saved[0] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    term.saved[1] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    term.caught = memfd_create("logitspec-output", MFD_CLOEXEC);
    term.out = fdopen(dup(STDOUT_FILENO), "w");
    if (pipe2(term.wake, O_CLOEXEC | O_NONBLOCK) || !term.out)
        return ls_fail(err, LS_E_IO, "the screen cannot start: no file descriptors are left");
    // Curses would ignore SIGTSTP while it draws, and lose the one that comes then; it does not where others handle it.
    struct sigaction stop;
    sigaction(SIGTSTP, NULL, &stop);
    if (stop.sa_handler != SIG_IGN) { // without job control it stays so
        handle(SIGTSTP, on_stop, SA_RESTART);
        handle(SIGCONT, on_continue, SA_RESTART);
    }
    set_escdelay(25);
    term.screen = newterm(NULL, term.out, stdin);
    if (!term.screen)
        return ls_fail(err, LS_E_IO,
                       "this terminal (TERM=%s) cannot be driven; 'logitspec generate' works without a screen",
                       getenv("TERM") ? getenv("TERM") : "");
    if (term.caught >= 0) {
        fflush(NULL);
        dup2(term.caught, STDOUT_FILENO);
        dup2(term.caught, STDERR_FILENO);
    }
    raw();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    intrflush(stdscr, FALSE);
    define_key("\033[200~", PASTE_BEGIN);
    define_key("\033[201~", PASTE_END);
    define_key("\033[<", MOUSE_SGR);
    define_key("\033[M", MOUSE_OLD);
    term.mouse = o->mouse;
    reports(true);
    init_colors(o->theme);
    const int ends[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT}, crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) handle(ends[i], on_signal, SA_RESTART);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) handle(crashes[i], on_crash, (int)SA_RESETHAND);
    struct sigaction resize;
    sigaction(SIGWINCH, NULL, &resize);
    term.resized = resize.sa_handler;
    if (term.resized != SIG_DFL && term.resized != SIG_IGN) handle(SIGWINCH, on_resize, SA_RESTART);
    signal(SIGPIPE, SIG_IGN);
    return LS_OK;
}

ls_code ui_term_open(const ui_term_options *o, ls_err *err) {
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return ls_fail(err, LS_E_IO, "the screen needs a terminal; 'logitspec generate' works without one");
    ls_rescue_add(on_sudden_end, NULL); // the model is being loaded meanwhile
    pthread_mutex_lock(&lock);
    const ls_code code = open_screen(o, err);
    pthread_mutex_unlock(&lock);
    if (code) ls_rescue_remove(on_sudden_end, NULL);
    return code;
}

void ui_term_close(void) {
    if (!term.screen) return;
    pthread_mutex_lock(&lock);
    reports(false);
    endwin();
    delscreen(term.screen);
    fclose(term.out);
    fflush(NULL);
    give_back_outputs();
    close(term.caught);
    close(term.saved[0]);
    close(term.saved[1]);
    const int ends[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGWINCH, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTSTP, SIGCONT};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) signal(ends[i], SIG_DFL);
    close(term.wake[0]);
    close(term.wake[1]);
    term.screen = NULL;
    pthread_mutex_unlock(&lock);
    ls_rescue_remove(on_sudden_end, NULL);
}

bool ui_term_is_utf8(void) {
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

void ui_term_caught(ls_buf *out) {
    char text[4096];
    ssize_t n;
    while (term.caught >= 0 && (n = pread(term.caught, text, sizeof text, term.told)) > 0) {
        ls_buf_add(out, text, (size_t)n);
        term.told += n;
    }
}

void ui_term_size(int *rows, int *cols) {
    getmaxyx(stdscr, *rows, *cols);
}

static attr_t marks(int m) {
    return (m & UI_BOLD ? A_BOLD : 0) | (m & UI_UNDERLINE ? A_UNDERLINE : 0) | (m & UI_REVERSE ? A_REVERSE : 0) |
           (m & UI_FAINT ? A_DIM : 0) | (m & UI_ITALIC ? A_ITALIC : 0);
}

void ui_term_show(const ui_canvas *c, int cursor_row, int cursor_col) {
    char run[4096];
    pthread_mutex_lock(&lock);
    for (int row = 0; row < c->rows; row++) {
        const ui_cell *cell = c->cells + row * c->cols;
        for (int col = 0; col < c->cols;) { // cells of one look together
            int start = col;
            size_t n = 0;
            for (; col < c->cols && cell[col].role == cell[start].role && cell[col].mark == cell[start].mark &&
                   n + UI_GLYPH_BYTES < sizeof run;
                 col++) {
                size_t len = strlen(cell[col].glyph);
                memcpy(run + n, cell[col].glyph, len);
                n += len;
            }
            const ui_style *s = &term.theme->style[cell[start].role];
            attr_set(marks(cell[start].mark | s->mark), (short)(term.colors ? cell[start].role + 1 : 0), NULL);
            mvaddnstr(row, start, run, (int)n);
        }
    }
    curs_set(cursor_row >= 0);
    if (cursor_row >= 0) move(cursor_row, cursor_col);
    refresh();
    pthread_mutex_unlock(&lock);
}

void ui_term_colors(const ui_theme *theme) {
    init_colors(theme);
    ui_term_redraw();
}

void ui_term_mouse(bool on) {
    term.mouse = on;
    tell(on ? mouse_on : mouse_off);
}

void ui_term_copy(const char *text) {
    ls_buf sequence = {0};
    ls_buf_str(&sequence, "\033]52;c;");
    ls_buf_base64(&sequence, text, strlen(text));
    ls_buf_str(&sequence, "\a");
    tell(sequence.p);
    ls_buf_free(&sequence);
}

bool ui_term_takes_copies(void) {
    static const char *const without[] = {"linux", "dumb", "vt", "ansi", "cons", "sun"}; // and would show the letters
    const char *name = getenv("TERM");
    for (size_t i = 0; name && i < sizeof without / sizeof *without; i++)
        if (!strncmp(name, without[i], strlen(without[i]))) return false;
    return name != NULL;
}

void ui_term_redraw(void) {
    clearok(stdscr, TRUE);
}

bool ui_term_stop_asked(void) {
    return term.stop_asked;
}

static void come_back(void) {
    reset_prog_mode();
    reports(true);
    ui_term_redraw();
}

// Another program has the terminal between the two, and SIGTSTP stops this process at once.
static void give_away(struct sigaction *ours) {
    const struct sigaction stops = {.sa_handler = SIG_DFL};
    reports(false);
    def_prog_mode();
    endwin();
    sigaction(SIGTSTP, &stops, ours);
}

static void take_back(const struct sigaction *ours) {
    sigaction(SIGTSTP, ours, NULL);
    come_back();
    refresh();
}

void ui_term_suspend(void) {
    struct sigaction ours;
    give_away(&ours);
    raise(SIGTSTP);   // the process stops here
    def_shell_mode(); // as the shell left it meanwhile
    term.stop_asked = term.continued = 0;
    take_back(&ours);
}

// SIGSTOP cannot be caught, and whoever had the terminal meanwhile may have changed it.
bool ui_term_continued(void) {
    if (!term.continued) return false;
    term.continued = 0;
    come_back();
    return true;
}

int ui_term_run(const char *command) {
    struct sigaction ours;
    give_away(&ours); // ^Z stops the editor and this process alike
    const pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
        dup2(term.saved[0], STDOUT_FILENO);
        dup2(term.saved[1], STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    take_back(&ours);
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int ui_term_signal_fd(void) {
    return term.wake[0];
}

void ui_term_woken(void) {
    char noted[64];
    while (read(term.wake[0], noted, sizeof noted) > 0) { // the flags tell what happened
    }
}

int ui_term_signal(void) {
    return term.signal;
}

// The next character of a sequence, whose bytes may come apart; 0: none comes.
static int rest_of_sequence(void) {
    enum { PATIENCE_MS = 100 };
    struct pollfd more = {STDIN_FILENO, POLLIN, 0};
    wint_t c;
    if (get_wch(&c) == OK) return (int)c;
    return poll(&more, 1, PATIENCE_MS) > 0 && get_wch(&c) == OK ? (int)c : 0;
}

// ESC [ < BUTTON ; COLUMN ; ROW, then M where it was pressed and m where it was released; or ESC [ M and three
// characters.
static ui_key mouse_key(bool sgr) {
    enum { WHEEL = 64, OTHERS = 3 | 32 | 128 }; // of a button: bits of others, and of motion
    int v[3] = {0, 0, 0}, c = 0;
    bool pressed = true;
    for (int i = 0; i < 3 && sgr; i++) {
        while ((c = rest_of_sequence()) >= '0' && c <= '9')
            if (v[i] < 100000) v[i] = 10 * v[i] + c - '0';
        pressed = c == 'M';
    }
    for (int i = 0; i < 3 && !sgr; i++) v[i] = rest_of_sequence() - 32;
    const int button = v[0] & (WHEEL | OTHERS);
    const ui_key none = {.code = UI_KEY_RESIZE}; // nothing of ours: draws again
    if (!pressed || v[1] < 1 || v[2] < 1 || (button && (button & ~1) != WHEEL)) return none;
    const ui_mouse_kind kind = !button ? UI_MOUSE_CLICK : button == WHEEL ? UI_MOUSE_WHEEL_UP : UI_MOUSE_WHEEL_DOWN;
    return (ui_key){UI_KEY_MOUSE, kind, v[2] - 1, v[1] - 1, 0};
}

ui_key ui_term_key(void) {
    static const struct {
        int curses, ours;
    } named[] = {{KEY_UP, UI_KEY_UP},          {KEY_DOWN, UI_KEY_DOWN},
                 {KEY_LEFT, UI_KEY_LEFT},      {KEY_RIGHT, UI_KEY_RIGHT},
                 {KEY_PPAGE, UI_KEY_PAGE_UP},  {KEY_NPAGE, UI_KEY_PAGE_DOWN},
                 {KEY_HOME, UI_KEY_HOME},      {KEY_END, UI_KEY_END},
                 {KEY_BTAB, UI_KEY_BACKTAB},   {KEY_BACKSPACE, UI_KEY_BACKSPACE},
                 {KEY_DC, UI_KEY_DELETE},      {KEY_RESIZE, UI_KEY_RESIZE},
                 {KEY_ENTER, UI_KEY_ENTER},    {PASTE_BEGIN, UI_KEY_PASTE_BEGIN},
                 {PASTE_END, UI_KEY_PASTE_END}};
    wint_t c;
    pthread_mutex_lock(&lock); // it may draw: after a change of size, or when the program goes on
    const int kind = get_wch(&c);
    pthread_mutex_unlock(&lock);
    if (kind == ERR) return (ui_key){0};
    if (kind != KEY_CODE_YES) {
        int code = c == 127 || c == 8 ? UI_KEY_BACKSPACE : (int)c;
        return (ui_key){.code = code};
    }
    if (c == MOUSE_SGR || c == MOUSE_OLD) return mouse_key(c == MOUSE_SGR);
    if (c > KEY_F(0) && c <= KEY_F(12)) return (ui_key){.code = UI_KEY_F0 + (int)(c - KEY_F(0))};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if ((int)c == named[i].curses) return (ui_key){.code = named[i].ours};
    return (ui_key){.code = UI_KEY_RESIZE}; // a key without a meaning: draw, so that reading goes on
}

const char *ui_curses_version(void) {
    return curses_version();
}
