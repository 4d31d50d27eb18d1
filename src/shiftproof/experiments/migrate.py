"""Records of schema 1, rewritten once: options in full under today's names, a new key, the same numbers.

Those of schema 2 are read as they are. Schema 1 stored only the options that were given, and its keys depended on the
defaults. A migrated record says so in `migrated`: its old key, its old schema and the options as they stood.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shiftproof import progress
from shiftproof.experiments import records
from shiftproof.experiments.records import FIRST_SCHEMA, SCHEMA, Record
from shiftproof.training.resolve import first_options


def migrate_files(paths: Sequence[Path], report: progress.ProgressCallback) -> dict[str, Any]:
    """Replace each file of schema 1 by one of today's schema; a file that fails stays as it is.

    Returns old and new names (`migrated`), files that were new already (`current`), and reasons (`failed`), for JSON.
    """
    migrated, current, failed = {}, [], {}
    for done, path in enumerate(paths, start=1):
        try:
            new = _migrate_file(path)
            if new is None:
                current.append(str(path))
            else:
                migrated[str(path)] = str(new)
        except (ValueError, OSError) as error:
            failed[str(path)] = str(error)
        report("records", done, len(paths))
    return {"migrated": migrated, "current": current, "failed": failed}


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
    record |= {"config": config, "migrated": {"from": old["key"], "schema": FIRST_SCHEMA, "options": options}}
    foreign = config is not None and config["data"]["name"] != old["dataset"]["name"]
    record["key"] = records.key_of(record, foreign)
    records.validate(record, name)
    return record
