"""What moves the weights: the learning rate of every step, the optimizer, and what a checkpoint keeps of it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

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

    A network may say by `decay_share(name)` what share of `weight_decay` and `l1` a parameter gets; otherwise it is 1.
    """
    share = getattr(model, "decay_share", lambda name: 1.0)
    parameters: dict[float, list[nn.Parameter]] = {}
    for name, p in model.named_parameters():
        parameters.setdefault(share(name), []).append(p)
    groups = [{"params": p, "weight_decay": s * optim.weight_decay, "l1": s * optim.l1} for s, p in parameters.items()]
    if optim.name == "adam":
        return torch.optim.Adam(groups, lr=optim.lr, betas=(optim.momentum, 0.999))
    return torch.optim.SGD(groups, lr=optim.lr, momentum=optim.momentum, nesterov=optim.nesterov)


def pull(optimizer: torch.optim.Optimizer) -> None:
    """Add the gradient of l1 * |p|."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.add_(p.detach().sign(), alpha=group["l1"])


def tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Weights and statistics, and what the optimizer remembers of every parameter, by name."""
    out = {f"model.{name}": t for name, t in model.state_dict().items()}
    for name, p in model.named_parameters():
        for kind, value in optimizer.state.get(p, {}).items():
            if value is not None:
                out[f"optimizer.{kind}.{name}"] = value
    return out


def restore(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    saved: dict[str, Tensor],
    state: dict[str, Any],
) -> None:
    """Put back what `tensors` took."""
    model.load_state_dict({k.partition(".")[2]: t for k, t in saved.items() if k.startswith("model.")})
    parameters = dict(model.named_parameters())
    for key, value in saved.items():
        what, _, rest = key.partition(".")
        if what == "optimizer":
            kind, _, name = rest.partition(".")
            p = parameters[name]
            if kind != "step":  # a counter
                # in the memory layout of the parameter: another one may round differently
                value = torch.empty_like(p).copy_(value).detach()
            optimizer.state[p][kind] = value
    if state["scaler"]:
        scaler.load_state_dict(state["scaler"])
