// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <utility>

#include "base/thread_annotations.h"

namespace stoker {
namespace {

struct Sink {
  Mutex mutex;
  LogSink call GUARDED_BY(mutex);
};

// Leaked: threads may log while static objects are being destroyed.
Sink& sink() {
  static auto* const instance = new Sink();
  return *instance;
}

}  // namespace

void set_log_sink(LogSink call) {
  Sink& current = sink();
  MutexLock lock(current.mutex);
  // Swapped, not assigned: the old sink's destructor may take other locks, so it runs after this
  // one is free.
  std::swap(current.call, call);
}

void log_message(LogLevel level, std::string_view message) noexcept {
  Sink& current = sink();
  MutexLock lock(current.mutex);
  if (current.call) current.call(level, message);
}

}  // namespace stoker
