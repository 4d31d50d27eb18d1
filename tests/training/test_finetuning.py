"""Fine-tuning: a network from elsewhere is converted and trained like any other, and begins with its own weights."""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from PIL import Image
from torch import nn

import shiftproof as sp
from helpers import small_networks
from shiftproof.commands.main import main
from shiftproof.experiments import records
from shiftproof.models.cifar import INPUTS, CifarResNet
from shiftproof.training import converted, loop
from shiftproof.training.config import Config, configure, differences
from shiftproof.training.finetuning import configure_finetuning, finetune
from shiftproof.training.loop import train
from shiftproof.training.resolve import resolve, restore
from shiftproof.training.runs import load_run, open_weights

GREY = "helpers.small_networks:grey"
FEW = {
    "data.limit": 96,
    "optim.batch_size": 40,
    "run.threads": 1,
    "run.tensorboard": False,
    "augment.flip": False,
}


def few(**changes: Any) -> dict[str, Any]:
    return FEW | {k.replace("__", "."): v for k, v in changes.items()}


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """Weights that somebody else trained, as a checkpoint of `DataParallel`."""
    model = small_networks.grey()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.01)
    path = tmp_path / "theirs.th"
    torch.save({"epoch": 7, "state_dict": {f"module.{k}": v for k, v in model.state_dict().items()}}, path)
    return path


def network_of(path: Path) -> nn.Module:
    return sp.load_model(GREY, path)


@pytest.mark.parametrize(
    ("changes", "arguments"),
    [
        ({}, {}),
        ({"model.placement": "before"}, {"placement": "before"}),
        ({"model.padding": "keep"}, {"padding": None}),
    ],
)
def test_a_run_begins_with_the_converted_source(
    changes: dict[str, Any], arguments: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    """Without epochs it is the source with the weights of the file, converted, and its record names them by content."""
    out = tmp_path / "run"
    finetune(GREY, out, dataset="digits", weights=trained, changes=few(optim__epochs=0) | changes, quiet=True)
    found, config, _ = load_run(out)
    x = torch.rand(4, 1, 8, 8)
    expected = sp.convert(network_of(trained), "ghs", example=x, **arguments)
    with torch.no_grad():
        torch.testing.assert_close(found(x), expected(x))
    assert config.model.weights_sha256 == hashlib.sha256(trained.read_bytes()).hexdigest()


def test_strided_with_its_padding_kept_is_the_source(trained: Path, tmp_path: Path) -> None:
    out, changes = tmp_path / "run", few(optim__epochs=0, model__padding="keep")
    finetune(GREY, out, dataset="digits", method="strided", weights=trained, changes=changes, quiet=True)
    x = torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(load_run(out)[0](x), network_of(trained)(x))


def test_fine_tuning_resumes_to_the_same_bits(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even after the file of weights is gone."""
    arguments: dict[str, Any] = {"dataset": "digits", "weights": trained, "quiet": True}
    arguments["changes"] = few(model__calibrate=20)
    result = finetune(GREY, tmp_path / "whole", **arguments)
    assert (result["steps"], result["config"]["preset"]) == (6, "finetune")
    assert [row["epoch"] for row in result["history"]] == [1, 2]
    step, count = loop.Trainer.step, 0

    def interrupted(self: loop.Trainer, batch: Any) -> None:
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt
        step(self, batch)

    monkeypatch.setattr(loop.Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        finetune(GREY, tmp_path / "cut", **arguments)
    trained.unlink()
    train(None, tmp_path / "cut", resume=True, quiet=True)
    assert (tmp_path / "cut/final.safetensors").read_bytes() == (tmp_path / "whole/final.safetensors").read_bytes()


def test_damaged_checkpoints_begin_again_with_the_weights(trained: Path, tmp_path: Path) -> None:
    """Not with the random ones that the network was built with."""
    arguments: dict[str, Any] = {"dataset": "digits", "weights": trained, "changes": few(optim__epochs=1)}
    finetune(GREY, tmp_path / "run", **arguments, quiet=True)
    whole = (tmp_path / "run/final.safetensors").read_bytes()
    (tmp_path / "run/result.json").unlink()
    for path in (tmp_path / "run/checkpoints").iterdir():
        path.write_bytes(b"nothing")
    finetune(GREY, tmp_path / "run", **arguments, resume=True, quiet=True)
    assert (tmp_path / "run/final.safetensors").read_bytes() == whole


def test_calibration_comes_before_the_first_step(trained: Path, tmp_path: Path) -> None:
    found = {}
    for count in (0, 40):
        changes = few(optim__epochs=0, model__calibrate=count)
        finetune(GREY, tmp_path / str(count), dataset="digits", weights=trained, changes=changes, quiet=True)
        found[count] = load_run(tmp_path / str(count))[0].state_dict()
    changed = {k for k, v in found[0].items() if not torch.equal(v, found[40][k])}
    assert changed
    assert all("running" in k for k in changed)


def test_a_run_is_known_by_what_its_weights_are(trained: Path, tmp_path: Path) -> None:
    """Not by where they lie: a copy is the same run, and a changed file another one."""
    copy, other = tmp_path / "copy.th", tmp_path / "other.th"
    copy.write_bytes(trained.read_bytes())
    torch.save(small_networks.grey().state_dict(), other)
    configs = [resolve(configure_finetuning(GREY, dataset="digits", weights=p)) for p in (trained, copy, other)]
    keys = [records.identity(c.to_dict(), c.model.name, c.data.name, {}) for c in configs]
    assert keys[0] == keys[1] != keys[2]
    assert differences(configs[0], configs[1]) == []
    assert [text.partition(":")[0] for text in differences(configs[0], configs[2])] == ["model.weights_sha256"]
    changed = dataclasses.replace(configs[0].model, weights=str(other))
    with pytest.raises(ValueError, match=r"other.th: has sha256 \w+; the run is configured for"):
        converted.build(changed, 10, (1, 8, 8), torch.zeros(1, 1, 8, 8))
    assert restore(configs[0].to_dict()) == configs[0]


def test_another_number_of_classes_gets_a_new_last_layer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the user is told, once; the rest keeps its weights."""
    save_pictures(tmp_path / "pictures", "ab", size=20)
    out = tmp_path / "run"
    finetune("cifar:resnet20", out, folder=tmp_path / "pictures", changes=few(optim__epochs=0), quiet=True)
    said = capsys.readouterr().err
    assert said.count("`linear` is new, for 2 classes") + said.count("begins with random weights") == 1
    model, config, dataset = load_run(out)
    with torch.no_grad():
        assert model(torch.rand(1, 3, 32, 32)).shape == (1, 2)
    assert (config.data.size, dataset.mean, dataset.std) == (32, INPUTS["mean"], INPUTS["std"])
    assert capsys.readouterr().err == ""


def test_grey_pictures_become_as_many_equal_channels(tmp_path: Path) -> None:
    save_pictures(tmp_path / "pictures", "ab", size=32, mode="L")
    config = configure_finetuning("cifar:resnet20", folder=tmp_path / "pictures", changes=few(optim__epochs=0))
    train(config, tmp_path / "run", quiet=True)
    dataset = load_run(tmp_path / "run")[2]
    assert dataset.train.images.shape[1:] == (3, 32, 32)
    assert torch.equal(dataset.train.images[:, 0], dataset.train.images[:, 2])


def save_pictures(folder: Path, classes: str, size: int, mode: str = "RGB") -> None:
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for k in range(5):
            Image.new(mode, (size, size), (40 * k + 20 * label,) * len(mode)).save(folder / name / f"{k}.png")


def test_a_network_that_says_nothing_gets_the_statistics_of_the_data(trained: Path) -> None:
    assert configure_finetuning(GREY, dataset="digits", weights=trained).data.mean == []
    assert configure_finetuning("cifar:resnet20", dataset="cifar10").data.mean == list(INPUTS["mean"])
    own = configure_finetuning("cifar:resnet20", dataset="cifar10", changes={"data.mean": [0.5], "data.std": [0.5]})
    assert own.data.mean == [0.5]


def test_a_batch_larger_than_the_data_is_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = few(optim__batch_size=97, optim__epochs=1)
    train(configure("smoke", dataset="digits", method="strided", changes=changes), tmp_path, quiet=True)
    assert "`optim.batch_size` (=97) is more than the 96 images for training." in capsys.readouterr().err
    train(configure("smoke", dataset="digits", method="strided", changes=few()), tmp_path / "b", quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "cifar:resnet21"}, "`cifar` .* must be one of 'resnet20'"),
        (
            {"source": "helpers.small_networks:maps"},
            r"must be a classifier, whose output is \(B, classes\), not \(2, 2, 6, 6\)",
        ),
        ({"source": "helpers.small_networks:headless"}, "has 7 classes and the data 10, and no last linear layer"),
        (
            {"source": "helpers.small_networks:rigid"},
            r"helpers.small_networks:rigid: fails on images of shape \(1, 8, 8\)",
        ),
        (
            {"source": "helpers.small_networks:unconvertible"},
            r"(?s)unconvertible: cannot convert the whole network.*`0`",
        ),
        ({"source": GREY, "pretrained": True}, "`pretrained=True` is for networks of timm and cifar"),
        (
            {"changes": {"model.head": "flatten"}},
            r"`model.head` \(='flatten'\) is no setting of a network from elsewhere",
        ),
        ({"changes": {"model.padding": "wrap"}}, r"`model.padding` \(='wrap'\) must be one of 'zeros'"),
        ({"changes": {"data.mean": [0.5] * 3, "data.std": [0.5] * 2}}, "`data.mean` and `data.std` must have an entry"),
        ({"method": "lpf", "changes": {"model.placement": "before"}}, "`placement='before'` needs a method"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    given = {"source": GREY, "dataset": "digits"} | arguments
    given["changes"] = few() | given.get("changes", {})
    with pytest.raises(ValueError, match=message) as caught:
        finetune(given.pop("source"), tmp_path / "run", **given, quiet=True)
    assert "strict=False" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_network_of_ours_has_no_settings_of_a_conversion() -> None:
    for key, value in {"model.calibrate": 5, "model.placement": "before", "model.pretrained": True}.items():
        config = configure("smoke", dataset="digits", changes=few(**{key.replace(".", "__"): value}))
        with pytest.raises(ValueError, match=f"`{key}` .* is no setting of a network of this package"):
            train(config, Path("nowhere"), quiet=True)
    assert not Path("nowhere").exists()


def test_weights_that_do_not_fit_leave_nothing_behind(tmp_path: Path) -> None:
    other = nn.Sequential(*list(small_networks.grey().children())[:3], nn.Linear(3, 2))
    path = tmp_path / "other.safetensors"
    safetensors.torch.save_file(other.state_dict(), path)
    with pytest.raises(
        ValueError, match=r"other.safetensors: does not fit .*: `3.weight` is .*; the file lacks `4.weight`, .* and \d"
    ):
        finetune(GREY, tmp_path / "run", dataset="digits", weights=path, changes=few(), quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_file_of_weights_may_not_name_code_to_run(trained: Path, tmp_path: Path) -> None:
    """`open_weights` reads files from anyone; those of public networks it opens."""
    finetune(GREY, tmp_path / "a", dataset="digits", weights=trained, changes=few(optim__epochs=0), quiet=True)
    with pytest.raises(ValueError, match="which a file must not name"):
        open_weights(tmp_path / "a/best.safetensors")
    save_pictures(tmp_path / "pictures", "ab", size=32)
    changes = few(optim__epochs=0, model__placement="before")
    finetune("cifar:resnet20", tmp_path / "b", folder=tmp_path / "pictures", changes=changes, quiet=True)
    model, about = open_weights(tmp_path / "b/best.safetensors")
    assert about["model"]["placement"] == "before"
    assert sp.shift_error(model, torch.rand(1, 3, 32, 32), [(1, 2), (16, 5)]).exact


def test_the_command_trains_evaluates_and_resumes(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [f"--set={k}={json.dumps(v)}" for k, v in few().items()]
    words = ["finetune", GREY, "--weights", str(trained), "--dataset", "digits", "--epochs", "1", "--padding", "keep"]
    assert main([*words, *pairs, "--quiet"]) == 0
    (out,) = Path("runs").iterdir()
    assert out.name == "digits-helpers.small_networks-grey-ghs-finetune-seed0"
    assert f"next: shiftproof evaluate {out}" in capsys.readouterr().out
    assert main(["finetune", "--resume", "--out", str(out), "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["model"]["padding"] == "keep"
    assert main(["evaluate", str(out), "--parts", "accuracy", "efficiency", "--limit", "20", "--json", "--quiet"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["model"]["source"] == "run"
    assert record["metrics"]["efficiency"]["latency_ratio"] > 0
    assert main(["finetune", "--quiet"]) == 2
    assert "`MODEL` must name the network" in capsys.readouterr().err
    assert main([*words, *pairs, "--placement", "side", "--out", "other"]) == 2
    assert "`--placement` (='side') must be one of 'after', 'before'" in capsys.readouterr().err
    assert main([*words, *pairs, "--set", "model.share=false", "--out", "other"]) == 2
    assert "`--set model.share=False` is no setting of a network from elsewhere" in capsys.readouterr().err
    assert not Path("other").exists()


def test_public_networks_have_the_keys_of_their_weights() -> None:
    """Layout, number of parameters, and shortcuts without weights: every second pixel between channels of zeros."""
    model = CifarResNet(3)
    assert sum(p.numel() for p in model.parameters()) == 269722
    names = {k.partition(".")[0] for k in model.state_dict()}
    assert names == {"conv1", "bn1", "layer1", "layer2", "layer3", "linear"}
    assert "layer2.0.conv1.weight" in model.state_dict()
    block: Any = model.layer2[0]
    nn.init.zeros_(block.bn2.weight)
    x = torch.rand(1, 16, 9, 9)
    y = block.eval()(x)
    assert torch.equal(y[:, 8:24], x[:, :, ::2, ::2])
    assert not y[:, :8].any()
    assert not y[:, 24:].any()


def test_configurations_from_elsewhere_survive_the_file(trained: Path) -> None:
    config = resolve(configure_finetuning(GREY, dataset="digits", weights=trained, changes=few(model__antialias=False)))
    again: Config = restore(json.loads(json.dumps(config.to_dict())))
    assert again == config
