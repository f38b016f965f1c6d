#include "collectives/link_model.h"

#include <fmt/format.h>

namespace tutti {
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

}  // namespace tutti
