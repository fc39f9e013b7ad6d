// The manual: pages generated from the program's tables, as text, man pages or Markdown.
#pragma once
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

typedef enum { LS_MANUAL_TEXT, LS_MANUAL_MAN, LS_MANUAL_MD } ls_manual_form;

typedef struct {
    ls_buf *out; // borrowed
    ls_manual_form form;
    int columns;   // width of the terminal for text; 0: no terminal
    bool in_items; // the last element was an item
} ls_manual;

// Elements of a page.
void ls_manual_title(ls_manual *m, const char *name, int section, const char *summary);
void ls_manual_head(ls_manual *m, const char *title);
void ls_manual_text(ls_manual *m, const char *text);  // a paragraph, in lines of any length
void ls_manual_lines(ls_manual *m, const char *text); // verbatim
// kind: its values, or NULL. Between two heads, either all items have a kind or none has.
void ls_manual_item(ls_manual *m, const char *term, const char *kind, const char *text);

typedef struct {
    const char *name; // as in `logitspec help NAME`; "": the program
    int section;      // of the man page, logitspec-NAME(section)
    const char *summary;
    ls_code (*write)(ls_manual *m, ls_err *err);
} ls_manual_page;
extern const ls_manual_page ls_manual_pages[]; // the program first; ends with a NULL name

const ls_manual_page *ls_manual_find(const char *name); // NULL: no page
ls_code ls_manual_write(const ls_manual_page *p, ls_manual_form form, ls_buf *out, ls_err *err);

ls_code ls_manual_trace(ls_manual *m, ls_err *err); // the page of the format of recordings

// What --help prints. NULL or "": the program.
void ls_help(const char *command, ls_buf *out);
