// libtorch carries Gloo and the class of its process groups, but not Gloo's headers, which the class's header includes.
// These files declare the names that it mentions. Our code holds pointers to these types only; what they point to
// is made and read inside libtorch.
#pragma once
#include <chrono>

namespace gloo {
class Context {
  public:
    void setTimeout(std::chrono::milliseconds timeout);
};
} // namespace gloo
