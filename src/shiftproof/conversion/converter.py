"""Make a network shift-proof with one call.

The steps: trace the network, find its sites (operations with a stride), group those whose maps meet again, rebuild
each at stride 1 with a downsampling layer behind the norm and activation that follow, set the padding, check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd
from torch.utils.flop_counter import FlopCounterMode

from shiftproof import checks
from shiftproof.conversion.capture import ConversionError, run, trace
from shiftproof.conversion.report import ConversionReport
from shiftproof.conversion.rewrite import rewrite
from shiftproof.conversion.verify import verify
from shiftproof.layers import Downsample, create_downsample
from shiftproof.maps.padding import BORDERS

_SIZES = (64, 224, 32, 28, 128)  # tried in turn where the caller gives no example


def convert(
    model: nn.Module,
    method: str | Callable[..., Downsample] = "ghs",
    padding: str | None = "circular",
    *,
    example: Tensor | None = None,
    strict: bool = True,
    **options: Any,
) -> nn.Module:
    """A new network with the parameters of `model` that downsamples by `method`; `model` is left untouched.

    * with `ghs` and circular padding the new network is exactly invariant: in evaluation mode every circular shift of
      the input gives the same bits; conversion checks it on an example, stage by stage and as a whole;
    * `state_dict` has the same keys for methods without parameters, others only add keys: weights load before or after;
    * `method="strided", padding=None` gives the source network to rounding.

    Every convolution or pooling with a stride is done at stride 1, and the method makes its output smaller behind the
    norm and activation that follow (before a 1 x 1 convolution without activation, as in a shortcut). Maps that meet
    again share one selection. `padding` is set on every convolution and pooling, with as much of it as keeps the size
    of the map; None leaves it as it is, and then no law is promised.

    `example` is a batch of inputs (B, C, H, W); without it sizes are tried until one fits. What cannot be traced or
    made exact is a `ConversionError` that says where and what to do; with `strict=False` it is left and listed in
    `conversion_report(model)`. `options` are those of the method. The weights were trained without the new layers and
    want fine-tuning.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> net = convert(net, "ghs").eval()
    >>> x = torch.rand(2, 3, 32, 32)
    >>> bool((net(x) == net(x.roll((5, 9), (2, 3)))).all())
    True
    """
    if padding is not None:
        checks.choice("padding", padding, BORDERS)
    create_downsample(method, 1, 2, padding or "zeros", **options)  # wrong names and options are refused at once
    traced = trace(model)
    modes = {name: m.training for name, m in traced.named_modules()}
    traced.eval()
    x, values = _example(traced, model, example)

    def make(channels: int, stride: tuple[int, ...]) -> Downsample:
        return create_downsample(method, channels, stride, padding or "zeros", x.dim() - 2, **options)

    front, layer = make(x.shape[1], (2,) * (x.dim() - 2)).split()
    name = method if isinstance(method, str) else getattr(method, "__name__", str(method))
    law = "exact-invariant" if front is not None else layer.law if padding == "circular" else "none"
    report = ConversionReport(name, padding, law, flops_before=_flops(traced, x), example=list(x.shape))
    if front is None or not layer.in_convolution:
        rewrite(traced, values, lambda *a: make(*a).split()[1], padding, strict, report)
    else:
        report.notes.append("The network behind the alignment is left as it is, its padding too.")
    if front is not None:
        _insert(traced, front)
    traced.graph.lint()
    traced.recompile()
    try:
        report.flops_after = _flops(traced, x)
    except RuntimeError as error:
        changed = f" ({', '.join(report.resized)})" if report.resized else ""
        raise ConversionError(
            f"the converted network does not run: {error}. Its maps are larger where the source did not keep their "
            f"size{changed}; a head that flattens maps was made for the old size: give those layers a padding that "
            f"keeps the size, or the network a pooling before its head."
        ) from error
    verify(traced, x, report, strict, aligned=front is not None)
    for path in traced.meta.pop("untraced"):
        report.notes.append(f"`{path}` could not be traced and is left as it is, padding included.")
    report.notes.append("The weights were trained without these layers: they want fine-tuning.")
    traced.meta["shiftproof"] = report  # survives copying
    vars(traced)["shiftproof_report"] = report  # survives pickling
    for path, module in traced.named_modules():
        module.training = modes.get(path, model.training)
    return traced


def conversion_report(model: nn.Module) -> ConversionReport:
    """What `convert` did to make this network."""
    report = getattr(model, "shiftproof_report", None) or getattr(model, "meta", {}).get("shiftproof")
    if not isinstance(report, ConversionReport):
        raise ValueError(f"`model` ({type(model).__name__}) must come from `convert`: it has no report.")
    return report


def _example(traced: fx.GraphModule, model: nn.Module, example: Tensor | None) -> tuple[Tensor, dict[fx.Node, Any]]:
    """Inputs that the network accepts, and what each of its nodes gives for them."""
    if example is not None:
        checks.floating("example", example)
        if example.dim() < 3:
            raise ValueError(f"`example` (shape {tuple(example.shape)}) must be a batch of inputs (B, C, H, W).")
        return example, run(traced, example)
    first = next((m for m in model.modules() if isinstance(m, _ConvNd)), None)
    channels, ndim = (3, 2) if first is None else (first.in_channels, len(first.kernel_size))
    parameter = next(model.parameters(), torch.empty(0))
    errors = []
    for size in _SIZES:
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(2, channels, *[size] * ndim, generator=generator).to(parameter)
        try:
            return x, run(traced, x)
        except Exception as error:
            errors.append(f"{size}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
    raise ConversionError(
        f"the network accepts no input of shape (2, {channels}, size..) with size {'; '.join(errors)}. "
        f"Give it one that fits as `example`."
    )


def _insert(traced: fx.GraphModule, front: nn.Module) -> None:
    """Put a layer right behind the input."""
    traced.add_submodule("align", front)
    entry = next(node for node in traced.graph.nodes if node.op == "placeholder")
    with traced.graph.inserting_after(entry):
        aligned = traced.graph.call_module("align", (entry,))
    entry.replace_all_uses_with(aligned, delete_user_cb=lambda user: user is not aligned)


def _flops(traced: fx.GraphModule, x: Tensor) -> int:
    """Of convolutions and matrix products, per image."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        traced(x)
    return int(counter.get_total_flops() // x.shape[0])
