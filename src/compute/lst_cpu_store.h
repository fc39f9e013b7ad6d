// Packed experts in a file, of which only some are in memory, up to a number of bytes. Layers have equal shares of it
// and keep the experts that they took last; a forward whose rows take more borrows from other layers. (With one list of
// all layers' experts, a forward would find none of those of the forward before it, because layers run in turn.) A
// forward's bits do not depend on what is in memory.
#pragma once
#include "compute/lst_internal.h"

#include <mutex>

namespace lst::cpu {

class ExpertStore {
    struct Stored {
        lst::Expert *expert;
        size_t layer; // among the mixtures
        int64_t at, bytes;
        uint64_t sum; // of the bytes, which a read must have
        lst::Array<uint8_t> data;
        uint64_t taken = 0; // when, by the clock
    };
    int file = -1;
    std::string folder;
    int64_t budget, end = 0, resident = 0;
    std::vector<int64_t> of_layer; // the part of `resident`
    uint64_t clock = 0;
    std::vector<Stored> all;
    std::vector<std::pair<lst::Array<uint8_t>, int64_t>> staged; // of the expert that is being loaded, and their bytes
    std::mutex pinned;
    void read(Stored &x);
    void make_room(int64_t bytes, uint64_t before, lst::Array<uint8_t> &freed);

  public:
    // The file is in the folder and has no name, so it ends with this object or with the process. LST_E_BACKEND: it
    // cannot be made.
    ExpertStore(const char *folder, uint64_t budget);
    ~ExpertStore();
    ExpertStore(const ExpertStore &) = delete;
    ExpertStore &operator=(const ExpertStore &) = delete;

    // Zeroed memory for a matrix of the next expert.
    uint8_t *stage(size_t bytes);
    // The staged matrices are those of x, one of n of its layer: writes them to the file and takes them from memory.
    // LST_E_BACKEND: that failed. LST_E_ARG: the budget cannot hold all experts of a layer, which a prompt may take.
    void add(lst::Expert &x, int32_t n);
    // Brings these experts of a layer into memory, where they stay as long as the lock is held. LST_E_BACKEND: a read
    // failed, or gave other bytes than were written. Counts the reads.
    std::unique_lock<std::mutex> take(lst::Mixture &mixture, const std::vector<int32_t> &experts, int32_t &reads);
};

} // namespace lst::cpu
