// Speculative sampling and its variants: the draft is drawn from the second model's distribution q and accepted with
// probability min(1, p / q). If it is rejected, the target samples from the residual norm(max(0, p - q)). Several draws
// are tested in turn. The emitted token has the distribution p (proved in the papers; a test counts). With greedy
// decoding p is one token, and each rule equals `exact`.
#include "spec/accept.h"

const ls_accept_rule ls_accept_speculative = {
    .is = {.name = "speculative",
           .summary =
               "speculative sampling: same distribution as plain decoding, other samples; one draft after each row",
           .source = "arXiv 2211.17192 and 2302.01318"},
    .draws = true,
    .replaces = true,
};

const ls_accept_rule ls_accept_mcsd = {
    .is = {.name = "mcsd",
           .summary = "the same with several drafts after each row, drawn with replacement",
           .source = "arXiv 2305.09781 and 2401.06706",
           .number = {{"DRAWS", 4, 1, LS_SAID_TOP, true}}},
    .draws = true,
    .replaces = true,
};

const ls_accept_rule ls_accept_mcsd_wor = {
    .is = {.name = "mcsd-wor",
           .summary = "the same, drawn without replacement",
           .source = "arXiv 2401.06706 and 2402.14160",
           .number = {{"DRAWS", 4, 1, LS_SAID_TOP, true}}},
    .draws = true,
};
