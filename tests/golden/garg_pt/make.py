#!/usr/bin/env python3
"""A state.pt as Garg et al.'s code leaves it (torch.save of model_state_dict, optimizer_state_dict, train_step), small.

usage: make.py [out_dir]     writes state.pt and expected.safetensors; config.yaml is written by hand in the form Quinine saves
The model is Hugging Face's GPT2Model between two torch.nn.Linear layers, with the mask buffers that versions of its time kept."""
import os
import sys

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2Model


class TransformerModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._read_in = torch.nn.Linear(3, 8)
        self._backbone = GPT2Model(GPT2Config(vocab_size=10, n_positions=14, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0,
                                              attn_pdrop=0.0, use_cache=False, attn_implementation="eager"))
        self._read_out = torch.nn.Linear(8, 1)

    def forward(self, xs, ys):
        b, n, d = xs.shape
        wide = torch.cat((ys.view(b, n, 1), torch.zeros(b, n, d - 1)), dim=2)
        tokens = torch.stack((xs, wide), dim=2).view(b, 2 * n, d)
        return self._read_out(self._backbone(inputs_embeds=self._read_in(tokens)).last_hidden_state)[:, ::2, 0]


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.manual_seed(5)
    model = TransformerModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    xs, ys = torch.randn(4, 6, 3), torch.randn(4, 6)
    for _ in range(3):
        optimizer.zero_grad()
        (model(xs, ys) - ys).square().mean().backward()
        optimizer.step()
    state = model.state_dict()
    weights = {name: value.clone() for name, value in state.items() if name != "_backbone.wte.weight"}
    for layer in range(2):
        state[f"_backbone.h.{layer}.attn.bias"] = torch.tril(torch.ones(14, 14, dtype=torch.uint8)).view(1, 1, 14, 14)
        state[f"_backbone.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    torch.save({"model_state_dict": state, "optimizer_state_dict": optimizer.state_dict(), "train_step": 3}, os.path.join(out, "state.pt"))
    with torch.no_grad():
        save_file({**weights, "xs": xs, "ys": ys, "pred": model(xs, ys).contiguous()}, os.path.join(out, "expected.safetensors"))


if __name__ == "__main__":
    main()
