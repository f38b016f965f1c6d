#include "bootstrap/id_text.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include "tutti/error.h"

namespace tutti {
namespace {

IdParts parts(int roots = 2) {
  IdParts id;
  id.nonce = random_nonce();
  id.secret = Key::random();
  for (int i = 0; i < roots; ++i) {
    id.roots.push_back(i % 2 == 0 ? HostPort{"10.1.0." + std::to_string(i), 4000} : HostPort{"fe80::1%eth0", 4001});
  }
  return id;
}

TEST(IdText, ReadsBackWhatItWrote) {
  const IdParts id = parts();
  const std::string text = format_id(id);
  EXPECT_TRUE(looks_like_id(text));
  EXPECT_EQ(text.find_first_of(" \t\n"), std::string::npos);
  const IdParts back = parse_id(text);
  EXPECT_EQ(back.nonce, id.nonce);
  EXPECT_TRUE(equal_in_constant_time(back.secret.bytes(), id.secret.bytes()));
  EXPECT_EQ(back.roots, id.roots);
  EXPECT_EQ(format_id(back), text);
}

TEST(IdText, StaysWithinItsLengthWhateverTheNumberOfAddresses) {
  IdParts id = parts(100);
  EXPECT_EQ(parse_id(format_id(id)).roots.size(), kMaxIdRoots);
  for (HostPort& root : id.roots) root = {"fe80:1111:2222:3333:4444:5555:6666:7777%averylongname00", 65000};
  EXPECT_LE(format_id(id).size(), kMaxIdText);
  EXPECT_GT(parse_id(format_id(id)).roots.size(), 5u);
  EXPECT_THROW(format_id(parts(0)), Error);
}

TEST(IdText, RefusesEveryCutAndEveryChange) {
  const std::string text = format_id(parts());
  for (std::size_t i = 0; i < text.size(); ++i) {
    EXPECT_THROW(parse_id(text.substr(0, i)), Error) << i;
    std::string changed = text;
    changed[i] = changed[i] == '7' ? '8' : '7';
    EXPECT_THROW(parse_id(changed), Error) << i;
  }
  EXPECT_THROW(parse_id(text + " "), Error);
  EXPECT_THROW(parse_id(text + "\n"), Error);
}

// Also with a check that fits. Found by fuzzing: hosts with a blank, a hash or a second bracket were taken.
TEST(IdText, RefusesAddressesThatItWouldNotWrite) {
  for (const HostPort& odd : {HostPort{"fd00::1#4 0", 5}, HostPort{"10.1.0.1", 4000}}) {
    IdParts id = parts(1);
    const std::string right = format_id(id);
    const std::size_t addresses = right.rfind('/', right.rfind('/') - 1) + 1;
    const std::string spelling = odd.host == "10.1.0.1" ? "10.1.0.1:04000" : odd.text();
    const std::string body = right.substr(0, addresses) + spelling;
    const Key hash = Key::from_text(body);
    std::string check(16, '\0');
    sodium_bin2base64(check.data(), check.size(), reinterpret_cast<const unsigned char*>(hash.bytes().data()), 6,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    EXPECT_THROW(parse_id(body + "/" + check.c_str()), Error) << spelling;
  }
}

TEST(IdText, RefusesWhatIsNoIdAndNeverQuotesIt) {
  for (const std::string& bad :
       {std::string(), std::string("node1:4000"), std::string("tutti1/"), std::string("tutti1////"),
        std::string("tutti2/secretsecret"), std::string(100'000, 'a')}) {
    try {
      parse_id(bad);
      ADD_FAILURE() << bad.substr(0, 20);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(std::string(error.what()).find("secretsecret"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tutti
