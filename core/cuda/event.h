// CUDA events, for libraries that work on their own stream.
#pragma once

namespace nystrom::cuda {

/// An event that occurs after all work launched before its construction. It must live until those
/// that wait for it have been told to. Throws in a program without CUDA.
class Event {
 public:
  /// Records the event on the stream of GPU `device`.
  explicit Event(int device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// The cudaEvent_t.
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

}  // namespace nystrom::cuda
