#include "sheaf/topo/host_list.hpp"

#include <cctype>
#include <cstdint>
#include <limits>
#include <unordered_map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::topo {
namespace {

// Of one host, and of a list.
constexpr int kMostSlots = 1 << 20;
constexpr std::int64_t kMostSlotsOfAll = std::numeric_limits<int>::max();

int parse_slots(std::string_view text, std::string_view host,
                const std::string& where) {
  const std::optional<int> slots = parse_count(text);
  SHEAF_CHECK(slots && *slots >= 1 && *slots <= kMostSlots, where, "host '",
              host, "' has '", printable(text, 40),
              "' slots; write a whole number from 1 to ", kMostSlots);
  return *slots;
}

// "a" or "a:2", also "[fe80::1]:2".
HostSlots parse_host(std::string_view item, const std::string& where) {
  const std::size_t bracket = item.rfind(']');
  const std::size_t colon =
      item.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view name = item.substr(0, colon);
  check_host_name(name, where);
  if (colon == std::string_view::npos) return {std::string(name), 1};
  return {std::string(name), parse_slots(item.substr(colon + 1), name, where)};
}

// A list of different hosts.
class HostList {
 public:
  void add(HostSlots host, const std::string& where) {
    const auto [known, is_new] = slots_of_.emplace(host.name, host.slots);
    SHEAF_CHECK(is_new, where, "host '", host.name,
                "' is listed twice; list it once with all its slots, such as ",
                host.name, ":", known->second + host.slots);
    total_ += host.slots;
    SHEAF_CHECK(total_ <= kMostSlotsOfAll, where, "the hosts up to '",
                host.name, "' have more than ", kMostSlotsOfAll, " slots");
    hosts_.push_back(std::move(host));
  }
  std::vector<HostSlots> take() { return std::move(hosts_); }
  bool is_empty() const { return hosts_.empty(); }

 private:
  std::vector<HostSlots> hosts_;
  std::unordered_map<std::string, int> slots_of_;
  std::int64_t total_ = 0;
};

HostSlots parse_line(std::string_view line, const std::string& where) {
  const auto items = words(line);
  HostSlots host = parse_host(items[0], where);
  for (std::size_t i = 1; i < items.size(); ++i) {
    const std::size_t equals = items[i].find('=');
    const std::string_view key = items[i].substr(0, equals);
    const bool has_value = equals != std::string_view::npos;
    SHEAF_CHECK(has_value && (key == "slots" || key == "max_slots" ||
                              key == "max-slots"),
                where, "'", printable(items[i], 60),
                "' is not valid after host '", host.name, "'; write slots=N");
    const int slots =
        parse_slots(items[i].substr(equals + 1), host.name, where);
    if (key == "slots") host.slots = slots;
  }
  return host;
}

}  // namespace

void check_host_name(std::string_view name, const std::string& where) {
  SHEAF_CHECK(!name.empty(), where,
              "a host name is missing; write host or host:slots");
  constexpr std::size_t kMostLetters = 255;  // of a name in the DNS
  SHEAF_CHECK(name.size() <= kMostLetters, where, "host name '",
              printable(name, 40), "' has more than ", kMostLetters,
              " characters");
  constexpr std::string_view kPunctuation = ".-_:[]%";
  for (const char letter : name)
    SHEAF_CHECK(std::isalnum(static_cast<unsigned char>(letter)) ||
                    kPunctuation.find(letter) != std::string_view::npos,
                where, "host name '", printable(name, 60), "' contains '",
                printable({&letter, 1}), "'");
  SHEAF_CHECK(name[0] != '-', where, "host name '", name,
              "' begins with '-', like an option");
}

std::vector<HostSlots> parse_host_list(std::string_view text) {
  HostList hosts;
  const std::string where = concat("host list '", printable(text), "': ");
  for (const std::string_view item : split(text, ','))
    hosts.add(parse_host(trim(item), where), where);
  return hosts.take();
}

std::vector<HostSlots> parse_host_file(std::string_view text,
                                       const std::string& file) {
  HostList hosts;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    const std::string where = concat(file, ":", ++number, ": ");
    const std::string_view content = trim(line.substr(0, line.find('#')));
    if (content.empty()) continue;
    hosts.add(parse_line(content, where), where);
  }
  SHEAF_CHECK(!hosts.is_empty(), file,
              ": lists no host; write one per line, "
              "such as 'a slots=2'");
  return hosts.take();
}

std::vector<HostSlots> read_host_file(const std::string& path) {
  return parse_host_file(read_file(path, kMostTextBytes), path);
}

int total_slots(const std::vector<HostSlots>& hosts) noexcept {
  int total = 0;
  for (const HostSlots& host : hosts) total += host.slots;
  return total;
}

}  // namespace sheaf::topo
