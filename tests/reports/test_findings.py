"""The findings: what is behind, ahead, equivalent and undecided, in sentences."""

from helpers.made_up_records import estimate, index, record
from shiftproof.experiments import catalogue
from shiftproof.reports import findings, paper_tables

ABOUT = "Classification accuracy on CIFAR-10"


def found_in(name: str, part: str = "test", **right: tuple[float, ...]) -> dict[str, str]:
    """The findings of a table from accuracies by method and seed."""
    made = []
    for method, values in right.items():
        seeds = list(range(len(values)))
        rows = catalogue.configs(name, "laptop", methods=[method.replace("_", "-")], seeds=seeds)
        made += [record(config, value, part) for config, value in zip(rows, values, strict=True)]
    return dict(findings.from_tables([paper_tables.make(name, index(*made), "laptop")]))


def test_findings_name_what_is_behind_and_what_is_ahead() -> None:
    """By the rule, for what was run; a lower mean is named even if nothing is decided."""
    found = found_in("table2", ghs=(0.90, 0.92, 0.91), strided=(0.80, 0.82, 0.812), lpf=(0.98, 0.91, 0.93), aps=(0.95,))
    assert found[f"GHS ahead of, {ABOUT}"] == "ResNet-20: Baseline (strided) (+9.93, n=3)."
    assert found[f"GHS behind, {ABOUT}"] == "ResNet-20: APS-3 (-5.00, n=1)."
    assert found[f"GHS, lower but undecided, {ABOUT}"] == "ResNet-20: LPF-3 (-3.00, n=3)."
    assert found["GHS, undecided"].startswith("1 of 3 comparisons")


def test_both_versions_of_ghs_are_subjects() -> None:
    found = found_in("table2", ghs=(0.90, 0.92), ghs_paper=(0.80, 0.822), lpf=(0.95,))
    assert f"GHS behind, {ABOUT}" in found
    assert f"GHS of the paper behind, {ABOUT}" in found


def test_the_digits_are_read() -> None:
    found = found_in("digits", ghs=(0.90, 0.92, 0.91), lpf=(0.95, 0.972, 0.961))
    assert found["GHS behind, Bundled digits, ResNet-20"] == "accuracy: LPF-3 (-5.10, n=3)."


def test_nothing_was_run() -> None:
    assert findings.from_tables(paper_tables.make_all(index(), "laptop")) == []


def test_agreement_and_change_are_means() -> None:
    """Both of all seeds: a mean beside a maximum would compare nothing."""
    made = []
    for config in catalogue.configs("shifts", "laptop", methods=["lpf"], seeds=[0, 1]):
        pairs = {"pairs": estimate(0.9 + config.run.seed / 20), "largest_change": 2.0 + 2 * config.run.seed}
        made.append(record(config, 0.5, consistency={"all_pairs": pairs}))
    found = dict(findings.from_tables([paper_tables.make("shifts", index(*made), "laptop")]))
    assert found["CIFAR-10, ResNet-20"].endswith("means over seeds: LPF-3 92.50 % and 3.")


def test_the_front_is_compared_with_the_network_without_it() -> None:
    """What it wins and what it loses, by the intervals of single runs."""
    made = []
    for row, (unshifted, worst) in {"ghs": (0.9, 0.5), "GHS, front": (0.8, 0.79), "lpf": (0.81, 0.4)}.items():
        (config,) = catalogue.configs("subpixel", "laptop", methods=[row])
        integer = {"unshifted": estimate(unshifted, 0.01), "accuracy": estimate(0.0, 0.01)}
        adversarial = {"integer": integer, "fractional": {"accuracy": estimate(worst, 0.01)}}
        made.append(record(config, 0.0, adversarial=adversarial))
    found = dict(findings.from_tables([paper_tables.make("subpixel", index(*made), "laptop")]))
    about = "Parts of a pixel, CIFAR-10, ResNet-20"
    assert found[f"GHS, front behind, {about}"] == "accuracy: GHS (-10.00, n=1)."
    assert found[f"GHS, front ahead of, {about}"] == "worst eighth: LPF-3 (+39.00, n=1), GHS (+29.00, n=1)."


def test_the_ablation_ranks_the_default() -> None:
    """The place of the default, and what is better than it."""
    right = {"ghs": 0.60, "anchor: corner": 0.61, "orders: 2N": 0.70, "orders: N": 0.50}
    made = [
        record(catalogue.configs("ablation", "laptop", methods=[name], seeds=[0])[0], value, "validation")
        for name, value in right.items()
    ]
    ((about, words),) = findings.from_tables([paper_tables.make("ablation", index(*made), "laptop")])
    assert about == "Ablation"
    assert "the default, 60.00 (n=1), is number 3 of 4; the best others: orders: 2N 70.00 (n=1)" in words
