// SPDX-License-Identifier: Apache-2.0
#include "engine/batch_data.h"

#include <algorithm>
#include <utility>

namespace stoker {

std::vector<BatchData::RowError> BatchData::take_errors() {
  MutexLock lock(mutex_);
  std::ranges::sort(errors_, {}, &RowError::row);
  return std::exchange(errors_, {});
}

}  // namespace stoker
