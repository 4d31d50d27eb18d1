"""The configuration of a training run: one tree of dataclasses, checked on construction.

It is made from a preset, a file and `--set` pairs, in this order; an unknown key is refused, with the nearest known key
as a hint. The resolved tree is saved with the run. Imports no torch.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import typing
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from shiftproof import checks
from shiftproof.safe_io.limits import read_bounded
from shiftproof.training.checked_fields import Checked, setting

PRESETS = ("paper", "laptop", "smoke", "finetune")
OWN_PRESETS = ("e2",)  # networks with their own recipe: a file MODEL-PRESET.toml on top of the preset
MIRRORED = ("cifar10", "cifar100", "folder")  # sets in which a mirrored picture keeps its class
# methods that are more than a layer: `da` is the strided network, trained with circular shifts
RECIPES: dict[str, dict[str, Any]] = {"da": {"model.method": "strided", "augment.shift": -1}}

_LARGEST = 2**16  # bytes of a TOML file: the parser needs time that grows with the square of its keys

# settings that do not change the weights a run ends with
WITHOUT_EFFECT = ("preset", "run.checkpoint_minutes", "run.keep", "run.tensorboard")


@dataclass(frozen=True, kw_only=True)
class ModelConfig(Checked):
    """The network."""

    name: str = setting("resnet20", "resnet8, 18, 20, 50, 56, e2; from elsewhere module:factory, timm:NAME, cifar:NAME")
    method: str = setting("ghs", "the downsampling method, by name")
    options: dict[str, Any] = setting({}, "options of the method")  # noqa: RUF009
    padding: str = setting("circular", "of convolutions and method: circular, reflect, replicate or zeros; keep")
    stem: str = setting("cifar", "cifar or imagenet", words=("cifar", "imagenet"))
    head: str = setting("pool", "pool or flatten", words=("pool", "flatten"))
    share: bool = setting(True, "whether the branches of a block share one selection")
    width: float = setting(1.0, "e2: the number of fields, as a share of the reference's", least=0)
    geometry: str = setting("circular", "e2: circular or reference", words=("circular", "reference"))
    subpixel: bool = setting(False, "whether the front takes parts of a pixel out")
    weights: str | None = setting(None, "begin with the package's weights for this data set; from elsewhere: a file")
    weights_sha256: str | None = setting(None, "of that file; found out when the run begins")
    pretrained: bool = setting(False, "begin with published weights: cifar, timm")
    placement: str = setting("after", "of a conversion: after or before the strides", words=("after", "before"))
    antialias: bool = setting(False, "of a conversion: placed before, filter the maps too")
    calibrate: int = setting(0, "of a conversion: fit batch norms to it on this many pictures", least=0)

    @property
    def converted(self) -> bool:
        """Whether the network comes from elsewhere."""
        return ":" in self.name


@dataclass(frozen=True, kw_only=True)
class DataConfig(Checked):
    """The pictures."""

    name: str = setting("cifar10", "cifar10, cifar100, mnist, mnist-rot, digits or folder")
    path: str | None = setting(None, "the directory of `folder`")
    size: int | None = setting(None, "pixels on each side: smaller pictures are padded", least=1)
    validation: float = setting(0.1, "the share of training pictures held out to choose the best epoch", least=0)
    split_seed: int = setting(0, "chooses which pictures are held out", least=0)
    limit: int | None = setting(None, "train on this many pictures only, and validate on a tenth as many", least=2)
    mean: list[float] = setting([], "of each channel, in [0, 1], to normalise with; empty: that of the data set")  # noqa: RUF009
    std: list[float] = setting([], "of each channel, likewise")  # noqa: RUF009


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(Checked):
    """Random changes of a picture each time it is used."""

    flip: bool = setting(True, "mirror left and right at random")
    shift: int = setting(0, "roll by up to this many pixels each way; -1: by any amount", least=-1)
    crop: int = setting(0, "move by up to this many pixels each way; what enters is black", least=0)


@dataclass(frozen=True, kw_only=True)
class OptimConfig(Checked):
    """Gradient descent and its schedule."""

    name: str = setting("sgd", "sgd or adam", words=("sgd", "adam"))
    lr: float = setting(0.1, "the (largest) learning rate", least=0)
    momentum: float = setting(0.9, "of the gradient; Adam's beta_1", least=0)
    nesterov: bool = setting(False, "Nesterov's momentum, for sgd")
    weight_decay: float = setting(5e-4, "times the weights, added to the gradient", least=0)
    l1: float = setting(0.0, "times the signs of the weights, added to the gradient", least=0)
    batch_size: int = setting(256, "pictures per step, over all processes", least=1)
    epochs: int = setting(250, "passes over the training pictures; 0: leave the weights as they begin", least=0)
    schedule: str = setting(
        "step", "step: times `gamma` at `milestones`; one-cycle: up, then down to zero", words=("step", "one-cycle")
    )
    milestones: list[int] = setting([100, 200], "epochs at which the learning rate falls", least=1)  # noqa: RUF009
    gamma: float = setting(0.1, "the factor by which it falls", least=0)
    warm_up: float = setting(0.25, "the share of all steps that one-cycle climbs", least=0)


@dataclass(frozen=True, kw_only=True)
class RunConfig(Checked):
    """How the run is executed."""

    seed: int = setting(0, "of weights, order and augmentation", least=0)
    device: str = setting("auto", "auto, cpu or cuda", words=("auto", "cpu", "cuda"))
    precision: str = setting("fp32", "fp32, or autocast to bf16 or fp16", words=("fp32", "bf16", "fp16"))
    channels_last: bool = setting(True, "keep the channels of a pixel together in memory")
    compile: bool = setting(False, "torch.compile")
    threads: int = setting(0, "of torch on the CPU; 0: as torch decides", least=0)
    checkpoint_minutes: float = setting(5.0, "between checkpoints, beside the one at every epoch", least=0)
    keep: int = setting(2, "how many of the newest checkpoints stay", least=1)
    tensorboard: bool = setting(True, "write scalars for TensorBoard")


@dataclass(frozen=True, kw_only=True)
class Config(Checked):
    """All settings of a run."""

    preset: str = setting("paper", "where the values started from")
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
            raise ValueError(f"`optim.nesterov` needs the optimizer 'sgd': `optim.name` is {self.optim.name!r}.")
        if len(self.data.mean) != len(self.data.std) or any(v <= 0 for v in self.data.std):
            raise ValueError("`data.mean` and `data.std` must have an entry for each channel, and each std be above 0.")
        if self.data.name == "folder" and self.data.path is None:
            raise ValueError("`data.path` must name the folder of pictures, because `data.name` is 'folder'.")
        if self.data.name != "folder" and self.data.path is not None:
            raise ValueError(
                f"`data.path` (={self.data.path!r}) needs the data set 'folder': `data.name` is {self.data.name!r}."
            )

    @property
    def recipe(self) -> str:
        """What is trained, in one word: the method, or `da` for the strided network that sees circular shifts."""
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

    The recipe of a network that has its own (`OWN_PRESETS`) comes right after the preset.

    >>> configure("laptop", method="aps", changes={"optim.lr": 0.05}).optim.lr
    0.05
    """
    mine = {} if file is None else _read_settings(file)
    given = dict(flatten(changes or {}))
    network = given.get("model.name", model or mine.get("model.name"))
    flat: dict[str, Any] = {"preset": checks.choice("preset", preset, PRESETS)}
    for name in (preset, *[f"{network}-{preset}"] * (network in OWN_PRESETS and preset != "finetune")):
        data = resources.files(__package__).joinpath("presets", f"{name}.toml").read_bytes()
        flat |= flatten(_parse_toml(data, name))
    named = {"model.name": model, "model.method": method, "data.name": dataset, "run.seed": seed}
    flat |= mine | {k: v for k, v in named.items() if v is not None}
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
    parts = dict(tree)
    for name in sections & set(tree):
        with naming_settings(name):
            parts[name] = hints[name](**tree[name])
    return parts


def naming_settings(section: str) -> AbstractContextManager[None]:
    """Let errors name settings by their dotted keys: in the section `data`, `size` becomes `data.size`."""
    names = "|".join(key.partition(".")[2] for key, _ in keys() if key.startswith(f"{section}."))
    return checks.renaming(f"`({names})`", rf"`{section}.\1`")


def keys() -> Iterator[tuple[str, dataclasses.Field[Any]]]:
    """Every setting: its dotted key and its field."""
    hints = typing.get_type_hints(Config)
    for f in dataclasses.fields(Config):
        if f.metadata:
            yield f.name, f
        else:
            for inner in dataclasses.fields(hints[f.name]):
                yield f"{f.name}.{inner.name}", inner


def differences(a: Config, b: Config) -> list[str]:
    """The settings in which two configurations differ, as text, without those that cannot change the result."""
    one, other = (without(WITHOUT_EFFECT, every_setting(c.to_dict())) for c in (a, b))
    every = sorted(one.keys() | other.keys())
    return [f"{k}: {one.get(k)!r} and {other.get(k)!r}" for k in every if one.get(k) != other.get(k)]


def without(names: Iterable[str], every: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted key, but for the named ones, and the file of weights where their sha256 tells more."""
    left_out = {*names, *["model.weights"] * bool(every.get("model.weights_sha256"))}
    return {k: v for k, v in every.items() if k not in left_out}


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


def _read_settings(file: Path) -> dict[str, Any]:
    """The settings in a TOML file by dotted key; each is checked here, so that an error names the file."""
    tree = _parse_toml(read_bounded(file, _LARGEST), file)
    try:
        _parts(tree)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    return dict(flatten(tree))


def _parse_toml(data: bytes, name: object) -> dict[str, Any]:
    try:
        tree = tomllib.loads(data.decode())
        dict(flatten(tree))
        return tree
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: not a TOML file: {error}") from None
