// A model that several ranks share: rank 0's calls reach the others, and what each says of its part of the vocabulary
// becomes what the caller gets.
#include "torch/lst_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

using namespace lst::cpu;

// ---- rows

namespace {

// A rank's word on a row.
struct RowPart {
    lst_row row;
    int32_t good;
};

float known(float a, float b) {
    return std::isnan(a) ? b : a;
}

// Best first; a tie goes to the lower id, which is the earlier rank's.
struct Best {
    int32_t id;
    float logit;
    bool operator<(const Best &o) const { return logit > o.logit || (logit == o.logit && id < o.id); }
};

// In rank order, so that sums are the same on every rank.
lst_row merge(const RowPart *said, size_t stride, const std::vector<ls_part> &parts) {
    lst_row out = said[0].row;
    std::vector<Best> best;
    double max = -INFINITY, total = 0, mean = 0;
    for (size_t r = 0; r < parts.size(); r++) {
        const lst_row &row = said[r * stride].row;
        for (int i = 0; i < LST_ROW_TOP; i++) best.push_back({row.top_id[i] + parts[r].vocab.from, row.top_logit[i]});
        out.parent_logit = known(out.parent_logit, row.parent_logit);
        max = std::max(max, (double)row.lse);
    }
    for (size_t r = 0; r < parts.size(); r++) {
        const lst_row &row = said[r * stride].row;
        const double weight = std::exp((double)row.lse - max);
        total += weight;
        mean += weight * ((double)row.lse - (double)row.entropy); // of the logits, by their probabilities
    }
    std::partial_sort(best.begin(), best.begin() + LST_ROW_TOP, best.end());
    for (int i = 0; i < LST_ROW_TOP; i++) {
        out.top_id[i] = best[(size_t)i].id;
        out.top_logit[i] = best[(size_t)i].logit;
    }
    const double lse = max + std::log(total);
    out.lse = (float)lse;
    out.entropy = (float)(lse - mean / total);
    out.chosen = out.top_id[0];
    out.chosen_logit = out.top_logit[0];
    return out;
}

// This rank's k best tokens of a row, with the ids of the whole vocabulary.
void best_here(const CpuEngine &s, int32_t row, int32_t k, Best *out) {
    const ls_range own = s.m->part().vocab;
    const int32_t here = std::min(k, ls_range_size(own));
    std::vector<int32_t> ids((size_t)here);
    std::vector<float> logits((size_t)here);
    s.m->kernels->top(s.row_logits(row), ls_range_size(own), here, ids.data(), logits.data());
    for (int32_t i = 0; i < k; i++)
        out[i] = i < here ? Best{ids[(size_t)i] + own.from, logits[(size_t)i]} : Best{INT32_MAX, -INFINITY};
}

// Samples the rows' tokens. With top_k every rank's best tokens are enough, and what no rank names has no weight;
// else all ranks' logits are needed, as the sum over the vocabulary has one order (base/sample.h).
void sample_rows(CpuEngine &s, int32_t first, int32_t n, const uint64_t *next, const lst_sampling &how, lst_row *rows) {
    const int32_t n_vocab = s.m->hp.n_vocab, ranks = s.m->ranks->n, k = how.top_k;
    const bool few = k > 0 && (int64_t)k * ranks < n_vocab / 4;
    std::vector<float> logits((size_t)n * (size_t)n_vocab, -INFINITY);
    if (few) {
        std::vector<Best> mine((size_t)n * (size_t)k), all(mine.size() * (size_t)ranks);
        for (int32_t i = 0; i < n; i++) best_here(s, first + i, k, &mine[(size_t)i * (size_t)k]);
        s.m->ranks->gather(mine.data(), (int64_t)(mine.size() * sizeof mine[0]), all.data());
        for (size_t i = 0; i < all.size(); i++)
            if (all[i].id < n_vocab)
                logits[i % mine.size() / (size_t)k * (size_t)n_vocab + (size_t)all[i].id] = all[i].logit;
    } else gather_logits(s, first, n, logits.data());
#pragma omp parallel for num_threads(s.m->threads) schedule(dynamic) if (n > 1)
    for (int32_t i = 0; i < n; i++) {
        const float *of_row = logits.data() + (size_t)i * (size_t)n_vocab;
        rows[i].chosen = ls_sample(of_row, n_vocab, how.temperature, how.top_k, how.top_p, how.seed, next[i]);
        rows[i].chosen_logit = of_row[rows[i].chosen];
    }
}

} // namespace

bool lst::cpu::merge_rows(CpuEngine &s, int32_t first, int32_t n, bool good, const uint64_t *next,
                          const lst_sampling *sampling, lst_row *rows) {
    std::vector<RowPart> mine, all((size_t)n * s.m->parts.size());
    for (int32_t i = 0; i < n; i++) mine.push_back({rows[i], good});
    s.m->ranks->gather(mine.data(), (int64_t)(mine.size() * sizeof mine[0]), all.data());
    for (const RowPart &part : all)
        if (!part.good) return false;
    for (int32_t i = 0; i < n; i++) rows[i] = merge(&all[(size_t)i], (size_t)n, s.m->parts);
    if (next) sample_rows(s, first, n, next, *sampling, rows);
    return true;
}

void lst::cpu::merge_top(CpuEngine &s, int32_t row, int32_t k, int32_t *ids, float *values) {
    std::vector<Best> mine((size_t)k), all((size_t)k * s.m->parts.size());
    best_here(s, row, k, mine.data());
    s.m->ranks->gather(mine.data(), (int64_t)(mine.size() * sizeof mine[0]), all.data());
    std::partial_sort(all.begin(), all.begin() + k, all.end());
    for (int32_t i = 0; i < k; i++) {
        ids[i] = all[(size_t)i].id;
        values[i] = all[(size_t)i].logit;
    }
}

void lst::cpu::gather_logits(CpuEngine &s, int32_t first, int32_t n, float *out) {
    int32_t widest = 0;
    for (const ls_part &part : s.m->parts) widest = std::max(widest, ls_range_size(part.vocab));
    const size_t block = (size_t)n * (size_t)widest;
    std::vector<float> mine(block), all(block * s.m->parts.size());
    std::memcpy(mine.data(), s.row_logits(first), (size_t)n * (size_t)s.vocab() * sizeof(float));
    s.m->ranks->gather(mine.data(), (int64_t)(block * sizeof(float)), all.data());
    for (size_t r = 0; r < s.m->parts.size(); r++) {
        const ls_range part = s.m->parts[r].vocab;
        for (int32_t i = 0; i < n; i++)
            std::memcpy(out + (int64_t)i * s.m->hp.n_vocab + part.from,
                        all.data() + r * block + i * ls_range_size(part), (size_t)ls_range_size(part) * sizeof(float));
    }
}

// ---- calls

namespace {

enum Call : int32_t { BEGIN, END, PREFILL, FORWARD, KEEP, REWIND, COPY, TOP, LOGITS, CLOSE };

enum { FRAME = 1024 }; // words that one message carries at least: calls with a tree of 256 rows

// A list of calls as words. Rank 0 writes it; calls that need no answer wait for the next one that does.
struct Words {
    std::vector<int32_t> &w;
    template <class T> void value(const T &v) {
        const size_t at = w.size();
        w.resize(at + (sizeof v + 3) / 4);
        std::memcpy(&w[at], &v, sizeof v);
    }
    void list(const int32_t *v, int32_t n) {
        w.push_back(n);
        w.insert(w.end(), v, v + n);
    }
    void sampling(const lst_sampling *s) { value(s ? *s : lst_sampling{}); }
};

void send(CpuModel &m) {
    std::vector<int32_t> &w = m.words;
    std::vector<int32_t> frame((size_t)FRAME);
    frame[0] = (int32_t)w.size();
    const size_t in_frame = std::min(w.size(), (size_t)FRAME - 1);
    std::copy(w.begin(), w.begin() + (int64_t)in_frame, frame.begin() + 1);
    std::vector<int32_t> rest(w.begin() + (int64_t)in_frame, w.end());
    w.clear();
    m.ranks->tell(frame.data(), FRAME * 4);
    if (!rest.empty()) m.ranks->tell(rest.data(), (int64_t)rest.size() * 4);
}

std::vector<int32_t> receive(lst_ranks &ranks) {
    std::vector<int32_t> frame((size_t)FRAME);
    ranks.tell(frame.data(), FRAME * 4);
    const int32_t size = frame[0];
    if (size < 0 || size > 1 << 24) throw lst::Error(LST_E_BACKEND, "rank 0 sent a call that is not one");
    std::vector<int32_t> w(frame.begin() + 1, frame.begin() + 1 + std::min(size, FRAME - 1));
    if (size >= FRAME) {
        w.resize((size_t)size);
        ranks.tell(&w[FRAME - 1], (int64_t)(size - (FRAME - 1)) * 4);
    }
    return w;
}

// A timeline of rank 0.
struct LeadingEngine final : CpuEngine {
    const int32_t id;

    LeadingEngine(CpuModel *model, int32_t n_context, int32_t layers)
        : CpuEngine(model, n_context, layers), id(model->engines++) {
        say(BEGIN, n_context, layers);
    }
    ~LeadingEngine() override { say(END); }
    template <class... T> Words say(Call call, T... arguments) {
        Words words{m->words};
        words.value(call);
        words.value(id);
        (words.value(arguments), ...);
        return words;
    }
    // The others do the same, later. Where it fails here alone (no memory), they and rank 0 are out of step for good.
    template <class F> void in_step(F &&call) {
        try {
            call();
        } catch (const lst::Error &e) {
            if (e.code != LST_E_NAN && m->ranks->lost < 0) m->ranks->lost = 0;
            throw;
        } catch (...) {
            m->ranks->lost = 0;
            throw;
        }
    }
    // They do it now.
    template <class F> void together(F &&call) {
        in_step([&] {
            send(*m);
            call();
        });
    }
    void prefill(int32_t at, const int32_t *tokens, int32_t n, const lst_sampling *sampling, lst_row *last) override {
        Words words = say(PREFILL, at, (int32_t)(last != nullptr));
        words.sampling(sampling);
        words.list(tokens, n);
        together([&] { CpuEngine::prefill(at, tokens, n, sampling, last); });
    }
    void forward(int32_t at, const int32_t *tokens, const int32_t *parents, const int32_t *depths, int32_t n,
                 int32_t first, const lst_sampling *sampling, bool last_known, lst_row *rows) override {
        Words words = say(FORWARD, at, first, (int32_t)last_known);
        words.sampling(sampling);
        words.list(tokens, n);
        words.list(parents, n);
        words.list(depths, n);
        together([&] { CpuEngine::forward(at, tokens, parents, depths, n, first, sampling, last_known, rows); });
    }
    void keep(int32_t at, const int32_t *rows, int32_t n) override {
        in_step([&] {
            say(KEEP, at).list(rows, n);
            CpuEngine::keep(at, rows, n);
        });
    }
    void rewind(int32_t n) override {
        in_step([&] {
            say(REWIND, n);
            CpuEngine::rewind(n);
        });
    }
    void copy(lst::Engine &from, int32_t n) override {
        in_step([&] {
            say(COPY, static_cast<LeadingEngine &>(from).id, n);
            CpuEngine::copy(from, n);
        });
    }
    void top(int32_t row, int32_t k, int32_t *ids, float *values) override {
        say(TOP, row, k);
        together([&] { CpuEngine::top(row, k, ids, values); });
    }
    void logits(int32_t row, float *out) override {
        say(LOGITS, row);
        together([&] { CpuEngine::logits(row, out); });
    }
    double ranks_us() const override { return m->ranks->us; }
};

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
        if (n > w.size() - at) throw lst::Error(LST_E_BACKEND, "rank 0 sent a call that is not whole");
    }
};

using Engines = std::map<int32_t, std::unique_ptr<CpuEngine>>;

CpuEngine &engine_of(Engines &engines, int32_t id) {
    const auto it = engines.find(id);
    if (it == engines.end()) throw lst::Error(LST_E_BACKEND, "rank 0 named a timeline that does not exist");
    return *it->second;
}

// What comes from another process is not believed: rank 0 checks its caller's arguments, and this is where they arrive.
void must(bool holds) {
    if (!holds) throw lst::Error(LST_E_BACKEND, "rank 0 sent a call that cannot be");
}

void check_tokens(const CpuEngine &e, int32_t at, const std::vector<int32_t> &tokens) {
    must(at >= 0 && !tokens.empty() && (int64_t)at + (int64_t)tokens.size() <= e.capacity);
    for (const int32_t t : tokens) must(t >= 0 && t < e.m->hp.n_vocab);
}

void check_row(const CpuEngine &e, int32_t row) {
    must(row == -1 ? !e.last_logits.empty() : row >= 0 && row < (int32_t)e.row_lse.size());
}

void check_tree(const std::vector<int32_t> &parents, const std::vector<int32_t> &depths, size_t n, int32_t first) {
    must(n <= LST_MAX_ROWS && parents.size() == n && depths.size() == n && first >= 0 && first < (int32_t)n);
    must(parents[0] == -1 && depths[0] == 0);
    for (size_t i = 1; i < n; i++)
        must(parents[i] >= 0 && parents[i] < (int32_t)i && depths[i] == depths[(size_t)parents[i]] + 1);
}

// One call; false: rank 0 has closed the model.
bool repeat(CpuModel &m, Engines &engines, Reader &in) {
    const int32_t call = in.number(), id = in.number();
    if (call == CLOSE) return false;
    if (call == BEGIN) {
        const int32_t context = in.number(), layers = in.number();
        must(context >= 1 && context <= 1 << 22 && layers >= 1 && layers <= m.hp.n_layers);
        engines[id] = std::make_unique<CpuEngine>(&m, context, layers);
        return true;
    }
    CpuEngine &e = engine_of(engines, id);
    std::vector<lst_row> rows;
    switch (call) {
    case END: engines.erase(id); break;
    case PREFILL: {
        const int32_t at = in.number(), last = in.number();
        const auto sampling = in.value<lst_sampling>();
        const std::vector<int32_t> tokens = in.list();
        check_tokens(e, at, tokens);
        rows.resize(1);
        e.prefill(at, tokens.data(), (int32_t)tokens.size(), &sampling, last ? rows.data() : nullptr);
        break;
    }
    case FORWARD: {
        const int32_t at = in.number(), first = in.number(), last_known = in.number();
        const auto sampling = in.value<lst_sampling>();
        const std::vector<int32_t> tokens = in.list(), parents = in.list(), depths = in.list();
        check_tokens(e, at, tokens);
        check_tree(parents, depths, tokens.size(), first);
        rows.resize(tokens.size());
        e.forward(at, tokens.data(), parents.data(), depths.data(), (int32_t)tokens.size(), first, &sampling,
                  last_known, rows.data());
        break;
    }
    case KEEP: {
        const int32_t at = in.number();
        const std::vector<int32_t> kept = in.list();
        must(at >= 0 && !kept.empty());
        for (size_t i = 0; i < kept.size(); i++) {
            check_row(e, kept[i]);
            must(kept[i] >= (int32_t)i && (int64_t)at + kept[i] < e.capacity);
        }
        e.keep(at, kept.data(), (int32_t)kept.size());
        break;
    }
    case REWIND: e.rewind(in.number()); break;
    case COPY: {
        CpuEngine &from = engine_of(engines, in.number());
        const int32_t n = in.number();
        must(n >= 0 && n <= std::min(e.capacity, from.capacity) && e.n_layers <= from.n_layers);
        e.copy(from, n);
        break;
    }
    case TOP: {
        const int32_t row = in.number(), k = in.number();
        check_row(e, row);
        must(k >= 1 && k <= m.hp.n_vocab);
        std::vector<int32_t> ids((size_t)k);
        std::vector<float> values((size_t)k);
        e.top(row, k, ids.data(), values.data());
        break;
    }
    case LOGITS: {
        std::vector<float> whole((size_t)m.hp.n_vocab);
        const int32_t row = in.number();
        check_row(e, row);
        e.logits(row, whole.data());
        break;
    }
    default: throw lst::Error(LST_E_BACKEND, "rank 0 sent a call that is not known");
    }
    return true;
}

void follow(CpuModel &m) {
    Engines engines;
    for (;;) {
        const std::vector<int32_t> words = receive(*m.ranks);
        for (Reader in(words); in.more();) try {
                if (!repeat(m, engines, in)) return;
            } catch (const lst::Error &e) {
                if (e.code != LST_E_NAN) throw; // which rank 0 met, too, and told its caller
            }
    }
}

} // namespace

std::unique_ptr<lst::Engine> CpuModel::engine(int32_t n_context, int32_t n_layers) {
    if (ranks) return std::make_unique<LeadingEngine>(this, n_context, n_layers);
    return std::make_unique<CpuEngine>(this, n_context, n_layers);
}

CpuModel::~CpuModel() {
    if (!leads || ranks->lost >= 0) return;
    words.insert(words.end(), {CLOSE, 0});
    try {
        send(*this);
    } catch (const lst::Error &) { // nobody is left to be told
    }
}

extern "C" LST_API void lst_lead(lst_model *m) {
    static_cast<CpuModel *>(m)->leads = true;
}

extern "C" LST_API int lst_follow(lst_model *m) {
    return lst::guard([&] {
        if (!m || !m->ranks || !m->ranks->rank) throw lst::Error(LST_E_ARG, "lst_follow: rank 0 leads");
        follow(static_cast<CpuModel &>(*m));
    });
}
