#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// Every setting of the library: a row of the table in config.cc gives its TUTTI_ name, the NCCL_ alias if there is
// one, its type, default, allowed values and one sentence of meaning. Add a setting: one enumerator here, one row
// there.
enum class Setting {
  kDebug,                 // TUTTI_DEBUG            log level: error, warn, info, debug
  kRank,                  // TUTTI_RANK
  kRanks,                 // TUTTI_NRANKS
  kCommId,                // TUTTI_COMM_ID          unique id as text, or host:port of the root
  kPort,                  // TUTTI_PORT
  kPorts,                 // TUTTI_PORTS            a PortRange for integer()
  kSecret,                // TUTTI_SECRET
  kSecretFile,            // TUTTI_SECRET_FILE
  kAllowUnauthenticated,  // TUTTI_ALLOW_UNAUTHENTICATED
  kSocketIfname,          // TUTTI_SOCKET_IFNAME    NCCL_SOCKET_IFNAME
  kSocketFamily,          // TUTTI_SOCKET_FAMILY    NCCL_SOCKET_FAMILY
  kHostId,                // TUTTI_HOSTID           NCCL_HOSTID
  kShmDisable,            // TUTTI_SHM_DISABLE      NCCL_SHM_DISABLE
  kShmDir,                // TUTTI_SHM_DIR
  kMeetTimeout,           // TUTTI_MEET_TIMEOUT     seconds until all ranks must have met
  kSilence,               // TUTTI_SILENCE          seconds without a heartbeat until a host counts as gone
  kStallWarning,          // TUTTI_STALL_WARNING    seconds that a call waits before it is reported; 0: never
  kDumpDir,               // TUTTI_DUMP_DIR         where a communicator that fails writes its last operations
  kDumpSignal,            // TUTTI_DUMP_SIGNAL      the signal that asks for them: a number for integer(), 0: none
  kAlgorithm,             // TUTTI_ALGO             name, or collective:name;collective:name
  kChunkBytes,            // TUTTI_CHUNK_BYTES      largest chunk; 0: chosen
  kChannels,              // TUTTI_CHANNELS         0: chosen
  kRingBytes,             // TUTTI_RING_BYTES       slot ring of a rank and channel; 0: twice the L2 cache
  kTuningFile,            // TUTTI_TUNING_FILE      what `tutti tune` has measured; its contents must agree
  kCheck,                 // TUTTI_CHECK            what is checked that costs time: none or memory
};
inline constexpr std::size_t kSettings = static_cast<std::size_t>(Setting::kCheck) + 1;

// Ports from first to last, as TUTTI_PORTS has them; both 0: any.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;

  bool any() const { return first == 0; }
  int size() const { return last - first + 1; }
  constexpr std::int64_t pack() const { return std::int64_t{first} << 16 | last; }
  static constexpr PortRange unpack(std::int64_t number) {
    return {static_cast<std::uint16_t>(number >> 16), static_cast<std::uint16_t>(number & 0xFFFF)};
  }
};

// The TUTTI_ names of all settings.
std::vector<std::string_view> setting_names();

// The settings of one communicator: the environment's values, overridden by Options::config. Immutable.
class Config {
 public:
  // Every setting at its default.
  Config();
  // Reads the environment. Throws Error(kInvalidSetting) naming the variable, its value and what is allowed.
  // An empty variable counts as not given. NCCL_ names stand in for missing TUTTI_ ones; a value of theirs that means
  // nothing here is logged and ignored.
  static Config from_environment();
  // The same from any look-up, which answers null for a variable that is not set.
  static Config from_environment(const std::function<const char*(const char*)>& environment);
  // Whatever of the environment and of named values on top can be read; the rest is at its default. For telling others
  // about what cannot.
  static Config readable(const std::map<std::string, std::string>& overrides);
  // A copy with named values on top ("TUTTI_SILENCE" → "5"); unknown names and bad values throw in the same way.
  Config with(const std::map<std::string, std::string>& overrides) const;

  // integer(), flag() and duration() are 0 when there is no value.
  const std::string& text(Setting setting) const;
  std::int64_t integer(Setting setting) const;
  bool flag(Setting setting) const;
  std::chrono::milliseconds duration(Setting setting) const;
  // Whether it was given at all, by whichever name.
  bool given(Setting setting) const;
  // The name under which it was given, else its TUTTI_ name: for messages.
  std::string given_name(Setting setting) const;

  // Name, value, where it came from and meaning of every setting, one line each. Secrets are not shown.
  std::string describe() const;
  // Hash over the settings that must be equal on all ranks.
  std::uint64_t agreement_hash() const;
  // "NAME=value" of those settings, for the message when they are not.
  std::string agreement_text() const;

 private:
  struct Value {
    std::string text;         // in its standard spelling
    std::int64_t number = 0;  // of numbers and flags; durations in milliseconds
    std::string origin;       // the name it was given under, "" when it is the default
  };
  void set(Setting setting, const char* name, std::string_view text);
  std::vector<Value> values_;
};

}  // namespace tutti
