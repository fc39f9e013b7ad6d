#include "ui/term_curses.h"
#include "base/system.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ui/input.h"

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
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static struct {
    SCREEN *screen;
    FILE *out;
    int saved[2], caught; // descriptors 1 and 2 as they were; the hidden file
    off_t told;           // bytes of the hidden file that are in the log already
    int wake[2];
    volatile sig_atomic_t signal, stop_asked, continued, resized, writing; // writing: a write to the terminal may block
    sigset_t handled;                                                      // signals that would end the program
    struct termios tty;
    const ui_theme *theme;
    int colors; // 0: none
    bool mouse;
    uint64_t asked_ns; // for the background; 0: not, or it was answered
    ui_input input;
    // for characters whose cells curses counts otherwise
    bool places;     // the terminal has the ANSI sequence that places the cursor
    bool all;        // everything is drawn again
    ui_canvas shown; // the last frame
} term;

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";
// Clicks with positions in decimal (SGR): the older form ends at column 223.
static const char mouse_on[] = "\033[?1000h\033[?1006h", mouse_off[] = "\033[?1006l\033[?1000l";

static void term_send(const char *sequence) {
    term.writing = true;
    fputs(sequence, term.out);
    fflush(term.out);
    term.writing = false;
}

// Pastes and mouse events, which the terminal reports besides keys; off while another program has the terminal.
static void reports(bool on) {
    term_send(on ? paste_on : paste_off);
    if (term.mouse) term_send(on ? mouse_on : mouse_off);
}

static void wake(void) {
    const int error = errno;
    const ssize_t n = write(term.wake[1], "!", 1); // a full pipe ends the wait all the same
    (void)n;
    errno = error;
}

static void clear_wakes(void) {
    char noted[64];
    while (read(term.wake[0], noted, sizeof noted) > 0) { // the flags tell what happened
    }
}

// Only calls that are safe in a signal handler: a fixed string that leaves curses' screen, and the tty's modes.
static void leave(void) {
    static const char restore[] = "\033[?2004l\033[?1000l\033[?1002l\033[?1006l\033[0m\033[?1049l\033[?25h\r\n";
    if (term.writing) tcflush(term.saved[0], TCOFLUSH); // there may be no room
    struct pollfd room = {term.saved[0], POLLOUT, 0};
    const ssize_t n = poll(&room, 1, 0) > 0 ? write(term.saved[0], restore, sizeof restore - 1) : 0;
    if (n >= 0) tcsetattr(STDIN_FILENO, TCSANOW, &term.tty);
}

static void on_crash(int number) {
    leave();
    signal(number, SIG_DFL);
    raise(number); // so the status names it
}

// If the terminal reads nothing, a write that draws blocks. Discards the output queue, so that the write returns. If
// that does not help, the alarm ends the program.
static void on_signal(int number) {
    enum { GIVE_UP_S = 5 };
    const int error = errno;
    if (term.signal && number == SIGALRM) on_crash(term.signal);
    if (!term.signal) alarm(GIVE_UP_S);
    term.signal = number;
    if (term.writing) tcflush(term.saved[0], TCOFLUSH);
    errno = error;
    wake();
}

// Signals that only end the next wait: they may come while nobody waits for keys. SIGTSTP came from outside:
// ui_term_suspend restores the terminal before the process stops.
static void on_notice(int number) {
    if (number == SIGTSTP) term.stop_asked = 1;
    if (number == SIGCONT) term.continued = 1;
    if (number == SIGWINCH) term.resized = 1;
    wake();
}

enum { CAUGHT_SHOWN = 4096 }; // bytes, of the beginning

// Restores standard output and error, and prints what libraries wrote while the screen was open.
static void give_back_outputs(void) {
    dup2(term.saved[0], STDOUT_FILENO);
    dup2(term.saved[1], STDERR_FILENO);
    char text[CAUGHT_SHOWN];
    ssize_t n = term.caught >= 0 ? pread(term.caught, text, sizeof text, 0) : 0;
    ls_buf shown = {0};
    ls_sanitize_text(&shown, text, n > 0 ? (size_t)n : 0);
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
    pthread_mutex_timedlock(&lock, &until); // a thread that writes to a blocked terminal may hold it
    if (!term.screen) return;
    leave();
    give_back_outputs();
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
    sigaction(number, &a, NULL);
}

// Handles a signal whose default action ends the program, so that the terminal is restored. Leaves signals that are
// ignored or that a library handles, and SIGABRT (base/mem.h).
static void handle_end(int number) {
    static const int others[] = {SIGABRT, SIGKILL,  SIGSTOP, SIGCHLD, SIGCONT, SIGURG,
                                 SIGPIPE, SIGWINCH, SIGTSTP, SIGTTIN, SIGTTOU},
                     crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    struct sigaction now;
    bool crash = false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i] == number) return;
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) crash |= crashes[i] == number;
    if (sigaction(number, NULL, &now) || now.sa_handler != SIG_DFL) return;
    handle(number, crash ? on_crash : on_signal, SA_RESTART);
    sigaddset(&term.handled, number);
}

static void leave_signals(void) {
    for (int i = 1; i <= SIGRTMAX; i++)
        if (sigismember(&term.handled, i) == 1) signal(i, SIG_DFL);
    alarm(0);
    signal(SIGWINCH, SIG_DFL);
    signal(SIGTSTP, SIG_DFL);
    signal(SIGCONT, SIG_DFL);
}

void ui_term_colors(const ui_theme *theme) {
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
    ui_term_redraw();
}

// The size of the terminal, limited to MOST_ROWS and MOST_COLS. False: unknown.
static bool real_size(int *rows, int *cols) {
    enum { MOST_ROWS = 500, MOST_COLS = 1000 };
    struct winsize size;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col) return false;
    *rows = size.ws_row < MOST_ROWS ? size.ws_row : MOST_ROWS;
    *cols = size.ws_col < MOST_COLS ? size.ws_col : MOST_COLS;
    return true;
}

static bool is_absurd(const char *cells) {
    return cells && (atoi(cells) < 1 || atoi(cells) > 1000);
}

static bool has(const char *capability) {
    const char *s = tigetstr(capability);
    return s && s != (char *)-1;
}

// Learns the keys of this terminal's description; ui/input.h knows the common sequences.
static void learn_keys(void) {
    static const struct {
        const char *capability;
        int key;
    } keys[] = {
#define KEY(id, name, capability, ...) {capability, UI_KEY_##id},
#include "ui/keys.def"
#undef KEY
        {"kent", UI_KEY_ENTER}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (has(keys[i].capability)) ui_input_learn(&term.input, tigetstr(keys[i].capability), keys[i].key);
    for (int f = 1; f <= UI_KEY_LAST - UI_KEY_F0; f++) {
        char name[8];
        snprintf(name, sizeof name, "kf%d", f);
        if (has(name)) ui_input_learn(&term.input, tigetstr(name), UI_KEY_F0 + f);
    }
}

static bool in_screen(void) {
    return getenv("STY") != NULL;
}

// False: the terminal would print the bytes of an OSC string.
static bool takes_strings(void) {
    static const char *const without[] = {"linux", "dumb", "vt", "ansi", "cons", "sun"};
    const char *name = getenv("TERM");
    for (size_t i = 0; name && i < sizeof without / sizeof *without; i++)
        if (!strncmp(name, without[i], strlen(without[i]))) return false;
    return name != NULL;
}

static ls_code open_screen(const ui_theme *theme, bool mouse, bool ask, ls_err *err) {
    memset(&term, 0, sizeof term);
    tcgetattr(STDIN_FILENO, &term.tty);
    term.saved[0] = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    term.saved[1] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    term.caught = memfd_create("logitspec-output", MFD_CLOEXEC);
    term.out = fdopen(dup(STDOUT_FILENO), "w");
    if (pipe2(term.wake, O_CLOEXEC | O_NONBLOCK) || !term.out)
        return ls_fail(err, LS_E_IO, "cannot start the screen: no file descriptors left");
    // Before curses handles some of them: it would ignore SIGTSTP while it draws, and lose the one that comes then.
    for (int i = 1; i <= SIGRTMAX; i++) handle_end(i);
    handle(SIGWINCH, on_notice, SA_RESTART);
    struct sigaction stop;
    sigaction(SIGTSTP, NULL, &stop);
    if (stop.sa_handler != SIG_IGN) { // without job control it stays so
        handle(SIGTSTP, on_notice, SA_RESTART);
        handle(SIGCONT, on_notice, SA_RESTART);
    }
    int rows, cols;
    // with LINES and COLUMNS curses would ignore a new size: they count only if the terminal does not know its size
    if (real_size(&rows, &cols) || is_absurd(getenv("LINES")) || is_absurd(getenv("COLUMNS"))) {
        use_env(FALSE);
        use_tioctl(TRUE);
    }
    term.screen = newterm(NULL, term.out, stdin);
    if (term.screen && !has("cup")) { // such as dumb: its cursor cannot be placed
        delscreen(term.screen);
        term.screen = NULL;
        tcsetattr(STDIN_FILENO, TCSANOW, &term.tty);
    }
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
    intrflush(stdscr, FALSE);
    idcok(stdscr, FALSE); // nothing moves cells that it does not know
    term.places = ui_term_is_utf8() && !strncmp(tigetstr("cup"), "\033[", 2);
    typeahead(-1); // input is not read by curses, nor looked at
    learn_keys();
    const char *delay = getenv("ESCDELAY");
    term.input.escape_ms = delay && atoi(delay) > 0 && atoi(delay) <= 1000 ? atoi(delay) : 0;
    term.mouse = mouse && !in_screen();
    reports(true);
    ui_term_colors(theme);
    if (ask && takes_strings()) {
        term_send("\033]11;?\a");
        term.asked_ns = ls_now_ns();
    }
    signal(SIGPIPE, SIG_IGN);
    return LS_OK;
}

ls_code ui_term_open(const ui_theme *theme, bool mouse, bool ask, ls_err *err) {
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return ls_fail(err, LS_E_IO, "the screen needs a terminal; 'logitspec generate' works without one");
    ls_rescue_add(on_sudden_end, NULL); // the model is being loaded meanwhile
    pthread_mutex_lock(&lock);
    const ls_code code = open_screen(theme, mouse, ask, err);
    pthread_mutex_unlock(&lock);
    if (code) {
        leave_signals();
        ls_rescue_remove(on_sudden_end, NULL);
    }
    return code;
}

ui_key ui_term_key(void) {
    enum { BLOCK = 4096 };
    char bytes[BLOCK];
    for (bool waits = true;;) {
        // this process may have been stopped: reads all bytes that arrived before a timeout counts
        const ui_key k = ui_input_next(&term.input, waits ? term.input.since_ns : ls_now_ns());
        if (k.code == UI_KEY_BACKGROUND) term.asked_ns = 0;
        if (k.code != UI_KEY_NONE || !waits) return k;
        struct pollfd more = {STDIN_FILENO, POLLIN, 0};
        // byte by byte: bytes after a key that hands over the terminal belong to the other program
        const size_t most = term.input.mode == UI_INPUT_PASTE ? sizeof bytes : 1;
        const ssize_t n = poll(&more, 1, 0) > 0 ? read(STDIN_FILENO, bytes, most) : 0;
        if (n > 0) ui_input_feed(&term.input, bytes, (size_t)n, ls_now_ns());
        waits = n > 0;
    }
}

// Waits for the answer to the background query: a late answer would become input of the shell.
static void await_answer(void) {
    enum { NEXT_MS = 250, LATE_MS = 1000 };
    struct pollfd more = {STDIN_FILENO, POLLIN, 0};
    while (term.asked_ns && !term.signal && ls_now_ns() - term.asked_ns < LATE_MS * 1000000ull &&
           poll(&more, 1, NEXT_MS) > 0 && more.revents == POLLIN)
        ui_term_key();
}

void ui_term_close(void) {
    if (!term.screen) return;
    await_answer();
    pthread_mutex_lock(&lock);
    reports(false);
    term.writing = true;
    endwin();
    term.writing = false;
    delscreen(term.screen);
    fclose(term.out);
    fflush(NULL);
    give_back_outputs();
    close(term.caught);
    close(term.saved[0]);
    close(term.saved[1]);
    leave_signals();
    close(term.wake[0]);
    close(term.wake[1]);
    term.screen = NULL;
    ui_input_free(&term.input);
    ui_canvas_free(&term.shown);
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
    if (term.told > CAUGHT_SHOWN) // its memory: a server writes a line a request for as long as it runs
        fallocate(term.caught, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, CAUGHT_SHOWN, term.told - CAUGHT_SHOWN);
}

void ui_term_size(int *rows, int *cols) {
    pthread_mutex_lock(&lock);
    if (real_size(rows, cols) && is_term_resized(*rows, *cols)) {
        resizeterm(*rows, *cols);
        ui_term_redraw(); // each terminal wraps and cuts the old content in its own way
    }
    getmaxyx(stdscr, *rows, *cols);
    pthread_mutex_unlock(&lock);
}

static attr_t marks(int m) {
    return (m & UI_BOLD ? A_BOLD : 0) | (m & UI_UNDERLINE ? A_UNDERLINE : 0) | (m & UI_REVERSE ? A_REVERSE : 0) |
           (m & UI_FAINT ? A_DIM : 0) | (m & UI_ITALIC ? A_ITALIC : 0);
}

// Cells as curses counts them. If curses counts other cells than the canvas, it would misplace what follows.
static int counted(const char *glyph) {
    int cells = 0, n = 0;
    for (uint32_t cp = 0; *glyph; glyph += ls_utf8_decode(glyph, strlen(glyph), &cp), cells += wcwidth((wchar_t)cp))
        n++;
    return n > CCHARW_MAX ? -1 : cells;
}

static bool is_odd(const ui_canvas *c, int row, int col) {
    const ui_cell *cell = c->cells + row * c->cols + col;
    if (!(cell->mark & UI_ODD) && (unsigned char)*cell->glyph < 0x80 && (!*cell->glyph || !cell->glyph[1]))
        return false;
    return cell->mark & UI_ODD || counted(cell->glyph) != ui_cells_at(c, row, col);
}

// A capability's string without its delays ($<5>): no terminal of today needs them.
static void add_without_pauses(ls_buf *out, const char *s) {
    for (const char *pause; (pause = strstr(s, "$<")) && strchr(pause, '>'); s = strchr(pause, '>') + 1)
        ls_buf_add(out, s, (size_t)(pause - s));
    ls_buf_str(out, s);
}

static void place_cursor(int row, int col, ls_buf *out) {
    add_without_pauses(out, tiparm(tigetstr("cup"), row, col));
}

// Writes blanks first: the terminal may draw the character in fewer cells.
static void put_cell(const ui_canvas *c, int row, int col, ls_buf *out) {
    const ui_cell *cell = &c->cells[row * c->cols + col];
    if (!*cell->glyph) return; // the cell before holds it
    place_cursor(row, col, out);
    ui_sgr(&term.theme->style[cell->role], cell->mark, term.colors, out);
    ls_buf_fmt(out, "%*s", ui_cells_at(c, row, col), "");
    place_cursor(row, col, out);
    ls_buf_str(out, cell->glyph);
}

// Draws characters whose cells programs count differently. Curses has blanks in their cells, so these characters, and
// those that replace one, are written directly to the terminal. Afterwards the cursor is where curses left it and no
// attribute is on, as curses expects.
static void put_odd(const ui_canvas *c) {
    ls_buf out = {0};
    const size_t row_bytes = (size_t)c->cols * sizeof *c->cells;
    const bool all = term.all || term.shown.rows != c->rows || term.shown.cols != c->cols;
    if (all) ui_canvas_resize(&term.shown, c->rows, c->cols);
    for (int row = 0; row < c->rows; row++) {
        const ui_cell *cell = c->cells + row * c->cols;
        ui_cell *before = term.shown.cells + row * c->cols;
        if (!all && !memcmp(before, cell, row_bytes)) continue; // curses drew nothing there
        for (int col = 0; col < c->cols; col++)
            for (int n = is_odd(&term.shown, row, col) ? ui_cells_at(&term.shown, row, col) : 0; n > 0; n--)
                if (!is_odd(c, row, col + n - 1)) put_cell(c, row, col + n - 1, &out);
        for (int col = 0; col < c->cols; col++)
            if (is_odd(c, row, col)) put_cell(c, row, col, &out);
        memcpy(before, cell, row_bytes);
    }
    term.all = false;
    if (out.n) {
        int row, col;
        getyx(curscr, row, col);
        ls_buf_str(&out, "\033[0m");
        place_cursor(row, col, &out);
        fputs(out.p, term.out);
    }
    fflush(term.out);
    ls_buf_free(&out);
}

void ui_term_show(const ui_canvas *c) {
    char run[4096];
    pthread_mutex_lock(&lock);
    for (int row = 0; row < c->rows; row++) {
        const ui_cell *cell = c->cells + row * c->cols;
        for (int col = 0; col < c->cols;) { // cells of one look together
            const int start = col;
            size_t n = 0;
            while (col < c->cols && cell[col].role == cell[start].role && cell[col].mark == cell[start].mark &&
                   n + UI_GLYPH_BYTES < sizeof run) {
                const int cells = ui_cells_at(c, row, col);
                if (term.places && is_odd(c, row, col)) { // put_odd draws it after the refresh
                    memset(run + n, ' ', (size_t)cells);
                    n += (size_t)cells;
                } else n += (size_t)(stpcpy(run + n, cell[col].glyph) - (run + n));
                col += cells;
            }
            const ui_style *s = &term.theme->style[cell[start].role];
            attr_set(marks(cell[start].mark | s->mark), (short)(term.colors ? cell[start].role + 1 : 0), NULL);
            mvaddnstr(row, start, run, (int)n);
        }
    }
    term.writing = true;
    curs_set(c->cursor_row >= 0);
    if (c->cursor_row >= 0) move(c->cursor_row, c->cursor_col);
    refresh();
    if (term.places) put_odd(c);
    term.writing = false;
    pthread_mutex_unlock(&lock);
}

void ui_term_switch_mouse(void) {
    term.mouse = !term.mouse;
    term_send(term.mouse ? mouse_on : mouse_off);
}

void ui_term_copy(const char *text) {
    ls_buf sequence = {0};
    ls_buf_str(&sequence, "\033]52;c;");
    ls_buf_base64(&sequence, text, strlen(text));
    ls_buf_str(&sequence, "\a");
    term_send(sequence.p);
    ls_buf_free(&sequence);
}

const char *ui_term_copies(void) {
    const char *name = getenv("TERM");
    const bool tmux = getenv("TMUX"), screen = in_screen();
    if (!takes_strings()) return NULL;
    if (tmux && !screen) return "tmux needs 'tmux set -s set-clipboard on'";
    if (screen && !tmux) return "GNU screen blocks it: use ':save-text FILE'";
    if (tmux || (name && (!strncmp(name, "screen", 6) || !strncmp(name, "tmux", 4)))) // one in the other, or by ssh
        return "tmux needs 'tmux set -s set-clipboard on', GNU screen blocks it";
    return "terminals do not confirm a copy";
}

void ui_term_redraw(void) {
    clearok(stdscr, TRUE);
    term.all = true;
}

static void come_back(void) {
    reset_prog_mode();
    reports(true);
    ui_term_redraw();
}

// Between give_away and take_back another program has the terminal, and SIGTSTP has its default action.
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

bool ui_term_changed(void) {
    if (term.stop_asked) ui_term_suspend();
    const bool resized = term.resized, continued = term.continued;
    term.resized = term.continued = 0;
    if (continued) come_back(); // SIGSTOP cannot be caught, and another program may have changed the terminal
    return resized || continued;
}

// Waits for the child. A signal that ends this program is passed on to the child; if the child stays, the wait ends
// after TIMEOUT_MS.
static int wait_for_child(pid_t child) {
    enum { TIMEOUT_MS = 1000 };
    int status = -1, signalled = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        struct pollfd woken = {term.wake[0], POLLIN, 0};
        if (term.signal && !signalled) kill(child, signalled = term.signal);
        if (poll(&woken, 1, signalled ? TIMEOUT_MS : -1) == 0) return -1;
        clear_wakes();
    }
    return status;
}

int ui_term_run(const char *command, const char *argument) {
    struct sigaction ours;
    give_away(&ours); // ^Z stops the editor and this process alike
    handle(SIGCHLD, on_notice, SA_RESTART);
    struct sigaction before[2], ignored = {.sa_handler = SIG_IGN}; // the terminal may send them to both
    sigaction(SIGINT, &ignored, &before[0]);
    sigaction(SIGQUIT, &ignored, &before[1]);
    const pid_t child = fork();
    if (child == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
        dup2(term.saved[0], STDOUT_FILENO);
        dup2(term.saved[1], STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", command, "sh", argument, (char *)NULL);
        _exit(127);
    }
    const int status = child > 0 ? wait_for_child(child) : -1;
    signal(SIGCHLD, SIG_DFL);
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGQUIT, &before[1], NULL);
    take_back(&ours);
    return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool ui_term_wait(int fd, int ms) {
    struct pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {fd, POLLIN, 0}, {term.wake[0], POLLIN, 0}};
    const bool failed = poll(fds, 3, ms) < 0 && errno != EINTR;
    clear_wakes(); // before keys are read: a new size that comes after them has to end the next wait
    return !failed && !(fds[0].revents & (POLLHUP | POLLERR | POLLNVAL));
}

int ui_term_signal(void) {
    return term.signal;
}

const ls_buf *ui_term_paste(void) {
    return &term.input.text;
}

int ui_term_key_ms(void) {
    return ui_input_wait_ms(&term.input, ls_now_ns());
}

const char *ui_curses_version(void) {
    return curses_version();
}
