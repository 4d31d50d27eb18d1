"""Records: one JSON file per evaluation, checked against a schema when it is written and when it is read."""

from __future__ import annotations

import datetime
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from shiftproof import checks, environment
from shiftproof.safe_io import limits
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.training.config import WITHOUT_EFFECT, Config, flatten, from_dict

SCHEMA = "shiftproof.record/1"
_LARGEST = 2**26  # bytes; no record comes near

Record = dict[str, Any]


def identity(config: Mapping[str, Any] | None, model: str, dataset: str, settings: Mapping[str, Any]) -> str:
    """The key of a record: equal for evaluations of the same run in the same way."""
    return digest([None if config is None else essential(config), model, dataset, dict(settings)])


def essential(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that make it what it is: those off their default that can change the result.

    A setting that a later version adds does not change the identity of earlier runs, which had its default.
    """
    usual = dict(flatten(Config().to_dict()))
    mine = flatten(from_dict(config).to_dict())
    return {k: v for k, v in mine if v != usual[k] and (k not in WITHOUT_EFFECT or k == "preset")}


def digest(value: Any) -> str:
    """Sixteen digits that tell JSON-able values apart."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


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


def write(record: Record, folder: Path) -> Path:
    """Write a record under its name and key; the file is replaced as a whole or not at all."""
    path = folder / f"{record['name']}-{record['key'][:8]}.json"
    atomic_write(path, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    return path


def read(path: Path) -> Record:
    """A record from a file; what is not a record is a ValueError that says where it goes wrong."""
    text = limits.read_bounded(path, _LARGEST)
    try:
        record = limits.parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: not a record: {error}") from None
    validate(record, str(path))
    return record  # type: ignore[no-any-return]


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
    if isinstance(record, dict) and isinstance(found := record.get("schema"), str) and found != SCHEMA:
        raise ValueError(f"{name}: schema {checks.shown(found)}, and this version reads {SCHEMA!r}.")
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


def run(action: str, places: list[Path], as_json: bool) -> int:
    """`shiftproof records list | show | check`: a table of records, one of them, or what is wrong with them."""
    found = find(places)
    if action == "check":
        return _check(found, as_json)
    records = [(path, read(path)) for path in found]
    if as_json:
        out = [record for _, record in records]
        print(json.dumps(out[0] if action == "show" and len(out) == 1 else out, indent=2))
    elif action == "show":
        from shiftproof.reports import summary

        for _, record in records:
            summary.show(record)
    else:
        _table(records)
    return 0


def _check(found: list[Path], as_json: bool) -> int:
    wrong: dict[str, str] = {}
    for path in found:
        try:
            read(path)
        except ValueError as error:
            wrong[str(path)] = str(error)
    if as_json:
        print(json.dumps({"records": len(found), "wrong": wrong}, indent=2))
    else:
        for message in wrong.values():
            print(message)
        print(f"{len(found)} records, {len(wrong)} wrong")
    return 1 if wrong else 0


def _table(records: list[tuple[Path, Record]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{len(records)} records")
    for head in ("record", "data", "model", "method", "preset", "seed", "accuracy", "consistency", "created"):
        table.add_column(head, justify="right" if head in ("seed", "accuracy", "consistency") else "left", no_wrap=True)
    for path, record in records:
        config = record["config"] or {}
        table.add_row(
            path.stem,
            record["dataset"]["name"],
            record["model"]["name"],
            record["model"]["method"] or "",
            str(config.get("preset", "")),
            "" if record["seed"] is None else str(record["seed"]),
            percent(record["metrics"], "accuracy", "clean"),
            percent(record["metrics"], "consistency", "all_pairs", "pairs"),
            record["created"][:16].replace("T", " "),
        )
    console = Console()
    Console(width=max(console.width, 160) if not console.is_terminal else None).print(table)


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
