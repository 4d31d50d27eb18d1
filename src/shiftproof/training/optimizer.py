"""The optimizer, its learning rate in every step, and L1."""

from __future__ import annotations

import math

import torch
from torch import nn

from shiftproof.training.config import OptimConfig


def learning_rate(optim: OptimConfig, step: int, per_epoch: int) -> float:
    """The learning rate of a step, counted from 0.

    `"step"`: lr * gamma^(milestones passed). `"one-cycle"`: a straight line up to lr over the share `warm_up` of all
    steps, and a straight line down to 0 over the rest.
    """
    if optim.schedule == "step":
        return optim.lr * optim.gamma ** sum(step // per_epoch >= m for m in optim.milestones)
    done = (step + 0.5) / (optim.epochs * per_epoch)
    up = done / optim.warm_up if optim.warm_up else math.inf
    down = (1 - done) / (1 - optim.warm_up) if optim.warm_up < 1 else math.inf
    return optim.lr * min(up, down)


def make_optimizer(model: nn.Module, optim: OptimConfig) -> torch.optim.Optimizer:
    """The optimizer of a network's parameters; `momentum` is Adam's beta_1.

    A network with a method `decay_share(name)` sets the share of `weight_decay` and `l1` that each parameter gets.
    """
    share = getattr(model, "decay_share", lambda name: 1.0)
    parameters: dict[float, list[nn.Parameter]] = {}
    for name, p in model.named_parameters():
        parameters.setdefault(share(name), []).append(p)
    groups = [{"params": p, "weight_decay": s * optim.weight_decay, "l1": s * optim.l1} for s, p in parameters.items()]
    if optim.name == "adam":
        return torch.optim.Adam(groups, lr=optim.lr, betas=(optim.momentum, 0.999))
    return torch.optim.SGD(groups, lr=optim.lr, momentum=optim.momentum, nesterov=optim.nesterov)


def add_l1_gradient(optimizer: torch.optim.Optimizer) -> None:
    """Add the gradient of l1 * |p| to that of every parameter p."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.add_(p.detach().sign(), alpha=group["l1"])
