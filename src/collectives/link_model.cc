#include "collectives/link_model.h"

#include <fmt/format.h>

namespace tutti {
namespace {

// Of the classes that there are, the slowest: whoever waits for everybody waits for it.
const MeasuredLink* slowest(const MeasuredHost& host) {
  const MeasuredLink* found = nullptr;
  for (const MeasuredLink& link : host.links) {
    if (link.links > 0) found = &link;
  }
  return found;
}

}  // namespace

std::string describe(const MeasuredHost& host) {
  std::string text;
  for (int i = 0; i < kLinkClasses; ++i) {
    const MeasuredLink& link = host.links[static_cast<std::size_t>(i)];
    if (link.links == 0) continue;
    if (!text.empty()) text += "; ";
    text += name(static_cast<LinkClass>(i));
    text += link.hop_ns > 0 ? fmt::format(" {:.0f} ns", link.hop_ns) : " (not measured)";
    if (link.read_rate > 0) {
      text += fmt::format(", reads {:.1f}, stores {:.1f}, streams {:.1f} bytes a ns", link.read_rate, link.store_rate,
                          link.stream_rate);
    }
    text += fmt::format(" ({} link{})", link.links, link.links == 1 ? "" : "s");
  }
  return text;
}

CostParameters fit(const MeasuredHost& host, const CostParameters& otherwise) {
  CostParameters parameters = otherwise;
  const MeasuredLink* link = slowest(host);
  if (link == nullptr) return parameters;
  if (link->hop_ns > 0) parameters.local.latency_ns = link->hop_ns;
  return parameters;
}

}  // namespace tutti
