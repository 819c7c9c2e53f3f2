"""One rank has no built extension in its cache and builds it; the compiler doesn't come back.

---
ranks: 2
needs: [torch]
state: hung
accept: [compile-skew]
tie: [straggler]
laggards: [rank1]
"""

import os

import torch
import torch.distributed as dist


def fused_kernel():
    compiler = os.path.join(os.environ["HANG_FOLDER"], "c++")
    with open(compiler, "w") as file:
        file.write("#!/bin/sh\nexec sleep 1000000\n")
    os.chmod(compiler, 0o755)
    os.environ["CXX"] = compiler
    os.environ["TORCH_EXTENSIONS_DIR"] = os.environ["HANG_FOLDER"]  # or the next start would meet this one's lock
    from torch.utils.cpp_extension import load_inline

    return load_inline("fused", cpp_sources="int one() { return 1; }", functions=["one"])


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 1:
    fused_kernel()
dist.all_reduce(torch.ones(4))
