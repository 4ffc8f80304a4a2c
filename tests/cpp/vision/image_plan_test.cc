// SPDX-License-Identifier: Apache-2.0
// What the dice decide: inside the image, the same for the same key, and composed step by step.
#include "vision/image_plan.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "error_of.h"

namespace stoker {
namespace {

using test::error_of;

ImagePlan plan(std::vector<ImageStep> steps, ImageSize size, std::uint64_t position = 0) {
  const std::array<std::uint64_t, 3> key{42, 1, position};
  return plan_image({std::move(steps), {}}, size, key);
}

TEST(ImagePlan, WithoutStepsTheWholeImage) {
  const ImagePlan made = plan({}, {30, 20});
  ASSERT_EQ(made.stages.size(), 1U);
  const Resample& r = made.stages[0].resample;
  EXPECT_EQ(r.source, (PixelBox{0, 0, 30, 20}));
  EXPECT_EQ(made.size(), (ImageSize{30, 20}));
  EXPECT_FALSE(r.resizes());
}

TEST(ImagePlan, RandomResizedCropStaysInsideAndKeepsItsRanges) {
  std::set<std::uint32_t> widths;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const ImagePlan made = plan({RandomResizedCropStep{{224, 200}}}, {500, 375}, i);
    const PixelBox& box = made.stages[0].resample.source;
    ASSERT_LE(box.x + box.width, 500U);
    ASSERT_LE(box.y + box.height, 375U);
    ASSERT_EQ(made.size(), (ImageSize{224, 200}));
    const double area = static_cast<double>(box.width) * box.height / (500.0 * 375.0);
    EXPECT_GT(area, 0.07);
    const double ratio = static_cast<double>(box.width) / box.height;
    EXPECT_GT(ratio, 0.72);
    EXPECT_LT(ratio, 1.38);
    widths.insert(box.width);
  }
  EXPECT_GT(widths.size(), 100U);
}

TEST(ImagePlan, AnImageTooFlatForAnyRatioGetsTheLargestCentredCrop) {
  const RandomResizedCropStep step{.size = {8, 8}, .area = {1.0, 1.0}};
  const ImagePlan made = plan({step}, {300, 30});
  EXPECT_EQ(made.stages[0].resample.source, (PixelBox{130, 0, 40, 30}));
}

TEST(ImagePlan, TheSameKeyGivesTheSamePlanAndStepsHaveDiceOfTheirOwn) {
  const auto box = [](std::vector<ImageStep> steps) {
    return plan(std::move(steps), {500, 375}, 9).stages[0].resample.source;
  };
  EXPECT_EQ(box({RandomResizedCropStep{{224, 224}}}), box({RandomResizedCropStep{{224, 224}}}));
  EXPECT_EQ(box({RandomResizedCropStep{{224, 224}}}),
            box({RandomResizedCropStep{{224, 224}}, FlipStep{}, ColorJitterStep{}}));
}

// The numbers are a promise: a run that goes on tomorrow must see the crops it would have seen.
TEST(ImagePlan, TheDiceArePinned) {
  const ImagePlan made = plan({RandomResizedCropStep{{224, 224}}, FlipStep{},
                               ColorJitterStep{.brightness = Range{0.6, 1.4}}},
                              {500, 375}, 12345);
  const Resample& r = made.stages[0].resample;
  EXPECT_EQ(r.source, (PixelBox{206, 48, 261, 230}));
  EXPECT_EQ(r.mirrored, false);
  ASSERT_EQ(made.stages[0].colours.size(), 1U);
  EXPECT_FLOAT_EQ(made.stages[0].colours[0].amount, 0.75865042F);
}

TEST(ImagePlan, ResizeThenCentreCropIsOneResample) {
  const ImagePlan made = plan({ResizeStep{.shorter = 256}, CenterCropStep{{224, 224}}}, {500, 375});
  ASSERT_EQ(made.stages.size(), 1U);
  const Resample& r = made.stages[0].resample;
  EXPECT_EQ(r.source, (PixelBox{0, 0, 500, 375}));
  EXPECT_EQ(r.scaled, (ImageSize{341, 256}));
  EXPECT_EQ(r.x, 58);  // round(58.5) to even, as Python
  EXPECT_EQ(r.y, 16);
  EXPECT_EQ(r.window, (ImageSize{224, 224}));
}

TEST(ImagePlan, ShorterSideWithALimitOnTheLonger) {
  EXPECT_EQ(plan({ResizeStep{.shorter = 100, .longest = 120}}, {500, 100}).size(),
            (ImageSize{120, 24}));
  EXPECT_EQ(plan({ResizeStep{.shorter = 50}}, {100, 300}).size(), (ImageSize{50, 150}));
}

TEST(ImagePlan, CentreCropOfASmallImageHasBorders) {
  const ImagePlan made = plan({CenterCropStep{{10, 6}}}, {5, 9});
  const Resample& r = made.stages[0].resample;
  EXPECT_TRUE(r.padded());
  EXPECT_EQ(r.x, -2);
  EXPECT_EQ(r.y, 2);
  EXPECT_EQ(made.size(), (ImageSize{10, 6}));
}

TEST(ImagePlan, CropsOfCropsCompose) {
  const ImagePlan made = plan({CenterCropStep{{20, 20}}, CenterCropStep{{10, 4}}}, {40, 30});
  ASSERT_EQ(made.stages.size(), 1U);
  EXPECT_EQ(made.stages[0].resample.source, (PixelBox{15, 13, 10, 4}));
}

TEST(ImagePlan, MirroringBeforeACropTakesTheOtherSide) {
  const ImagePlan plain = plan({RandomCropStep{.size = {10, 10}}}, {40, 10}, 3);
  const ImagePlan flipped = plan({FlipStep{0.0}, RandomCropStep{.size = {10, 10}}}, {40, 10}, 3);
  const ImagePlan mirrored = plan({FlipStep{1.0}, RandomCropStep{.size = {10, 10}}}, {40, 10}, 3);
  EXPECT_FALSE(plain.stages[0].resample.mirrored);
  EXPECT_TRUE(mirrored.stages[0].resample.mirrored);
  EXPECT_EQ(mirrored.stages[0].resample.source.x + 10 + flipped.stages[0].resample.source.x, 40U);
}

TEST(ImagePlan, PaddedRandomCropsCoverTheBorders) {
  std::set<std::int64_t> starts;
  for (std::uint64_t i = 0; i < 300; ++i) {
    const ImagePlan made =
        plan({RandomCropStep{.size = {32, 32}, .padding = {4, 4, 4, 4}}}, {32, 32}, i);
    const Resample& r = made.stages[0].resample;
    // A crop that lies inside is a smaller source, else a window that passes the edges.
    starts.insert(r.padded() ? r.x : r.source.x);
    ASSERT_GE(r.x, -4);
    ASSERT_LE(r.x, 4);
  }
  EXPECT_EQ(starts.size(), 9U);
}

TEST(ImagePlan, TooSmallForARandomCropIsAnErrorThatSaysWhatToDo) {
  const Error error = error_of([] { return plan({RandomCropStep{.size = {32, 32}}}, {31, 40}); });
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(error.message().find("31 x 40"), std::string::npos);
  EXPECT_NE(error.message().find("pad_if_needed"), std::string::npos);
  EXPECT_EQ(plan({RandomCropStep{.size = {32, 32}, .pad_if_needed = true}}, {31, 40}).size(),
            (ImageSize{32, 32}));
}

TEST(ImagePlan, ColoursBetweenGeometryMakeStages) {
  const ImagePlan made = plan(
      {GrayscaleStep{}, ResizeStep{.size = {8, 8}}, FlipStep{1.0}, GrayscaleStep{}, FlipStep{1.0}},
      {16, 16});
  ASSERT_EQ(made.stages.size(), 2U);
  EXPECT_FALSE(made.stages[0].resample.resizes());
  EXPECT_TRUE(made.stages[1].resample.resizes());
  EXPECT_FALSE(made.stages[1].resample.mirrored);  // twice
}

TEST(ImagePlan, JitterOrdersAndAmountsVary) {
  const ColorJitterStep all{Range{0.5, 1.5}, Range{0.5, 1.5}, Range{0.5, 1.5}, Range{-0.1, 0.1}};
  std::set<int> first;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const ImagePlan made = plan({all}, {4, 4}, i);
    ASSERT_EQ(made.stages[0].colours.size(), 4U);
    first.insert(static_cast<int>(made.stages[0].colours[0].change));
  }
  EXPECT_EQ(first.size(), 4U);
}

}  // namespace
}  // namespace stoker
