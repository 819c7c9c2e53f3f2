"""One rank has the long responses; the others wait half a minute for it in every step, and then all go on.

The metrics of a rollout are reduced over all ranks as soon as each has generated. Rank 2 has the prompts that make
the model think for long and reports its progress rarely. Nothing is wrong but the balance.
https://github.com/verl-project/verl/issues/3908 (where such a wait runs into the timeout)

---
ranks: 3
needs: [torch]
state: slow
accept: [none]
laggards: [rank2]
"""

import datetime
import random
import time

import torch
import torch.distributed as dist
from torch import nn

VOCAB, HIDDEN = 512, 64


class TinyLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, HIDDEN)
        self.cell = nn.GRUCell(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB)

    def forward(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.head(state), state


class HFRollout:
    """A naive rollout engine: token by token, sequence by sequence."""

    def __init__(self, model, rank):
        self.model, self.rank = model, rank
        self.random = random.Random(rank)

    def response_length(self):
        if self.rank == 2:
            return self.random.randint(260, 320)
        return self.random.randint(15, 30)

    @torch.no_grad()
    def decode_one_token(self, token, state):
        logits, state = self.model(token, state)
        time.sleep(0.03)
        return torch.multinomial(logits.softmax(-1), 1).squeeze(-1), state

    def generate(self, prompt):
        token, state = prompt, torch.zeros(1, HIDDEN)
        tokens = []
        for _ in range(self.response_length()):
            token, state = self.decode_one_token(token, state)
            tokens.append(token)
        return torch.cat(tokens)

    def generate_sequences(self, prompts):
        return [self.generate(prompt) for prompt in prompts]


class GRPOTrainer:
    def __init__(self):
        self.rank = dist.get_rank()
        torch.manual_seed(0)
        self.model = TinyLM()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.rollout = HFRollout(self.model, self.rank)

    def reduce_metrics(self, responses):
        lengths = torch.tensor([float(len(r)) for r in responses])
        gathered = [torch.empty_like(lengths) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, lengths)
        return torch.cat(gathered)

    def update_actor(self, responses):
        state = torch.zeros(1, HIDDEN)
        loss = 0
        for token in responses[0][:8]:
            logits, state = self.model(token[None], state)
            loss = loss + logits.logsumexp(-1).mean()
        loss.backward()
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def fit(self):
        for step in range(100000):
            prompts = [torch.randint(0, VOCAB, (1,)) for _ in range(3)]
            if step == 0:
                print("ready", flush=True)
            responses = self.rollout.generate_sequences(prompts)
            lengths = self.reduce_metrics(responses)
            self.update_actor(responses)
            if self.rank == 0:
                print(f"step {step} response_length/mean {lengths.mean():.1f} max {lengths.max():.0f}", flush=True)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=6))
    GRPOTrainer().fit()


if __name__ == "__main__":
    main()
