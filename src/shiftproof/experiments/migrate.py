"""Records of schema 1, rewritten once: options in full under today's names, a new key, the same numbers.

Schema 1 stored only the options that were given, and its keys depended on the defaults. A migrated record says so in
`migrated`: its old key, its old schema and the options as they stood.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shiftproof import progress
from shiftproof.experiments import records
from shiftproof.experiments.records import FIRST_SCHEMA, SCHEMA, Record
from shiftproof.training.stored import first_options


@dataclass
class Migration:
    """What became of record files: old to new names, those that were new already, and failures with their reasons."""

    migrated: dict[Path, Path] = field(default_factory=dict)
    current: list[Path] = field(default_factory=list)
    failed: dict[Path, str] = field(default_factory=dict)


def migrate_files(paths: Sequence[Path], report: progress.ProgressCallback) -> Migration:
    """Replace each file of schema 1 by one of today's schema; a file that fails stays as it is."""
    out = Migration()
    for done, path in enumerate(paths, start=1):
        try:
            new = _migrate_file(path)
        except (ValueError, OSError) as error:
            out.failed[path] = str(error)
        else:
            if new is None:
                out.current.append(path)
            else:
                out.migrated[path] = new
        report("records", done, len(paths))
    return out


def _migrate_file(path: Path) -> Path | None:
    """The new file of a record, or None if the record is of today's schema."""
    old = records.read_json(path)
    if not isinstance(old, dict) or old.get("schema") != FIRST_SCHEMA:
        records.validate(old, str(path))
        return None
    record = migrate(old, str(path))
    new = records.path_for(path.parent, record["name"], record["key"])
    if new != path and new.exists() and records.read(new) != record:
        raise ValueError(f"{path}: {new.name} is a record of the same run and evaluation: keep one of the two.")
    records.write(record, path.parent)
    if new != path:
        for figure in path.parent.glob(f"{glob.escape(path.stem)}-*.png"):
            figure.rename(figure.with_name(figure.name.replace(path.stem, new.stem, 1)))
        path.unlink()
    return new


def migrate(old: Record, name: str) -> Record:
    """A record of schema 1 as one of today's; every number, and what says where it comes from, is left as it is."""
    record = old | {"schema": SCHEMA}
    records.validate(record, name)
    options, config = None, old["config"]
    if config is not None:
        options = config["model"]["options"]
        full = first_options(config["model"]["method"], options)
        config = config | {"model": config["model"] | {"options": full}}
    how = dict(old["settings"])
    if config is None:  # as `evaluate` does
        how |= {"weights": old["model"]["sha256"]}
    if config is None or config["data"]["name"] != old["dataset"]["name"]:
        how |= {"data": old["dataset"]["checksum"]}
    record |= {
        "key": records.identity(config, old["model"]["name"], old["dataset"]["name"], how),
        "config": config,
        "migrated": {"from": old["key"], "schema": FIRST_SCHEMA, "options": options},
    }
    records.validate(record, name)
    return record
