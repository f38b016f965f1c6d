#include "communicator/statistics_json.h"

namespace tutti {

void write_statistics(JsonWriter& json, const Statistics& statistics) {
  json.begin_object();
  json.key("collectives").begin_object();
  for (const auto& [name, counted] : statistics.collectives) {
    if (counted.calls == 0) continue;
    json.key(name).begin_object().field("calls", counted.calls).field("bytes", counted.bytes).end_object();
  }
  json.end_object();
  json.key("waited_for").begin_array();
  for (std::size_t r = 0; r < statistics.waited_for.size(); ++r) {
    const Statistics::Waited& waited = statistics.waited_for[r];
    if (waited.calls == 0) continue;
    json.begin_object().field("rank", r).field("calls", waited.calls).field("seconds", waited.seconds).end_object();
  }
  json.end_array();
  json.field("messages_read_in_place", statistics.messages_read_in_place);
  json.field("setup_seconds", statistics.setup_seconds);
  json.field("discovery_seconds", statistics.discovery_seconds);
  json.end_object();
}

std::string Statistics::to_json() const {
  JsonWriter json;
  write_statistics(json, *this);
  return json.take();
}

}  // namespace tutti
