"""The configuration of a training run: one tree of dataclasses, checked on construction.

It is made from a preset, a file and `--set` pairs, in this order; keys nobody knows are refused with the nearest known
one. The resolved tree is saved with the run. Imports no torch.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from shiftproof import checks
from shiftproof.safe_io import limits

PRESETS = ("paper", "laptop", "smoke")
OWN_PRESETS = ("e2",)  # networks with a recipe of their own: a file MODEL-PRESET.toml on top of the preset
MIRRORED = ("cifar10", "cifar100", "folder")  # where the mirror image of a picture is of the same class
# names that stand for more than a layer: `da` is the strided network, trained with circular shifts
RECIPES: dict[str, dict[str, Any]] = {"da": {"model.method": "strided", "augment.shift": -1}}

_LARGEST = 2**16  # bytes of a TOML file: beyond, its keys take the parser a time that grows with their square

# settings that do not change the weights a run ends with
WITHOUT_EFFECT = ("preset", "run.checkpoint_minutes", "run.keep", "run.tensorboard")


def _of(default: Any, text: str, *, least: float | None = None, words: Sequence[str] = ()) -> Any:
    """A field: its default, its help, and what values are allowed."""
    meta = {"help": text, "least": least, "words": tuple(words)}
    if isinstance(default, (list, dict)):
        return field(default_factory=lambda: type(default)(default), metadata=meta)
    return field(default=default, metadata=meta)


class _Checked:
    """Checks the type and range of every field when a tree is made."""

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(type(self))
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            if f.metadata:
                value = _typed(f.name, getattr(self, f.name), hints[f.name])
                object.__setattr__(self, f.name, value)
                if f.metadata["words"]:
                    checks.choice(f.name, value, f.metadata["words"])
                least = f.metadata["least"]
                numbers = value if isinstance(value, list) else [value]
                if least is not None and any(v is not None and not v >= least for v in numbers):
                    raise ValueError(f"`{f.name}` (={checks.shown(value)}) must be at least {least}.")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(_Checked):
    """The network."""

    name: str = _of("resnet20", "resnet8, resnet18, resnet20, resnet50, resnet56, or e2 for MNIST-rot")
    method: str = _of("ghs", "the downsampling method, by name")
    options: dict[str, Any] = _of({}, "options of the method")  # noqa: RUF009
    padding: str = _of("circular", "of convolutions and method: circular, reflect, replicate or zeros")
    stem: str = _of("cifar", "cifar or imagenet", words=("cifar", "imagenet"))
    head: str = _of("pool", "pool or flatten", words=("pool", "flatten"))
    share: bool = _of(True, "whether the branches of a block share one selection")
    width: float = _of(1.0, "e2: the number of fields, as a share of the reference's", least=0)
    geometry: str = _of("circular", "e2: circular or reference", words=("circular", "reference"))


@dataclass(frozen=True, kw_only=True)
class DataConfig(_Checked):
    """The pictures."""

    name: str = _of("cifar10", "cifar10, cifar100, mnist, mnist-rot, digits or folder")
    path: str | None = _of(None, "the directory of `folder`")
    size: int | None = _of(None, "pixels on each side: smaller pictures are padded", least=1)
    validation: float = _of(0.1, "the share of training pictures held out to choose the best epoch", least=0)
    split_seed: int = _of(0, "chooses which pictures are held out", least=0)
    limit: int | None = _of(None, "train on so many pictures only, and validate on a tenth as many", least=2)


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(_Checked):
    """What happens to a picture each time it is seen."""

    flip: bool = _of(True, "mirror left and right at random")
    shift: int = _of(0, "turn circularly by up to so many pixels each way; -1: by any amount", least=-1)
    crop: int = _of(0, "move by up to so many pixels each way, black where nothing is left", least=0)


@dataclass(frozen=True, kw_only=True)
class OptimConfig(_Checked):
    """Gradient descent and its schedule."""

    name: str = _of("sgd", "sgd or adam", words=("sgd", "adam"))
    lr: float = _of(0.1, "the (largest) learning rate", least=0)
    momentum: float = _of(0.9, "of the gradient; Adam's beta_1", least=0)
    nesterov: bool = _of(False, "Nesterov's momentum, for sgd")
    weight_decay: float = _of(5e-4, "times the weights, added to the gradient", least=0)
    l1: float = _of(0.0, "times the signs of the weights, added to the gradient", least=0)
    batch_size: int = _of(256, "pictures per step, over all processes", least=1)
    epochs: int = _of(250, "passes over the training pictures", least=1)
    schedule: str = _of(
        "step", "step: times `gamma` at `milestones`; one-cycle: up, then down to zero", words=("step", "one-cycle")
    )
    milestones: list[int] = _of([100, 200], "epochs at which the learning rate falls", least=1)  # noqa: RUF009
    gamma: float = _of(0.1, "the factor by which it falls", least=0)
    warm_up: float = _of(0.25, "the share of all steps that one-cycle climbs", least=0)


@dataclass(frozen=True, kw_only=True)
class RunConfig(_Checked):
    """How the run is carried out."""

    seed: int = _of(0, "of weights, order and augmentation", least=0)
    device: str = _of("auto", "auto, cpu or cuda", words=("auto", "cpu", "cuda"))
    precision: str = _of("fp32", "fp32, or autocast to bf16 or fp16", words=("fp32", "bf16", "fp16"))
    channels_last: bool = _of(True, "keep the channels of a pixel together in memory")
    compile: bool = _of(False, "torch.compile")
    threads: int = _of(0, "of torch on the CPU; 0: as torch decides", least=0)
    checkpoint_minutes: float = _of(5.0, "between checkpoints, beside the one at every epoch", least=0)
    keep: int = _of(2, "how many of the newest checkpoints stay", least=1)
    tensorboard: bool = _of(True, "write scalars for TensorBoard")


@dataclass(frozen=True, kw_only=True)
class Config(_Checked):
    """Everything that decides how a run goes."""

    preset: str = _of("paper", "where the values started from")
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataConfig = field(default_factory=DataConfig)
    augment: AugmentConfig = field(default_factory=AugmentConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data.validation >= 1:
            raise ValueError(f"`data.validation` (={self.data.validation}) must be a share below 1.")
        if self.optim.warm_up > 1:
            raise ValueError(f"`optim.warm_up` (={self.optim.warm_up}) must be a share of at most 1.")
        if self.optim.nesterov and self.optim.name != "sgd":
            raise ValueError("`optim.nesterov` belongs to the optimizer 'sgd', and to no other.")
        if (self.data.name == "folder") != (self.data.path is not None):
            raise ValueError("`data.path` belongs to the data set 'folder', and to no other.")

    @property
    def recipe(self) -> str:
        """What is trained, in a word: the method, or `da` for the strided network that sees circular shifts."""
        return "da" if self.model.method == "strided" and self.augment.shift else self.model.method

    def to_dict(self) -> dict[str, Any]:
        """As nested dictionaries, ready for JSON."""
        return dataclasses.asdict(self)


def configure(
    preset: str = "paper",
    *,
    model: str | None = None,
    method: str | None = None,
    dataset: str | None = None,
    seed: int | None = None,
    file: Path | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Config:
    """A configuration from a preset, then a TOML file, then the named arguments, then `changes` by dotted key.

    Where the network has a recipe of its own (`OWN_PRESETS`), that comes right after the preset.

    >>> configure("laptop", method="aps", changes={"optim.lr": 0.05}).optim.lr
    0.05
    """
    tree: dict[str, Any] = {"preset": checks.choice("preset", preset, PRESETS)}
    own = {} if file is None else _own(file)
    given = dict(flatten(changes or {}))
    network = given.get("model.name", model or dict(flatten(own)).get("model.name"))
    for name in (preset, *[f"{network}-{preset}"] * (network in OWN_PRESETS)):
        _merge(tree, _read(resources.files(__package__).joinpath("presets", f"{name}.toml").read_text(), name))
    _merge(tree, own)
    named = {"model.name": model, "model.method": method, "data.name": dataset, "run.seed": seed}
    flat = dict(flatten(tree)) | {k: v for k, v in named.items() if v is not None}
    if (recipe := given.get("model.method", flat.get("model.method"))) in RECIPES:
        given = {k: v for k, v in given.items() if k != "model.method"}
        flat |= RECIPES[recipe]
    flat |= given
    if "augment.flip" not in flat:
        flat["augment.flip"] = flat.get("data.name", "cifar10") in MIRRORED
    return from_dict(unflatten(flat))


def from_dict(tree: Mapping[str, Any]) -> Config:
    """A configuration from nested dictionaries; unknown keys are refused with the nearest known one."""
    return Config(**_parts(tree))


def _parts(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration, each checked on its own."""
    known = dict(keys())
    sections = {name.partition(".")[0] for name in known if "." in name}
    for name in sections & set(tree):
        if not isinstance(tree[name], Mapping):
            raise ValueError(f"`{name}` (={checks.shown(tree[name])}) must be a table of settings.")
    inside = [f"{name}.{key}" for name in tree if name in sections for key in tree[name]]
    for key in [*(name for name in tree if name not in sections), *inside]:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
            near = near or [k for k in known if k.endswith("." + key)]
            hint = f" Did you mean `{near[0]}`?" if near else f" Known: {', '.join(known)}."
            raise ValueError(f"`{key}` is no setting.{hint}")
    hints = typing.get_type_hints(Config)
    parts: dict[str, Any] = {}
    for name, value in tree.items():
        if name not in sections:
            parts[name] = value
            continue
        try:
            parts[name] = hints[name](**value)
        except ValueError as error:
            raise ValueError(f"in `{name}`: {error}") from None
    return parts


def keys() -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Every setting: its dotted key and its field."""
    hints = typing.get_type_hints(Config)
    for f in dataclasses.fields(Config):
        if f.metadata:
            yield f.name, f
        else:
            for inner in dataclasses.fields(hints[f.name]):
                yield f"{f.name}.{inner.name}", inner


def parse_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """`["optim.lr=0.05", "model.method=lpf"]` as a dictionary; values are JSON where they can be read as JSON."""
    out: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"{pair!r} must be KEY=VALUE, as in optim.lr=0.05.")
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        out[key.strip()] = value
    return out


def differences(a: Config, b: Config) -> list[str]:
    """The settings in which two configurations differ, in words; what cannot change the result does not count."""
    one, other = every_setting(a.to_dict()), every_setting(b.to_dict())
    every = sorted(one.keys() | other.keys())
    return [
        f"{k}: {one.get(k)!r} and {other.get(k)!r}"
        for k in every
        if k not in WITHOUT_EFFECT and one.get(k) != other.get(k)
    ]


def every_setting(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by its dotted key, each option of the method by itself: {"model.options.taps": 3}."""
    flat = dict(flatten(tree))
    options = flat.pop("model.options", {})
    return flat | {f"model.options.{name}": value for name, value in options.items()}


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"optim.lr": 1} -> {"optim": {"lr": 1}}."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        node = tree
        for name in path:
            node = node.setdefault(name, {})
            if not isinstance(node, dict):
                raise ValueError(f"`{key}` is no setting: `{name}` is a value, not a table.")
        node[last] = dict(value) if isinstance(value, dict) else value  # a later key may change it
    return tree


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """{"optim": {"lr": 1}} -> ("optim.lr", 1); the options of a method stay together."""
    for name, value in tree.items():
        if isinstance(value, Mapping) and prefix + name != "model.options":
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _merge(tree: dict[str, Any], other: Mapping[str, Any]) -> None:
    for name, value in other.items():
        if isinstance(value, Mapping) and isinstance(tree.get(name), dict):
            _merge(tree[name], value)
        else:
            tree[name] = value


def _own(file: Path) -> dict[str, Any]:
    """The settings in a file of the user's; each is checked here, while it is known where it stands."""
    data = limits.content(file, _LARGEST)
    try:
        tree = _read(data.decode(), str(file))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not a TOML file: {error}") from None
    try:
        _parts(tree)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return tree


def _read(text: str, name: str) -> dict[str, Any]:
    try:
        tree = tomllib.loads(text)
        dict(flatten(tree))
        return tree
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not a TOML file: {error}") from None


def _typed(name: str, value: Any, hint: Any) -> Any:
    """`value` if it is of the annotated type; whole numbers pass where a float is asked for."""
    if isinstance(hint, types.UnionType):
        if value is None:
            return None
        (hint,) = (h for h in typing.get_args(hint) if h is not types.NoneType)
    kind = typing.get_origin(hint) or hint
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is float and isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"`{name}` (={value}) must be finite.")
    wrong = not isinstance(value, kind) or (kind is not bool and isinstance(value, bool))
    if kind is list:
        wrong = wrong or any(isinstance(v, bool) or not isinstance(v, typing.get_args(hint)[0]) for v in value)
    if wrong:
        raise ValueError(f"`{name}` (={checks.shown(value)}) must be of type {kind.__name__}.")
    return value
