#!/usr/bin/env python3
"""Compiles step, slot layout and every generator of src/collectives/ into one CUDA kernel, which nothing runs: whatever
would keep a device executor from using them shows here. Needs nvcc; says so and succeeds where there is none.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

GENERATOR = re.compile(r"^((?:template <[^>]*>\n)?)struct (\w+) (?:final )?\{(.*?)^\};", re.MULTILINE | re.DOTALL)

KERNEL = """
#include "schedule/peer_sets.h"
#include "schedule/step.h"
#include "transport/line.h"
%(includes)s

namespace tutti {

// Every step of every rank, folded into one number so that nothing is optimised away.
template <class Generator>
__device__ unsigned drain(const Layout& layout, int root) {
  unsigned sum = 0;
  for (int i = 0; i < Generator::steps(layout, root); ++i) {
    const Step step = Generator::step(layout, root, i);
    sum = sum * 31 + static_cast<unsigned>(step.kind) + step.source + step.destination + step.from + step.to;
    for_each_member(layout, step.from, [&sum](int rank) { sum += static_cast<unsigned>(rank); });
  }
  return sum;
}

__global__ void drain_all(Layout layout, int root, unsigned* sums, unsigned char* line) {
  line[offsetof(Line, epoch)] = line[offsetof(Line, payload)];
  layout.rank = static_cast<int>(blockIdx.x);
%(calls)s
}

}  // namespace tutti
"""


def main():
    if shutil.which("nvcc") is None:
        print("   not checked, there is no nvcc here")
        return 0
    root = pathlib.Path(__file__).resolve().parent.parent
    includes, generators = [], []
    for header in sorted((root / "src/collectives").glob("*.h")):
        found = [m.group(2) for m in GENERATOR.finditer(header.read_text())
                 if not m.group(1) and " step(const Layout&" in m.group(3)]
        if found:
            includes.append(f'#include "collectives/{header.name}"')
            generators += found
    calls = [f"  sums[{i}] = drain<{name}>(layout, root);" for i, name in enumerate(generators)]
    source = KERNEL % {"includes": "\n".join(includes), "calls": "\n".join(calls)}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "seam.cu"
        file.write_text(source)
        result = subprocess.run(
            ["nvcc", "-std=c++20", "-Werror", "cross-execution-space-call", "-I", str(root / "include"), "-I", str(root / "src"), "-ptx", str(file), "-o",
             str(file.with_suffix(".ptx"))], capture_output=True, text=True)
    if result.returncode != 0:
        print(result.stdout + result.stderr)
    print(f"   {len(generators)} generators: {', '.join(generators)}")
    return result.returncode


sys.exit(main())
