#include "report/page.h"
#include "base/colour.h"
#include "report/markup.h"

static const char common[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:84em;margin:0 auto;padding:1em 1.5em}"
    "h1{font-size:1.6em;margin:.2em 0}h2{font-size:1.25em;margin:1.8em 0 .4em}h3{font-size:1em;margin:1.2em 0 .3em}"
    "table{border-collapse:collapse;margin:.5em 0}"
    "th,td{text-align:left;padding:.15em .9em .15em 0;border-bottom:1px solid #8884;vertical-align:top}"
    "td{font-variant-numeric:tabular-nums;max-width:24em;overflow-wrap:anywhere}"
    ".of,figcaption,.note{color:#777;font-size:.85em}"
    ".scroll{overflow-x:auto}"
    "figure{margin:0;break-inside:avoid}figure h3{margin:.4em 0}svg.plot{max-width:100%;height:auto}"
    ".warn{color:var(--bad);font-weight:600}";

void ls_page_begin(ls_buf *out, const char *title, const char *style) {
    ls_buf_str(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                    "'unsafe-inline'; img-src data:\">\n"
                    "<link rel=\"icon\" href=\"data:,\">\n");
    ls_page_tag(out, "title", title);
    ls_buf_str(out, "<style>");
    ls_buf_fmt(out,
               ":root{color-scheme:light dark;--good:#%06x;--bad:#%06x}@media(prefers-color-scheme:dark){:root{"
               "--good:#%06x;--bad:#%06x}}",
               ls_rgb256(LS_GOOD_LIGHT), ls_rgb256(LS_BAD_LIGHT), ls_rgb256(LS_GOOD_DARK), ls_rgb256(LS_BAD_DARK));
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
