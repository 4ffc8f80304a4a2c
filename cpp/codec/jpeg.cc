// SPDX-License-Identifier: Apache-2.0
#include "codec/jpeg.h"

#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it and does not include it
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "codec/pixel_placement.h"

namespace stoker {
namespace {

constexpr JDIMENSION kBatchRows = 8;  // decoded before they are moved: 500 pixels x 8 stay in L1

// libjpeg-turbo writes rows that begin at a multiple of 16 or 32 bytes around the cache
// (non-temporal stores). Scratch rows are read back at once, which then costs up to a quarter of
// the whole decode; so they begin a little after a cache line.
constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kRowOffset = kRgbxBytes;

constexpr std::size_t scratch_stride(std::size_t width) noexcept {
  return (width * kRgbxBytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

/// Valid files that libjpeg was built without, or that no RGB image comes from.
bool unsupported(int message) noexcept {
  switch (message) {
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
      return true;
    default:
      return false;
  }
}

/// Warnings about files that every decoder in use shows without a word: markers of wrong versions,
/// and bytes between the end of the coded data and the next marker, which cameras and old tools
/// leave there. Coded data that was inserted in the middle can look the same.
bool harmless(int message) noexcept {
  switch (message) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
      return true;
    default:
      return false;
  }
}

/// libjpeg's decompressor. One per thread, used for one image after another.
class Decompressor {
 public:
  Decompressor();
  ~Decompressor() { jpeg_destroy_decompress(&cinfo_); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  /// Starts on `jpeg`, which must live until finish().
  JpegInfo read_header(ByteSpan jpeg);
  /// Decodes the image whose header was read.
  void decode(const PixelPlacement& to);
  /// Decodes a part of it.
  void decode_region(const PixelBox& box, const RowSink& sink);
  /// Frees what belongs to the image. Needed before the next header, also after an error.
  void finish() noexcept { jpeg_abort_decompress(&cinfo_); }

 private:
  /// Runs libjpeg calls; false when libjpeg gave up. The only setjmp: give_up() jumps over frames
  /// of libjpeg and of `step` and what it calls, so these own nothing that needs a destructor.
  template <typename Step>
  [[nodiscard]] bool guarded(const Step& step) {
    static_assert(std::is_trivially_destructible_v<Step>);
    if (setjmp(jump_) != 0) return false;
    step();
    return true;
  }
  [[noreturn]] void throw_failure();
  /// How far libjpeg has read.
  [[nodiscard]] std::size_t position() const noexcept;

  void create();
  void parse_header(ByteSpan jpeg);
  void mark_tables_stale() noexcept;
  [[nodiscard]] bool has_stale_tables() const noexcept;
  void read_in_place(const PixelPlacement& to);
  void prepare_scratch(std::size_t width);
  /// Reads up to row `end` and hands the rows over in pieces of kBatchRows.
  template <typename Store>
  void read_by_scratch(JDIMENSION end, const Store& store);

  [[noreturn]] static void give_up(j_common_ptr cinfo);
  static void on_message(j_common_ptr cinfo, int level);
  static boolean on_app1(j_decompress_ptr cinfo);

  jpeg_decompress_struct cinfo_{};
  jpeg_error_mgr errors_{};
  std::jmp_buf jump_{};
  ByteSpan jpeg_;
  Orientation orientation_ = Orientation::kNormal;
  std::vector<std::uint8_t> scratch_;
};

Decompressor::Decompressor() {
  cinfo_.err = jpeg_std_error(&errors_);
  cinfo_.client_data = this;
  errors_.error_exit = give_up;
  errors_.emit_message = on_message;
  create();
}

void Decompressor::create() {
  const bool created = guarded([this] {
    jpeg_create_decompress(&cinfo_);
    jpeg_set_marker_processor(&cinfo_, JPEG_APP0 + 1, on_app1);
  });
  if (created) return;
  jpeg_destroy_decompress(&cinfo_);
  throw std::bad_alloc();  // nothing else can go wrong there
}

void Decompressor::give_up(j_common_ptr cinfo) {
  std::longjmp(static_cast<Decompressor*>(cinfo->client_data)->jump_, 1);
}

// Level -1 is a warning; the others are traces that nobody asked for.
void Decompressor::on_message(j_common_ptr cinfo, int level) {
  if (level < 0 && !harmless(cinfo->err->msg_code)) give_up(cinfo);
}

// The memory source holds the whole file, so the segment is read where it lies.
boolean Decompressor::on_app1(j_decompress_ptr cinfo) {
  constexpr std::size_t kLengthBytes = 2;  // the length counts itself
  jpeg_source_mgr* source = cinfo->src;
  const ByteSpan rest(source->next_input_byte, source->bytes_in_buffer);
  if (rest.size() < kLengthBytes) ERREXIT(cinfo, JERR_INPUT_EOF);
  const std::size_t length = std::size_t{rest[0]} << 8 | rest[1];
  if (length < kLengthBytes) ERREXIT(cinfo, JERR_BAD_LENGTH);
  if (length > rest.size()) ERREXIT(cinfo, JERR_INPUT_EOF);
  auto* self = static_cast<Decompressor*>(cinfo->client_data);
  if (self->orientation_ == Orientation::kNormal) {  // XMP and second parts of EXIF are APP1 too
    self->orientation_ = exif_orientation(rest.subspan(kLengthBytes, length - kLengthBytes));
  }
  source->next_input_byte += length;
  source->bytes_in_buffer -= length;
  return TRUE;
}

std::size_t Decompressor::position() const noexcept {
  if (cinfo_.src == nullptr) return 0;
  // After the last byte libjpeg reads an end marker of its own, somewhere else in memory. Inside
  // the entropy-coded part this is the last whole MCU, up to a few hundred bytes before the fault.
  const auto begin = reinterpret_cast<std::uintptr_t>(jpeg_.data());
  const auto next = reinterpret_cast<std::uintptr_t>(cinfo_.src->next_input_byte);
  return next >= begin && next - begin <= jpeg_.size() ? next - begin : jpeg_.size();
}

void Decompressor::throw_failure() {
  if (errors_.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  std::array<char, JMSG_LENGTH_MAX> text{};
  errors_.format_message(reinterpret_cast<j_common_ptr>(&cinfo_), text.data());
  const std::string where =
      " (byte " + std::to_string(position()) + " of " + std::to_string(jpeg_.size()) + ")";
  if (unsupported(errors_.msg_code)) {
    throw Error(ErrorCode::kUnsupported,
                "cannot decode this kind of JPEG: " + std::string(text.data()) + where);
  }
  throw Error(ErrorCode::kCorrupt,
              "the JPEG is damaged or cut off: " + std::string(text.data()) + where);
}

// libjpeg keeps the Huffman and quantisation tables of one file for the next, and a file that
// brings none would be decoded with a stranger's. So they are marked where reading a table removes
// the mark (bits[0] becomes 0, a quantisation step is never 0).
void Decompressor::mark_tables_stale() noexcept {
  for (JHUFF_TBL* table : cinfo_.dc_huff_tbl_ptrs) {
    if (table != nullptr) table->bits[0] = 1;
  }
  for (JHUFF_TBL* table : cinfo_.ac_huff_tbl_ptrs) {
    if (table != nullptr) table->bits[0] = 1;
  }
  for (JQUANT_TBL* table : cinfo_.quant_tbl_ptrs) {
    if (table != nullptr) table->quantval[0] = 0;
  }
}

bool Decompressor::has_stale_tables() const noexcept {
  const auto stale = [](const JHUFF_TBL* table) { return table != nullptr && table->bits[0] != 0; };
  return std::ranges::any_of(cinfo_.dc_huff_tbl_ptrs, stale) ||
         std::ranges::any_of(cinfo_.ac_huff_tbl_ptrs, stale) ||
         std::ranges::any_of(cinfo_.quant_tbl_ptrs, [](const JQUANT_TBL* table) {
           return table != nullptr && table->quantval[0] == 0;
         });
}

void Decompressor::parse_header(ByteSpan jpeg) {
  jpeg_ = jpeg;
  orientation_ = Orientation::kNormal;
  const bool parsed = guarded([this] {
    jpeg_mem_src(&cinfo_, jpeg_.data(), jpeg_.size());
    jpeg_read_header(&cinfo_, TRUE);
  });
  if (!parsed) throw_failure();
}

JpegInfo Decompressor::read_header(ByteSpan jpeg) {
  if (cinfo_.mem == nullptr) create();  // memory was short when the last one was replaced
  mark_tables_stale();
  parse_header(jpeg);
  if (has_stale_tables()) {  // rare: the kind of image changed, or tables follow later or never
    jpeg_destroy_decompress(&cinfo_);
    create();
    parse_header(jpeg);
  }
  const int components = cinfo_.num_components;
  if (components != 1 && components != 3 && components != 4) {
    throw Error(ErrorCode::kUnsupported,
                "expected a JPEG of 1, 3 or 4 components, found " + std::to_string(components));
  }
  return {.width = cinfo_.image_width,
          .height = cinfo_.image_height,
          .components = static_cast<std::uint8_t>(components),
          .progressive = cinfo_.progressive_mode != FALSE,
          .orientation = orientation_};
}

void Decompressor::decode(const PixelPlacement& to) {
  const bool cmyk = cinfo_.num_components == 4;
  const bool in_place = !cmyk && (to.packed_rows() || to.packed_rgbx_rows());
  cinfo_.out_color_space = cmyk ? JCS_CMYK : in_place && to.packed_rows() ? JCS_RGB : JCS_EXT_RGBX;
  if (!in_place) prepare_scratch(cinfo_.image_width);
  const bool decoded = guarded([this, &to, in_place] {
    jpeg_start_decompress(&cinfo_);
    if (in_place) {
      read_in_place(to);
    } else {
      read_by_scratch(cinfo_.output_height, [&to](const RgbxRows& rows, std::size_t first) {
        store_rows(rows, first, to);
      });
    }
    jpeg_finish_decompress(&cinfo_);  // looks for the end marker: without it the file was cut
  });
  if (!decoded) throw_failure();
}

// Chroma is smoothed over neighbouring samples, and a cropped row counts as a whole one: its first
// and last pixels would be smoothed with nothing. So a pixel more is decoded on either side.
void Decompressor::decode_region(const PixelBox& box, const RowSink& sink) {
  constexpr std::uint32_t kMargin = 1;
  cinfo_.out_color_space = cinfo_.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
  prepare_scratch(cinfo_.image_width);
  JDIMENSION x = box.x - std::min(box.x, kMargin);
  JDIMENSION width = std::min(box.x + box.width + kMargin, cinfo_.image_width) - x;
  const bool whole_rows = width == cinfo_.image_width;
  const bool decoded = guarded([this, &box, &sink, x, width, whole_rows] {
    JDIMENSION from = x;  // moved left to a block by libjpeg
    JDIMENSION length = width;
    jpeg_start_decompress(&cinfo_);
    if (!whole_rows) jpeg_crop_scanline(&cinfo_, &from, &length);
    if (box.y > 0) jpeg_skip_scanlines(&cinfo_, box.y);
    const std::size_t before = (box.x - from) * kRgbxBytes;
    read_by_scratch(box.y + box.height, [&](const RgbxRows& rows, std::size_t first) {
      sink({rows.pixels + before, rows.stride, box.width, rows.count}, first - box.y);
    });
  });
  if (!decoded) throw_failure();
}

void Decompressor::prepare_scratch(std::size_t width) {
  scratch_.resize(scratch_stride(width) * kBatchRows + kCacheLine + kRowOffset + kRegionSlack);
}

void Decompressor::read_in_place(const PixelPlacement& to) {
  JSAMPROW rows[kBatchRows];
  while (cinfo_.output_scanline < cinfo_.output_height) {
    const JDIMENSION first = cinfo_.output_scanline;
    const JDIMENSION count = std::min(kBatchRows, cinfo_.output_height - first);
    for (JDIMENSION i = 0; i < count; ++i) rows[i] = to.row(first + i);
    jpeg_read_scanlines(&cinfo_, rows, count);
  }
}

template <typename Store>
void Decompressor::read_by_scratch(JDIMENSION end, const Store& store) {
  const std::size_t width = cinfo_.output_width;
  const std::size_t stride = scratch_stride(width);
  const auto past_line = reinterpret_cast<std::uintptr_t>(scratch_.data()) % kCacheLine;
  std::uint8_t* scratch = scratch_.data() + (kCacheLine - past_line) + kRowOffset;
  JSAMPROW rows[kBatchRows];
  for (JDIMENSION i = 0; i < kBatchRows; ++i) rows[i] = scratch + i * stride;
  while (cinfo_.output_scanline < end) {
    const JDIMENSION first = cinfo_.output_scanline;
    const JDIMENSION count = std::min(kBatchRows, end - first);
    for (JDIMENSION done = 0; done < count; done = cinfo_.output_scanline - first) {
      jpeg_read_scanlines(&cinfo_, rows + done, count - done);
    }
    if (cinfo_.out_color_space == JCS_CMYK) {
      for (JDIMENSION i = 0; i < count; ++i) cmyk_to_rgbx(rows[i], width);
    }
    store({scratch, stride, width, count}, first);
  }
}

Decompressor& decompressor_of_this_thread() {
  thread_local Decompressor decompressor;
  return decompressor;
}

void check_view(const ImageView& out, std::uint32_t width, std::uint32_t height) {
  const std::size_t pixel = out.layout == PixelLayout::kRgbx ? kRgbxBytes : 3;
  const std::size_t bytes = std::size_t{width} * height * pixel;
  if (out.width == width && out.height == height && out.pixels.size() == bytes) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the JPEG has " + std::to_string(width) + " x " + std::to_string(height) +
                  " pixels (" + std::to_string(bytes) + " bytes), the view for them " +
                  std::to_string(out.width) + " x " + std::to_string(out.height) + " (" +
                  std::to_string(out.pixels.size()) + " bytes)");
}

void check_box(const PixelBox& box, const JpegInfo& info) {
  const auto inside = [](std::uint64_t start, std::uint64_t length, std::uint64_t whole) {
    return length > 0 && start + length <= whole;
  };
  if (inside(box.x, box.width, info.width) && inside(box.y, box.height, info.height)) return;
  throw Error(ErrorCode::kInvalidArgument,
              "the region of " + std::to_string(box.width) + " x " + std::to_string(box.height) +
                  " pixels at (" + std::to_string(box.x) + ", " + std::to_string(box.y) +
                  ") is not inside the JPEG of " + std::to_string(info.width) + " x " +
                  std::to_string(info.height));
}

}  // namespace

JpegImage::JpegImage(ByteSpan jpeg) {
  Decompressor& decompressor = decompressor_of_this_thread();
  try {
    info_ = decompressor.read_header(jpeg);
  } catch (...) {
    decompressor.finish();
    throw;
  }
}

JpegImage::~JpegImage() { decompressor_of_this_thread().finish(); }

void JpegImage::decode_into(const ImageView& out, bool apply_orientation) {
  JpegInfo shown = info_;
  if (!apply_orientation) shown.orientation = Orientation::kNormal;
  check_view(out, shown.shown_width(), shown.shown_height());
  decompressor_of_this_thread().decode(
      place_pixels(shown.width, shown.height, shown.orientation, out));
}

void JpegImage::decode_region(const PixelBox& box, const RowSink& sink) {
  check_box(box, info_);
  decompressor_of_this_thread().decode_region(box, sink);
}

JpegInfo probe_jpeg(ByteSpan jpeg) { return JpegImage(jpeg).info(); }

void decode_jpeg_into(ByteSpan jpeg, const ImageView& out, bool apply_orientation) {
  JpegImage(jpeg).decode_into(out, apply_orientation);
}

}  // namespace stoker
