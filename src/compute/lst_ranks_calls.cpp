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
    frame.resize((size_t)size + 1);
    if (size >= FRAME) ranks.tell(&frame[FRAME], (int64_t)(size + 1 - FRAME) * 4);
    frame.erase(frame.begin());
    return frame;
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

using Caches = std::map<int32_t, lst_kv_cache>;

// Repeats one call; false: rank 0 has closed the model. What comes from another process is not believed: a KV cache
// checks its arguments here as it did there.
bool repeat(lst_model &m, Caches &caches, Reader &in) {
    const auto must = [](bool holds) {
        if (!holds) throw Error(LST_E_BACKEND, "invalid call from rank 0");
    };
    const auto cache = [&](int32_t id) -> lst_kv_cache & {
        const auto it = caches.find(id);
        must(it != caches.end());
        return it->second;
    };
    const int32_t call = in.number(), id = in.number();
    switch (call) {
    case CLOSE: return false;
    case BEGIN: {
        const int32_t context = in.number(), layers = in.number();
        must(caches.try_emplace(id, &m, context, layers).second);
        break;
    }
    case END: must(caches.erase(id)); break;
    case PREFILL: {
        const int32_t last = in.number();
        const auto sampling = in.value<lst_sampling>();
        const std::vector<int32_t> tokens = in.list();
        const auto n = (int32_t)tokens.size();
        lst_kv_cache &s = cache(id);
        s.check_prompt(tokens.data(), n);
        must(n <= s.cache->prefill_rows(s.length));
        lst_row row;
        s.read(tokens.data(), n, &sampling, last ? &row : nullptr);
        break;
    }
    case FORWARD: {
        const int32_t first = in.number();
        const auto sampling = in.value<lst_sampling>();
        const std::vector<int32_t> tokens = in.list(), parents = in.list();
        must((!first || first == cache(id).n_rows) && tokens.size() == parents.size());
        lst_row rows[LST_MAX_ROWS];
        cache(id).forward(first, tokens.data(), parents.data(), (int32_t)tokens.size(), &sampling, rows);
        break;
    }
    case KEEP: {
        const std::vector<int32_t> rows = in.list();
        cache(id).keep(rows.data(), (int32_t)rows.size());
        break;
    }
    case REWIND: cache(id).rewind(in.number()); break;
    case COPY: {
        lst_kv_cache &from = cache(in.number());
        cache(id).copy(from, in.number());
        break;
    }
    case TOP: {
        const int32_t row = in.number(), k = in.number();
        int32_t ids[MOST_TOP];
        float values[MOST_TOP];
        cache(id).top(row, k, ids, values);
        break;
    }
    case LOGITS: {
        std::vector<float> whole((size_t)m.hp.n_vocab);
        cache(id).logits(in.number(), whole.data());
        break;
    }
    default: must(false);
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
                if (e.code == LST_E_ARG)
                    throw Error(LST_E_BACKEND, std::string("invalid call from rank 0: ") + e.what());
                if (e.code != LST_E_NAN) throw; // which rank 0 met, too, and told its caller
            }
    }
}

} // namespace

void lst::send_calls(lst_model &m) {
    std::vector<int32_t> frame{(int32_t)m.calls.words.size()};
    frame.insert(frame.end(), m.calls.words.begin(), m.calls.words.end());
    m.calls.words.clear();
    frame.resize(std::max(frame.size(), (size_t)FRAME));
    m.ranks->tell(frame.data(), FRAME * 4);
    if (frame.size() > FRAME) m.ranks->tell(&frame[FRAME], (int64_t)(frame.size() - FRAME) * 4);
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
