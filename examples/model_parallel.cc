// A model that is spread over ranks in three ways at once, with a communicator for each made by split:
//
//   pipeline   layers: stage 0 sends its activations to stage 1, one micro-batch after the other
//   tensor     one matrix: each rank has half of its columns, then half of the next one's rows, and the halves add up
//   expert     tokens: each is sent to the rank that has its expert, as many to each as the router decides, and back
//
//   mpirun -n 8 build/examples/model_parallel
//
// Every rank of the last stage compares its results with those of the whole model, computed on its own.

#include <tutti/tutti.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "matrix.h"

namespace {

constexpr int kStages = 2;
constexpr int kExperts = 2;
constexpr int kTensor = 2;
constexpr int kRanks = kStages * kExperts * kTensor;
constexpr std::size_t kWidth = 64;
constexpr std::size_t kHidden = 128;
constexpr std::size_t kTokens = 40;  // of a micro-batch
constexpr int kMicroBatches = 6;

// The weights of a stage, the same for everybody who asks.
Matrix up(int stage) { return Matrix::random(kWidth, kHidden, static_cast<unsigned>(10 + stage)); }
Matrix down(int stage) { return Matrix::random(kHidden, kWidth, static_cast<unsigned>(20 + stage)); }
Matrix expert_of(int stage, int expert) {
  return Matrix::random(kWidth, kWidth, static_cast<unsigned>(30 + stage * kExperts + expert));
}

// Most tokens go to expert 0: what is sent to each is uneven, and different in every micro-batch.
std::size_t route(const float* token) { return token[0] + token[1] > 0.8F ? 1 : 0; }

// What a rank has of its stage.
class Stage {
 public:
  Stage(int stage, tutti::Communicator& tensor, tutti::Communicator& experts)
      : tensor_(tensor), experts_(experts), up_(kWidth, kHidden / kTensor), down_(kHidden / kTensor, kWidth) {
    const Matrix whole_up = up(stage);
    const Matrix whole_down = down(stage);
    const std::size_t first = kHidden / kTensor * static_cast<std::size_t>(tensor.rank());
    for (std::size_t r = 0; r < kWidth; ++r) std::copy_n(whole_up.row(r) + first, up_.columns, up_.row(r));
    for (std::size_t r = 0; r < down_.rows; ++r) std::copy_n(whole_down.row(first + r), kWidth, down_.row(r));
    expert_ = expert_of(stage, experts.rank());
  }

  Matrix run(const Matrix& input) {
    Matrix hidden = multiply(input, up_);
    rectify(hidden);
    Matrix sum = multiply(hidden, down_);
    tensor_.all_reduce(std::span<const float>(sum.values), std::span<float>(sum.values));
    return mix(sum);
  }

 private:
  // Each token visits its expert.
  Matrix mix(const Matrix& tokens) {
    std::vector<std::size_t> order(tokens.rows);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return route(tokens.row(a)) < route(tokens.row(b)); });
    Matrix sorted(tokens.rows, kWidth);
    std::vector<std::size_t> sent(kExperts);  // elements to each expert
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::copy_n(tokens.row(order[i]), kWidth, sorted.row(i));
      sent[route(tokens.row(order[i]))] += kWidth;
    }
    std::vector<std::size_t> received(kExperts);
    experts_.all_to_all(std::span<const std::size_t>(sent), std::span<std::size_t>(received));

    Matrix visitors(std::accumulate(received.begin(), received.end(), std::size_t{0}) / kWidth, kWidth);
    experts_.all_to_all_v(sorted.values.data(), sent, {}, visitors.values.data(), received, {}, tutti::DataType::kF32);
    const Matrix answers = multiply(visitors, expert_);
    experts_.all_to_all_v(answers.values.data(), received, {}, sorted.values.data(), sent, {}, tutti::DataType::kF32);

    Matrix output(tokens.rows, kWidth);
    for (std::size_t i = 0; i < order.size(); ++i) std::copy_n(sorted.row(i), kWidth, output.row(order[i]));
    return output;
  }

  tutti::Communicator& tensor_;
  tutti::Communicator& experts_;
  Matrix up_;
  Matrix down_;
  Matrix expert_;
};

Matrix input_of(int batch, int shard) {
  Matrix input = Matrix::random(kTokens, kWidth, static_cast<unsigned>(1000 + batch * kExperts + shard));
  for (float& value : input.values) value *= 6;
  return input;
}

// The whole model, without any communication.
Matrix reference(Matrix tokens) {
  for (int stage = 0; stage < kStages; ++stage) {
    Matrix hidden = multiply(tokens, up(stage));
    rectify(hidden);
    const Matrix sum = multiply(hidden, down(stage));
    std::vector<Matrix> answers;
    for (int expert = 0; expert < kExperts; ++expert) answers.push_back(multiply(sum, expert_of(stage, expert)));
    for (std::size_t r = 0; r < sum.rows; ++r) {
      std::copy_n(answers[route(sum.row(r))].row(r), kWidth, tokens.row(r));
    }
  }
  return tokens;
}

float largest_difference(const Matrix& a, const Matrix& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    largest = std::max(largest, std::abs(a.values[i] - b.values[i]));
  }
  return largest;
}

int run() {
  auto world = tutti::Communicator::from_environment();
  if (world.ranks() != kRanks) {
    if (world.rank() == 0) std::fprintf(stderr, "start it with %d ranks: mpirun -n %d …\n", kRanks, kRanks);
    return 2;
  }
  const int stage = world.rank() / (kExperts * kTensor);
  const int shard = world.rank() / kTensor % kExperts;
  const int part = world.rank() % kTensor;
  tutti::Communicator tensor = *world.split(stage * kExperts + shard, part, {.name = "tensor"});
  tutti::Communicator experts = *world.split(stage * kTensor + part, shard, {.name = "expert"});
  tutti::Communicator pipeline = *world.split(shard * kTensor + part, stage, {.name = "pipeline"});

  Stage own(stage, tensor, experts);
  tutti::HostStream stream;
  std::vector<Matrix> activations(kMicroBatches, Matrix(kTokens, kWidth));
  std::vector<tutti::Work> moving;
  if (stage > 0) {  // all receives are posted before the first arrives
    for (Matrix& batch : activations) {
      moving.push_back(pipeline.recv(std::span<float>(batch.values), stage - 1, 0, stream));
    }
  }
  float difference = 0;
  for (int batch = 0; batch < kMicroBatches; ++batch) {
    Matrix& tokens = activations[static_cast<std::size_t>(batch)];
    if (stage == 0) {
      tokens = own.run(input_of(batch, shard));
      // Goes out while the next micro-batch is computed.
      moving.push_back(pipeline.send(std::span<const float>(tokens.values), stage + 1, 0, stream));
    } else {
      moving[static_cast<std::size_t>(batch)].wait();
      difference = std::max(difference, largest_difference(own.run(tokens), reference(input_of(batch, shard))));
    }
  }
  for (const tutti::Work& work : moving) work.wait();

  world.all_reduce(std::span<const float>(&difference, 1), std::span<float>(&difference, 1), tutti::kMax);
  if (world.rank() == 0) {
    std::printf("%d micro-batches through %d stages, %d-way tensor and %d-way expert parallel: off by at most %.1e\n",
                kMicroBatches, kStages, kTensor, kExperts, difference);
  }
  return difference < 1e-3F ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::name(error.code()), error.what());
    return 1;
  }
}
