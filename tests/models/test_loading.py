"""Networks from elsewhere by name, and their weights from files and from those who publish them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from PIL import Image
from torch import nn

from helpers import zoo  # noqa: F401  (timm needs a part of torchvision that it supplies)
from shiftproof.commands.main import main
from shiftproof.models import cifar, load_model, loading
from shiftproof.models.loading import full_source, has_random_weights, input_settings, load_weights, put_weights


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))


def equal(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(v, b.state_dict()[k]) for k, v in a.state_dict().items())


@pytest.mark.parametrize("form", ["plain", "state_dict", "net", "parallel", "safetensors", "before torch 1.6"])
def test_weights_are_found_in_every_usual_checkpoint(form: str, tmp_path: Path) -> None:
    """Beside other things, under any name if it is the only one, with the prefix of `DataParallel`, in old files."""
    model, path = net(), tmp_path / "weights.th"
    tensors = model.state_dict()
    if form == "safetensors":
        path = path.with_suffix(".safetensors")
        safetensors.torch.save_file(tensors, path)
    else:
        forms: dict[str, Any] = {
            "plain": tensors,
            "state_dict": {"state_dict": tensors, "ema": tensors, "epoch": 3},
            "net": {"net": tensors, "best": 91.7, "optimizer": {"state": {}, "param_groups": []}},
            "parallel": {"state_dict": {f"module.{k}": v for k, v in tensors.items()}},
        }
        torch.save(forms.get(form, tensors), path, _use_new_zipfile_serialization=form != "before torch 1.6")
    other = net()
    nn.init.zeros_(next(other.parameters()))
    put_weights(other, load_weights(path), "weights.th", "mine")
    assert equal(other, model)


def test_two_sets_of_weights_are_not_guessed_between(tmp_path: Path) -> None:
    torch.save({"student": net().state_dict(), "teacher": net().state_dict()}, tmp_path / "w.pt")
    with pytest.raises(ValueError, match=r"w.pt: must hold a state_dict"):
        load_weights(tmp_path / "w.pt")


def test_a_counter_of_batches_may_be_missing() -> None:
    """Files from before torch 0.4.1 have none."""
    model = net()
    tensors = {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
    put_weights(net(), tensors, "old.th", "mine")


def test_a_network_may_have_a_part_that_is_called_module() -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = net()

    put_weights(Wrapper(), Wrapper().state_dict(), "w.th", "mine")


def test_weights_that_do_not_fit_name_the_first_keys_that_differ() -> None:
    tensors = net().state_dict()
    del tensors["3.bias"]
    tensors |= {"3.weight": torch.zeros(5, 4), "fc.weight": torch.zeros(1), "fc.bias": torch.zeros(1)}
    with pytest.raises(ValueError) as caught:
        put_weights(net(), tensors, "w.th", "mine:net")
    assert str(caught.value) == (
        "w.th: does not fit mine:net: `3.weight` is (5, 4) there and (2, 4) in the network; the file lacks `3.bias`; "
        "the network has no `fc.weight`, `fc.bias`."
    )
    with pytest.raises(ValueError, match=r"the file lacks `0.weight`, `0.bias`, `1.weight` and 5 more\.$"):
        put_weights(net(), {}, "w.th", "mine:net")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of downloads."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    return tmp_path / "checkpoints"


def test_published_weights_are_fetched_once_and_checked(hub: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = cifar.CIFAR_RESNETS["resnet20"]()
    parts = {f"module.{k}": v for k, v in model.state_dict().items()}
    torch.save({"state_dict": parts}, hub.parent / "theirs.th")
    content, fetched = (hub.parent / "theirs.th").read_bytes(), []
    digest = hashlib.sha256(content).hexdigest()
    monkeypatch.setitem(cifar._PUBLISHED, "resnet20", ("theirs.th", digest))

    def download(url: str, path: str, *_: Any, **__: Any) -> None:
        fetched.append(url)
        Path(path).write_bytes(content)

    monkeypatch.setattr(torch.hub, "download_url_to_file", download)
    assert equal(load_model("cifar:resnet20", pretrained=True), model)
    assert equal(load_model("cifar:resnet20", pretrained=True), model)
    assert len(fetched) == 1
    assert fetched[0].startswith("https://")
    (hub / "theirs.th").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"theirs.th: sha256 \w+, and it should be \w+. Remove the file"):
        load_model("cifar:resnet20", pretrained=True)


def test_without_a_connection_the_error_says_where_the_file_goes(hub: Path) -> None:
    with pytest.raises(ValueError, match=r"could not be fetched .* Place the file at .*resnet20-12fca82f.th"):
        load_model("cifar:resnet20", pretrained=True)
    assert not list(hub.iterdir())
    with pytest.raises(
        ValueError, match="cifar:resnet32 has no published weights; there are some of resnet20, resnet56"
    ):
        load_model("cifar:resnet32", pretrained=True)


def test_a_name_alone_is_one_of_timm() -> None:
    assert full_source("resnet18") == "timm:resnet18"
    assert full_source("mine:make") == "mine:make"
    assert type(load_model("resnet18")).__module__.startswith("timm.")
    with pytest.raises(ValueError, match=r"Did you mean 'resnet18'\?"):
        load_model("resnet17")
    with pytest.raises(ValueError, match="must be `module:factory`, `timm:NAME` or `cifar:NAME`"):
        load_model(":resnet18")


def test_random_weights_are_known_as_such() -> None:
    assert has_random_weights("resnet18", None, False)
    assert has_random_weights("cifar:resnet20", None, False)
    assert not has_random_weights("cifar:resnet20", None, True)
    assert not has_random_weights("timm:resnet18", "w.th", False)
    assert not has_random_weights("mine:make", None, False)


def test_networks_say_what_they_take() -> None:
    assert input_settings(load_model("cifar:resnet20")) == cifar.INPUTS
    assert input_settings(load_model("timm:tf_efficientnet_lite0"))["mean"] == (0.5, 0.5, 0.5)
    assert input_settings(net()) == {}


def test_weights_that_timm_cannot_get_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:

    def offline(name: str, pretrained: bool) -> nn.Module:
        raise RuntimeError("cannot reach\nthe hub")

    monkeypatch.setattr("timm.create_model", offline)
    with pytest.raises(ValueError, match=r"timm:resnet18: no published weights could be had \(cannot reach the hub\)."):
        load_model("timm:resnet18", pretrained=True)
    with pytest.raises(ValueError, match=r"weights.th has others"):
        load_model("timm:resnet18", "weights.th", pretrained=True)
    assert loading.LIBRARIES == ("timm", "cifar")


def test_commands_use_what_the_network_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size and normalisation, unless the user says otherwise; and they say that its weights are random."""
    monkeypatch.chdir(tmp_path)
    for label in "ab":
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for k in range(5):
            Image.new("RGB", (40, 36), (40 * k, 90, 20)).save(tmp_path / "pictures" / label / f"{k}.png")
    words = ["cifar:resnet20", "pictures/a/0.png", "--kinds", "cropped", "--json", "--quiet"]
    assert main(["measure", *words]) == 0
    said = capsys.readouterr()
    about = json.loads(said.out)["about"]
    assert about["weights"] == "random"
    assert about["normalisation"].startswith("mean 0.485, 0.456, 0.406")
    assert "cifar:resnet20 has RANDOM weights" in said.err
    torch.save({"model": cifar.CifarResNet(3).state_dict(), "epoch": 1}, "w.pt")
    words = ["cifar:resnet20", "--folder", "pictures", "--parts", "accuracy", "--json", "--quiet", "--weights", "w.pt"]
    assert main(["evaluate", *words]) == 0
    said = capsys.readouterr()
    record = json.loads(said.out)
    assert (record["model"]["weights"], record["dataset"]["size"]) == ("w.pt", [3, 32, 32])
    assert "RANDOM" not in said.err
