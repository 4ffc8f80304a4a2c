// SPDX-License-Identifier: Apache-2.0
// Image steps, and running them on one image.
#include "vision.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "base/error.h"
#include "convert.h"
#include "register.h"

namespace stoker::bindings {
namespace {

using Pair = std::pair<double, double>;
using Size = std::pair<std::uint32_t, std::uint32_t>;  // height, width: as Python says it

ImageSize size_of(const Size& size) { return {size.second, size.first}; }
Range range_of(const Pair& pair) { return {pair.first, pair.second}; }

std::optional<Range> range_of(const std::optional<Pair>& pair) {
  return pair ? std::optional<Range>(range_of(*pair)) : std::nullopt;
}

Interpolation interpolation_of(const std::string& name) {
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "bilinear") return Interpolation::kBilinear;
  if (name == "bicubic") return Interpolation::kBicubic;
  throw Error(ErrorCode::kInvalidArgument,
              "interpolation='" + name + "' is unknown; use 'nearest', 'bilinear' or 'bicubic'");
}

PixelType pixel_type_of(const std::string& name) {
  if (name == "uint8") return PixelType::kUint8;
  if (name == "float32") return PixelType::kFloat32;
  if (name == "float16") return PixelType::kFloat16;
  if (name == "bfloat16") return PixelType::kBfloat16;
  throw Error(ErrorCode::kInvalidArgument, "pixels cannot be stored as '" + name + "'");
}

/// The carrier of a pixel type in NumPy, which has no bfloat16.
const char* carrier_of(PixelType type) {
  switch (type) {
    case PixelType::kUint8:
      return "uint8";
    case PixelType::kFloat32:
      return "float32";
    case PixelType::kFloat16:
      return "float16";
    case PixelType::kBfloat16:
      return "uint16";
  }
  return "uint8";
}

}  // namespace

/// Pipelines are handed from call to call: their scratch memory is warm.
class PipelineLoan {
 public:
  explicit PipelineLoan(StepsHandle& handle) : handle_(handle) {
    if (handle.idle.empty()) {
      pipeline_.emplace(handle.steps);
    } else {
      pipeline_.emplace(std::move(handle.idle.back()));
      handle.idle.pop_back();
    }
  }
  ~PipelineLoan() { handle_.idle.push_back(std::move(*pipeline_)); }
  PipelineLoan(const PipelineLoan&) = delete;
  PipelineLoan& operator=(const PipelineLoan&) = delete;

  ImagePipeline& operator*() noexcept { return *pipeline_; }

 private:
  StepsHandle& handle_;  // `idle` is guarded by the GIL
  std::optional<ImagePipeline> pipeline_;
};

namespace {

/// A new array for one image: (C, H, W), or (H, W, C) when channels come last.
nb::object new_image(const PixelFormat& format, ImageSize size, MutableByteSpan* pixels) {
  ElementType type;
  type.carrier = nb::module_::import_("numpy").attr("dtype")(carrier_of(format.type));
  const std::int64_t c = format.channels;
  const std::int64_t h = size.height;
  const std::int64_t w = size.width;
  const std::array<std::int64_t, 3> shape = format.channels_last
                                                ? std::array<std::int64_t, 3>{h, w, c}
                                                : std::array<std::int64_t, 3>{c, h, w};
  std::uint8_t* data = nullptr;
  nb::object array = new_array(type, shape, &data);
  *pixels = {data, format.image_bytes(size.width, size.height)};
  return array;
}

nb::object run_jpeg(StepsHandle& self, nb::handle data, const std::vector<std::uint64_t>& key) {
  const InputBuffer buffer(data);
  PipelineLoan pipeline(self);
  const JpegInfo info = probe_jpeg(buffer.span());
  const ImageSize size = (*pipeline).output_size({info.shown_width(), info.shown_height()});
  MutableByteSpan pixels;
  nb::object array = new_image(self.steps->format, size, &pixels);
  const nb::gil_scoped_release release;  // only the caller's bytes and our own array are touched
  (*pipeline).run_jpeg(buffer.span(), key, {pixels, size});
  return array;
}

nb::object run_rgb(StepsHandle& self, nb::handle data, std::uint32_t width, std::uint32_t height,
                   const std::vector<std::uint64_t>& key) {
  const InputBuffer buffer(data);
  PipelineLoan pipeline(self);
  const ImageSize size = (*pipeline).output_size({width, height});
  MutableByteSpan pixels;
  nb::object array = new_image(self.steps->format, size, &pixels);
  const nb::gil_scoped_release release;  // only the caller's bytes and our own array are touched
  (*pipeline).run_rgb({buffer.span(), {width, height}}, key, {pixels, size});
  return array;
}

void add_random_resized_crop(StepsHandle& self, Size size, Pair scale, Pair ratio,
                             const std::string& interpolation) {
  self.add(RandomResizedCropStep{size_of(size), range_of(scale), range_of(ratio),
                                 interpolation_of(interpolation)});
}

void add_resize(StepsHandle& self, Size size, std::uint32_t shorter, std::uint32_t longest,
                const std::string& interpolation) {
  self.add(ResizeStep{size_of(size), shorter, longest, interpolation_of(interpolation)});
}

void add_color_jitter(StepsHandle& self, std::optional<Pair> brightness,
                      std::optional<Pair> contrast, std::optional<Pair> saturation,
                      std::optional<Pair> hue) {
  self.add(ColorJitterStep{range_of(brightness), range_of(contrast), range_of(saturation),
                           range_of(hue)});
}

void set_format(StepsHandle& self, const std::string& type, bool channels_last,
                std::uint8_t channels, const std::array<float, 3>& scale,
                const std::array<float, 3>& offset) {
  if (channels != 1 && channels != 3) throw Error(ErrorCode::kInvalidArgument, "1 or 3 channels");
  self.steps->format = {pixel_type_of(type), channels_last, channels, scale, offset};
}

Size output_size(StepsHandle& self, std::uint32_t width, std::uint32_t height) {
  PipelineLoan pipeline(self);
  const ImageSize size = (*pipeline).output_size({width, height});
  return {size.height, size.width};
}

}  // namespace

void register_vision(nb::module_& m) {
  nb::class_<StepsHandle>(m, "ImageSteps",
                          "Steps for images; sizes are (height, width). Add all before the first "
                          "run.")
      .def(nb::init<>())
      .def("add_random_resized_crop", &add_random_resized_crop, nb::arg("size"), nb::arg("scale"),
           nb::arg("ratio"), nb::arg("interpolation"))
      .def("add_resize", &add_resize, nb::arg("size"), nb::arg("shorter"), nb::arg("longest"),
           nb::arg("interpolation"))
      .def(
          "add_center_crop",
          [](StepsHandle& self, Size size) { self.add(CenterCropStep{size_of(size)}); },
          nb::arg("size"))
      .def(
          "add_random_crop",
          [](StepsHandle& self, Size size, std::array<std::uint32_t, 4> padding, bool needed) {
            self.add(RandomCropStep{size_of(size), padding, needed});
          },
          nb::arg("size"), nb::arg("padding"), nb::arg("pad_if_needed"))
      .def(
          "add_flip", [](StepsHandle& self, double p) { self.add(FlipStep{p}); }, nb::arg("p"))
      .def("add_color_jitter", &add_color_jitter, nb::arg("brightness").none(),
           nb::arg("contrast").none(), nb::arg("saturation").none(), nb::arg("hue").none())
      .def("add_grayscale", [](StepsHandle& self) { self.add(GrayscaleStep{}); })
      .def("set_format", &set_format, nb::arg("type"), nb::arg("channels_last"),
           nb::arg("channels"), nb::arg("scale"), nb::arg("offset"),
           "value = pixel * scale + offset per channel; for type 'uint8' the pixel.")
      .def("output_size", &output_size, nb::arg("width"), nb::arg("height"),
           "(height, width) of the result for an image of this size.")
      .def("run_jpeg", &run_jpeg, nb::arg("data"), nb::arg("key"),
           nb::sig("def run_jpeg(self, data: object, key: Sequence[int]) -> "
                   "numpy.typing.NDArray[typing.Any]"),
           "A JPEG file to pixels: (C, H, W), or (H, W, C) when channels come last; bfloat16 as "
           "uint16.")
      .def("run_rgb", &run_rgb, nb::arg("data"), nb::arg("width"), nb::arg("height"),
           nb::arg("key"),
           nb::sig("def run_rgb(self, data: object, width: int, height: int, key: Sequence[int]) "
                   "-> numpy.typing.NDArray[typing.Any]"),
           "The same for packed RGB bytes.");
}

}  // namespace stoker::bindings
