"""The driver waits for an actor that gets on; another actor has nothing to do.

---
needs: [ray]
state: slow
accept: [none, ray-wait, straggler, user-code]
"""

import os

import ray


@ray.remote(num_cpus=0)
class Trainer:
    def clean(self, words):
        return [word.strip() for word in words]

    def count(self, words):
        found = {}
        for word in words:
            found[word] = found.get(word, 0) + 1
        return found

    def train(self):
        while True:
            words = self.clean([f" {number % 97} " for number in range(50_000)])
            self.count(words)

    def ping(self):
        return 1


ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
trainer, idle = Trainer.remote(), Trainer.remote()
ray.get([trainer.ping.remote(), idle.ping.remote()])
running = trainer.train.remote()
print("ready", flush=True)
ray.get(running)
