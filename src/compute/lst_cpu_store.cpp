#include "compute/lst_cpu_store.h"
#include "compute/lst_error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace lst::cpu;

namespace {

constexpr int64_t LINE = 64; // where matrices begin

int64_t rounded(int64_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

// Of whole lines.
uint64_t sum_of(const uint8_t *p, int64_t bytes) {
    uint64_t h[8] = {1, 2, 3, 4, 5, 6, 7, 8}, w[8], all = 0;
    for (int64_t i = 0; i < bytes; i += LINE) {
        std::memcpy(w, p + i, sizeof w);
        for (size_t k = 0; k < 8; k++) h[k] = (h[k] ^ w[k]) * 0x9E3779B97F4A7C15u;
    }
    for (uint64_t x : h) all = (all ^ (x ^ x >> 29)) * 0xBF58476D1CE4E5B9u;
    return all;
}

std::string why(int error) {
    return error ? std::strerror(error) : "the file is shorter than it was";
}

template <class F> void each_section(lst::Expert &x, F &&f) {
    for (lst::Linear *l : {&x.gate_up, &x.down})
        for (lst::Linear::Section &s : l->sections) f(s.packed);
}

} // namespace

ExpertStore::ExpertStore(const char *in, uint64_t bytes) : folder(in), budget((int64_t)bytes) {
    std::string name = folder + "/experts-XXXXXX";
    file = mkostemp(name.data(), O_CLOEXEC);
    if (file < 0)
        throw lst::Error(LST_E_BACKEND, "--expert-memory needs a file in " + folder + ": " + std::strerror(errno));
    unlink(name.c_str());
}

ExpertStore::~ExpertStore() {
    close(file);
}

uint8_t *ExpertStore::stage(size_t bytes) {
    const int64_t n = rounded((int64_t)bytes);
    staged.emplace_back(lst::Array<uint8_t>(n), n);
    std::memset(staged.back().first.data(), 0, (size_t)n);
    return staged.back().first.data();
}

void ExpertStore::add(lst::Expert &x, int32_t n) {
    Stored s{&x, all.size() / (size_t)n, end, 0, 0, {}};
    of_layer.resize(s.layer + 1);
    for (const auto &part : staged) s.bytes += part.second;
    if (s.bytes * n > budget)
        throw lst::Error(LST_E_ARG, "--expert-memory must be at least " + std::to_string(((s.bytes * n) >> 20) + 1) +
                                        " MiB for this model: a prompt may take all experts of a layer");
    lst::Array<uint8_t> whole(s.bytes);
    int64_t to = 0;
    for (const auto &part : staged) {
        std::memcpy(whole.data() + to, part.first.data(), (size_t)part.second);
        to += part.second;
    }
    s.sum = sum_of(whole.data(), s.bytes);
    for (int64_t done = 0; done < s.bytes;) {
        const ssize_t some = pwrite(file, whole.data() + done, (size_t)(s.bytes - done), s.at + done);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0)
            throw lst::Error(LST_E_BACKEND, "the experts' file in " + folder + " cannot be written (after " +
                                                std::to_string((end + done) >> 20) +
                                                " MiB): " + why(some < 0 ? errno : ENOSPC));
        done += some;
    }
    each_section(x, [](lsk_matrix &m) { m.data = nullptr; });
    x.stored = (int32_t)all.size();
    end += s.bytes;
    all.push_back(std::move(s));
    staged.clear();
}

// Removes experts that were not taken since `before`: of the layers with more than their share, if any has such an
// expert, the one that was taken longest ago.
void ExpertStore::make_room(int64_t bytes, uint64_t before, lst::Array<uint8_t> &freed) {
    while (resident + bytes > budget) {
        const int64_t share = budget / (int64_t)of_layer.size();
        const auto less = [&](const Stored &a, const Stored &b) {
            const bool over_a = of_layer[a.layer] > share, over_b = of_layer[b.layer] > share;
            return over_a != over_b ? over_a : a.taken < b.taken;
        };
        Stored *oldest = nullptr;
        for (Stored &s : all)
            if (s.data && s.taken < before && (!oldest || less(s, *oldest))) oldest = &s;
        if (!oldest) return; // which add() excludes
        each_section(*oldest->expert, [](lsk_matrix &m) { m.data = nullptr; });
        resident -= oldest->bytes;
        of_layer[oldest->layer] -= oldest->bytes;
        freed = std::move(oldest->data);
        oldest->data = {};
    }
}

void ExpertStore::read(Stored &s) {
    int64_t done = 0;
    int error = 0;
    while (done < s.bytes) {
        const ssize_t some = pread(file, s.data.data() + done, (size_t)(s.bytes - done), s.at + done);
        if (some < 0 && errno == EINTR) continue;
        error = some < 0 ? errno : 0;
        if (some <= 0) break;
        done += some;
    }
    if (done < s.bytes || sum_of(s.data.data(), s.bytes) != s.sum) {
        const std::string problem = done < s.bytes ? why(error) : "it has other bytes than were written";
        s.data = {};
        throw lst::Error(LST_E_BACKEND, "an expert cannot be read back from the file in " + folder + ": " + problem +
                                            "; the step was undone");
    }
}

std::unique_lock<std::mutex> ExpertStore::take(lst::Mixture &mixture, const std::vector<int32_t> &experts,
                                               int32_t &reads) {
    std::unique_lock<std::mutex> lock(pinned);
    const uint64_t before = clock + 1;
    const auto stored = [&](int32_t x) -> Stored & { return all[(size_t)mixture.experts[(size_t)x].stored]; };
    for (int32_t x : experts) stored(x).taken = ++clock;
    for (int32_t x : experts) {
        Stored &s = stored(x);
        if (s.data) continue;
        lst::Array<uint8_t> freed;
        make_room(s.bytes, before, freed);
        s.data = freed.size() == (size_t)s.bytes ? std::move(freed) : lst::Array<uint8_t>(s.bytes);
        reads++;
        read(s);
        resident += s.bytes;
        of_layer[s.layer] += s.bytes;
        int64_t at = 0;
        each_section(*s.expert, [&](lsk_matrix &m) {
            m.data = s.data.data() + at;
            at += rounded((m.n_out + LSK_TILE - 1) / LSK_TILE * (int64_t)m.tile_bytes);
        });
    }
    return lock;
}
