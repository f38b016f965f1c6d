#include <array>

#include "executor/host_executor.h"

namespace tutti {
namespace {

constexpr std::array kRows = {
    ExecutorRow{
        "host",
        [](const ExecutorParts& parts) -> std::unique_ptr<Executor> { return std::make_unique<HostExecutor>(parts); }},
};

}  // namespace

std::span<const ExecutorRow> executor_rows() { return kRows; }

}  // namespace tutti
