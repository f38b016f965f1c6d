#include "perf/meter.h"

#include <utility>

namespace tutti::perf {

Meter::Meter(Communicator communicator, Watchdog::Slot& slot) : communicator_(std::move(communicator)), slot_(slot) {}

void Meter::start_together() {
  // A rank that waited long in the first barrier has gone to sleep and leaves it late; in the second all are awake.
  barrier();
  barrier();
}

void Meter::barrier() {
  const Watched watched(slot_);
  communicator_.barrier();
}

double Meter::wait_for_common_start() {
  const Watched watched(slot_);
  double moment = start_.proposal();
  communicator_.all_reduce(&moment, &moment, 1, DataType::kF64, kMax);
  return start_.wait_until(moment);
}

std::vector<double> Meter::combine(std::vector<double> values, Average how) {
  const Watched watched(slot_);
  double* data = values.data();
  switch (how) {
    case Average::kRankZero:
      communicator_.broadcast(data, data, values.size(), DataType::kF64, 0);
      break;
    case Average::kAverage:
      communicator_.all_reduce(data, data, values.size(), DataType::kF64, kAvg);
      break;
    case Average::kMin:
      communicator_.all_reduce(data, data, values.size(), DataType::kF64, kMin);
      break;
    case Average::kMax:
      communicator_.all_reduce(data, data, values.size(), DataType::kF64, kMax);
      break;
  }
  return values;
}

double Meter::sum(double value) {
  const Watched watched(slot_);
  communicator_.all_reduce(&value, &value, 1, DataType::kF64, kSum);
  return value;
}

void Meter::gather_bytes(const void* input, void* output, std::size_t bytes) {
  const Watched watched(slot_);
  communicator_.all_gather(input, output, bytes, DataType::kU8);
}

}  // namespace tutti::perf
