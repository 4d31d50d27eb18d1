"""Records: files that are checked, come back as they were written, and are found by everything that was resolved."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.tiny_runs import change_the_default
from shiftproof.commands.main import main
from shiftproof.evaluation.statistics import unpack
from shiftproof.experiments import records
from shiftproof.training.config import Config, ModelConfig, configure
from shiftproof.training.resolve import ADDED_SETTINGS, resolve


def test_records_come_back(record: records.Record, tmp_path: Path) -> None:
    path = records.write(record, tmp_path)
    assert records.read(path) == json.loads(json.dumps(record))
    assert path.name == f"{record['name']}-{record['key'][:8]}.json"
    assert record["machine"]["torch"] == torch.__version__


def test_records_of_schema_2_are_read_as_they_are(record: records.Record, tmp_path: Path) -> None:
    """They are those of today without the answers to every image."""
    old = json.loads(json.dumps(record)) | {"schema": "shiftproof.record/2"}
    old["metrics"].pop("predictions")
    old["metrics"]["accuracy"]["clean"].pop("right")
    path = records.write(old, tmp_path)
    before = path.read_bytes()
    assert records.read(path) == old
    assert main(["records", "migrate", str(tmp_path)]) == 0
    assert path.read_bytes() == before


def test_a_record_keeps_the_answer_to_every_image(record: records.Record) -> None:
    """The classes of the unchanged images, and whether each is right, in the order of the data set."""
    given = unpack(record["metrics"]["predictions"]["clean"])
    right = unpack(record["metrics"]["accuracy"]["clean"]["right"])
    assert len(given) == len(right) == record["dataset"]["images"]
    assert right.double().mean() == record["metrics"]["accuracy"]["clean"]["value"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.pop("metrics"), "'metrics' is a required property"),
        (
            lambda r: r.update(schema="shiftproof.record/9"),
            "this version reads 'shiftproof.record/2' and 'shiftproof.record/3'",
        ),
        (lambda r: r.update(schema="shiftproof.record/1"), "Rewrite it with `shiftproof records migrate "),
        (lambda r: r["config"]["model"].pop("options"), "at config/model: 'options' is a required property"),
        (lambda r: r.update(migrated={"from": "x"}), "at migrated"),
        (lambda r: r.update(extra=1), "Additional properties are not allowed"),
        (lambda r: r["dataset"].update(images=0), "at dataset/images: 0 is less than the minimum"),
        (lambda r: r.update(key="../../x"), "at key"),
        (lambda r: r.update(name="../x"), "at name"),
        (lambda r: r["metrics"].update(guess={}), "at metrics"),
    ],
)
def test_what_is_no_record_is_refused(change: Any, message: str, record: records.Record, tmp_path: Path) -> None:
    broken = json.loads(json.dumps(record))
    change(broken)
    path = tmp_path / "record.json"
    path.write_text(json.dumps(broken))
    with pytest.raises(ValueError) as error:
        records.read(path)
    assert str(error.value).startswith(str(path))
    assert message in str(error.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100000])
def test_garbage_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a record"):
        records.read(path)


def key(config: Config) -> str:
    return records.identity(resolve(config).to_dict(), "resnet20", "digits", {})


def test_the_identity_of_a_record() -> None:
    """Threads, checkpoints and logs do not belong to it; everything that can change the number does."""
    config = resolve(configure("smoke")).to_dict()
    mine = records.identity(config, "resnet20", "digits", {})
    assert mine == key(configure("smoke", changes={"run.keep": 5}))
    assert mine == key(configure("smoke", changes={"model.options.kernel": "hermite(orders=4N)"}))
    others = [
        key(configure("smoke", changes={"optim.lr": 0.2})),
        key(configure("smoke", changes={"model.options.kernel": "hermite(orders=N)"})),
        key(configure("smoke", changes={"model.options.ties": "first"})),
        key(configure("smoke", seed=1)),
        records.identity(config, "resnet20", "mnist", {}),
        records.identity(config, "resnet20", "digits", {"limit": 3}),
        records.identity(None, "resnet20", "digits", {}),
    ]
    assert len({mine, *others}) == 8


def test_a_changed_default_changes_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a default of a method nor one of a setting: what was resolved is what counts."""
    explicit = {"model.options": resolve(configure("smoke")).model.options, "model.head": "pool"}
    before, tree = key(configure("smoke")), resolve(configure("smoke")).to_dict()
    change_the_default(monkeypatch)
    monkeypatch.setitem(ModelConfig.__init__.__kwdefaults__, "head", "flatten")  # type: ignore[arg-type]
    assert configure("smoke").model.head == "flatten"
    assert key(configure("smoke")) != before
    assert records.identity(tree, "resnet20", "digits", {}) == before
    assert key(configure("smoke", changes=explicit)) == before


def test_a_setting_that_is_added_changes_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier records do not know it: they are those of its value before it existed, and of no other."""
    old = resolve(configure("smoke")).to_dict()
    before = records.identity(old, "resnet20", "digits", {})
    monkeypatch.setattr(records, "ADDED_SETTINGS", ADDED_SETTINGS | {"optim.new": 0.0})
    monkeypatch.setattr(records, "ADDED_OPTIONS", {"ghs": {"newer": "off"}, "lpf": {"newer": "on"}})
    assert records.identity(old, "resnet20", "digits", {}) == before

    def later(new: float, newer: str) -> str:
        model = old["model"] | {"options": old["model"]["options"] | {"newer": newer}}
        tree = old | {"model": model, "optim": old["optim"] | {"new": new}}
        return records.identity(tree, "resnet20", "digits", {})

    assert later(0.0, "off") == before
    assert len({before, later(0.1, "off"), later(0.0, "on"), later(0.1, "on")}) == 4


def test_records_command(record: records.Record, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = records.write(record, tmp_path)
    assert main(["records", "list", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "1 records" in printed
    assert "100.00" in printed
    assert main(["records", "show", str(path)]) == 0
    assert "circular shift" in capsys.readouterr().out
    assert main(["records", "show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == record["key"]
    assert main(["records", "list", "--json", str(tmp_path)]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert main(["records", "check", str(tmp_path)]) == 0
    assert "1 records, 0 wrong" in capsys.readouterr().out
    (tmp_path / "other.json").write_text("{}")
    assert main(["records", "check", str(tmp_path), "--json"]) == 1
    assert list(json.loads(capsys.readouterr().out)["wrong"]) == [str(tmp_path / "other.json")]
    assert main(["records", "list", str(tmp_path / "nothing")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
