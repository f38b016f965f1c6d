#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/endpoint.h"
#include "transport/line.h"
#include "transport/shm/sleep_words.h"

namespace tutti {

// Connections beyond the channels: announcements, grants and data of point-to-point.
inline constexpr int kPointToPointConnections = 3;
// Messages between two ranks of a host that are no longer than this, in bytes, lie in a place of their own as soon as
// they are announced.
inline constexpr std::size_t kEarlyBytes = 4096;

// Where everything lies in the segment that the ranks of one host share. A page with a header and the count of who
// sleeps, then one area per member:
//
//   progress and started words | word of long calls | output notice | who sleeps | processor word, confirmed segments
//   [peer] | channels: credit words and lines [channel][peer] | small rings [channel] | point-to-point: credit words
//   and lines [peer][connection] | places of channel 0 [peer][window] | large rings [channel] | pieces [rank][window],
//   early messages [rank][window]
//
// The first line is what every communicator needs at once; the rest takes memory when it is used.
// Everything in an area is written by its owner and read by the others, but for the words that say who sleeps. All
// values are agreed before the segment is made; offsets are bytes from its start, areas are page-aligned.
struct SegmentLayout {
  std::uint32_t members = 1;
  std::uint32_t ranks = 1;  // of the communicator
  std::uint32_t channels = 1;
  std::uint32_t window = 4;
  std::uint64_t small_ring_bytes = 16 * 1024;
  std::uint64_t large_ring_bytes = 2 * 1024 * 1024;
  std::uint64_t piece_bytes = 64 * 1024;  // largest piece of a point-to-point message

  static constexpr std::size_t kPage = 4096;
  struct Header {
    std::uint64_t proof[4];  // who could derive the job's key wrote this
  };

  std::uint32_t connections() const { return channels + kPointToPointConnections; }

  // Offsets within an area.
  std::size_t progress() const { return 0; }
  std::size_t started() const { return progress() + sizeof(Word); }
  std::size_t long_call() const { return progress() + sizeof(PaddedWord); }
  std::size_t output_notice() const { return long_call() + sizeof(PaddedWord); }
  std::size_t sleep_words() const { return output_notice() + sizeof(Line); }
  std::size_t processor() const { return sleep_words() + sizeof(SleepWords); }
  std::size_t confirmed(std::uint32_t peer) const { return processor() + sizeof(Word) * (1 + peer); }
  std::size_t credit(std::uint32_t connection, std::uint32_t peer) const {
    return connection < channels ? channel_lines() + end_bytes() * (connection * members + peer)
                                 : point_to_point(peer) + end_bytes() * (connection - channels);
  }
  std::size_t lines(std::uint32_t connection, std::uint32_t peer) const {
    return credit(connection, peer) + sizeof(PaddedWord);
  }
  std::size_t small_ring(std::uint32_t channel) const {
    return page_up(channel_lines() + end_bytes() * channels * members) + channel * small_ring_bytes;
  }
  // Credit words and lines of all point-to-point connections to one peer.
  std::size_t point_to_point(std::uint32_t peer) const {
    return page_up(small_ring(channels)) + peer * point_to_point_bytes();
  }
  std::size_t point_to_point_bytes() const { return end_bytes() * kPointToPointConnections; }
  bool has_places() const { return ranks <= kMostRanksWithPlaces; }
  std::size_t places(std::uint32_t peer) const {
    return page_up(point_to_point(members)) + peer * (has_places() ? window * kPlaceBytes : 0);
  }
  std::size_t large_ring(std::uint32_t channel) const { return page_up(places(members)) + channel * large_ring_bytes; }
  // Of messages to one rank, and behind them the places of early ones.
  std::size_t pieces(std::uint32_t rank) const {
    return page_up(large_ring(channels)) + rank * window * (piece_bytes + kEarlyBytes);
  }
  std::size_t area_bytes() const { return page_up(pieces(ranks)); }

  // Offsets within the segment.
  static constexpr std::size_t sleep_count() { return sizeof(SleepCount); }
  std::size_t area(std::uint32_t member) const { return kPage + member * area_bytes(); }
  std::size_t segment_bytes() const { return area(members); }

 private:
  // A credit word and the lines of one connection.
  std::size_t end_bytes() const { return sizeof(PaddedWord) + sizeof(Line) * window; }
  std::size_t channel_lines() const {
    return (confirmed(members) + sizeof(PaddedWord) - 1) / sizeof(PaddedWord) * sizeof(PaddedWord);
  }
  static std::size_t page_up(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
};
static_assert(sizeof(SegmentLayout::Header) <= SegmentLayout::sleep_count());
static_assert(SegmentLayout::sleep_count() + sizeof(SleepCount) <= SegmentLayout::kPage);

}  // namespace tutti
