#include "report/page.h"
#include "base/colour.h"
#include "report/markup.h"

static const char common[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:84em;margin:0 auto;padding:1em 1.5em;background:var(--ground);"
    "color:var(--ink);overflow-wrap:break-word}"
    "h1{font-size:1.6em;margin:.2em 0}h2{font-size:1.25em;margin:1.8em 0 .4em}h3{font-size:1em;margin:1.2em 0 .3em}"
    "table{border-collapse:collapse;margin:.5em 0}"
    "th,td{text-align:left;padding:.15em .9em .15em 0;border-bottom:1px solid #8884;vertical-align:top}"
    "td{font-variant-numeric:tabular-nums}td,th{max-width:24em}"
    "figcaption,.note{color:var(--soft);font-size:.85em}"
    ".scroll{overflow-x:auto}pre{white-space:pre-wrap}"
    "figure{margin:0;break-inside:avoid}figure h3{margin:.4em 0}svg.plot{max-width:100%;height:auto}"
    ".warn{color:var(--bad);font-weight:600}";

static void colours(ls_buf *out) {
    static const struct {
        const char *name;
        int light, dark;
    } list[] = {{"ground", LS_GROUND_LIGHT, LS_GROUND_DARK},
                {"ink", LS_INK_LIGHT, LS_INK_DARK},
                {"soft", LS_SOFT_LIGHT, LS_SOFT_DARK},
                {"good", LS_GOOD_LIGHT, LS_GOOD_DARK},
                {"bad", LS_BAD_LIGHT, LS_BAD_DARK}};
    for (int dark = 0; dark < 2; dark++) {
        ls_buf_str(out, dark ? "}@media(prefers-color-scheme:dark){:root{" : ":root{color-scheme:light dark;");
        for (size_t i = 0; i < sizeof list / sizeof *list; i++)
            ls_buf_fmt(out, "--%s:#%06x;", list[i].name, ls_rgb256(dark ? list[i].dark : list[i].light));
    }
    ls_buf_str(out, "}}");
}

void ls_page_begin(ls_buf *out, const char *title, const char *style) {
    ls_buf_str(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                    "'unsafe-inline'; img-src data:\">\n"
                    "<link rel=\"icon\" href=\"data:,\">\n");
    ls_page_tag(out, "title", title);
    ls_buf_str(out, "<style>");
    colours(out);
    ls_buf_str(out, common);
    ls_buf_str(out, style);
    ls_buf_str(out, "</style></head><body>\n");
    ls_page_tag(out, "h1", title);
}

void ls_page_end(ls_buf *out) {
    ls_buf_str(out, "</body></html>\n");
}

void ls_page_tag(ls_buf *out, const char *name, const char *text) {
    ls_buf_fmt(out, "<%s>", name);
    ls_markup_str(out, text);
    ls_buf_fmt(out, "</%s>\n", name);
}
