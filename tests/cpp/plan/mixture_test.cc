// SPDX-License-Identifier: Apache-2.0
#include "plan/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "error_of.h"

namespace stoker {
namespace {

using Units = std::vector<std::uint64_t>;
using Sources = std::vector<std::uint32_t>;

Sources all_of(Mixture& mixture) {
  Sources out(mixture.size());
  mixture.fill(0, out);
  return out;
}

Units count(const Sources& sources, std::size_t end, std::size_t kinds) {
  Units counts(kinds);
  for (std::size_t i = 0; i < end; ++i) ++counts[sources[i]];
  return counts;
}

// Orders of running jobs depend on them.
TEST(MixtureTest, Pinned) {
  Mixture all({6, 3, 1}, {1, 1, 1}, 42, true);
  EXPECT_EQ(all_of(all), (Sources{1, 0, 0, 2, 0, 0, 1, 1, 0, 0}));
  Mixture weighted({1000, 1000}, {3, 1}, 42, false);
  Sources first(12);
  weighted.fill(0, first);
  EXPECT_EQ(first, (Sources{0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(weighted.size(), 1331U);
}

TEST(MixtureTest, ExhaustedEveryUnitComesOnce) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    Units left(1 + random() % 6);
    for (std::uint64_t& units : left) units = random() % 4 == 0 ? 0 : random() % 5000;
    Mixture mixture(left, Units(left.size(), 1), random(), true);
    const Sources sources = all_of(mixture);
    ASSERT_EQ(count(sources, sources.size(), left.size()), left);
  }
}

// All sources end together: every prefix holds its share of each.
TEST(MixtureTest, SharesHoldAllAlong) {
  Mixture mixture({60'000, 30'000, 10'000}, {1, 1, 1}, 3, true);
  for (std::uint64_t at = 0; at < mixture.size(); at += 997) {
    const Units drawn = mixture.drawn_before(at);
    const auto share = [&](std::size_t i, double part) {
      EXPECT_NEAR(static_cast<double>(drawn[i]), part * static_cast<double>(at), 60);
    };
    share(0, 0.6);
    share(1, 0.3);
    share(2, 0.1);
  }
}

TEST(MixtureTest, WeightedEndsBeforeTheFirstDrawFromAnEmptySource) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    Units left(1 + random() % 5);
    Units weights(left.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      left[i] = random() % 4000;
      weights[i] = random() % 3 == 0 ? 0 : random() % 1000;
    }
    weights[0] += 1;
    const std::uint64_t key = random();
    Mixture mixture(left, weights, key, false);
    // The same draws from sources that are never empty.
    Mixture endless(Units(left.size(), 1'000'000), weights, key, false);
    Sources draws(mixture.size() + 1);
    endless.fill(0, draws);
    const Units drawn = count(draws, mixture.size(), left.size());
    for (std::size_t i = 0; i < left.size(); ++i) {
      ASSERT_LE(drawn[i], left[i]);
      if (weights[i] == 0) {
        ASSERT_EQ(drawn[i], 0U);
      }
    }
    ASSERT_EQ(drawn[draws.back()], left[draws.back()]);  // the draw after the end fails
    draws.pop_back();
    ASSERT_EQ(all_of(mixture), draws);
    ASSERT_EQ(mixture.drawn_before(mixture.size()), drawn);
  }
}

TEST(MixtureTest, AnyPlaceGivesWhatTheWholeGives) {
  std::mt19937_64 random(7);
  for (const bool exhaust : {true, false}) {
    Mixture mixture({400'000, 300'000, 7}, {5, 4, exhaust ? 1U : 0U}, 11, exhaust);
    const Sources whole = all_of(mixture);
    for (int jump = 0; jump < 60; ++jump) {
      const std::uint64_t at = random() % whole.size();
      Sources piece(std::min<std::size_t>(random() % 3000, whole.size() - at));
      mixture.fill(at, piece);
      ASSERT_TRUE(
          std::equal(piece.begin(), piece.end(), whole.begin() + static_cast<std::ptrdiff_t>(at)));
      ASSERT_EQ(mixture.drawn_before(at), count(whole, at, 3));
    }
  }
}

TEST(MixtureTest, KeysDiffer) {
  Mixture a({500, 500}, {1, 1}, 1, true);
  Mixture b({500, 500}, {1, 1}, 2, true);
  EXPECT_NE(all_of(a), all_of(b));
}

TEST(MixtureTest, BadInput) {
  const auto error = [](Units left, Units weights, bool exhaust) {
    return test::error_of([&] { return Mixture(std::move(left), std::move(weights), 1, exhaust); })
        .code();
  };
  EXPECT_EQ(error({}, {}, true), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error({1, 2}, {1}, true), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error({1, 2}, {0, 0}, false), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error({1, 2}, {1ULL << 39, 1ULL << 39}, false), ErrorCode::kInvalidArgument);
  EXPECT_EQ(error({1ULL << 62, 1ULL << 62}, {1, 1}, true), ErrorCode::kInvalidArgument);
  Mixture small({2, 2}, {1, 1}, 1, true);
  Sources out(2);
  EXPECT_EQ(test::error_of([&] {
              small.fill(3, out);
              return 0;
            }).code(),
            ErrorCode::kOutOfRange);
  EXPECT_EQ(test::error_of([&] { return small.drawn_before(5); }).code(), ErrorCode::kOutOfRange);
}

TEST(MixtureTest, OfNothing) {
  Mixture empty({0, 0}, {1, 1}, 1, true);
  EXPECT_EQ(empty.size(), 0U);
  EXPECT_EQ(empty.drawn_before(0), (Units{0, 0}));
  Mixture ends_at_once({0, 5}, {1, 0}, 1, false);
  EXPECT_EQ(ends_at_once.size(), 0U);
}

}  // namespace
}  // namespace stoker
