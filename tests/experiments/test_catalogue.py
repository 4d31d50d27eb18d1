"""The runs of every table."""

import pytest
import torch

from helpers.tiny_runs import change_the_default
from shiftproof.experiments import catalogue
from shiftproof.layers import resolve_options
from shiftproof.models import create_model
from shiftproof.models.cifar import INPUTS


def test_a_table_is_a_list_of_runs() -> None:
    """Seed by seed; presets for small machines train the small network unless asked."""
    paper = catalogue.configs("table1", "paper")
    assert len(paper) == 10 * 4 * 6
    assert [c.run.seed for c in paper] == sorted(c.run.seed for c in paper)
    laptop = catalogue.configs("table4", "laptop")
    assert {c.model.name for c in laptop} == {"resnet20"}
    assert "cifar10-resnet20-da-laptop-seed0" in catalogue.run_name(laptop[0])
    assert len({catalogue.run_name(c) for c in paper + laptop}) == len(paper) + len(laptop)
    few = catalogue.configs("table3", "smoke", models=["resnet18"], methods=["lpf"], seeds=[4, 5], dataset="digits")
    assert [(c.model.name, c.model.method, c.run.seed, c.data.name) for c in few] == [
        ("resnet18", "lpf", 4, "digits"),
        ("resnet18", "lpf", 5, "digits"),
    ]
    with pytest.raises(ValueError, match="Did you mean 'table1'"):
        catalogue.configs("tabel1", "smoke")


def test_every_variant_of_the_ablation_runs() -> None:
    """Each row is a network of its own."""
    configs = catalogue.configs("ablation", "smoke", seeds=[0])
    assert len({catalogue.run_name(c) for c in configs}) == len(catalogue.ABLATION) == len(configs)
    for c in configs:
        model = create_model(c.model.name, c.model.method, head=c.model.head, share=c.model.share, **c.model.options)
        assert model(torch.rand(2, 3, 32, 32)).isfinite().all()
    assert catalogue.settings("ablation", "laptop").on == "validation"


def test_the_front_is_measured_with_the_weights_of_the_package() -> None:
    """One run of each row, whatever the preset: as they are, or trained for one epoch; on few images, all the same."""
    configs = catalogue.configs("subpixel", "paper")
    assert len(configs) == len({catalogue.run_name(c) for c in configs}) == len(catalogue.SWEEPS["subpixel"].rows)
    for c in configs:
        create_model(c.model.name, c.model.method, subpixel=c.model.subpixel, weights=c.model.weights)
        assert c.optim.epochs <= 1
    fronts = {c.model.method for c in configs if c.model.subpixel}
    for method in fronts:  # each with what the epoch does by itself
        kinds = {(c.model.subpixel, c.optim.epochs) for c in configs if c.model.method == method}
        assert kinds == {(False, 0), (True, 0), (True, 1), (False, 1)}
    limits = {name: catalogue.settings("subpixel", name).limit for name in ("paper", "laptop", "smoke")}
    assert limits == {"paper": 1000, "laptop": 1000, "smoke": 64}
    assert catalogue.settings("table1", "laptop").limit is None
    assert len(catalogue.configs("subpixel", "laptop", seeds=[0, 1])) == 2 * len(configs)


def test_other_readings_of_the_paper_share_its_runs() -> None:
    """One seed of each row; the rows that another table has too are the same runs, and every other one is its own."""
    table1 = {catalogue.run_name(c) for c in catalogue.configs("table1", "laptop")}
    for name, shared in (("readings", 3), ("heads", 4), ("related", 5)):
        configs = catalogue.configs(name, "laptop")
        runs = {catalogue.run_name(c) for c in configs}
        assert len(runs) == len(configs) == len(catalogue.SWEEPS[name].rows)
        assert len(runs & table1) == shared
        assert catalogue.settings(name, "laptop") == catalogue.settings("table1", "laptop")
        for c in configs:
            model = create_model("resnet8", c.model.method, head=c.model.head, size=16, **c.model.options)
            assert model(torch.rand(2, 3, 16, 16)).isfinite().all()


def test_digits_are_rotated_at_both_sizes() -> None:
    sizes = {name: {c.data.size for c in catalogue.configs(name, "laptop")} for name in ("table5", "rotated28")}
    assert sizes == {"table5": {29}, "rotated28": {28}}


def test_public_weights_are_converted_in_every_way() -> None:
    """As they are and calibrated once, whatever the seed; fine-tuned with three seeds and one, but for a smoke test."""
    table = catalogue.SWEEPS["pretrained"]
    configs = catalogue.configs("pretrained", "laptop")
    assert len({catalogue.run_name(c) for c in configs}) == len(configs)
    runs = {name: [c for c in configs if c.model.name == f"cifar:{name}"] for name in ("resnet20", "resnet56")}
    tuned = {name: [c for c in some if c.optim.epochs] for name, some in runs.items()}
    assert {name: {c.run.seed for c in some} for name, some in tuned.items()} == {
        "resnet20": {0, 1, 2},
        "resnet56": {0},
    }
    assert len(tuned["resnet20"]) == 3 * len(tuned["resnet56"]) == 30
    assert all(c.run.seed == 0 for some in runs.values() for c in some if not c.optim.epochs)
    assert len(catalogue.configs("pretrained", "smoke")) == 2 * len(table.rows)
    assert all(c.model.pretrained and c.data.mean == list(INPUTS["mean"]) and not c.data.validation for c in configs)
    ways = {(c.model.method, c.model.padding, c.model.placement) for c in configs if c.model.method == "ghs"}
    assert len(ways) == 4
    images = {name: catalogue.settings("pretrained", name).shift_images for name in ("paper", "laptop", "smoke")}
    assert images == {"paper": 100, "laptop": 100, "smoke": 1}


def test_configurations_have_their_options_in_full() -> None:
    """Also those that a row changes, and those that are changed for all runs; the catalogue itself stays as it is."""
    (paper,) = catalogue.configs("table1", "smoke", models=["resnet20"], methods=["ghs-paper"])
    assert paper.model.options == resolve_options("ghs-paper")
    changes = {"model.options.kernel": "local(order=4)"}
    (local,) = catalogue.configs("ablation", "smoke", methods=["anchor: corner"], changes=changes)
    assert local.model.options == resolve_options(
        "ghs", {"kernel": "local(order=4)", "grid": "periodic", "anchor": "corner", "pivot_rule": "max"}
    )
    assert "local" not in str(catalogue.SWEEPS["ablation"].rows["anchor: corner"])


def test_default_options_are_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of today: what was the default when a record was made may be so no longer."""
    usual, corner = (
        {"config": catalogue.configs("ablation", "smoke", methods=[m])[0].to_dict()} for m in ("ghs", "anchor: corner")
    )
    assert catalogue.has_default_options(usual)
    assert not catalogue.has_default_options(corner)
    assert not catalogue.has_default_options({"config": {"model": {"method": "a method of one's own", "options": {}}}})
    assert not catalogue.has_default_options({"config": None})
    change_the_default(monkeypatch)
    assert not catalogue.has_default_options(usual)
