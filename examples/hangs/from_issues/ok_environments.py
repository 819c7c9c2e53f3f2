"""Environments step in processes of their own, and the policy waits for the slowest of them, step after step.

As vectorised environments do it: one pipe each, all are asked, then all are heard.

---
state: slow
accept: [none, data-worker, straggler]
"""

import multiprocessing


class Environment:
    def __init__(self, seed):
        self.state = seed

    def physics(self, steps):
        x = self.state
        for _ in range(steps):
            x = (1103515245 * x + 12345) % 2**31
        self.state = x

    def step(self, action):
        self.physics(2_000_000 if self.state % 3 else 500_000)
        return self.state % 84, float(action)


def serve(pipe, seed):
    environment = Environment(seed)
    while True:
        command, action = pipe.recv()
        if command == "close":
            return
        pipe.send(environment.step(action))


class VectorEnvironment:
    def __init__(self, count):
        self.pipes = []
        for seed in range(count):
            ours, theirs = multiprocessing.Pipe()
            multiprocessing.Process(target=serve, args=(theirs, seed + 1), daemon=True).start()
            self.pipes.append(ours)

    def step(self, actions):
        for pipe, action in zip(self.pipes, actions, strict=True):
            pipe.send(("step", action))
        return [pipe.recv() for pipe in self.pipes]


if __name__ == "__main__":
    environments = VectorEnvironment(2)
    observations = environments.step([0, 0])
    print("ready", flush=True)
    while True:
        observations = environments.step([int(one[0]) % 4 for one in observations])
