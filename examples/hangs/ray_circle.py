"""Two actors wait for each other's result.

---
needs: [ray]
state: hung
accept: [ray-wait]
laggards: []
"""

import os
import time

import ray


@ray.remote(num_cpus=0)
class Party:
    def meet(self, other):
        return ray.get(other.answer.remote())

    def wait_for(self, other):
        time.sleep(0.5)  # both are in their own call by then
        return ray.get(other.answer.remote())

    def answer(self):
        return 1


ray.init(num_cpus=2, include_dashboard=False, _temp_dir=os.environ["HANG_FOLDER"])
trainer, rollout = Party.remote(), Party.remote()
waiting = [trainer.wait_for.remote(rollout), rollout.wait_for.remote(trainer)]
print("ready", flush=True)
ray.get(waiting)
