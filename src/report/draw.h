// Building blocks of figures: SVG elements that need no style sheet, axes, a legend, colours.
#pragma once
#include "base/buf.h"

#include <stdbool.h>

const char *ls_draw_color(size_t series); // the same in every figure
// Opens the figure; "</svg>\n" closes it. name: its data-plot; title: a description, also for screen readers.
void ls_draw_begin(ls_buf *out, const char *name, const char *title, int width, int height, int font);
// Opens a file of figures on a white ground. Its title is "logitspec COMMAND: TITLES".
void ls_draw_file(ls_buf *out, int width, int height, const char *command, const char *titles);
void ls_draw_text(ls_buf *out, double x, double y, const char *anchor, const char *s); // anchor: start, middle, end

typedef struct {
    double x0, y0, w, h; // inside the axes; y0 is the top
    double max_x, max_y;
} ls_frame;
double ls_draw_x(const ls_frame *f, double x);
double ls_draw_y(const ls_frame *f, double y);

double ls_draw_step(double max); // 1, 2 or 5 times a power of ten that gives about five lines
// Draws horizontal lines with their values and raises f->max_y to the last line. bottom: from the frame's lower edge
// to the label of x.
void ls_draw_axes(ls_buf *out, ls_frame *f, bool percent, double bottom, const char *x_label);
// A dashed line through the frame, from one point to the other.
void ls_draw_dashes(ls_buf *out, const ls_frame *f, double x1, double y1, double x2, double y2);
// A column of the legend: a square of the colour and a name, cut to `most` characters.
void ls_draw_legend(ls_buf *out, double x, double y, const char *color, const char *name, int most);
