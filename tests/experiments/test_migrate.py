"""Migration of records: options in full under today's names, a new key, a mark, and the same numbers."""

import json
from pathlib import Path
from typing import Any

import pytest

from shiftproof.commands.main import main
from shiftproof.experiments import catalogue, migrate, records, sweep
from shiftproof.experiments.records import FIRST_SCHEMA, Record
from shiftproof.layers import resolve_options
from shiftproof.training.config import Config

ROOT = Path(__file__).parents[2]
KEY = "0123456789abcdef"
CUT_OFF = {"sigma": "band", "taper": "none", "grid": "periodic", "pivot": "max"}
# rows of the ablation with the options that schema 1 stored
ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "ghs": ("ghs", {}),
    "ghs-paper": ("ghs-paper", {}),
    "lpf": ("lpf", {}),
    "align, LPF inside": ("align", {"inner": "lpf"}),
    "cut off": ("ghs", CUT_OFF),
    "anchor: corner": ("ghs", CUT_OFF | {"anchor": "corner"}),
    "orders: N/2, gain: paper": ("ghs", CUT_OFF | {"orders": "N/2", "gain": "paper"}),
    "taper: gaussian, sigma: 1.5 band": ("ghs", CUT_OFF | {"taper": "gaussian", "sigma": "1.5*band"}),
    "GHS, pivot: max": ("ghs", {"pivot": "max"}),
    "paper, anchor: center, projection: least squares": (
        "ghs-paper",
        {"anchor": "center", "projection": "least-squares"},
    ),
}


def first(record: Record, options: dict[str, Any], config: Config | None = None) -> Record:
    """A record as schema 1 had it: of the run in `record`, or of `config`."""
    tree = record["config"] if config is None else config.to_dict()
    tree = tree | {"model": tree["model"] | {"options": options}}
    return json.loads(json.dumps(record | {"schema": FIRST_SCHEMA, "key": KEY, "config": tree}))  # type: ignore[no-any-return]


def put(record: Record, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{record['name']}-{record['key'][:8]}.json"
    path.write_text(json.dumps(record))
    return path


def test_nothing_but_options_and_key_changes(
    record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every number and where it comes from stay as they are; the old key and the old options are kept in a mark."""
    old = first(record, {"pivot": "max"})
    path = put(old, tmp_path)
    path.with_name(f"{path.stem}-shifts.png").write_bytes(b"heat map")
    assert main(["records", "migrate", str(tmp_path)]) == 0
    assert "1 records: 1 migrated, 0 already new, 0 failed" in capsys.readouterr().out
    assert not path.exists()
    (new,) = tmp_path.glob("*.json")
    found = records.read(new)
    assert new.stem == f"{old['name']}-{found['key'][:8]}" != path.stem
    assert new.with_name(f"{new.stem}-shifts.png").read_bytes() == b"heat map"
    for field in (
        "metrics",
        "seconds",
        "created",
        "code",
        "machine",
        "training",
        "dataset",
        "settings",
        "model",
        "seed",
    ):
        assert found[field] == old[field]
    assert found["migrated"] == {"from": KEY, "schema": FIRST_SCHEMA, "options": {"pivot": "max"}}
    assert found["config"]["model"].pop("options") == resolve_options("ghs", {"pivot_rule": "max"})
    old["config"]["model"].pop("options")
    assert found["config"] == old["config"]
    assert set(found) == {*old, "migrated"}


@pytest.mark.parametrize("row", ROWS)
def test_a_migrated_record_is_found_by_its_row(row: str, record: Record, tmp_path: Path) -> None:
    method, options = ROWS[row]
    (config,) = catalogue.configs("ablation", "smoke", methods=[row])
    settings = catalogue.settings("ablation", "smoke")
    old = first(record | {"settings": settings.to_dict()}, options, config)
    old |= {"model": old["model"] | {"name": "resnet8"}, "dataset": old["dataset"] | {"name": "cifar10"}}
    assert old["config"]["model"]["method"] == method
    migrate.migrate_files([put(old, tmp_path)], lambda *_: None)
    found = sweep.RecordedRuns(tmp_path).find(config, settings)
    assert found is not None
    assert records.read(found[0])["migrated"]["options"] == options


def test_values_that_are_gone_are_kept_as_texts(record: Record) -> None:
    """They cannot be run again, and what was run stays readable."""
    options = {"taper": "linear", "pivot": "per-channel", "grid": "pivot", "anchor": "corner"}
    full = migrate.migrate(first(record, options), "it")["config"]["model"]["options"]
    assert full["kernel"].endswith("taper=linear)")
    assert (full["grid"], full["anchor"], full["pivot_rule"]) == ("anchored", "corner", "per-channel")


def test_migrating_again_changes_nothing(record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does a migration that was killed after it wrote the new file, and before it removed the old one."""
    old = first(record, {})
    path = put(old, tmp_path)
    assert main(["records", "migrate", str(tmp_path), "--json"]) == 0
    ((name, new),) = json.loads(capsys.readouterr().out)["migrated"].items()
    assert name == str(path)
    content = Path(new).read_bytes()
    put(old, tmp_path)
    assert main(["records", "migrate", str(tmp_path)]) == 0
    assert "2 records: 1 migrated, 1 already new, 0 failed" in capsys.readouterr().out
    assert main(["records", "migrate", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"migrated": {}, "current": [new], "failed": {}}
    assert [p.read_bytes() for p in tmp_path.iterdir()] == [content]


def test_what_cannot_be_migrated_stays_and_is_reported(
    record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two records that mean the same run, a damaged one, one of a later version; the others are migrated."""
    twin = put(first(record, {}), tmp_path)
    other = first(record, {"sigma": "band"}) | {"key": "f" * 16, "seconds": 1e6}
    put(other, tmp_path)
    broken = first(record, {}) | {"metrics": {}}
    (tmp_path / "broken.json").write_text(json.dumps(broken))
    (tmp_path / "later.json").write_text(json.dumps(record | {"schema": "shiftproof.record/9"}))
    (tmp_path / "odd.json").write_text("[")
    listed = first(record, {})
    listed["config"]["model"]["method"] = []
    (tmp_path / "listed.json").write_text(json.dumps(listed))
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert main(["records", "migrate", str(tmp_path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert list(found["migrated"]) == [str(twin)]
    reasons = {Path(path).name: reason for path, reason in found["failed"].items()}
    assert "is a record of the same run and evaluation: keep one of the two" in reasons.pop(
        f"{record['name']}-ffffffff.json"
    )
    assert "not a record: at metrics" in reasons.pop("broken.json")
    assert "this version reads 'shiftproof.record/2' and 'shiftproof.record/3'" in reasons.pop("later.json")
    assert "not a record" in reasons.pop("odd.json")
    assert "not a record: at config/model/method" in reasons.pop("listed.json")
    assert not reasons
    after = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert before.items() - after.items() == {(twin.name, before[twin.name])}


def test_a_network_of_ones_own_and_other_data(record: Record) -> None:
    """Without a configuration the key was never one of options; on other data than its own a run has another key."""
    own = json.loads(json.dumps(record)) | {"schema": FIRST_SCHEMA, "config": None, "training": None}
    found = migrate.migrate(own, "it")
    how = record["settings"] | {"weights": record["model"]["sha256"], "data": record["dataset"]["checksum"]}
    assert found["key"] == records.identity(None, record["model"]["name"], "digits", how)
    assert found["migrated"]["options"] is None
    foreign = first(record, {})
    foreign["dataset"]["name"] = "mnist"
    one, other = (migrate.migrate(foreign | {"dataset": foreign["dataset"] | {"checksum": c * 64}}, "it") for c in "ab")
    assert len({one["key"], other["key"], migrate.migrate(first(record, {}), "it")["key"]}) == 3


@pytest.mark.parametrize("command", [["records", "list"], ["records", "show"], ["report"]])
def test_other_commands_name_the_migration(
    command: list[str], record: Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(first(record, {}), tmp_path)
    assert main([*command, str(tmp_path)]) == 2
    assert f"Rewrite it with `shiftproof records migrate {path}`" in capsys.readouterr().err


def test_the_results_of_this_project_are_migrated() -> None:
    """Each has the key of what it says was run, and bears it in its name."""
    for path in records.find([ROOT / "results" / "records"]):
        found = records.read(path)
        key = records.identity(found["config"], found["model"]["name"], found["dataset"]["name"], found["settings"])
        assert found["key"] == key
        assert path == records.path_for(path.parent, found["name"], key)
