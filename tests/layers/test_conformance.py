"""Every downsampling method goes through the same suite: a constructor, and a slow, obvious oracle."""

import copy
import io
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from helpers.laws import (
    DTYPES,
    TOLERANCE,
    all_shifts,
    at,
    best_position,
    between_borders,
    blur_oracle,
    max_oracle,
    outside,
    phase_scores,
    stir,
)
from helpers.tracers import DYNAMIC, quiet, to_onnx
from shiftproof import layers
from shiftproof.ghs.kernel import GHS, GHS_PAPER, Kernel, Local
from shiftproof.ghs.matrix import sampling_matrix
from shiftproof.ghs.sampler import find_pivot
from shiftproof.ghs.sampling import ghs2d
from shiftproof.invariance import assert_shift_equivariant, assert_shift_invariant, same_bits
from shiftproof.layers import (
    APS,
    LAWS,
    LPS,
    Align,
    AvgPool,
    Downsample,
    MixedPool,
    StochasticPool,
    blur,
    create_downsample,
    methods,
    stochastic_pool,
)
from shiftproof.layers.ghs import PAPER

pytestmark = quiet
PADDINGS = ["circular", "reflect", "replicate", "zeros"]


def starts(x: Tensor, stride: int) -> list[tuple[int, ...]]:
    return list(all_shifts(tuple(-(-m // stride) for m in x.shape[2:])))


def empty(x: Tensor, stride: int) -> Tensor:
    return torch.zeros(*x.shape[:2], *(-(-m // stride) for m in x.shape[2:]), dtype=x.dtype)


def strided_oracle(layer: Downsample, x: Tensor) -> Tensor:
    out = empty(x, layer.stride[0])
    for j in starts(x, layer.stride[0]):
        at(out, j).copy_(at(x, [a * layer.stride[0] for a in j]))
    return out


def align_oracle(layer: Downsample, x: Tensor) -> Tensor:
    """Brute force over all positions, then a roll."""
    assert isinstance(layer, Align)
    return strided_oracle(layer.inner, aligned(x, [m // 2 for m in x.shape[2:]]))


def aligned(x: Tensor, origin: list[int], counts: Sequence[int] = ()) -> Tensor:
    """Turned to the maximum, or with `counts` to that of the best phase."""
    rows = []
    for sample in x:
        best = sample.amax(0)
        p = best_position(phase_scores(best, counts) if counts else best, [sample])
        rows.append(sample.roll([o - q for o, q in zip(origin, p)], tuple(range(1, sample.dim()))))
    return torch.stack(rows)


def window(x: Tensor, j: tuple[int, ...], stride: int, padding: str) -> list[Tensor]:
    """The values (B, C) of the window at output position j."""
    found = [outside(x, tuple(a * stride + b for a, b in zip(j, o)), padding) for o in all_shifts((stride,) * len(j))]
    return [v for v in found if v is not None]


def avg_oracle(layer: Downsample, x: Tensor) -> Tensor:
    s, padding = layer.stride[0], str(layer.padding)
    out = empty(x, s)
    for j in starts(x, s):
        at(out, j).copy_(torch.stack(window(x, j, s, padding)).sum(0) / s ** len(j))
    return out


def mixed_oracle(layer: Downsample, x: Tensor) -> Tensor:
    s = layer.stride[0]
    return 0.5 * max_oracle(x, s, s, str(layer.padding)) + 0.5 * avg_oracle(layer, x)


def stochastic_oracle(layer: Downsample, x: Tensor) -> Tensor:
    """In evaluation: every value weighted with its probability."""
    s, padding = layer.stride[0], str(layer.padding)
    out = empty(x, s)
    for j in starts(x, s):
        values = window(x, j, s, padding)
        for b in range(x.shape[0]):
            for c in range(x.shape[1]):
                a = [float(v[b, c]) for v in values]
                positive = [max(v, 0.0) for v in a]
                p = [v / sum(positive) for v in positive] if sum(positive) else [1 / len(a)] * len(a)
                out[(b, c, *j)] = sum(q * v for q, v in zip(p, a))
    return out


def convolved(x: Tensor, conv: Any, stride: int) -> Tensor:
    """A convolution by loops. (B, C, d1..dn) -> (B, C', N1..Nn)"""
    weight = conv.weight.detach()  # (C', C, k..)
    k = weight.shape[2]
    out = torch.zeros(x.shape[0], weight.shape[0], *empty(x, stride).shape[2:], dtype=x.dtype)
    for j in starts(x, stride):
        for o in all_shifts((k,) * len(j)):
            value = outside(x, tuple(a * stride + b - (k - 1) // 2 for a, b in zip(j, o)), conv.padding_mode)
            if value is not None:
                at(out, j).add_(value @ weight[(slice(None), slice(None), *o)].T)
    if conv.bias is not None:
        out += conv.bias.detach().view(-1, *[1] * (x.dim() - 2))
    return out


def adaptive_oracle(layer: Any, x: Tensor) -> Tensor:
    s, taps, groups = layer.stride[0], layer.taps, layer.groups
    norm: Any = layer.norm
    shape = [1, -1] + [1] * (x.dim() - 2)
    logits = convolved(x, layer.conv, s) - norm.running_mean.view(shape)
    logits = logits / (norm.running_var.view(shape) + norm.eps).sqrt()
    weights = (logits * norm.weight.view(shape) + norm.bias.view(shape)).detach()
    out = empty(x, s)
    per_group = x.shape[1] // groups
    for j in starts(x, s):
        for g in range(groups):
            w = at(weights, j)[:, g * taps**2 : (g + 1) * taps**2].softmax(1)  # (B, taps^2)
            for k, o in enumerate(all_shifts((taps,) * len(j))):
                value = outside(x, tuple(a * s + b - (taps - 1) // 2 for a, b in zip(j, o)), str(layer.padding))
                if value is not None:
                    channels = slice(g * per_group, (g + 1) * per_group)
                    at(out, j)[:, channels].add_(w[:, k : k + 1] * value[:, channels])
    return out


def component_oracle(layer: Any, x: Tensor, best: Callable[[list[Tensor]], int]) -> Tensor:
    """Split into components, let `best` choose one, blur, keep that one."""
    s = layer.stride[0]
    blurred = blur_oracle(x, 1, layer.taps, str(layer.padding))
    sizes = tuple(-(-m // s) * s for m in x.shape[2:])

    def grow(t: Tensor) -> Tensor:
        out = torch.zeros(*t.shape[:2], *sizes, dtype=t.dtype)
        for i in all_shifts(sizes):
            value = outside(t, i, str(layer.padding))
            if value is not None:
                at(out, i).copy_(value)
        return out

    grown = grow(x), grow(blurred)
    rows = []
    for b in range(x.shape[0]):
        where = [[slice(o, None, s) for o in k] for k in all_shifts((s,) * len(sizes))]
        k = best([at(grown[0][b], w) for w in where])
        rows.append(at(grown[1][b], where[k]))
    return torch.stack(rows)


def aps_oracle(layer: Downsample, x: Tensor) -> Tensor:
    return component_oracle(layer, x, lambda parts: int(torch.stack([p.square().sum() for p in parts]).argmax()))


def lps_oracle(layer: Any, x: Tensor) -> Tensor:
    def best(parts: list[Tensor]) -> int:
        logits = [
            float(convolved(convolved(p[None], layer.features, 1).clamp(min=0), layer.logit, 1).mean()) for p in parts
        ]
        return max(range(len(logits)), key=logits.__getitem__)

    return component_oracle(layer, x, best)


def ghs_oracle(kernel: Kernel, grid: str, centre: bool) -> Callable[[Downsample, Tensor], Tensor]:
    def oracle(layer: Downsample, x: Tensor) -> Tensor:
        counts = [-(-m // layer.stride[0]) for m in x.shape[2:]]
        if layer.padding != "circular":
            pivots = find_pivot(x, rule="phase", counts=counts)
            return between_borders(x, pivots, layer.stride[0], Local(0), str(layer.padding))
        out = aligned(x, [m // 2 if centre else 0 for m in x.shape[2:]], counts if centre else ())
        for axis, (m, n) in enumerate(zip(x.shape[2:], counts), start=2):
            matrix = torch.from_numpy(sampling_matrix(m, n, kernel, grid))
            out = torch.tensordot(out, matrix, ([axis], [1])).movedim(-1, axis)
        return out

    return oracle


@dataclass
class Case:
    """A method, what it claims, and what it should give."""

    oracle: Callable[[Any, Tensor], Tensor]
    law: str = "none"
    parameters: tuple[str, ...] = ()  # the keys it adds to a state_dict
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "strided": Case(strided_oracle),
    "align": Case(align_oracle, "exact-invariant"),
    "max": Case(lambda layer, x: max_oracle(x, layer.stride[0], layer.stride[0], str(layer.padding))),
    "avg": Case(avg_oracle),
    "stochastic": Case(stochastic_oracle),
    "mixed": Case(mixed_oracle, parameters=("logit",)),
    "lpf": Case(lambda layer, x: blur_oracle(x, layer.stride[0], layer.taps, str(layer.padding))),
    "lpf-adaptive": Case(
        adaptive_oracle,
        parameters=(
            "conv.weight",
            "norm.weight",
            "norm.bias",
            "norm.running_mean",
            "norm.running_var",
            "norm.num_batches_tracked",
        ),
    ),
    "aps": Case(aps_oracle, "equivariant"),
    "lps": Case(lps_oracle, "equivariant", ("features.weight", "features.bias", "logit.weight", "logit.bias")),
    "ghs": Case(ghs_oracle(GHS, "anchored", centre=True), "exact-invariant"),
    "ghs-paper": Case(ghs_oracle(GHS_PAPER, "inclusive", centre=False), "exact-invariant"),
}
every_method = pytest.mark.parametrize("method", CASES)


def make(method: str, channels: int = 3, **options: Any) -> Downsample:
    """The layer in evaluation mode, its parameters and statistics off their defaults."""
    layer = create_downsample(method, channels, **CASES[method].options, **options).eval()
    stir(layer)
    return layer


def test_the_suite_covers_every_method() -> None:
    assert set(CASES) == set(methods())


@every_method
@pytest.mark.parametrize("ndim", [1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_shape(method: str, stride: int, ndim: int) -> None:
    """ceil(M / stride) on each axis, at any size, keeping dtype and gradient; and `select` fits `forward`."""
    for sizes in ((7, 5, 4), (2, 1, 3)):
        x = torch.randn(2, 3, *sizes[:ndim], requires_grad=True)
        layer = make(method, stride=stride, ndim=ndim)
        y = layer(x)
        assert y.shape == (2, 3, *(-(-m // stride) for m in sizes[:ndim]))
        assert torch.autograd.grad(y.sum(), x)[0].shape == x.shape
        assert same_bits(layer(x, layer.select(x)), y)
        assert layer(torch.zeros(0, 3, *sizes[:ndim])).shape == (0, *y.shape[1:])


@every_method
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("sizes", "stride"), [((6, 4), 2), ((5, 7), 2), ((4, 8), 3), ((1, 2), 2)])
def test_oracle(method: str, sizes: tuple[int, int], stride: int, padding: str) -> None:
    x = torch.randn(2, 4, *sizes, dtype=torch.float64)
    layer = make(method, channels=4, stride=stride, padding=padding).double()
    with torch.no_grad():
        assert torch.allclose(layer(x), CASES[method].oracle(layer, x), atol=1e-12)


@every_method
def test_ties_do_not_disturb_the_oracle(method: str) -> None:
    x = torch.randint(0, 2, (3, 2, 4, 4)).double()
    layer = make(method, channels=2).double()
    if method not in ("aps", "lps"):  # which take the first of two equal components as they come
        with torch.no_grad():
            assert torch.allclose(layer(x), CASES[method].oracle(layer, x), atol=1e-12)


FUNCTIONS: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "strided": lambda layer, x: layers.subsample(x),
    "align": lambda layer, x: layers.subsample(layers.roll_to_pivot(x, find_pivot(x))),
    "max": lambda layer, x: layers.max_pool(x),
    "avg": lambda layer, x: layers.avg_pool(x),
    "stochastic": lambda layer, x: layers.stochastic_pool(x),
    "mixed": lambda layer, x: layers.mixed_pool(x, 0.5),
    "lpf": lambda layer, x: layers.blur_pool(x),
    "lpf-adaptive": lambda layer, x: layers.filter_pool(x, layer.weights(x)),
    "aps": lambda layer, x: layers.polyphase_pool(layers.blur_pool(x, 1), layers.select_component(x)),
    "lps": lambda layer, x: layers.polyphase_pool(layers.blur_pool(x, 1), layer.logits(x).argmax(1)),
    "ghs": lambda layer, x: ghs2d(x),
    "ghs-paper": lambda layer, x: ghs2d(x, **PAPER),
}


@every_method
def test_module_is_function(method: str) -> None:
    x = torch.randn(2, 3, 8, 7)
    layer = make(method)
    assert same_bits(layer(x), FUNCTIONS[method](layer, x))


@every_method
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtype(method: str, dtype: torch.dtype) -> None:
    """The result in the dtype of the input, as exact as that allows; autocast changes nothing without parameters."""
    x = torch.rand(2, 3, 8, 6).to(dtype)
    layer = make(method).to(dtype)
    wide = copy.deepcopy(layer).double()
    selection = wide.select(x.double())
    y = layer(x, selection)
    assert y.dtype == dtype
    assert torch.allclose(y.double(), wide(x.double(), selection), atol=TOLERANCE[dtype])
    if not CASES[method].parameters:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert same_bits(layer(x, selection), y)


@every_method
def test_channels_last(method: str) -> None:
    x = torch.randn(2, 8, 9, 6)
    layer = make(method, channels=8)
    assert torch.allclose(layer(x.contiguous(memory_format=torch.channels_last)), layer(x), atol=1e-5)


@every_method
def test_gradient(method: str) -> None:
    """In the input and in the parameters."""
    layer = make(method, channels=2).double()
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in layer.named_parameters()]
    values = [p.detach().clone().requires_grad_() for p in layer.parameters()]

    def f(x: Tensor, *parameters: Tensor) -> Any:
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (x,))

    assert torch.autograd.gradcheck(f, (x, *values))


@every_method
def test_state_dict(method: str) -> None:
    """Methods without parameters add no key: checkpoints stay interchangeable."""
    layer = make(method, channels=4, stride=(2, 3))
    assert tuple(layer.state_dict()) == CASES[method].parameters
    twin = create_downsample(method, channels=4, stride=(2, 3)).eval()
    twin.load_state_dict(layer.state_dict())
    x = torch.randn(2, 4, 8, 6)
    assert same_bits(twin(x), layer(x))


@every_method
def test_pickling(method: str) -> None:
    """pickle, deepcopy and torch.save keep the layer and its words."""
    layer = make(method, stride=(2, 3))
    x = torch.randn(2, 3, 8, 6)
    stored = io.BytesIO()
    torch.save(layer, stored)
    stored.seek(0)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(stored, weights_only=False)):
        assert same_bits(twin(x), layer(x))
        assert repr(twin) == repr(layer)


def claims_hold(layer: Downsample, x: Tensor) -> None:
    """Not less and not more than it claims."""
    tests: dict[str, Callable[[], None]] = {
        "exact-invariant": lambda: assert_shift_invariant(layer, x),
        "equivariant": lambda: assert_shift_equivariant(layer, x, tolerance=1e-6),
    }
    for law, test in tests.items():
        if law == layer.law:
            test()
        else:
            with pytest.raises(AssertionError, match=r"not (in|equi)variant"):
                test()


@every_method
@pytest.mark.parametrize("padding", PADDINGS)
def test_law(method: str, padding: str) -> None:
    """The law it claims holds, and no other; a border that does not wrap ends the law of those that pad."""
    layer = make(method, padding=padding)
    pads = method in ("aps", "lps", "ghs") and padding != "circular"
    assert layer.law == ("none" if pads else CASES[method].law)
    assert layer.law in LAWS
    claims_hold(layer, torch.randn(2, 3, 8, 8))


def test_without_anything_to_pad_aps_is_equivariant_whatever_the_padding() -> None:
    claims_hold(APS(taps=1, padding="zeros"), torch.randn(2, 3, 8, 8))


@pytest.mark.parametrize("size", [30, 31])
def test_polyphase_law_ends_at_sizes_that_do_not_divide(size: int) -> None:
    """30 pixels halve once and then not again; the measure shows it."""
    x = torch.randn(1, 2, size, size)
    twice = nn.Sequential(APS(), APS())
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_shift_equivariant(twice, x, shifts=16, tolerance=1e-3)
    assert_shift_equivariant(nn.Sequential(APS(), APS()), x[..., :28, :28], shifts=16, tolerance=1e-5)


@pytest.mark.parametrize("method", ["aps", "lps"])
def test_polyphase_law_ends_at_ties(method: str) -> None:
    """Two equally good components: the first is taken whatever the shift."""
    layer = make(method, channels=1, ndim=1, taps=1)
    x = torch.tensor([[[3.0, 0.0, 4.0, 5.0]]])
    if method == "lps":
        for p in layer.parameters():
            p.data.zero_()
    with pytest.raises(AssertionError, match="not equivariant"):
        assert_shift_equivariant(layer, x, tolerance=1e-3)


@every_method
def test_inference_mode_does_not_spoil_training(method: str) -> None:
    """What is cached in inference mode must still be good for gradients."""
    x = torch.randn(1, 2, 11, 13)
    blur._cache.clear()
    layer = make(method, channels=2)
    with torch.inference_mode():
        layer(x)
    leaf = x.clone().requires_grad_()
    assert torch.autograd.grad(layer(leaf).sum(), leaf)[0].shape == x.shape


@every_method
def test_training_mode(method: str) -> None:
    """One step in training mode, with gradients for every parameter."""
    layer = make(method, channels=4).train()
    x = torch.randn(2, 4, 6, 6, requires_grad=True)
    layer.progress(0.5)
    layer(x).square().sum().backward()
    assert x.grad is not None
    for p in layer.parameters():
        assert p.grad is not None
        assert p.grad.isfinite().all()


@every_method
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda method: create_downsample(method, 3, stride=0), r"`stride` \(=0\) must be at least 1"),
        (lambda method: create_downsample(method, 3, stride=(2, 2, 2)), r"must have one entry per axis \(2\), not 3"),
        (lambda method: create_downsample(method, 3, ndim=4), r"`ndim` \(=4\) must be 1, 2 or 3"),
        (lambda method: create_downsample(method, 3, padding="mirror"), "`padding` .='mirror'. must be one of"),
        (lambda method: create_downsample(method, 3, wrong=1), r"has no option `wrong`; its options are"),
        (lambda method: make(method)(torch.ones(3, 8, 8)), "Add the batch axis"),
        (lambda method: make(method)(torch.ones(2, 3, 8, 8, dtype=torch.int64)), "must be a real floating tensor"),
        (lambda method: make(method)(torch.ones(2, 3, 0, 8)), "must not have a zero-sized axis"),
        (lambda method: make(method)([1.0]), "must be a torch.Tensor, not list"),
    ],
)
def test_errors(method: str, call: Callable[[str], Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        call(method)


@every_method
def test_selection_of_another_batch_is_refused(method: str) -> None:
    layer = make(method)
    selection = layer.select(torch.randn(3, 3, 8, 8))
    if not layer.selects:
        assert selection is None
        return
    with pytest.raises(ValueError, match=r"`selection` \(shape .*\) must have the shape"):
        layer(torch.randn(2, 3, 8, 8), selection)


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


TRACED = [m for m in CASES if m not in ("ghs", "ghs-paper")]  # those have a suite of their own, in test_tracing


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("method", TRACED)
def test_compile(method: str) -> None:
    layer = make(method)
    compiled = torch.compile(layer, fullgraph=True)
    x = torch.randn(2, 3, 9, 6)
    assert torch.allclose(compiled(x), layer(x), atol=1e-5)


@pytest.mark.parametrize("method", TRACED)
def test_export(method: str) -> None:
    """With a dynamic batch; tried at one it never saw."""
    layer = make(method)
    program = torch.export.export(layer, (torch.randn(3, 3, 8, 6),), dynamic_shapes={"x": {0: DYNAMIC}})
    for batch in (2, 5):
        x = torch.randn(batch, 3, 8, 6)
        assert torch.allclose(program.module()(x), layer(x), atol=1e-5)


@pytest.mark.parametrize("method", TRACED)
def test_onnx(method: str, tmp_path: Path) -> None:
    layer = make(method)
    run = to_onnx(layer, torch.randn(3, 3, 8, 6), tmp_path / "layer.onnx")
    x = torch.randn(2, 3, 8, 6)
    assert torch.allclose(run(x), layer(x), atol=1e-5)


def test_stochastic_pooling_draws_with_the_right_probability() -> None:
    """In training a window (1, 2, 3, 4) gives each value with probability 1/10 .. 4/10."""
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).expand(1, 20000, 2, 2)
    drawn = stochastic_pool(x, training=True).flatten()
    for value in (1, 2, 3, 4):
        assert abs(float((drawn == value).float().mean()) - value / 10) < 0.02
    layer = StochasticPool().train()
    torch.manual_seed(3)
    first = layer(x)
    torch.manual_seed(3)
    assert torch.equal(layer(x), first)


def test_stochastic_pooling_of_nothing_positive_is_uniform() -> None:
    x = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]]).expand(1, 8000, 2, 2)
    assert stochastic_pool(x).allclose(torch.tensor(-1.5))
    drawn = stochastic_pool(x, training=True)
    assert abs(float(drawn.mean()) + 1.5) < 0.05
    edge = stochastic_pool(-torch.ones(1, 1, 1, 1), padding="zeros")  # the border has no weight
    assert edge.item() == -1.0


def test_the_mixture_is_learnt_or_fixed() -> None:
    x = torch.randn(2, 3, 6, 6)
    assert torch.equal(MixedPool(mixture=1.0, learn=False)(x), layers.max_pool(x))
    assert torch.allclose(MixedPool(mixture=0.0, learn=False)(x), AvgPool()(x))
    layer = MixedPool(mixture=0.25)
    assert torch.allclose(torch.as_tensor(layer.mixture), torch.tensor(0.25))
    assert not list(MixedPool(learn=False).parameters())
    assert repr(MixedPool(learn=False)) == "MixedPool(stride=2, padding='circular', mixture=0.5, learn=False)"
    for bad in (-0.1, 1.5, True, "half"):
        with pytest.raises(ValueError, match=r"`mixture` .* must be a number from 0 to 1"):
            MixedPool(mixture=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="or set `learn=False`"):
        MixedPool(mixture=1.0)


def test_lps_mixes_softly_in_training_and_chooses_in_evaluation() -> None:
    layer = LPS(channels=2, temperature=(2.0, 0.01))
    x = torch.randn(3, 2, 8, 8)
    weights = layer.select(x)
    assert weights.shape == (3, 4)
    assert torch.allclose(weights.sum(1), torch.ones(3))
    layer.progress(1.0)
    assert float(layer.temperature) == pytest.approx(0.01)
    layer.progress(0.5)
    assert float(layer.temperature) == pytest.approx((2.0 * 0.01) ** 0.5)
    parts = layers.blur_pool(x, 1)
    mixture = sum(
        weights[:, k, None, None, None] * parts[:, :, i::2, j::2]
        for k, (i, j) in enumerate(all_shifts((2, 2)))
    )  # fmt: skip
    assert torch.allclose(layer(x, weights), torch.as_tensor(mixture), atol=1e-6)
    assert layer.eval().select(x).dtype == torch.int64
    with pytest.raises(ValueError, match="must be a pair"):
        LPS(channels=2, temperature=(1.0, 0.5, 0.1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"must have the shape \(3, 4\)"):
        layer(x, weights[:, :3])


def test_adaptive_filters_have_groups() -> None:
    layer = make("lpf-adaptive", channels=12, groups=3)
    weights = layer.weights(torch.randn(2, 12, 8, 6))  # type: ignore[operator]
    assert weights.shape == (2, 3, 9, 4, 3)
    assert torch.allclose(weights.sum(2), torch.ones(2, 3, 4, 3))
    assert torch.allclose(layer(torch.full((1, 12, 8, 6), 2.5)), torch.tensor(2.5))
    with pytest.raises(ValueError, match=r"`groups` \(=5\) must divide the number of channels \(=12\)"):
        create_downsample("lpf-adaptive", 12, groups=5)


def test_align_hands_its_options_on() -> None:
    layer = create_downsample("align", 3, inner="lpf", taps=5)
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(layer(x), layers.blur_pool(layers.roll_to_pivot(x, find_pivot(x)), taps=5))
    with pytest.raises(TypeError, match=r"method 'lpf' has no option `tap`"):
        create_downsample("align", 3, inner="lpf", tap=5)
    front, inner = layer.split()
    assert torch.equal(inner(front(x)), layer(x))  # type: ignore[misc]
    learned = Align(3, inner="lps")
    learned.progress(1.0)
    assert float(learned.inner.temperature) == pytest.approx(0.1)  # type: ignore[arg-type]
    assert layers.roll_to_pivot(torch.full((1, 1, 2, 2), torch.nan), torch.full((1, 2), -1)).isnan().all()


@pytest.mark.parametrize("inner", ["stochastic", "lps", "lpf-adaptive"])
def test_align_in_training(inner: str) -> None:
    """The same bits there too, for the same random numbers."""
    layer, x = create_downsample("align", 3, inner=inner).train(), torch.randn(2, 3, 4, 6).round()

    def f(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        out: Tensor = layer(x)
        return out

    for shift in all_shifts((4, 6)):
        assert same_bits(f(x.roll(shift, (2, 3))), f(x))
