"""The networks and pictures that the page offers."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from helpers.app_client import Client
from shiftproof.app import network_tab, networks, sample_pictures
from shiftproof.app.shift_scores import score_shifts
from shiftproof.training.checkpoint import write_tensors
from shiftproof.training.config import configure
from shiftproof.training.loop import train
from shiftproof.training.runs import open_weights


def test_networks_of_the_package_and_of_finished_runs_are_found(tmp_path: Path) -> None:
    """In the package, in folders of runs, in a run itself; those that cannot be loaded are listed with the reason."""
    run = tmp_path / "runs" / "digits"
    config = configure("smoke", method="ghs", dataset="digits", changes={"optim.epochs": 1, "data.limit": 64})
    train(config, run, quiet=True)
    for name, content in (("begun", (run / "config.json").read_text()), ("odd", "{}"), ("odder", '{"model": 3}')):
        (tmp_path / "runs" / name).mkdir()
        (tmp_path / "runs" / name / "config.json").write_text(content)
    (tmp_path / "runs" / "odd" / "result.json").write_text("{}")
    found = networks.find_networks([tmp_path / "runs"])
    names = {family: [n.name for n in members] for family, members in found.families.items()}
    assert names["cifar10: 32 x 32 pixels, colour"][:4] == ["strided", "lpf", "aps", "ghs"]  # selected at first
    (digits,) = (family for family in names if family.startswith("digits"))
    assert names[digits] == ["ghs (digits)"]
    assert len(found.problems) == 3
    assert any("not finished" in words for words in found.problems)
    assert networks.find_networks([run]).families[digits][0].classes == tuple("0123456789")
    with pytest.raises(ValueError, match=r"--runs .*nowhere: no such folder"):
        networks.find_networks([tmp_path / "nowhere"])
    net = found.families[digits][0]
    offered = networks.pictures(net)
    assert sum("test image" in name for name in offered) == networks.IMAGES
    assert all(image.shape == (1, *net.size) for image in offered.values())
    assert score_shifts(net, offered["camera"]).error.exact
    _, about = open_weights(run / "best.safetensors")
    assert about["data"] == "digits"


def test_choices_of_another_family_are_replaced() -> None:
    """The page may still send names of the last family. If nothing is chosen, nothing is shown."""
    made = networks.Network("one", lambda x: x.flatten(1)[:, :2], ("a", "b"), (1, 8, 8), "nothing of the kind")
    tab = network_tab.ScoreCache(networks.Library({"family": [made]}), None)
    found = tab.compute("family", "3 (test image 0)", None, ["another"])
    assert [n.name for n, _ in found.pairs] == ["one"]
    assert found.name in networks.pictures(made)
    assert tab.compute("family", "camera", None, []).pairs == []


def test_long_computations_say_how_far_they_are(client: Callable[[], Client]) -> None:
    visitor = client()
    assert visitor.ask("open_tab")["success"]
    steps = [step for message in visitor.messages for step in message.get("progress_data") or []]
    assert any("shifts" in step["desc"] and 0 < step["progress"] <= 1 for step in steps)


def test_networks_without_their_data_set_offer_samples(tmp_path: Path) -> None:
    net = networks.find_networks([]).families["cifar10: 32 x 32 pixels, colour"][0]
    assert list(networks.pictures(net, tmp_path)) == list(sample_pictures.SAMPLES)


def test_weights_without_a_description_are_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "w.safetensors", {"a": torch.ones(1)}, {"model": {"name": "resnet20"}})
    with pytest.raises(ValueError, match="does not say what network its weights are of"):
        open_weights(tmp_path / "w.safetensors")
