// Data-parallel training: every rank has its own samples and a copy of the model. While the gradients of one layer are
// being added up over all ranks on a stream, the backward pass computes those of the layer before.
//
//   mpirun -n 2 build/examples/data_parallel
//
// Prints the loss, and which share of the communication was hidden behind the computation.

#include <tutti/tutti.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "matrix.h"

namespace {

constexpr std::size_t kWidth = 192;
constexpr std::size_t kLayers = 6;
constexpr std::size_t kSamples = 96;  // of one rank, per step
constexpr std::size_t kBucket = 2;    // layers whose gradients travel together
constexpr int kSteps = 30;
constexpr float kRate = 0.05F;

using Clock = std::chrono::steady_clock;
double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// All weights in one piece, and so all gradients: a bucket is a range of it. Memory of tutti::allocate is added up
// where it lies, without a copy.
class Parameters {
 public:
  static constexpr std::size_t kLayer = kWidth * kWidth;
  static constexpr std::size_t kAll = kLayers * kLayer;
  Parameters() : data_(static_cast<float*>(tutti::allocate(kAll * sizeof(float)))) {}
  ~Parameters() { tutti::deallocate(data_); }
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;
  float* layer(std::size_t l) { return data_ + l * kLayer; }
  std::span<float> all() { return {data_, kAll}; }
  std::span<float> bucket(std::size_t first) { return {layer(first), kBucket * kLayer}; }

 private:
  float* data_;
};

void forward(const float* weights, const Matrix& input, Matrix& output) {
  output = Matrix(input.rows, kWidth);
  for (std::size_t r = 0; r < input.rows; ++r) {
    for (std::size_t k = 0; k < kWidth; ++k) {
      for (std::size_t c = 0; c < kWidth; ++c) output.row(r)[c] += input.row(r)[k] * weights[k * kWidth + c];
    }
  }
  rectify(output);
}

// From the gradient of a layer's output to those of its weights and of its input.
void backward(const float* weights, const Matrix& input, const Matrix& output, Matrix& gradient, float* of_weights) {
  Matrix of_input(input.rows, kWidth);
  std::memset(of_weights, 0, Parameters::kLayer * sizeof(float));
  for (std::size_t r = 0; r < input.rows; ++r) {
    for (std::size_t c = 0; c < kWidth; ++c) gradient.row(r)[c] *= output.row(r)[c] > 0 ? 1.0F : 0.0F;
    for (std::size_t k = 0; k < kWidth; ++k) {
      float sum = 0;
      for (std::size_t c = 0; c < kWidth; ++c) {
        of_weights[k * kWidth + c] += input.row(r)[k] * gradient.row(r)[c];
        sum += weights[k * kWidth + c] * gradient.row(r)[c];
      }
      of_input.row(r)[k] = sum;
    }
  }
  gradient = std::move(of_input);
}

// The identity and something random, mixed.
Matrix near_identity(float identity, float noise, unsigned seed) {
  Matrix matrix = Matrix::random(kWidth, kWidth, seed);
  for (float& value : matrix.values) value *= noise;
  for (std::size_t i = 0; i < kWidth; ++i) matrix.row(i)[i] += identity;
  return matrix;
}

// A model that nobody knows but whose answers are to be learnt.
Matrix teacher(const Matrix& input) {
  Matrix answers = multiply(input, near_identity(0.5F, 0.5F, 4711));
  rectify(answers);
  return answers;
}

struct Times {
  double communication = 0;  // from the start to the end of each all_reduce
  double exposed = 0;        // of which: the program had nothing to do but wait
};

class Trainer {
 public:
  explicit Trainer(tutti::Communicator& world) : world_(world) {
    for (std::size_t l = 0; l < kLayers; ++l) {
      const Matrix start = near_identity(1, 0.1F, static_cast<unsigned>(100 * world.rank() + static_cast<int>(l)));
      std::copy(start.values.begin(), start.values.end(), weights_.layer(l));
    }
    // Rank 0's start is everybody's.
    world.broadcast(weights_.all(), 0);
  }

  // Returns the mean loss over the samples of all ranks.
  float step(int number, Times& times) {
    const Matrix input =
        Matrix::random(kSamples, kWidth, static_cast<unsigned>(1000 + number * world_.ranks() + world_.rank()));
    std::vector<Matrix> outputs(kLayers + 1);
    outputs[0] = input;
    for (float& value : outputs[0].values) value *= 10;
    const Matrix wanted = teacher(outputs[0]);
    for (std::size_t l = 0; l < kLayers; ++l) forward(weights_.layer(l), outputs[l], outputs[l + 1]);

    float loss = 0;
    Matrix gradient = outputs[kLayers];
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      const float difference = gradient.values[i] - wanted.values[i];
      loss += difference * difference / static_cast<float>(gradient.values.size());
      gradient.values[i] = 2 * difference / static_cast<float>(kSamples);
    }

    std::vector<tutti::Work> works;
    for (std::size_t l = kLayers; l-- > 0;) {
      backward(weights_.layer(l), outputs[l], outputs[l + 1], gradient, gradients_.layer(l));
      if (l % kBucket != 0) continue;
      const std::span<float> bucket = gradients_.bucket(l);
      works.push_back(world_.all_reduce(std::span<const float>(bucket), bucket, tutti::kAvg, stream_));
    }
    const auto begin = Clock::now();
    for (const tutti::Work& work : works) work.wait();
    times.exposed += seconds(Clock::now() - begin);
    for (const tutti::Work& work : works) times.communication += seconds(work.ended() - work.started());

    for (std::size_t i = 0; i < Parameters::kAll; ++i) weights_.all()[i] -= kRate * gradients_.all()[i];
    world_.all_reduce(std::span<const float>(&loss, 1), std::span<float>(&loss, 1), tutti::kAvg);
    return loss;
  }

  // Whether every rank still has the same model, to the last bit.
  bool in_step() {
    std::vector<float> lowest(Parameters::kAll);
    std::vector<float> highest(Parameters::kAll);
    world_.all_reduce(std::span<const float>(weights_.all()), std::span<float>(lowest), tutti::kMin);
    world_.all_reduce(std::span<const float>(weights_.all()), std::span<float>(highest), tutti::kMax);
    return std::memcmp(lowest.data(), highest.data(), Parameters::kAll * sizeof(float)) == 0;
  }

 private:
  tutti::Communicator& world_;
  tutti::HostStream stream_;
  Parameters weights_;
  Parameters gradients_;
};

int train() {
  auto world = tutti::Communicator::from_environment();
  Trainer trainer(world);
  Times times;
  float first = 0;
  float last = 0;
  for (int step = 0; step < kSteps; ++step) {
    last = trainer.step(step, times);
    if (step == 0) first = last;
    if (world.rank() == 0 && (step % 10 == 0 || step + 1 == kSteps)) std::printf("step %2d  loss %.4f\n", step, last);
  }
  const bool in_step = trainer.in_step();
  if (world.rank() == 0) {
    std::printf("%d ranks, %d steps: %.1f ms of communication, %.0f %% hidden behind the backward pass; models %s\n",
                world.ranks(), kSteps, times.communication * 1e3, 100 * (1 - times.exposed / times.communication),
                in_step ? "identical" : "DIFFER");
  }
  return in_step && last < first / 2 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return train();
  } catch (const tutti::Error& error) {
    std::fprintf(stderr, "%s: %s\n", tutti::name(error.code()), error.what());
    return 1;
  }
}
