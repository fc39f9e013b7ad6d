// A self-contained HTML page: it needs no script, no network and no other file.
#pragma once
#include "base/buf.h"

// Writes everything up to and including the heading. style: CSS rules added to those of every page.
void ls_page_begin(ls_buf *out, const char *title, const char *style);
void ls_page_end(ls_buf *out);
void ls_page_tag(ls_buf *out, const char *name, const char *text); // an element that holds this text
