"""The ranks cut their responses into different numbers of micro-batches.

Old log-probs are computed over micro-batches of a token budget. How many there are depends on the lengths of a rank's
own responses, and nobody agrees on one number: the process group that would do it isn't passed on. Every forward of
the sharded model gathers parameters, so a rank that has one micro-batch less leaves the loop while the others gather.
https://github.com/verl-project/verl/issues/6176

---
ranks: 3
needs: [torch]
state: hung
accept: [uneven-steps]
tie: [collective-mismatch]
laggards: [rank1]
"""

import datetime

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

VOCAB, HIDDEN = 128, 32
MAX_TOKEN_LEN = 256
# response lengths of one rank's share of the batch, a row a step
LENGTHS = {
    0: [(60, 70, 50, 64), (80, 90, 40, 44), (120, 150, 138, 126), (90, 60, 70, 64)],
    1: [(64, 64, 40, 64), (44, 80, 90, 40), (100, 110, 121, 90), (70, 64, 60, 90)],
    2: [(50, 70, 64, 60), (90, 84, 40, 40), (131, 148, 130, 133), (64, 60, 90, 70)],
}


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, 4 * HIDDEN)
        self.down = nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, hidden):
        return hidden + self.down(F.silu(self.up(self.norm(hidden))))


class CausalLM(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.lm_head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, input_ids):
        hidden = self.embed_tokens(input_ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.lm_head(hidden)


def build_fsdp_model(mesh):
    torch.manual_seed(0)
    model = CausalLM()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def prepare_dynamic_batch(responses, max_token_len, dp_group=None, same_micro_num_in_dp=True):
    """Responses into micro-batches of at most max_token_len tokens (seqlen_balancing.py)."""
    tokens = sum(len(r) for r in responses)
    count = torch.tensor(-(-tokens // max_token_len))
    if dist.is_initialized() and same_micro_num_in_dp and dp_group is not None:
        dist.all_reduce(count, op=dist.ReduceOp.MAX, group=dp_group)
    bins = [[] for _ in range(int(count))]
    for response in sorted(responses, key=len, reverse=True):
        min(bins, key=lambda b: sum(map(len, b))).append(response)
    return bins


class DataParallelPPOActor:
    def __init__(self, model, optimizer):
        self.actor_module = model
        self.actor_optimizer = optimizer

    def _forward_micro_batch(self, micro_batch):
        input_ids = torch.cat(micro_batch)[None]
        logits = self.actor_module(input_ids)
        return F.log_softmax(logits[:, :-1], -1).gather(-1, input_ids[:, 1:, None]).squeeze(-1)

    def compute_log_prob(self, responses):
        log_probs = []
        for micro_batch in prepare_dynamic_batch(responses, MAX_TOKEN_LEN):
            with torch.no_grad():
                log_probs.append(self._forward_micro_batch(micro_batch))
        return torch.cat(log_probs, dim=1)

    def update_policy(self, responses, old_log_prob):
        ratio = self._forward_micro_batch(responses[:1]) - old_log_prob[:, :1]
        loss = -ratio.exp().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.actor_module.parameters(), 1.0)
        self.actor_optimizer.step()
        self.actor_optimizer.zero_grad()
        return loss.detach()


class RayPPOTrainer:
    def __init__(self):
        self.rank = dist.get_rank()
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        model = build_fsdp_model(mesh)
        self.actor = DataParallelPPOActor(model, torch.optim.AdamW(model.parameters(), lr=1e-4))

    def generate_sequences(self, step):
        return [torch.randint(0, VOCAB, (n,)) for n in LENGTHS[self.rank][step]]

    def masked_entropy(self, old_log_prob):
        total = torch.stack([-old_log_prob.sum(), torch.tensor(float(old_log_prob.numel()))])
        dist.all_reduce(total)
        return (total[0] / total[1]).item()

    def fit(self):
        for step in range(4):
            responses = self.generate_sequences(step)
            if step == 2:
                print("ready", flush=True)
            old_log_prob = self.actor.compute_log_prob(responses)
            entropy = self.masked_entropy(old_log_prob)
            loss = self.actor.update_policy(responses, old_log_prob)
            if self.rank == 0:
                print(f"step {step} actor/entropy {entropy:.3f} actor/pg_loss {loss.item():.3f}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=6))
    RayPPOTrainer().fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
