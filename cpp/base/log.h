// SPDX-License-Identifier: Apache-2.0
// Where the core's messages go. The sink is the only global state of the core.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace stoker {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };

/// Called with each message, from any thread, one call at a time. It must not throw.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink (an empty one drops messages, the default). Thread-safe; waits for a running
/// call.
void set_log_sink(LogSink sink);

/// Sends one message to the sink. Thread-safe, never throws.
void log_message(LogLevel level, std::string_view message) noexcept;

}  // namespace stoker
