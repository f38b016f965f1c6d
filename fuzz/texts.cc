// Texts that come from users and launchers: unique ids (as arguments, settings, values of a store, answers of the
// hand-out), host:port, addresses, lists of hosts and of interface names, files with a secret.
#include <fcntl.h>
#include <fmt/format.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "base/handles.h"
#include "base/name_filter.h"
#include "base/net/address.h"
#include "bootstrap/id_text.h"
#include "bootstrap/launcher.h"
#include "bootstrap/membership.h"
#include "bootstrap/secret.h"
#include "fuzz/input.h"
#include "fuzz/target.h"
#include "tutti/error.h"
#include "tutti/unique_id.h"

namespace tutti::fuzz {
namespace {

enum class Kind : std::uint8_t { kId, kCheckedId, kHostPort, kAddress, kOpenMpi, kSlurm, kNames, kSecretFile, kCount };

// As id_text.cc makes it: without it no fuzzer gets past the first look.
std::string check_of(std::string_view body) {
  constexpr int kVariant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;
  const Key hash = Key::from_text(body);
  std::string text(sodium_base64_encoded_len(6, kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(hash.bytes().data()), 6, kVariant);
  text.pop_back();
  return text;
}

void take_id(const std::string& text) {
  const UniqueId id = UniqueId::parse(text);
  const Membership membership = membership_from_id(id, 0, 1);
  require(!membership.roots.empty() && membership.roots.size() <= kMaxIdRoots, "an id names some roots");
  require(hand_out_text(membership, membership.roots) == text, "an id has one spelling");
}

void take_secret_file(std::span<const std::byte> content) {
  static const UniqueFd file(::memfd_create("secret", MFD_CLOEXEC));
  static const Config config = [] {
    require(::fchmod(file.get(), 0600) == 0, "a file can have a mode");
    return Config().with({{"TUTTI_SECRET_FILE", fmt::format("/proc/self/fd/{}", file.get())}});
  }();
  require(::ftruncate(file.get(), 0) == 0 && ::pwrite(file.get(), content.data(), content.size(), 0) >= 0,
          "it is written");
  const FoundSecret found = find_secret(config, "");
  require(found.origin == SecretOrigin::kFile && !found.key.empty(), "a file that is taken gives a key");
}

void take(Kind kind, std::span<const std::byte> bytes) {
  const std::string text(text_of(bytes));
  switch (kind) {
    case Kind::kId:
      take_id(text);
      break;
    case Kind::kCheckedId:
      take_id("tutti1/" + text + "/" + check_of("tutti1/" + text));
      break;
    case Kind::kHostPort: {
      const HostPort place = HostPort::parse(text);
      require(place.port != 0 && !place.host.empty(), "a place has a host and a port");
      require(HostPort::parse(place.text()).text() == place.text(), "a place means the same when it is passed on");
      break;
    }
    case Kind::kAddress: {
      const SocketAddress address = SocketAddress::parse(text, 4000);
      require(SocketAddress::parse(address.host(), 4000) == address, "an address means the same when it is passed on");
      break;
    }
    case Kind::kOpenMpi:
      for (const std::string& host : hosts_of_open_mpi_uri(text)) require(!host.empty(), "a host has a name");
      break;
    case Kind::kSlurm:
      require(first_slurm_host(text).size() <= text.size(), "a host's name comes from the list");
      break;
    case Kind::kNames: {
      const NameFilter filter(text);
      for (const char* name : {"eth0", "lo", "docker0", "", "eth1.100"}) {
        require(filter.position(name) <= filter.items(), "a position is one of the list's");
        static_cast<void>(filter.matches(name));
      }
      break;
    }
    default:
      take_secret_file(bytes);
  }
}

}  // namespace

void run(std::span<const std::byte> bytes) {
  Input input(bytes);
  const auto kind = static_cast<Kind>(input.below(static_cast<unsigned>(Kind::kCount)));
  try {
    take(kind, input.rest());
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kInvalidSetting,
            "what cannot be understood is the user's to correct");
    require(std::string_view(error.what()).size() < 1000, "a message is bounded");
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&all](Kind kind, std::string_view text) {
    Bytes seed = {static_cast<std::byte>(kind)};
    const auto bytes = bytes_of(text);
    seed.insert(seed.end(), bytes.begin(), bytes.end());
    all.push_back(seed);
  };
  const std::string id = format_id({.nonce = {},
                                    .secret = Key::from_text("seed"),
                                    .roots = {{"10.1.0.1", 4000}, {"fd00::1", 4000}, {"fe80::1%lo", 5}}});
  add(Kind::kId, id);
  const std::size_t first = id.find('/') + 1;
  add(Kind::kCheckedId, id.substr(first, id.rfind('/') - first));
  add(Kind::kHostPort, "node1:4000");
  add(Kind::kHostPort, "[fd00::1]:4000");
  add(Kind::kAddress, "fe80::1%lo");
  add(Kind::kAddress, "::ffff:10.1.0.1");
  add(Kind::kOpenMpi, "1968308224.0;tcp://192.0.2.2,10.0.0.1:54999;tcp6://[fd00::2]:40329");
  add(Kind::kSlurm, "node[03-07,9],login1");
  add(Kind::kNames, "^=eth0, lo,,docker");
  add(Kind::kSecretFile, "a secret of enough characters\n");
  return all;
}

}  // namespace tutti::fuzz
