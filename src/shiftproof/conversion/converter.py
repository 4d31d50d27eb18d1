"""Make a network shift-proof with one call; `README.md` beside this file walks through the steps."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from shiftproof import checks
from shiftproof.conversion.capture import copy_before_in_place, node_values, trace
from shiftproof.conversion.error import ConversionError, listed
from shiftproof.conversion.example import Inputs, find_inputs
from shiftproof.conversion.frames import Values, input_size
from shiftproof.conversion.plan import Plan, make_plan
from shiftproof.conversion.report import ConversionReport, attach_report, find_report
from shiftproof.conversion.rewrite import Make, rewrite
from shiftproof.conversion.verify import check_stages, check_whole
from shiftproof.layers import Downsample, create_downsample, make_front
from shiftproof.maps.padding import BORDERS

PLACEMENTS = ("after", "before")


def convert(
    model: nn.Module,
    method: str | Callable[..., Downsample] = "ghs",
    padding: str | None = "circular",
    *,
    placement: str = "after",
    antialias: bool = False,
    example: Tensor | Sequence[Any] | Mapping[str, Any] | None = None,
    strict: bool = True,
    front: bool | None = None,
    subpixel: bool = False,
    **options: Any,
) -> nn.Module:
    """A new network with the parameters of `model` that downsamples by `method`; `model` is left untouched.

    * With `ghs` and circular padding the new network is exactly invariant: in evaluation mode every circular shift of
      the input gives the same bits, on any device, in any dtype, batch size and memory layout. The conversion checks on
      an example that the network is invariant to rounding, stage by stage and as a whole; then its input is rolled to
      its own pivot first (`layers.RollToPivot`), and it checks the bits.
    * `state_dict` has the same keys for methods without parameters; other methods only add keys. So weights can be
      loaded before or after the conversion.
    * `method="strided", padding=None` gives the original network, up to rounding.

    With `placement="after"` every convolution or pooling with a stride runs at stride 1. The method downsamples its
    output after the norm and activation that follow, or its input if it is a 1 x 1 convolution without activation, as
    in a shortcut. With `placement="before"` it keeps its stride, at its cost, and the method chooses on its input where
    it begins: the map is moved, by less than the stride where the stride divides its size. Maps that meet again share
    one selection. Fine-tune before use: the weights were trained without the new layers.

    Args:
        model: any network whose code does not decide by what tensors hold.
        method: a name of `methods()`, or a class or function that makes the layer.
        padding: the mode for every convolution and pooling, which then keep the size of the map. None leaves them
            as they are; nothing is guaranteed then.
        placement: `"after"` or `"before"` the operations with a stride. Only methods that choose where samples lie,
            such as `ghs` and `aps`, can be placed before.
        antialias: with `placement="before"`, also filter the map as the method does, at every pixel.
        example: a batch of inputs (B, C, H, W). By default several sizes are tried until one fits. For a network of
            several inputs, a tuple of them, or a dictionary by the names of its arguments. Maps of the same size show
            one scene: they move together.
        strict: raise a `ConversionError`, which says where and what to do, if something cannot be converted or made
            exact. If False, leave it as it is and list it in `conversion_report(model)`.
        front: whether the input is rolled to its pivot first. By default, where the network is exactly invariant;
            without it the network is invariant to rounding.
        subpixel: let the front take the fraction of a pixel out too, so that circular shifts by any real amount give
            the same answer.
        options: the options of the method.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    >>> net = convert(net, "ghs").eval()
    >>> x = torch.rand(2, 3, 32, 32)
    >>> bool((net(x) == net(x.roll((5, 9), (2, 3)))).all())
    True
    """
    if padding is not None:
        checks.choice("padding", padding, BORDERS)
    if checks.choice("placement", placement, PLACEMENTS) == "after" and antialias:
        raise ValueError(
            "`antialias=True` filters maps before operations that keep their stride: set `placement='before'`. With "
            "`placement='after'` the method filters by itself."
        )

    def make(channels: int, stride: tuple[int, ...]) -> Downsample:
        return create_downsample(method, channels, stride, padding or "zeros", len(stride), **options)

    with _own_random_numbers(model):
        make(1, (2, 2))  # refuses a wrong method or option before anything else happens
        inputs = find_inputs(model, example)
    name = method if isinstance(method, str) else getattr(method, "__name__", str(method))
    try:
        return _rebuild(model, inputs, make, name, padding, placement, antialias, strict, front, subpixel)
    except ValueError:  # a `ConversionError`, or arguments that do not fit each other
        raise
    except Exception as error:
        raise ConversionError(
            f"the converter failed: {type(error).__name__}: {checks.one_line(error)}.",
            "This is a mistake of shiftproof: please report it with the code of the network. Until then, convert the "
            "modules inside it one by one.",
        ) from error


def _rebuild(
    model: nn.Module,
    inputs: Inputs,
    make: Make,
    method: str,
    padding: str | None,
    placement: str,
    antialias: bool,
    strict: bool,
    front: bool | None,
    subpixel: bool,
) -> nn.Module:
    """`convert`, once its arguments are checked; `method` is what the report calls it."""
    x = inputs.first
    with _own_random_numbers(model):
        traced, untraced, differs, one_size = trace(model, inputs)
        copy_before_in_place(traced, inputs)
        values = node_values(traced, inputs)
        down = make(x.shape[1], (2,) * (x.dim() - 2))
        first, layer = make_front(down, padding, front, subpixel)
        if placement == "before" and not layer.starts:
            raise ValueError(
                f"`placement='before'` needs a method that chooses where samples lie, such as 'ghs' or 'aps': {layer} "
                f"does not. Use `placement='after'`."
            )
        flops_before = _flops(traced, inputs)
        aligned = layer is not down  # the network inside need not be invariant
        keep_strides = aligned and layer.in_convolution
        plan = None if keep_strides else _checked_plan(make_plan(traced, values), strict)
    # the new layers take their initial parameters, if any, from the user's random numbers, like any other layer
    replaced, padding_changed, size_changed = (
        rewrite(traced, values, plan, lambda *a: make(*a).split()[1], padding, placement, antialias)
        if plan
        else ([], [], [])
    )
    traced.graph.lint()
    traced.recompile()
    invariant = layer.law != "none" and padding == "circular" and not aligned
    law = "exact-invariant" if first is not None else "equivariant" if invariant else "none"
    with _own_random_numbers(model):
        flops_after = _flops_after(traced, inputs, size_changed)
        broken = check_stages(traced, inputs) if invariant else []
        if invariant and layer.exact and not broken:
            broken = check_whole(traced, inputs, exact=False)
        if first is not None:
            _insert_after_inputs(traced, first, values)
            broken = broken or check_whole(traced, inputs, exact=True)
    if broken and strict:
        raise ConversionError(
            f"the converted network would not be {law}:\n{listed(broken)}",
            "To convert it all the same, with these points in the report, pass `strict=False`.",
        )
    notes = [] if first is None else [f"The input is rolled to its pivot first: {first}."]
    notes += [] if plan else ["The network after the alignment is left as it is, including its padding."]
    notes += [f"`{path}` could not be traced and is left as it is, including its padding." for path in untraced]
    notes += [
        f"{_named(path)} does something else in training than in evaluation: this is its path in evaluation, in "
        f"fine-tuning too."
        for path in differs
    ]
    if one_size:
        sizes = " x ".join(map(str, x.shape[2:]))
        notes.append(f"The code makes Python numbers of sizes: this network takes inputs of {sizes} pixels alone.")
    report = ConversionReport(
        method=method,
        padding=padding,
        placement=placement,
        law="none" if broken else law,
        replaced=replaced,
        padding_changed=padding_changed,
        size_changed=size_changed,
        not_converted=[*(plan.problems if plan else []), *broken],
        notes=[*notes, "Fine-tune before use: the weights were trained without these layers."],
        flops_before=flops_before,
        flops_after=flops_after,
        example=list(x.shape),
    )
    attach_report(traced, report)
    modes = {path: m.training for path, m in model.named_modules()}
    for path, m in traced.named_modules():
        m.training = modes.get(path, model.training)
    return traced


def conversion_report(model: nn.Module) -> ConversionReport:
    """What `convert` did to make this network."""
    report = find_report(model)
    if report is None:
        raise ValueError(f"`model` ({type(model).__name__}) must come from `convert`: it has no report.")
    return report


@contextmanager
def _own_random_numbers(model: nn.Module) -> Iterator[None]:
    """Draw the same random numbers in every call, and none of the user's."""
    with torch.random.fork_rng(devices={p.device for p in model.parameters() if p.is_cuda}):
        torch.default_generator.manual_seed(0)
        yield


def _checked_plan(plan: Plan, strict: bool) -> Plan:
    """The plan, if it can be carried out."""
    if plan.problems and strict:
        raise ConversionError(
            f"cannot convert the whole network:\n{listed(plan.problems)}",
            "To convert the rest and list these points in the report, pass `strict=False`.",
        )
    if not plan.groups:
        raise ConversionError(
            f"nothing could be converted:\n{listed(plan.problems)}"
            if plan.problems
            else "nothing to convert: the network has no convolution or pooling with a stride above 1."
        )
    return plan


def _named(path: str) -> str:
    return f"`{path}`" if path else "The network"


def _insert_after_inputs(traced: fx.GraphModule, front: nn.Module, values: Values) -> None:
    """Put the front after the maps that come in; several are rolled as one, to one pivot."""
    graph = traced.graph
    traced.add_submodule("front", front)
    size = input_size(graph, values)
    given = [node for node in graph.nodes if node.op == "placeholder"]
    for before, node in itertools.pairwise(given):
        before.append(node)
    entries = [node for node in given if values[node].shape[2:] == size and values[node].is_floating_point()]
    readers = {entry: list(entry.users) for entry in entries}
    with graph.inserting_after(given[-1]):
        if len(entries) == 1:
            rolled = [graph.call_module("front", (entries[0],))]
        else:
            channels = [values[n].shape[1] for n in entries]
            parts = graph.call_function(torch.split, (entries[0], channels, 1))
            with graph.inserting_before(parts):
                joined = graph.call_module("front", (graph.call_function(torch.cat, (entries, 1)),))
            parts.replace_input_with(entries[0], joined)
            with graph.inserting_after(parts):
                rolled = [graph.call_function(operator.getitem, (parts, i)) for i in range(len(entries))]
    for entry, new in zip(entries, rolled):
        for reader in readers[entry]:
            reader.replace_input_with(entry, new)
    traced.recompile()


def _flops(traced: fx.GraphModule, inputs: Inputs) -> int:
    """Of convolutions and matrix products, per image."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        inputs.run(traced)
    return int(counter.get_total_flops() // len(inputs.first))


def _flops_after(traced: fx.GraphModule, inputs: Inputs, size_changed: list[str]) -> int:
    try:
        return _flops(traced, inputs)
    except RuntimeError as error:
        names = f" ({', '.join(size_changed)})" if size_changed else ""
        raise ConversionError(
            f"the converted network does not run: {error}. Maps are larger now where the original layers did not keep "
            f"their size{names}, and a head that flattens them fits the old size only.",
            "Give those layers a padding that keeps the size, or the network a pooling before its head; or pass "
            "`padding=None`, which keeps all sizes but guarantees nothing.",
        ) from error
