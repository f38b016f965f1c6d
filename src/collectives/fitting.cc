#include "collectives/fitting.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace tutti {
namespace {

// What a probe of a few microseconds shows is less than what a long message gets: readers run ahead of what they need,
// and a copy that comes from the caller's buffer and goes to a slot finds neither in the first cache. Fitted on the two
// machines of the defaults (CostParameters), near and far.
constexpr double kLongReads = 1.6;
constexpr double kLongCopies = 0.73;

// What a class that nobody has measured is believed to be like: the first two on the machines of the defaults, the
// others as servers with several packages are described.
LinkParameters believed_link(LinkClass link_class) {
  LinkParameters link = CostParameters{}.local;
  constexpr double kTimesAsFar[kLinkClasses] = {1, 3.8, 4.5, 6};
  constexpr double kTimesAsSlow[kLinkClasses] = {1, 2, 2.2, 2.7};
  link.latency_ns *= kTimesAsFar[static_cast<int>(link_class)];
  link.bytes_per_ns /= kTimesAsSlow[static_cast<int>(link_class)];
  return link;
}

// Of the classes that there are, the slowest.
std::optional<LinkClass> slowest(const MeasuredHost& host) {
  std::optional<LinkClass> found;
  for (int i = 0; i < kLinkClasses; ++i) {
    if (host.links[static_cast<std::size_t>(i)].links > 0) found = static_cast<LinkClass>(i);
  }
  return found;
}

// Takes the first value that there is, and notes where it came from.
class Choose {
 public:
  explicit Choose(std::vector<FittedParameter>& origins) : origins_(origins) {}
  double operator()(std::string name, const std::optional<double>& file, double probed, double otherwise) {
    const Origin origin = file ? Origin::kFile : probed > 0 ? Origin::kProbed : Origin::kDefault;
    const double value = file ? *file : probed > 0 ? probed : otherwise;
    origins_.push_back({std::move(name), value, origin});
    return value;
  }
  LinkParameters link(const std::string& name, const Tuning::Link& file, const LinkParameters& probed,
                      const LinkParameters& otherwise) {
    return {(*this)(name + ".latency_ns", file.latency_ns, probed.latency_ns, otherwise.latency_ns),
            (*this)(name + ".message_ns", file.message_ns, probed.message_ns, otherwise.message_ns),
            (*this)(name + ".bytes_per_ns", file.bytes_per_ns, probed.bytes_per_ns, otherwise.bytes_per_ns)};
  }

 private:
  std::vector<FittedParameter>& origins_;
};

}  // namespace

std::string_view name(Origin origin) {
  constexpr std::string_view kNames[] = {"default", "probed", "file"};
  return kNames[static_cast<int>(origin)];
}

Fitted fit(const MeasuredHost& host, const Tuning& tuning, std::optional<LinkClass> within) {
  const CostParameters believed;
  Fitted fitted;
  CostParameters& parameters = fitted.parameters;
  Choose choose(fitted.origins);
  const auto of_class = [&](LinkClass link_class) {
    const auto index = static_cast<std::size_t>(link_class);
    const MeasuredLink& link = host.links[index];
    return choose.link(fmt::format("links.{}", name(link_class)), tuning.links[index],
                       {link.hop_ns, 0, kLongReads * link.read_rate}, believed_link(link_class));
  };
  const LinkClass farthest = slowest(host).value_or(LinkClass::kNear);
  parameters.local = of_class(within.value_or(farthest));
  if (within) parameters.across = *within == farthest ? parameters.local : of_class(farthest);
  const double copies = kLongCopies * host.copy_rate;
  parameters.remote = choose.link("links.remote", tuning.remote, {0, 0, 0}, believed.remote);
  parameters.step_ns = choose("step_ns", tuning.step_ns, 0, believed.step_ns);
  parameters.copied_bytes_per_ns =
      choose("copied_bytes_per_ns", tuning.copied_bytes_per_ns, copies, believed.copied_bytes_per_ns);
  parameters.reduced_bytes_per_ns =
      choose("reduced_bytes_per_ns", tuning.reduced_bytes_per_ns, copies, believed.reduced_bytes_per_ns);
  return fitted;
}

}  // namespace tutti
