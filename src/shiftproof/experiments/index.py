"""An index of records: finds those of one configuration, whatever the seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from shiftproof.experiments import records
from shiftproof.experiments.records import Record
from shiftproof.training.config import Config


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
        return cls({path: records.read(path) for path in records.find(places)})

    def find(self, config: Config, part: str = "test") -> list[tuple[str, Record]]:
        """The records of a configuration with any seed, each with its file name."""
        return self._by_configuration.get(_key(config.to_dict(), config.data.name, part), [])


def _key(config: Mapping[str, Any], dataset: str, part: str) -> str:
    without_seed = {k: v for k, v in records.essential(config).items() if k != "run.seed"}
    return records.digest((without_seed, dataset, part))
