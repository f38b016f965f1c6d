#pragma once

#include <functional>
#include <memory>

#include "base/clock.h"
#include "base/config.h"
#include "bootstrap/control_plane.h"
#include "bootstrap/rank_table.h"
#include "bootstrap/survivors.h"

namespace tutti {

// The calling thread's half of shrink(); Survivors has the other. Made by a control plane on a tree.
class TreeSurvivorCall : public SurvivorCall {
 public:
  struct Old {
    // Runs it on the control thread and waits.
    std::function<void(const std::function<void(Survivors&)>&)> call;
    Credentials own;
    std::string name;
    bool loopback_only = false;
    std::shared_ptr<const RankTable> table;  // shared with the old control plane
  };

  TreeSurvivorCall(Old old, const Config& config, Deadline deadline);
  ~TreeSurvivorCall() override;
  TreeSurvivorCall(const TreeSurvivorCall&) = delete;
  TreeSurvivorCall& operator=(const TreeSurvivorCall&) = delete;

  std::optional<Membership> agree() override;
  bool opened() override;

 private:
  void offer_root();
  void drop_root();
  Membership membership(const SurvivorAgreement& agreement) const;
  Key secret(const Nonce& nonce) const;

  const Old old_;
  Survivors* survivors_ = nullptr;  // of the control thread
  const Config& config_;
  const Deadline deadline_;
  SurvivorResults results_;
  Nonce root_{};  // of the root that this rank opened; zero: none
  std::uint16_t port_ = 0;
  std::function<void(const Poison& why)> refuse_meeting_;
  bool agreed_ = false;
};

}  // namespace tutti
