#include "base/wrap.h"
#include "base/utf8.h"
#include "base/visible.h"

#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

enum { UNKNOWN = 80, ROOM = 20, INDENT = 4 }; // cells; ROOM: the smallest useful width of a column

int ls_columns(int fd) {
    struct winsize size = {0};
    if (!isatty(fd)) return 0;
    return ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col ? UNKNOWN : size.ws_col;
}

int ls_char_cells(uint32_t cp) {
    return utf8proc_charwidth((utf8proc_int32_t)cp);
}

bool ls_char_joins(uint32_t before, uint32_t cp, int32_t *state) {
    return !utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)cp, state);
}

size_t ls_fitting(const char *p, size_t n, int room, int *cells) {
    char sign[LS_VISIBLE_BYTES];
    uint32_t before = 0;
    size_t taken = 0;
    int used = 0;
    while (taken < n) {
        uint32_t cp = 0;
        const size_t len = ls_visible_next(p + taken, n - taken, &before, sign);
        if (!*sign) ls_utf8_decode(p + taken, len, &cp);
        // the signs of a newline and a tab are one character of several bytes, all others ASCII
        const int cell = !*sign ? ls_char_cells(cp) : *sign & 0x80 ? 1 : (int)strlen(sign);
        if (used + cell > room) break;
        used += cell;
        taken += len;
    }
    *cells = used;
    return taken;
}

int ls_cells(const char *p, size_t n) {
    int cells;
    ls_fitting(p, n, INT_MAX, &cells);
    return cells;
}

// The indent of a line: `wanted`, or less if fewer than ROOM cells remain or the first word does not fit.
static int indent_of(int wanted, int columns, int cells) {
    if (wanted + ROOM > columns) wanted = columns < INDENT + ROOM ? 0 : wanted < INDENT ? wanted : INDENT;
    return wanted + cells > columns && cells <= columns ? columns - cells : wanted;
}

// Length of the next word. In a command, all text up to its comment is one word, and so is a comment that has a #.
static size_t word_of(const char *p, size_t n, bool command, bool first) {
    if (command && *p == '#') return n;
    for (size_t i = 0; i < n; i++)
        if (p[i] == ' ' && (!command || !first || (i + 1 < n && (p[i + 1] == ' ' || p[i + 1] == '#')))) return i;
    return n;
}

static void wrap_line(ls_buf *out, const char *p, size_t n, int columns, int left) {
    const bool command = left == LS_COMMANDS, narrow = command || left + ROOM > columns;
    int at = 0;
    for (size_t i = 0, words = 0; i < n; words++) {
        size_t gap = 0;
        while (i + gap < n && p[i + gap] == ' ') gap++;
        const char *word = p + i + gap;
        const size_t rest = n - i - gap, len = rest ? word_of(word, rest, command, !words) : 0;
        const int cells = ls_cells(word, len), next = at + (int)gap;
        // if the last column moves below its row, all of it moves
        const bool column = narrow && (command ? words == 1 : ls_cells(p, i + gap) == left);
        if (!words) ls_buf_fmt(out, "%*s", at = indent_of((int)gap, columns, cells), "");
        else if (rest && next + (column ? ls_cells(word, rest) : cells) > columns) {
            // a right-aligned number keeps its padding, so that the numbers of several rows stay aligned
            const int kept = !column && gap > 1 && (int)gap + cells <= columns ? (int)gap : 0;
            at = indent_of(command ? INDENT : left, columns, kept + cells) + kept;
            ls_buf_fmt(out, "\n%*s", at, "");
        } else if (next <= columns) ls_buf_add(out, p + i, gap), at = next;
        ls_buf_add(out, word, len);
        at += cells;
        i += gap + len;
    }
}

size_t ls_wrap(ls_buf *b, size_t from, int columns, int left) {
    ls_buf text = {0};
    if (!columns || b->n == from) return b->n;
    ls_buf_add(&text, b->p + from, b->n - from);
    b->n = from;
    for (size_t i = 0; i < text.n;) {
        const char *line = text.p + i, *end = memchr(line, '\n', text.n - i);
        const size_t n = end ? (size_t)(end - line) : text.n - i;
        if (ls_cells(line, n) <= columns) ls_buf_add(b, line, n);
        else wrap_line(b, line, n, columns, left);
        if (end) ls_buf_char(b, '\n');
        i += n + 1;
    }
    ls_buf_free(&text);
    return b->n;
}
