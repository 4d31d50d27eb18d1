"""The configuration of a run: presets, files, overrides, refusals."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shiftproof.commands.shared import parse_pairs
from shiftproof.training.config import (
    PRESETS,
    Config,
    OptimConfig,
    configure,
    differences,
    from_dict,
    keys,
)


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset != "finetune"])
def test_every_preset_is_read_and_comes_back_from_json(preset: str) -> None:
    config = configure(preset)
    assert config.preset == preset
    assert from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_paper_is_the_papers_recipe() -> None:
    """SGD, lr 0.1, momentum 0.9, weight decay 5e-4, batch 256, x0.1 at 100 and 200 of 250 epochs, flips only."""
    config = configure("paper")
    assert config.optim == OptimConfig(
        lr=0.1, momentum=0.9, weight_decay=5e-4, batch_size=256, epochs=250, milestones=[100, 200], gamma=0.1
    )
    assert config.optim.schedule == "step"
    assert dataclasses.astuple(config.augment) == (True, 0, 0)
    assert config.data.validation == 0.1
    assert config.data.split_seed == 0
    assert config.model.padding == "circular"


def test_later_sources_win(tmp_path: Path) -> None:
    """Preset, then file, then named arguments, then pairs."""
    file = tmp_path / "mine.toml"
    file.write_text('[optim]\nlr = 0.3\nepochs = 3\n[model]\nmethod = "aps"\noptions = { taps = 5 }\n')
    config = configure("laptop", file=file, method="lpf", changes={"optim.epochs": 4})
    assert (config.optim.lr, config.optim.epochs, config.model.method) == (0.3, 4, "lpf")
    assert config.model.options == {"taps": 5}
    assert config.optim.schedule == "one-cycle"


def test_any_setting_can_be_changed() -> None:
    """Also to nothing, and also as a table."""
    assert configure("smoke").data.limit == 512
    assert configure("smoke", changes={"data.limit": None}).data.limit is None
    assert configure("smoke", method="aps", changes={"model": {"name": "resnet18"}}).model.method == "aps"


def test_digits_are_not_mirrored() -> None:
    """A mirrored 3 is no 3; who wants it all the same can have it."""
    assert configure(dataset="cifar100").augment.flip
    for name in ("mnist", "mnist-rot", "digits"):
        assert not configure(dataset=name).augment.flip
    assert configure(dataset="mnist", changes={"augment.flip": True}).augment.flip


def test_da_is_a_recipe() -> None:
    config = configure(method="da")
    assert config.model.method == "strided"
    assert config.augment.shift == -1
    assert config.recipe == "da"
    assert configure(changes={"model.method": "da"}) == config
    assert configure(method="da", changes={"augment.shift": 4}).augment.shift == 4
    assert configure(method="strided").recipe == "strided"
    assert configure(method="ghs", changes={"augment.shift": 3}).recipe == "ghs"


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset != "finetune"])
def test_a_network_can_have_a_recipe_of_its_own(preset: str, tmp_path: Path) -> None:
    """However it is named; between the preset and what the user says."""
    config = configure(preset, model="e2")
    assert (config.preset, config.optim.name, config.data.name, config.data.size) == (preset, "adam", "mnist-rot", 29)
    assert from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert configure(preset, changes={"model.name": "e2"}) == config
    file = tmp_path / "mine.toml"
    file.write_text('[model]\nname = "e2"\n[optim]\nlr = 0.3\n')
    mine = configure(preset, file=file, dataset="digits")
    assert (mine.optim.name, mine.optim.lr, mine.data.name) == ("adam", 0.3, "digits")


def test_the_recipe_of_the_e2_network_is_the_references() -> None:
    """Adam, lr 0.015, batch 64, 40 epochs, x0.8 in every epoch from 15 on, L1 and L2 of 1e-7."""
    optim = configure("paper", model="e2").optim
    assert optim == OptimConfig(
        name="adam", lr=0.015, momentum=0.9, weight_decay=1e-7, l1=1e-7, batch_size=64, epochs=40,
        milestones=list(range(15, 40)), gamma=0.8,
    )  # fmt: skip


def test_pairs() -> None:
    pairs = parse_pairs(["optim.lr=0.05", "model.method=lpf", "optim.milestones=[1, 2]", "run.compile=true"])
    assert pairs == {"optim.lr": 0.05, "model.method": "lpf", "optim.milestones": [1, 2], "run.compile": True}
    with pytest.raises(ValueError, match="must be KEY=VALUE"):
        parse_pairs(["optim.lr"])


@pytest.mark.parametrize("tree", [{"model": {"noptions": {}}}, {"noptions": {}}])
def test_unknown_tables_are_refused_even_if_empty(tree: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"noptions` is no setting. Did you mean `model.options`\?"):
        from_dict(tree)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"optim.learning": 1}, r"`optim.learning` is no setting"),
        ({"optim.momentun": 1}, r"Did you mean `optim.momentum`\?"),
        ({"lr": 1}, r"`lr` is no setting. Did you mean `optim.lr`\?"),
        ({"optim.lr.x": 1}, "is a value, not a table"),
        ({"optim.lr": "fast"}, r"`optim.lr` \(='fast'\) must be of type float"),
        ({"optim.lr": -1}, "must be at least 0"),
        ({"optim.lr": float("nan")}, "must be finite"),
        ({"optim.epochs": 2.5}, "must be of type int"),
        ({"optim.epochs": True}, "must be of type int"),
        ({"optim.milestones": [1, "x"]}, "must be of type list"),
        ({"optim.schedule": "one-cyle"}, "Did you mean 'one-cycle'"),
        ({"run.compile": 1}, "must be of type bool"),
        ({"data.validation": 1.0}, "must be a share below 1"),
        ({"optim.warm_up": 1.5}, "must be a share of at most 1"),
        ({"optim.name": "adam", "optim.nesterov": True}, "needs the optimizer 'sgd': `optim.name` is 'adam'"),
        ({"data.path": "x"}, r"`data.path` \(='x'\) needs the data set 'folder': `data.name` is 'cifar10'"),
        ({"data.name": "folder"}, "`data.path` must name the folder of pictures, because `data.name` is 'folder'"),
        ({"optim": 3}, "must be a table of settings"),
    ],
)
def test_refusals_name_the_setting(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        configure(changes=changes)


def test_a_file_that_is_no_toml(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("= nothing")
    with pytest.raises(ValueError, match=r"mine.toml: not a TOML file"):
        configure(file=file)
    with pytest.raises(ValueError, match=r"`preset` .*'laptop'"):
        configure("labtop")


def test_differences_count_only_what_changes_the_result() -> None:
    a = Config()
    assert differences(a, dataclasses.replace(a, preset="smoke")) == []
    b = configure(changes={"run.checkpoint_minutes": 1, "run.keep": 5, "optim.lr": 0.2})
    assert differences(a, b) == ["optim.lr: 0.1 and 0.2"]


def test_every_setting_has_a_help_and_none_needs_torch() -> None:
    """`shiftproof train --help` lists them all, without importing torch."""
    code = (
        "import sys\nfrom shiftproof.commands.main import main\n"
        "try: main(['train', '--help'])\nfinally: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for key, field in keys():
        assert f"  {key} " in done.stdout
        assert field.metadata["help"] in done.stdout
