#include "run/prompt.h"

ls_code ls_prompt_encode(const ls_model *m, ls_prompt_format format, const char *system, bool first, const char *text,
                         size_t n, ls_ids *out, ls_err *err) {
    if (format == LS_FORMAT_CHAT && !m->chat)
        return ls_fail(err, LS_E_USAGE, "no chat prompt is possible: %s; use --raw", m->chat_problem);
    if (format == LS_FORMAT_RAW || !m->chat) {
        const int32_t bos = first ? ls_vocab_bos(m->vocab) : -1;
        const size_t had = out->n;
        if (bos >= 0) ls_ids_push(out, bos);
        const ls_code code = ls_encode(m->vocab, text, n, true, out, err);
        if (code) out->n = had;
        return code;
    }
    return ls_chat_turn(m->chat, first, system, text, n, out, err);
}
