"""One rank compiles its code anew, function after function, and the others wait in the first step.

---
ranks: 3
needs: [torch]
state: slow
accept: [none, compile-skew, straggler, python-loop]
"""

import ast

import torch
import torch.distributed as dist


def source(number):
    return "\n".join(f"def layer_{number}_{each}(x):\n    return x * {each} + {number}" for each in range(300))


def optimise(tree):
    return ast.fix_missing_locations(ast.NodeTransformer().visit(tree))


def compile_model():
    functions = {}
    for number in range(1_000_000_000):
        tree = optimise(ast.parse(source(number)))
        exec(compile(tree, f"layer-{number}", "exec"), functions)
        functions.clear()


dist.init_process_group("gloo")
print("ready", flush=True)
if dist.get_rank() == 0:
    compile_model()
dist.all_reduce(torch.ones(4))
