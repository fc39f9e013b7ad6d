// Speculative sampling and its kin: the draft is drawn from the second model's distribution q, and accepted with
// probability min(1, p / q), else the target chooses from what is left of p, norm(max(0, p - q)). With several draws
// the same is done with each in turn. What is emitted is distributed as p (the papers prove it; a test counts). Greedy,
// p is one token, and each rule is `exact`.
#include "spec/accept.h"

const ls_accept_rule ls_accept_speculative = {
    .is = {.name = "speculative",
           .summary =
               "speculative sampling: as likely as plain decoding's text, but another draw; one draft after each row",
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
