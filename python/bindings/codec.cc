// SPDX-License-Identifier: Apache-2.0
// Codec functions that Python serializers and tests call directly.
#include "arrays.h"
#include "codec/checksum.h"
#include "codec/jpeg.h"
#include "codec/zstd.h"
#include "convert.h"
#include "leaf.h"
#include "register.h"

namespace stoker::bindings {

void register_codec(nb::module_& m) {
  m.def(
      "decode_jpeg",
      [](nb::handle data) {
        const InputBuffer buffer(data);
        return decode_jpeg_array(buffer.span());
      },
      nb::arg("data"),
      nb::sig("def decode_jpeg(data: object) -> numpy.typing.NDArray[numpy.uint8]"),
      "JPEG file bytes -> uint8 array (3, height, width), RGB, EXIF orientation applied.");
  m.def(
      "probe_jpeg",
      [](nb::handle data) {
        const InputBuffer buffer(data);
        const JpegInfo info = probe_jpeg(buffer.span());
        return nb::make_tuple(info.shown_width(), info.shown_height(), info.components,
                              info.progressive);
      },
      nb::arg("data"), nb::sig("def probe_jpeg(data: object) -> tuple[int, int, int, bool]"),
      "JPEG header -> (width, height, components, progressive) as shown, without decoding.");
  m.def(
      "xxh3_64",
      [](nb::handle data) {
        const InputBuffer buffer(data);
        nb::gil_scoped_release release;  // the buffer is held; no Python object is touched
        return xxh3_64(buffer.span());
      },
      nb::arg("data"), "XXH3-64 of a contiguous buffer.");
  m.def(
      "zstd_decompress",
      [](nb::handle data, std::uint64_t expected_size) {
        const InputBuffer buffer(data);
        Bytes out;
        {
          nb::gil_scoped_release release;  // the buffer is held; no Python object is touched
          out = zstd_decompress(buffer.span(), expected_size);
        }
        return to_python_bytes(out.span());
      },
      nb::arg("data"), nb::arg("expected_size"), "Decompress zstd frames of a known content size.");
}

}  // namespace stoker::bindings
