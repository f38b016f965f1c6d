#pragma once

#include <atomic>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// The only spellings of atomics in the library. Every use names its partner in a comment: what one side publishes,
// the other observes. There is no stand-alone fence between them, so the thread sanitizer sees everything.
namespace tutti {

// A word that one side publishes and others observe, possibly from another process.
using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);

// Makes everything written before visible to whoever observes the new value.
inline void publish(Word& word, std::uint64_t value) { word.store(value, std::memory_order_release); }

// The same, and nothing that this thread writes afterwards is seen before the new value: for memory that is used for
// something else from now on. With observe_after_reads() on the other side.
inline void publish_before_reuse(Word& word, std::uint64_t value) {
#if defined(__aarch64__)
  publish(word, value);
  asm volatile("dmb ish" ::: "memory");  // a release store lets later stores pass
#else
  word.exchange(value, std::memory_order_seq_cst);  // also streaming stores come after it
#endif
}

// Reads the word; what its publisher wrote before is visible when the value is the one it published.
inline std::uint64_t observe(const Word& word) { return word.load(std::memory_order_acquire); }

// The same, after everything that this thread has read before: for a reader who must know whether what it read was
// still what the publisher meant. (What it read may be changing meanwhile, so it may not be used before.)
inline std::uint64_t observe_after_reads(const Word& word) {
#if defined(__aarch64__)
  asm volatile("dmb ishld" ::: "memory");
#else
  asm volatile("" ::: "memory");                    // x86-64 keeps the order of loads
#endif
  return observe(word);
}

// Reads a word that only this side writes, or a value that carries no data with it.
inline std::uint64_t peek(const Word& word) { return word.load(std::memory_order_relaxed); }

// Reads a word after everything that this thread has published, for a reader who only wants to know whether somebody
// waits to be told. The processor may look earlier than it should: whoever changes the word must make up for that with
// settle_all_processors() (store_barrier.h) before he relies on it. Costs no more than peek().
inline std::uint64_t glance(const Word& word) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler must not move it forward
  return peek(word);
}

// The same without anybody's help: a write to the word that changes nothing. Of this and a raise() of the word, either
// this sees the bits, or the other side finds what was published before.
inline std::uint64_t glance_in_turn(Word& word) { return word.fetch_add(0, std::memory_order_acq_rel); }

// Sets bits; returns what the word held before.
inline std::uint64_t raise(Word& word, std::uint64_t bits) { return word.fetch_or(bits, std::memory_order_acq_rel); }

// Writes a word that carries no data with it: whoever reads it acts on the value alone.
inline void note(Word& word, std::uint64_t value) { word.store(value, std::memory_order_relaxed); }

// Takes the next of a series of numbers; no two callers get the same.
inline std::uint64_t take_number(Word& word) { return word.fetch_add(1, std::memory_order_acq_rel); }

// Puts `value` in place of `expected`, if that is what the word holds: of several that try, one succeeds. What comes
// after it is not seen before it.
inline bool claim(Word& word, std::uint64_t expected, std::uint64_t value) {
  return word.compare_exchange_strong(expected, value, std::memory_order_acq_rel, std::memory_order_relaxed);
}

// Counts: no data goes with it.
inline void add(Word& word, std::uint64_t value) { word.fetch_add(value, std::memory_order_relaxed); }

// Between the last streaming store (StoreKind::kStreaming) and the publish() of what it has written. On x86-64 such
// stores pass the order of all others: a release store does not wait for them, and no sanitizer sees that. Elsewhere
// they are stores like others, which publish() orders.
inline void finish_streaming_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// The compiler makes the accesses before it before those after it: for memory that this thread has at two addresses.
// The processor does so anyway.
inline void keep_order() { std::atomic_signal_fence(std::memory_order_seq_cst); }

// What comes after it, reading a clock for example, waits for everything that was read before.
inline void finish_loads() {
#if defined(__x86_64__)
  _mm_lfence();
#elif defined(__aarch64__)
  asm volatile("dsb ishld\n\tisb" ::: "memory");
#endif
}

// Tells the core that this is a spin.
inline void relax_cpu() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// A lock for a few instructions that are almost never contended. Satisfies Lockable: used through std::lock_guard. Its
// holder may lose the processor, or take memory meanwhile: whoever waits for long yields, then sleeps, so that a thread
// of higher priority does not keep the processor from it.
class SpinLock {
 public:
  void lock() {
    if (!try_lock()) [[unlikely]]
      wait_and_lock();
  }
  bool try_lock() { return word_.exchange(1, std::memory_order_acquire) == 0; }
  void unlock() { word_.store(0, std::memory_order_release); }

 private:
  void wait_and_lock();

  Word word_{0};
};

}  // namespace tutti
