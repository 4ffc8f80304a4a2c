// SPDX-License-Identifier: Apache-2.0
// Image steps as Python holds them.
#pragma once

#include <memory>
#include <vector>

#include "vision/image_pipeline.h"
#include "vision/image_steps.h"

namespace stoker::bindings {

/// Filled step by step, then only read. All members REQUIRE the GIL.
struct StepsHandle {
  std::shared_ptr<ImageSteps> steps = std::make_shared<ImageSteps>();
  std::vector<ImagePipeline> idle;

  StepsHandle() = default;
  StepsHandle(const StepsHandle&) = delete;
  StepsHandle& operator=(const StepsHandle&) = delete;

  void add(const ImageStep& step) {
    steps->steps.push_back(step);
    static_cast<void>(ImagePipeline(steps));  // refuses what can never work, at once
  }
};

}  // namespace stoker::bindings
