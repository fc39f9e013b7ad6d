// Lines for people, as wide as their terminal. Pipes and files get whole lines, which scripts search.
#pragma once
#include "base/buf.h"

#include <stdbool.h>

int ls_columns(int fd); // cells of a line of the terminal at fd, 80 if its width is unknown; 0: no terminal

int ls_char_cells(uint32_t cp); // 0: it has no width of its own, or is unassigned
// Whether cp and the character before it are one grapheme cluster (Unicode's extended ones). *state: 0 at the start.
bool ls_char_joins(uint32_t before, uint32_t cp, int32_t *state);
// Cells of a text as ls_visible_line shows it, by Unicode's widths: wcwidth knows ASCII only in the C locale.
int ls_cells(const char *p, size_t n);
size_t ls_fitting(const char *p, size_t n, int room, int *cells); // bytes of p that fit into `room`; *cells: cells used

// As `left`: the lines are commands or YAML for copying. A command is not broken; its comment (the text after two
// blanks or " #") goes into lines of its own.
enum { LS_COMMANDS = -1 };

// Breaks the lines of b from byte `from` on at blanks, so that none is wider than `columns` (0: all stay whole). A word
// that is wider stays whole. The rest of a broken line begins at column `left`: the last column of a table, or an
// indent. If a last column would be too narrow, it goes into lines of its own below its row. Returns b->n, where the
// next lines begin.
size_t ls_wrap(ls_buf *b, size_t from, int columns, int left);
