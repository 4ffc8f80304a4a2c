// SPDX-License-Identifier: Apache-2.0
// Runs the plan of one image: decode what is needed, resample, change colours, store.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "vision/image_plan.h"

namespace stoker {

/// Where one image goes: `pixels` has PixelFormat::image_bytes(size). Owned by the caller.
struct ImageTarget {
  MutableByteSpan pixels;
  ImageSize size;
};

/// Nanoseconds of the calling thread's wall time.
struct ImageTimes {
  std::uint64_t decode = 0;
  std::uint64_t resample = 0;  // with colours and storing
};

/// Packed RGB pixels in memory, 3 bytes each.
struct RgbImage {
  ByteSpan pixels;
  ImageSize size;
};

/// Steps with the scratch memory to run them. One per thread; scratch is kept between images.
class ImagePipeline {
 public:
  /// Throws kInvalidArgument for steps that can never work (an empty size, a bad range).
  explicit ImagePipeline(std::shared_ptr<const ImageSteps> steps);
  ~ImagePipeline();
  ImagePipeline(ImagePipeline&&) noexcept;
  ImagePipeline& operator=(ImagePipeline&&) noexcept;

  /// What comes out for an image of this size: the same for every throw of the dice.
  [[nodiscard]] ImageSize output_size(ImageSize input) const;

  /// Decodes `jpeg` (EXIF orientation applied first) and stores the result. The dice depend on
  /// `key` only. Throws kInvalidArgument when the result has another size than `target`, else as
  /// decode_jpeg_into and plan_image.
  void run_jpeg(ByteSpan jpeg, std::span<const std::uint64_t> key, const ImageTarget& target);

  /// The same for pixels. Throws kInvalidArgument when `image` has another size than it says.
  void run_rgb(const RgbImage& image, std::span<const std::uint64_t> key,
               const ImageTarget& target);

  /// Of the last run.
  [[nodiscard]] const ImageTimes& times() const noexcept;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
