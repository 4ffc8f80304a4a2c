// SPDX-License-Identifier: Apache-2.0
// Clang's lock annotations and a mutex that carries them. With GCC the macros are empty.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define STOKER_ANNOTATE(x) __attribute__((x))
#else
#define STOKER_ANNOTATE(x)
#endif
#define GUARDED_BY(x) STOKER_ANNOTATE(guarded_by(x))
#define REQUIRES(...) STOKER_ANNOTATE(requires_capability(__VA_ARGS__))
#define EXCLUDES(...) STOKER_ANNOTATE(locks_excluded(__VA_ARGS__))

namespace stoker {

/// std::mutex with annotations; works with MutexLock and std::condition_variable_any.
class STOKER_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() STOKER_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void unlock() STOKER_ANNOTATE(release_capability()) { mutex_.unlock(); }
  bool try_lock() STOKER_ANNOTATE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class STOKER_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) STOKER_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() STOKER_ANNOTATE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace stoker
