// A place in the stream of a GPU, for libraries that work on a stream of their own.
#pragma once

namespace nystrom::cuda {

/// Behind everything launched before it was made. Throws in a program without CUDA.
class Event {
 public:
  explicit Event(int device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// A cudaEvent_t.
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

}  // namespace nystrom::cuda
