// A page of its own in HTML: it needs no script, no network and no other file.
#pragma once
#include "base/buf.h"

// From the first byte to the heading. style: more rules than those of every page.
void ls_page_begin(ls_buf *out, const char *title, const char *style);
void ls_page_end(ls_buf *out);
void ls_page_tag(ls_buf *out, const char *name, const char *text); // an element that holds this text
