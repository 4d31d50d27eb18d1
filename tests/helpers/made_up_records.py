"""Records of runs that never took place, and what tables make of them."""

from pathlib import Path
from typing import Any

from shiftproof.experiments import records
from shiftproof.experiments.records import RecordIndex
from shiftproof.reports import layouts
from shiftproof.reports.table import Cell, Table
from shiftproof.training.config import Config


def estimate(value: float, margin: float = 0.0) -> dict[str, Any]:
    return {"value": value, "low": value - margin, "high": value + margin, "n": 100}


def record(config: Config, accuracy: float, part: str = "test", **metrics: Any) -> records.Record:
    """A record of a run that never was."""
    settings = {"on": part}
    return records.make(
        key=records.identity(config.to_dict(), config.model.name, config.data.name, settings),
        name="made-up",
        model={
            "source": "run",
            "name": config.model.name,
            "method": config.recipe,
            "parameters": 1,
            "weights": "best",
            "sha256": "0" * 64,
        },
        seed=config.run.seed,
        config=config.to_dict(),
        training={"steps": 1},
        dataset={"name": config.data.name, "part": part, "source": "", "checksum": "0" * 64, "images": 1, "size": [3]},
        settings=settings,
        seconds=1.0,
        metrics={"accuracy": {"clean": estimate(accuracy, margin=0.01)}, **metrics},
    )


def index(*found: records.Record) -> RecordIndex:
    return RecordIndex({Path(f"{i}.json"): r for i, r in enumerate(found)})


def cell(table: Table, row: str, column: str) -> Cell:
    cells = dict(table.rows)[layouts.METHOD_LABELS.get(row, row)]
    return cells[table.columns.index(column)]
