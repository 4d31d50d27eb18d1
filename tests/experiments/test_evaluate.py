"""Evaluation of runs and of networks of one's own: from a name to a number that can be traced back."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from helpers.tiny_runs import TINY
from shiftproof.commands.main import main
from shiftproof.experiments import evaluate, records
from shiftproof.experiments.records import Settings
from shiftproof.training.config import configure
from shiftproof.training.loop import train


def test_a_run_is_evaluated_and_put_on_record(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All parts, printed with intervals, drawn, and written; a GHS network is exact over all shifts."""
    arguments = ["evaluate", str(finished), "--limit", "8", "--shift-images", "2", "--records", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    lines = {line.split("  ")[0].strip(): line for line in printed.out.splitlines()}
    assert lines["circular"].split()[1:] == ["64", "100.00", "100.00", "100.00", "0", "equal", "bits"]
    assert "±" in lines["clean"]
    assert "±" in lines["8 x 8 erased per batch"]
    sentences = " ".join(printed.out.split())  # the longer a time, the earlier its line breaks
    assert "times the strided network" in sentences
    assert "Aliasing, 32 to 16 pixels" in sentences
    assert "digits-resnet20-ghs-smoke-seed0: accuracy: clean" in printed.err
    (path,) = tmp_path.glob("*.json")
    found = records.read(path)
    assert found["seed"] == 0
    assert set(found["metrics"]) == {"accuracy", "predictions", "consistency", "robustness", "aliasing", "efficiency"}
    shifts = found["metrics"]["consistency"]["all_pairs"]
    assert shifts["exact"]
    assert shifts["largest_change"] == 0.0
    assert shifts["shifts"] == 64
    assert found["metrics"]["efficiency"]["latency_ratio"] > 0
    assert found["training"]["steps"] == 2
    data = {"name": "digits", "part": "test", "source": "scikit-learn", "images": 8, "size": [1, 8, 8]}
    assert found["dataset"] == data | {"checksum": found["dataset"]["checksum"]}
    for kind in ("shifts", "aliasing"):
        with Image.open(path.with_name(f"{path.stem}-{kind}.png")) as picture:
            assert min(picture.size) > 500
    assert main([*arguments, "--json", "--parts", "accuracy", "--weights", "final"]) == 0
    final = json.loads(capsys.readouterr().out)
    assert final["settings"]["weights"] == "final"
    assert final["key"] != found["key"]
    assert len(list(tmp_path.glob("*.json"))) == 2  # another way of evaluating is another record


def test_a_run_with_the_front_for_parts_of_a_pixel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The worst shift of every grid, on request; its time is compared with a strided network, which has no front."""
    changes = TINY | {"model.subpixel": True}
    train(configure("smoke", dataset="digits", method="aps", changes=changes), tmp_path / "run", quiet=True)
    words = ["evaluate", str(tmp_path / "run"), "--limit=4", "--records", str(tmp_path), "--quiet"]
    assert main([*words, "--parts", "adversarial", "efficiency"]) == 0
    printed = capsys.readouterr().out
    assert "worst of 16, integer" in printed
    assert "worst of 9, crop" in printed
    assert "times the strided network" in " ".join(printed.split())
    (path,) = tmp_path.glob("*.json")
    found = records.read(path)["metrics"]["adversarial"]
    assert all(found[name]["accuracy"] == found[name]["unshifted"] for name in ("integer", "half", "fractional"))


def test_the_held_out_images(finished: Path) -> None:
    """`on="validation"` evaluates on all images that the run held out, though it trained on few."""
    subject = evaluate.from_run(finished, Settings(on="validation"))
    own = evaluate.from_run(finished, Settings()).dataset
    assert len(subject.dataset.test.labels) == round(0.1 * len(own.train.labels)) > 64
    settings = Settings(parts=("accuracy",), on="validation")
    assert evaluate.evaluate(subject, settings)["dataset"]["part"] == "validation"


MINE = """
import torch
def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""


def test_a_network_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_to_evaluate.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["evaluate", "mine_to_evaluate:make", "--dataset", "digits", "--parts", "accuracy", "efficiency"]
    assert main([*arguments, "--limit", "20"]) == 0
    (path,) = Path("records").glob("*.json")
    found = records.read(path)
    assert found["config"] is None
    assert found["model"]["source"] == "module"
    assert found["model"]["parameters"] == 650


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "neither the folder of a run nor"),
        (["mine_to_evaluate:make"], "`--dataset` must name the data set"),
        (["mine_to_evaluate:make", "--on", "validation"], "`--on validation` is for runs"),
        (["RUN", "--shift-images", "0"], "`--shift-images` (=0) must be at least 1"),
        (["RUN", "--dataset", "folder"], "`--folder` must name the folder"),
        (["RUN", "--weights", "worst"], "must be best or final"),
        (["RUN", "--dataset", "digitz"], "`--dataset` (='digitz') must be one of"),
        (["RUN", "--parts", "acuracy"], "`--parts` (='acuracy') must be one of"),
        (["EMPTY"], "no run was begun there"),
        (["RUN", "--on", "train"], "`--on` (='train') must be one of 'test', 'validation'"),
        (["RUN", "--on", "validation", "--dataset", "mnist"], "has no validation images of its own"),
    ],
)
def test_what_cannot_be_evaluated_is_said(
    arguments: list[str], message: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(finished) if a == "RUN" else str(tmp_path) if a == "EMPTY" else a for a in arguments]
    assert main(["evaluate", *words]) == 2
    assert message in capsys.readouterr().err


def test_weights_that_do_not_fit(finished: Path, tmp_path: Path) -> None:
    for name in ("config.json", "best.safetensors", "result.json"):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["model"]["name"] = "resnet56"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="does not fit the configuration beside it"):
        evaluate.from_run(tmp_path, Settings())


def test_an_unfinished_run_is_not_evaluated(finished: Path, tmp_path: Path) -> None:
    """Its best weights so far are not those of the run, and a record of them would pass for it."""
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    with pytest.raises(ValueError, match="the run is not finished"):
        evaluate.from_run(tmp_path / "run", Settings())


def test_records_do_not_overwrite_one_another(finished: Path, record: records.Record) -> None:
    """Other weights of a network of one's own, or other data, are another record."""
    subject = evaluate.from_run(finished, Settings())
    quick = Settings(parts=("accuracy",), limit=4)

    def key(**changes: Any) -> str:
        return str(evaluate.evaluate(dataclasses.replace(subject, **changes), quick)["key"])

    def mine(seed: int) -> torch.nn.Module:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))

    stranger: dict[str, Any] = {"config": None, "training": None, "baseline": None, "name": "mine"}
    others = dataclasses.replace(subject.dataset, checksum="0" * 64)
    keys = [
        key(),
        key(foreign=True),
        key(foreign=True, dataset=others),
        key(model=mine(0), **stranger),
        key(model=mine(1), **stranger),
        key(model=mine(1), dataset=others, **stranger),
    ]
    assert len(set(keys)) == 6
