"""Records: one JSON file per evaluation, checked against a schema when it is written and when it is read.

A record is never edited. It holds the configuration of its run in full, defaults included, so that it says the same
when defaults have changed.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from shiftproof import checks, environment
from shiftproof.evaluation.suite import PARTS
from shiftproof.safe_io import limits
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.training.config import WITHOUT_EFFECT, Config, every_setting, without
from shiftproof.training.resolve import ADDED_OPTIONS, ADDED_SETTINGS

SCHEMA = "shiftproof.record/3"
READ = ("shiftproof.record/2", SCHEMA)  # schema 2 is the same without predictions
FIRST_SCHEMA = "shiftproof.record/1"  # read by `migrate` alone
HEADLINE = ("data", "model", "method", "preset", "seed", "accuracy", "agreement", "created")
# how often two random circular shifts agree; records of schema 2 have it of all shifts of few images
AGREEMENT = ("consistency", "agreement", "circular")
FIRST_AGREEMENT = ("consistency", "all_pairs", "pairs")
_LARGEST = 2**26  # bytes; no record comes near

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to evaluate: which parts, on which images and how many of them, all shifts of how many.

    `on` is the test part of the data set, or `validation`: all images that the run held out of the training part.
    """

    on: str = "test"
    parts: tuple[str, ...] = PARTS
    weights: str = "best"
    limit: int | None = None
    shift_images: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        checks.choice("on", self.on, ("test", "validation"))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return dataclasses.asdict(self) | {"parts": list(self.parts)}


def identity(config: Mapping[str, Any] | None, model: str, dataset: str, settings: Mapping[str, Any]) -> str:
    """The key of a record: equal for evaluations of the same run in the same way. `config` has its options in full."""
    return digest([None if config is None else essential(config), model, dataset, dict(settings)])


def key_of(record: Mapping[str, Any], foreign: bool) -> str:
    """The key of a record from its fields; `foreign`: its data set is not the one that the run was trained on."""
    config, how = record["config"], dict(record["settings"])
    if config is None:  # only its weights tell one network of the user's from another
        how |= {"weights": record["model"]["sha256"]}
    if config is None or foreign:
        how |= {"data": record["dataset"]["checksum"]}
    return identity(config, record["model"]["name"], record["dataset"]["name"], how)


def essential(config: Mapping[str, Any]) -> dict[str, Any]:
    """What identifies a run: every setting and option of a configuration in full, but those that change no result.

    Today's defaults play no part. A setting or option that a later version adds is left out where it has the value
    that runs had before it existed (`training.resolve`): so earlier records, which do not know it, keep their keys.
    """
    every = every_setting(config)
    before = ADDED_SETTINGS | {
        f"model.options.{name}": value for name, value in ADDED_OPTIONS.get(every["model.method"], {}).items()
    }
    told = without(set(WITHOUT_EFFECT) - {"preset"}, every)
    return {k: v for k, v in told.items() if not (k in before and before[k] == v)}


def digest(value: Any) -> str:
    """Sixteen digits that tell JSON-able values apart."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def run_key(config: Config, settings: Settings) -> str:
    """The key that the record of a run has, once it is evaluated on its own data set."""
    return identity(config.to_dict(), config.model.name, config.data.name, settings.to_dict())


def make_name(dataset: str, model: str, config: Config | None = None) -> str:
    """The name of a record: what a reader tells it from others by. The key tells the rest."""
    words = [dataset, model]
    if config is not None:
        words += [config.recipe, config.preset, f"seed{config.run.seed}"]
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(words))


def make(**fields: Any) -> Record:
    """A record of the given fields, with schema, time, code and machine filled in; checked."""
    record = {
        "schema": SCHEMA,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "code": environment.code(),
        "machine": environment.machine(),
        **fields,
    }
    validate(record, "the new record")
    return record


def path_for(folder: Path, name: str, key: str) -> Path:
    """The file of a record."""
    return folder / f"{name}-{key[:8]}.json"


def write(record: Record, folder: Path) -> Path:
    """Write a record under its name and key; the file is replaced as a whole or not at all."""
    path = path_for(folder, record["name"], record["key"])
    atomic_write(path, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    return path


def read(path: Path) -> Record:
    """A record from a file; what is not a record is a ValueError that says where it goes wrong."""
    record = read_json(path)
    validate(record, str(path))
    return record  # type: ignore[no-any-return]


def read_json(path: Path) -> Any:
    """What is in the file of a record, not yet checked."""
    text = limits.read_bounded(path, _LARGEST)
    try:
        return limits.parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: not a record: {error}") from None


def find(places: Iterable[Path]) -> list[Path]:
    """The record files among files and folders."""
    out: list[Path] = []
    for place in places:
        if place.is_dir():
            out += sorted(place.glob("*.json"))
        elif place.exists():
            out.append(place)
        else:
            raise ValueError(f"{place}: no such file or folder.")
    return out


def validate(record: Any, name: str) -> None:
    """Raise ValueError unless `record` follows the schema."""
    if isinstance(record, dict) and isinstance(found := record.get("schema"), str) and found not in READ:
        if found == FIRST_SCHEMA:
            raise ValueError(
                f"{name}: a record of an earlier version (schema {found!r}). Rewrite it with "
                f"`shiftproof records migrate {name}`, or all of a folder with `shiftproof records migrate DIR`."
            )
        raise ValueError(
            f"{name}: schema {checks.shown(found)}, and this version reads {' and '.join(map(repr, READ))}."
        )
    error = next(iter(validator().iter_errors(record)), None)
    if error is not None:
        where = "/".join(str(p) for p in error.absolute_path) or "the top"
        raise ValueError(f"{name}: not a record: at {where}: {error.message[:200]}")


@functools.cache
def validator() -> Any:
    """The schema, read once."""
    import jsonschema

    text = resources.files(__package__).joinpath("record.schema.json").read_text()
    return jsonschema.Draft202012Validator(json.loads(text))


def headline(record: Record) -> tuple[str, ...]:
    """What a list of records shows of one, under the words of `HEADLINE`."""
    return (
        record["dataset"]["name"],
        record["model"]["name"],
        record["model"]["method"] or "",
        "" if record["config"] is None else record["config"]["preset"],
        "" if record["seed"] is None else str(record["seed"]),
        percent(record["metrics"], "accuracy", "clean"),
        percent(record["metrics"], *AGREEMENT) or percent(record["metrics"], *FIRST_AGREEMENT),
        record["created"][:16].replace("T", " "),
    )


def lookup(metrics: Mapping[str, Any], *path: str) -> Any:
    """The entry at a path of keys, or of places in a list; None where there is none."""
    node: Any = metrics
    for key in path:
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        else:
            node = node.get(key) if isinstance(node, Mapping) else None
    return node


def percent(metrics: Mapping[str, Any], *path: str) -> str:
    """An estimate as "93.21", or nothing where it was not measured."""
    found = lookup(metrics, *path)
    return "" if not isinstance(found, Mapping) else f"{100 * found['value']:.2f}"


class RecordIndex:
    """Records by their file (`records`), and by configuration without the seed, data set and part (`find`)."""

    def __init__(self, found: Mapping[Path, Record]) -> None:
        self.records = found
        self._by_configuration: dict[str, list[tuple[str, Record]]] = {}
        for path, record in found.items():
            if record["config"] is not None:
                key = _key(record["config"], record["dataset"]["name"], record["dataset"]["part"])
                self._by_configuration.setdefault(key, []).append((path.name, record))

    @classmethod
    def read(cls, places: Iterable[Path]) -> RecordIndex:
        """An index of the records in files and folders."""
        return cls({path: read(path) for path in find(places)})

    def find(self, config: Config, part: str = "test") -> list[tuple[str, Record]]:
        """The records of a configuration with any seed, each with its file name."""
        return self._by_configuration.get(_key(config.to_dict(), config.data.name, part), [])


def _key(config: Mapping[str, Any], dataset: str, part: str) -> str:
    without_seed = {k: v for k, v in essential(config).items() if k != "run.seed"}
    return digest((without_seed, dataset, part))
