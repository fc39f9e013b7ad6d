#include "compute/lst_ranks_calls.h"

#include <algorithm>
#include <map>

using namespace lst;

namespace {

enum { FRAME = 1024 }; // words that one message carries at least: calls with a tree of 256 rows

std::vector<int32_t> receive(lst_ranks &ranks) {
    std::vector<int32_t> frame((size_t)FRAME);
    ranks.tell(frame.data(), FRAME * 4);
    const int32_t size = frame[0];
    if (size < 0 || size > 1 << 24) throw Error(LST_E_BACKEND, "invalid call size from rank 0");
    std::vector<int32_t> w(frame.begin() + 1, frame.begin() + 1 + std::min(size, FRAME - 1));
    if (size >= FRAME) {
        w.resize((size_t)size);
        ranks.tell(&w[FRAME - 1], (int64_t)(size - (FRAME - 1)) * 4);
    }
    return w;
}

// A list of calls, read.
class Reader {
    const std::vector<int32_t> &w;
    size_t at = 0;

  public:
    explicit Reader(const std::vector<int32_t> &words) : w(words) {}
    bool more() const { return at < w.size(); }
    template <class T> T value() {
        const size_t n = (sizeof(T) + 3) / 4;
        need(n);
        T v;
        std::memcpy(&v, &w[at], sizeof v);
        at += n;
        return v;
    }
    int32_t number() { return value<int32_t>(); }
    std::vector<int32_t> list() {
        const int32_t n = number();
        need(n < 0 ? SIZE_MAX : (size_t)n);
        std::vector<int32_t> out(w.begin() + (int64_t)at, w.begin() + (int64_t)at + n);
        at += (size_t)n;
        return out;
    }
    void need(size_t n) const {
        if (n > w.size() - at) throw Error(LST_E_BACKEND, "incomplete call from rank 0");
    }
};

// A KV cache of rank 0 here, and what is known of it: what comes from another process is not believed. Rank 0 checks
// its caller's arguments; they arrive here.
struct Followed {
    std::unique_ptr<KvCache> cache;
    int32_t n_context, n_layers, length = 0;
    int32_t rows = 0;                         // of the last forward
    std::vector<int32_t> parents{}, depths{}; // of these
    bool last = false;                        // there are logits of row -1
};

void must(bool holds) {
    if (!holds) throw Error(LST_E_BACKEND, "invalid call from rank 0");
}

using Caches = std::map<int32_t, Followed>;

Followed &followed(Caches &caches, int32_t id) {
    const auto it = caches.find(id);
    if (it == caches.end()) throw Error(LST_E_BACKEND, "rank 0 named a KV cache that does not exist");
    return it->second;
}

void check_tokens(const lst_model &m, const std::vector<int32_t> &tokens) {
    must(!tokens.empty());
    for (const int32_t t : tokens) must(t >= 0 && t < m.hp.n_vocab);
}

void check_row(const Followed &f, int32_t row) {
    must(row == -1 ? f.last : row >= 0 && row < f.rows);
}

void check_tree(const Followed &f, const std::vector<int32_t> &parents, const std::vector<int32_t> &depths, size_t n,
                int32_t first) {
    must(n <= LST_MAX_ROWS && parents.size() == n && depths.size() == n && first >= 0 && first < (int32_t)n);
    must(first <= f.rows && parents[0] == -1 && depths[0] == 0 && f.length < f.n_context);
    must(std::equal(parents.begin(), parents.begin() + first, f.parents.begin()));
    must(std::equal(depths.begin(), depths.begin() + first, f.depths.begin()));
    for (size_t i = 1; i < n; i++) {
        must(parents[i] >= 0 && parents[i] < (int32_t)i && depths[i] == depths[(size_t)parents[i]] + 1);
        must(f.length + depths[i] < f.n_context);
    }
}

void prefill(const lst_model &m, Followed &f, Reader &in) {
    const int32_t at = in.number(), last = in.number();
    const auto sampling = in.value<lst_sampling>();
    const std::vector<int32_t> tokens = in.list();
    const auto n = (int32_t)tokens.size();
    check_tokens(m, tokens);
    must(at == f.length && n <= f.n_context - at && n <= f.cache->prefill_rows(at));
    lst_row row;
    f.rows = 0;
    f.last = false;
    f.cache->prefill(at, tokens.data(), n, &sampling, last ? &row : nullptr);
    f.length += n;
    f.last = last != 0;
}

void forward(const lst_model &m, Followed &f, Reader &in) {
    const int32_t at = in.number(), first = in.number(), last_known = in.number();
    const auto sampling = in.value<lst_sampling>();
    const std::vector<int32_t> tokens = in.list();
    std::vector<int32_t> parents = in.list(), depths = in.list();
    check_tokens(m, tokens);
    check_tree(f, parents, depths, tokens.size(), first);
    must(at == f.length && (!last_known || f.last));
    std::vector<lst_row> rows(tokens.size());
    f.rows = f.cache->keeps_rows() ? first : 0; // until it is done
    f.cache->forward(at, tokens.data(), parents.data(), depths.data(), (int32_t)tokens.size(), first, &sampling,
                     last_known, rows.data());
    f.rows = (int32_t)tokens.size();
    f.parents = std::move(parents);
    f.depths = std::move(depths);
}

void keep(Followed &f, Reader &in) {
    const int32_t at = in.number();
    const std::vector<int32_t> kept = in.list();
    const auto n = (int32_t)kept.size();
    must(at == f.length && n >= 1 && n <= f.n_context - at);
    for (int32_t i = 0; i < n; i++)
        must(kept[(size_t)i] >= i && kept[(size_t)i] < f.rows && (!i || kept[(size_t)i] > kept[(size_t)i - 1]));
    f.cache->keep(at, kept.data(), n);
    f.length += n;
    f.rows = 0;
    f.last = true;
}

// One call; false: rank 0 has closed the model.
bool repeat(lst_model &m, Caches &caches, Reader &in) {
    const int32_t call = in.number(), id = in.number();
    if (call == CLOSE) return false;
    if (call == BEGIN) {
        const int32_t context = in.number(), layers = in.number();
        must(context >= 1 && context <= 1 << 22 && layers >= 1 && layers <= m.hp.n_layers);
        caches[id] = {m.kv_cache(context, layers, false), context, layers};
        return true;
    }
    Followed &f = followed(caches, id);
    switch (call) {
    case END: caches.erase(id); break;
    case PREFILL: prefill(m, f, in); break;
    case FORWARD: forward(m, f, in); break;
    case KEEP: keep(f, in); break;
    case REWIND: {
        const int32_t n = in.number();
        must(n >= 0 && n <= f.length);
        f.cache->rewind(n);
        f.length = n;
        f.rows = 0;
        break;
    }
    case COPY: {
        const Followed &from = followed(caches, in.number());
        const int32_t n = in.number();
        must(&from != &f && n >= 0 && n <= std::min(f.n_context, from.length) && f.n_layers == from.n_layers);
        f.cache->copy(*from.cache, n);
        f.length = n;
        f.rows = 0;
        break;
    }
    case TOP: {
        const int32_t row = in.number(), k = in.number();
        check_row(f, row);
        must(k >= 1 && k <= std::min<int32_t>(MOST_TOP, m.hp.n_vocab));
        std::vector<int32_t> ids((size_t)k);
        std::vector<float> values((size_t)k);
        f.cache->top(row, k, ids.data(), values.data());
        break;
    }
    case LOGITS: {
        std::vector<float> whole((size_t)m.hp.n_vocab);
        const int32_t row = in.number();
        check_row(f, row);
        f.cache->logits(row, whole.data());
        break;
    }
    default: throw Error(LST_E_BACKEND, "unknown call from rank 0");
    }
    return true;
}

void follow(lst_model &m) {
    Caches caches;
    for (;;) {
        const std::vector<int32_t> words = receive(*m.ranks);
        for (Reader in(words); in.more();) try {
                if (!repeat(m, caches, in)) return;
            } catch (const Error &e) {
                if (e.code != LST_E_NAN) throw; // which rank 0 met, too, and told its caller
            }
    }
}

} // namespace

void lst::send_calls(lst_model &m) {
    std::vector<int32_t> &w = m.calls.words;
    std::vector<int32_t> frame((size_t)FRAME);
    frame[0] = (int32_t)w.size();
    const size_t in_frame = std::min(w.size(), (size_t)FRAME - 1);
    std::copy(w.begin(), w.begin() + (int64_t)in_frame, frame.begin() + 1);
    std::vector<int32_t> rest(w.begin() + (int64_t)in_frame, w.end());
    w.clear();
    m.ranks->tell(frame.data(), FRAME * 4);
    if (!rest.empty()) m.ranks->tell(rest.data(), (int64_t)rest.size() * 4);
}

lst_model::~lst_model() {
    if (!calls.lead || ranks->lost >= 0) return;
    calls.words.insert(calls.words.end(), {CLOSE, 0});
    try {
        send_calls(*this);
    } catch (const Error &) { // nobody is left to be told
    }
}

extern "C" void lst_lead(lst_model *m) {
    m->calls.lead = true;
}

extern "C" int lst_follow(lst_model *m) {
    return guard([&] {
        if (!m || !m->ranks || !m->ranks->rank) throw Error(LST_E_ARG, "lst_follow: rank 0 leads");
        follow(*m);
    });
}
