"""Stored configurations: options in full, and what earlier versions left out at the value it had then."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.tiny_runs import TINY, change_the_default
from shiftproof.layers import methods, registry, resolve_options
from shiftproof.training import config as configuration
from shiftproof.training import resolve as resolving
from shiftproof.training.config import Config, configure, unflatten
from shiftproof.training.loop import train
from shiftproof.training.resolve import first_options, resolve, restore

OLD_KERNEL = "hermite(orders=4N, sigma=band, extension=periodic, projection=quadrature, gain=unit, taper=gaussian)"


def test_every_option_is_written_down() -> None:
    config = resolve(configure("smoke", method="ghs"))
    assert config.model.options["kernel"] == OLD_KERNEL
    assert set(config.model.options) == set(resolve_options("ghs"))
    assert resolve(config) == config
    assert resolve(configure("smoke", method="lpf", changes={"model.options.taps": 5})).model.options["taps"] == 5
    assert resolve(configure("smoke", method="da")).recipe == "da"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "local(order=99)"}, r"`model.options.kernel` \(=.*\): `order` \(=99\) must be at most 64"),
        ({"taps": 3}, r"`model.options.taps` \(=3\): method 'ghs' has no option `taps`"),
        ({"ties": "exact", "taps": 3}, r"^`model.options.taps` \(=3\): method 'ghs' has no option `taps`"),
        ({"ties": "exact", "kernel": "local(order=99)"}, r"^`model.options.kernel` \(='local\(order=99\)'\): `order` "),
        (
            {"pivot_rule": lambda x: x.amax(1)},
            r"^`model.options.pivot_rule` \(=<function .*\) must be a function that can",
        ),
    ],
)
def test_a_wrong_option_is_refused_before_the_run(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(configure("smoke", method="ghs", changes={"model.options": options}))


def test_options_by_dotted_key_leave_the_table_alone() -> None:
    """A row of a catalogue is used many times: what one run changes in its options is not seen by the next."""
    row = {"model.method": "lpf", "model.options": {"taps": 5}}
    assert configure("smoke", changes=row | {"model.options.dense_max": 0}).model.options == {"taps": 5, "dense_max": 0}
    assert row["model.options"] == {"taps": 5}


@pytest.mark.parametrize("method", ["ghs", "ghs-paper"])
def test_the_first_names_of_ghs(method: str) -> None:
    """Matrix options become the text of a kernel, `pivot` a rule, the grid `pivot` is `anchored`; gone values stay."""
    old = {"taper": "cosine", "sigma": 2.0, "grid": "pivot", "pivot": "per-channel", "anchor": "corner"}
    found = first_options(method, old)
    orders, extension, gain = ("4N", "periodic", "unit") if method == "ghs" else ("N", "zero", "paper")
    assert found == {
        "kernel": f"hermite(orders={orders}, sigma=2.0, extension={extension}, projection=quadrature, gain={gain}, "
        "taper=cosine)",
        "grid": "anchored",
        "anchor": "corner",
        "pivot_rule": "per-channel",
        "ties": "exact",
        "output_size": None,
        "return_selection": False,
    }


def test_what_the_first_version_left_out() -> None:
    """The table is a memory of version 0.1, so it is compared with texts, not with today's defaults."""
    paper = "hermite(orders=N, sigma=rule, extension=zero, projection=quadrature, gain=paper, taper=none)"
    found = {method: first_options(method, {}) for method in ("ghs", "ghs-paper", "lpf", "strided")}
    assert [found["ghs"][k] for k in ("kernel", "grid", "anchor", "pivot_rule")] == [
        OLD_KERNEL,
        "anchored",
        "center",
        "phase",
    ]
    assert [found["ghs-paper"][k] for k in ("kernel", "grid", "anchor", "pivot_rule")] == [
        paper,
        "inclusive",
        "corner",
        "max",
    ]
    assert found["lpf"] == {"taps": 3, "dense_max": 1}
    assert found["strided"] == {}
    assert set(methods()) >= set(found)
    for method in methods():
        assert resolve_options(method, first_options(method, {})) == first_options(method, {})


def test_an_older_run_keeps_its_meaning_when_a_default_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    given = configure("smoke", method="ghs", changes={"model.options": {"ties": "first"}}).to_dict()
    full = resolve(configure("smoke", method="ghs")).to_dict()
    change_the_default(monkeypatch)
    assert resolve(configure("smoke", method="ghs")).model.options["kernel"] == "local(order=4, width=1.0)"
    assert restore(full).model.options["kernel"] == OLD_KERNEL
    assert restore(configure("smoke", method="ghs").to_dict()).model.options["kernel"] == OLD_KERNEL
    assert restore(given).model.options["kernel"] == OLD_KERNEL


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"pivot": "per-channel"}, "pivot` (='per-channel')"),
        ({"taper": "cosine", "pivot": "phase"}, "taper` (='cosine')"),
        (resolve_options("ghs") | {"pivot_rule": "per-channel"}, "pivot_rule` (='per-channel')"),
        (
            resolve_options("ghs") | {"kernel": OLD_KERNEL.replace("gaussian", "linear")},
            f"kernel` (='{OLD_KERNEL.replace('gaussian', 'linear')}')",
        ),
    ],
)
def test_a_run_with_a_removed_option_says_so(options: dict[str, Any], named: str, tmp_path: Path) -> None:
    """Which option, that it was removed, and what can be done; as the first version stored it, and in full."""
    tree = configure("smoke", method="ghs").to_dict()
    tree["model"]["options"] = options
    path = tmp_path / "config.json"
    path.write_text(json.dumps(tree))
    with pytest.raises(ValueError, match="which was removed: continue it with the version") as refusal:
        train(None, tmp_path, resume=True, quiet=True)
    assert str(refusal.value).startswith(f"{path}: begun with `model.options.{named}, which was removed")
    tree["model"]["options"] = {"foo": 1}
    path.write_text(json.dumps(tree))
    with pytest.raises(ValueError, match=r"config.json: not the configuration of a run: `model.options.foo` \(=1\): "):
        train(None, tmp_path, resume=True, quiet=True)


def test_a_setting_that_came_later_has_the_value_of_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its default is: here the heads of earlier runs were flat, and their filters five taps wide."""
    monkeypatch.setattr(resolving, "ADDED_SETTINGS", {"model.head": "flatten"})
    monkeypatch.setattr(resolving, "ADDED_OPTIONS", {"mine": {"taps": 5}})
    monkeypatch.setitem(registry._registry, "mine", registry._registry["lpf"])
    tree = configure("smoke", method="mine").to_dict()
    del tree["model"]["head"]
    assert restore(tree).model.head == "flatten"
    assert restore(tree).model.options == {"taps": 5, "dense_max": 1}
    assert restore(configure("smoke", method="mine").to_dict()).model.head == "pool"


def test_a_run_of_an_earlier_version_resumes(tmp_path: Path) -> None:
    """Its config.json has only the options that were given, under their old names; the weights come out the same."""
    config = configure("smoke", dataset="digits", method="ghs", changes=TINY | {"optim.epochs": 2})
    whole = train(config, tmp_path / "whole", quiet=True)
    assert json.loads((tmp_path / "whole" / "config.json").read_text()) == resolve(config).to_dict() == whole["config"]
    old = tmp_path / "old"
    train(config, old, quiet=True)
    (old / "config.json").write_text(json.dumps(unflatten(old_settings(config))))
    (old / "result.json").unlink()
    (old / "final.safetensors").unlink()
    sorted((old / "checkpoints").iterdir())[-1].unlink()  # back by an epoch
    resumed = train(config, old, resume=True, quiet=True)
    assert resumed["final"] == whole["final"]
    assert (old / "final.safetensors").read_bytes() == (tmp_path / "whole" / "final.safetensors").read_bytes()
    assert train(None, old, resume=True, quiet=True)["config"] == resolve(config).to_dict()
    other = configure("smoke", dataset="digits", method="ghs", changes=TINY | {"model.options.kernel": "local"})
    with pytest.raises(ValueError, match=r"other settings: model.options.kernel: 'hermite\(.*\)' and 'local\(.*\)'"):
        train(other, old, resume=True, quiet=True)


def old_settings(config: Config) -> dict[str, object]:
    flat = dict(configuration.flatten(config.to_dict()))
    return flat | {"model.options": {"sigma": "band", "pivot": "phase"}}
