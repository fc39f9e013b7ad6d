#include "report/draw.h"
#include "base/colour.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>

const char *ls_draw_color(size_t series) { // Okabe and Ito's palette for colour-blind readers
    static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                         "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b"};
    return colors[series % (sizeof colors / sizeof *colors)];
}

void ls_draw_begin(ls_buf *out, const char *name, const char *title, int width, int height, int font) {
    ls_buf_fmt(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" data-plot=\"%s\" role=\"img\" width=\"%d\" "
               "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"%d\" "
               "fill=\"currentColor\">\n<title>",
               name, width, height, width, height, font);
    ls_markup_str(out, title);
    ls_buf_str(out, "</title>\n");
}

void ls_draw_file(ls_buf *out, int width, int height, const char *command, const char *titles) {
    ls_buf_fmt(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"sans-serif\" color=\"#%06x\" fill=\"currentColor\">\n<title>",
        width, height, width, height, ls_rgb256(LS_INK_LIGHT));
    ls_markup_fmt(out, "logitspec %s: %s", command, titles);
    ls_buf_fmt(out, "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#%06x\"/>\n", ls_rgb256(LS_GROUND_LIGHT));
}

void ls_draw_text(ls_buf *out, double x, double y, const char *anchor, const char *s) {
    ls_buf_fmt(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    ls_markup_str(out, s);
    ls_buf_str(out, "</text>\n");
}

double ls_draw_x(const ls_frame *f, double x) {
    return f->x0 + f->w * x / f->max_x;
}
double ls_draw_y(const ls_frame *f, double y) {
    return f->y0 + f->h * (1 - y / f->max_y);
}

double ls_draw_step(double max) {
    const double raw = max / 5, power = pow(10, floor(log10(raw)));
    const double m = raw / power;
    return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * power;
}

void ls_draw_axes(ls_buf *out, ls_frame *f, bool percent, double bottom, const char *x_label) {
    const double step = ls_draw_step(f->max_y);
    f->max_y = ceil(f->max_y / step - 1e-9) * step;
    for (int i = 0; i * step <= f->max_y * (1 + 1e-9); i++) {
        char label[32];
        const double y = ls_draw_y(f, i * step);
        snprintf(label, sizeof label, percent ? "%.3g%%" : "%.3g", percent ? 100 * i * step : i * step);
        ls_buf_fmt(out, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"currentColor\" stroke-opacity=\"%s\"/>\n", f->x0, y,
                   f->x0 + f->w, i ? ".15" : ".6");
        ls_draw_text(out, f->x0 - 5, y + 4, "end", label);
    }
    ls_draw_text(out, f->x0 + f->w / 2, f->y0 + f->h + bottom, "middle", x_label);
}

void ls_draw_dashes(ls_buf *out, const ls_frame *f, double x1, double y1, double x2, double y2) {
    ls_buf_fmt(
        out,
        "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"currentColor\" stroke-opacity=\".5\" stroke-dasharray=\"4 3\"/>\n",
        ls_draw_x(f, x1), ls_draw_y(f, y1), ls_draw_x(f, x2), ls_draw_y(f, y2));
}

void ls_draw_legend(ls_buf *out, double x, double y, const char *color, const char *name, int most) {
    char label[64];
    snprintf(label, sizeof label, "%.*s", most, name);
    ls_buf_fmt(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", x, y, color);
    ls_draw_text(out, x + 14, y + 9, "start", label);
}
