"""Random small networks: a plain description that shrinks, and the program it stands for, which is what runs."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn

from helpers.laws import stir

SIZE = (12, 10)
CHANNELS = 2
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Step:
    """One more value, made from the one that is `back` steps older than the newest (and, to join, from another)."""

    kind: str
    back: int = 0
    other: int = 0
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    padded: bool = True


@dataclass(frozen=True)
class Graph:
    steps: tuple[Step, ...]
    head: str = "mean"


ACTIVATIONS = {"relu": "F.relu({0})", "gelu": "F.gelu({0})", "hardswish": "F.hardswish({0})", "tanh": "{0}.tanh()"}
NORMS = {"batch norm": "nn.BatchNorm2d({0})", "layer norm": "nn.GroupNorm(1, {0})"}
KINDS = ["conv", "block", "max pool", "avg pool", *NORMS, *ACTIVATIONS, "add", "cat", "mul"]
HEADS = ["mean", "flatten", "map"]

_steps = st.builds(
    Step,
    kind=st.sampled_from(KINDS),
    back=st.integers(0, 4),
    other=st.integers(0, 4),
    kernel=st.integers(1, 7),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    groups=st.sampled_from([1, 2, 4]),
    padded=st.booleans(),
)
graphs = st.builds(Graph, st.lists(_steps, min_size=1, max_size=8).map(tuple), st.sampled_from(HEADS)).filter(
    lambda graph: re.search("stride=[23]", source(graph)) is not None
)


class _Writer:
    """Collects the lines of a program, and the shape (C, H, W) of each of its values."""

    def __init__(self) -> None:
        self.layers: list[str] = []
        self.lines: list[tuple[str, str, set[str]]] = []  # a value, its expression, the values in it
        self.shapes: dict[str, Shape] = {"x": (CHANNELS, *SIZE)}

    def layer(self, code: str) -> str:
        name = f"self.layer{len(self.layers)}"
        self.layers.append(f"{name} = {code}")
        return name

    def value(self, code: str, shape: Shape, *of: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append((name, code, set(of)))
        self.shapes[name] = shape
        return name

    def pick(self, back: int) -> str:
        return list(self.shapes)[-1 - back % len(self.shapes)]

    def window(self, step: Step, shape: Shape, kernel: int, dilation: int) -> tuple[str, Shape]:
        """The arguments of a convolution or pooling that fits, and what it leaves of a map."""
        span = dilation * (kernel - 1)
        padding = span // 2 if step.padded else 0
        height, width = ((n + 2 * padding - span - 1) // step.stride + 1 for n in shape[1:])
        if min(height, width) < 1:
            return self.window(step, shape, 1, 1)
        words = f"{kernel}, stride={step.stride}, padding={padding}"
        return words + (f", dilation={dilation}" if dilation > 1 else ""), (shape[0], height, width)

    def conv(self, step: Step, source: str, out: int) -> str:
        shape = self.shapes[source]
        groups = step.groups if shape[0] % step.groups == 0 and out % step.groups == 0 else 1
        words, (_, *left) = self.window(step, shape, step.kernel, step.dilation)
        words += f", groups={groups}" if groups > 1 else ""
        layer = self.layer(f"nn.Conv2d({shape[0]}, {out}, {words})")
        return self.value(f"{layer}({source})", (out, left[0], left[1]), source)

    def block(self, step: Step, source: str) -> str:
        """A residual block, its shortcut a convolution of size 1."""
        padded = Step("conv", kernel=step.kernel | 1, stride=step.stride)
        main = self.conv(padded, source, 4)
        norm = self.layer("nn.BatchNorm2d(4)")
        main = self.value(f"F.relu({norm}({main}))", self.shapes[main], main)
        main = self.conv(Step("conv", kernel=3), main, 4)
        short = self.conv(Step("conv", stride=step.stride), source, 4)
        return self.value(f"{main} + {short}", self.shapes[main], main, short)

    def join(self, step: Step, source: str) -> None:
        """Two maps of one size, the older one as near to what was asked for as there is."""
        c, *size = self.shapes[source]
        fits = [v for v, s in self.shapes.items() if [*s[1:]] == size and (step.kind == "cat" or s[0] == c)]
        other = fits[-1 - step.other % len(fits)]
        if step.kind == "cat":
            total = c + self.shapes[other][0]
            self.value(f"torch.cat([{source}, {other}], 1)", (total, size[0], size[1]), source, other)
        else:
            sign = "+" if step.kind == "add" else "*"
            self.value(f"{source} {sign} {other}", self.shapes[source], source, other)

    def step(self, step: Step) -> None:
        source = self.pick(step.back)
        shape = self.shapes[source]
        if step.kind == "conv":
            self.conv(step, source, 4)
        elif step.kind == "block":
            self.block(step, source)
        elif step.kind in ("max pool", "avg pool"):
            kernel = min(max(step.kernel, 2), 3)
            words, left = self.window(step, shape, kernel, 1)
            name = "MaxPool2d" if step.kind == "max pool" else "AvgPool2d"
            self.value(f"{self.layer(f'nn.{name}({words})')}({source})", left, source)
        elif step.kind in NORMS:
            self.value(f"{self.layer(NORMS[step.kind].format(shape[0]))}({source})", shape, source)
        elif step.kind in ACTIVATIONS:
            self.value(ACTIVATIONS[step.kind].format(source), shape, source)
        else:
            self.join(step, source)


def source(graph: Graph) -> str:
    """The program: a class `Net` without anything that its output does not need."""
    writer = _Writer()
    for step in graph.steps:
        writer.step(step)
    out = writer.pick(0)
    c, h, w = writer.shapes[out]
    if graph.head != "map":
        code = f"{out}.mean((2, 3))" if graph.head == "mean" else f"{out}.flatten(1)"
        linear = writer.layer(f"nn.Linear({c if graph.head == 'mean' else c * h * w}, 3)")
        out = writer.value(f"{linear}({code})", (3, 1, 1), out)
    needed, lines = {out}, []
    for name, code, of in reversed(writer.lines):
        if name in needed:
            needed |= of
            lines.append(f"{name} = {code}")
    used = [layer for layer in writer.layers if any(layer.split()[0] + "(" in line for line in lines)]
    return "\n".join(
        [
            "import torch, torch.nn.functional as F",
            "from torch import nn",
            "class Net(nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            *(f"        {line}" for line in used),
            "    def forward(self, x):",
            *(f"        {line}" for line in reversed(lines)),
            f"        return {out}",
        ]
    )


def build(graph: Graph) -> nn.Module:
    """The network in evaluation mode, with weights that do not depend on the graphs before it."""
    namespace: dict[str, Any] = {}
    exec(source(graph), namespace)
    make: Callable[[], nn.Module] = namespace["Net"]
    torch.manual_seed(0)
    model = make()
    stir(model)
    return model.eval()


def images(batch: int = 1) -> torch.Tensor:
    return torch.rand(batch, CHANNELS, *SIZE, generator=torch.Generator().manual_seed(1))
