#include "run/prompt.h"

ls_code ls_prompt_encode(const ls_model *m, ls_prompt_format format, const char *system, bool first, const char *text,
                         size_t n, ls_ids *out, ls_err *err) {
    if (format == LS_FORMAT_CHAT && !m->chat)
        return ls_fail(err, LS_E_USAGE, "no chat prompt is possible: %s; use --raw", m->chat_problem);
    if (format == LS_FORMAT_RAW || !m->chat) return ls_encode(m->vocab, text, n, true, out, err);
    return ls_chat_turn(m->chat, first, system, text, n, out, err);
}
