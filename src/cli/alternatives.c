#include "cli/alternatives.h"
#include "base/utf8.h"

#include <math.h>

enum { TOKEN_CELLS = 16 };

// Between quotes, on one line.
static void put_token(const ls_vocab *v, int32_t id, int cells, ls_buf *out) {
    size_t n;
    const char *bytes = ls_vocab_bytes(v, id, &n);
    ls_buf label = {0};
    ls_buf_char(&label, '"');
    ls_sanitize_line(&label, bytes, n);
    ls_buf_char(&label, '"');
    ls_buf_add(out, label.p, label.n);
    for (int used = ls_cells(label.p, label.n); used < cells; used++) ls_buf_char(out, ' ');
    ls_buf_free(&label);
}

static void put_p(double p, ls_buf *out) {
    if (isnan(p)) ls_buf_str(out, "    -");
    else ls_buf_fmt(out, "%5.3f", p);
}

void ls_alternatives_head(ls_buf *out) {
    ls_buf_fmt(out, "%6s %5s  %-13s  %-*s %5s   %s\n", "token", "step", "from", TOKEN_CELLS, "text", "p",
               "other choices of the target");
}

void ls_alternatives(const ls_step *s, const ls_vocab *v, int n, ls_buf *out) {
    for (int i = 0; i < s->n_emitted; i++) {
        const ls_node *node = &s->tree.nodes[s->path[i]], *before = i ? &s->tree.nodes[s->path[i - 1]] : NULL;
        const ls_top_entry *top = before ? before->top : s->top;
        const int n_top = before ? LS_ROW_TOP : s->n_top;
        const double lse = (double)(before ? before->lse : s->top_lse);
        ls_buf_fmt(out, "%6d %5u  %-13s  ", s->output_pos + i, s->index,
                   ls_draft_source_label((ls_draft_source)node->from));
        put_token(v, node->token, TOKEN_CELLS, out);
        ls_buf_char(out, ' ');
        put_p((double)node->p, out);
        ls_buf_str(out, "  ");
        for (int k = 0, shown = 0; k < n_top && shown < n; k++) {
            if (top[k].id == node->token || top[k].id < 0) continue;
            ls_buf_char(out, ' ');
            put_token(v, top[k].id, 0, out);
            ls_buf_char(out, ' ');
            put_p(exp((double)top[k].logit - lse), out);
            shown++;
        }
        ls_buf_char(out, '\n');
    }
}
