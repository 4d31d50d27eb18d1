"""The paper's claims: a verdict for each, from records, and from nothing else."""

from typing import Any

import pytest

from helpers.made_up_records import estimate, index, record
from shiftproof.experiments import catalogue
from shiftproof.experiments.records import RecordIndex
from shiftproof.experiments.significance import AHEAD, BEHIND, EQUIVALENT, UNDECIDED, Comparison, paired_t
from shiftproof.reports import claims, paper_tables
from shiftproof.reports.table import Cell, Table


def page(found: RecordIndex, *more: Table) -> str:
    return claims.build([*paper_tables.make_all(found, "laptop"), *more], found, "laptop", "records")


def verdicts(text: str) -> dict[str, tuple[str, str]]:
    """Of GHS and of the paper's layer, by claim."""
    rows = [line.strip("| ").split(" | ") for line in text.split("\n\n")[2].splitlines()[2:]]
    return {claim: (ours, theirs) for claim, ours, theirs in rows}


def runs(method: str, *accuracies: float, table: str = "table2", **metrics: Any) -> list[Any]:
    configs = catalogue.configs(table, "laptop", methods=[method], seeds=list(range(len(accuracies))))
    return [record(config, value, **metrics) for config, value in zip(configs, accuracies, strict=True)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([], claims.NOT_RUN),
        ([AHEAD, AHEAD], claims.HOLDS),
        ([AHEAD, BEHIND], claims.PARTLY),
        ([AHEAD, UNDECIDED], claims.PARTLY),
        ([UNDECIDED, UNDECIDED], claims.OPEN),
        ([UNDECIDED, BEHIND], claims.FAILS),
        ([EQUIVALENT], claims.FAILS),
    ],
)
def test_a_claim_to_be_better(found: list[str], expected: str) -> None:
    test = paired_t([1.0, 2.0])
    assert claims.decide([Comparison("a", "b", "c", test, 1.0, verdict) for verdict in found]) == expected


def test_nothing_was_run() -> None:
    text = page(index())
    ours = verdicts(text)
    assert ours.pop("No change of the architecture, no parameters, no extra training") == ("not run", "not run")
    assert set(ours.values()) == {("not run", "not run")}
    assert "95.54 in table 2, 95.02 in table 4" in text


def test_accuracy_and_consistency_follow_from_the_records() -> None:
    """Ours is ahead of both rivals, the paper's layer behind one; one pair of shifts in ten thousand is enough."""
    exact: dict[str, Any] = {"consistency": {"aps_protocol": estimate(1.0), "all_pairs": {"pairs": estimate(1.0)}}}
    nearly: dict[str, Any] = {"consistency": {"aps_protocol": estimate(0.9999), "all_pairs": {"pairs": estimate(1.0)}}}
    made = [
        *runs("ghs", 0.90, 0.91, 0.92, **exact),
        *runs("ghs-paper", 0.80, 0.811, 0.82, **nearly),
        *runs("aps", 0.85, 0.862, 0.87),
        *runs("lpf", 0.86, 0.871, 0.88),
    ]
    text = page(index(*made))
    found = verdicts(text)
    assert found["Accuracy is above that of APS and LPF"] == (claims.HOLDS, claims.FAILS)
    assert found["Networks are 100 % consistent under shifts"] == (claims.HOLDS, claims.FAILS)
    assert (
        "ResNet-20, minus APS-3: the paper -0.03; GHS +4.93 (ahead, n=3); GHS of the paper -5.03 (behind, n=3)." in text
    )
    assert "[1](records/0.json)" in text


def test_exactness_and_cost_of_a_layer() -> None:
    """One bit of difference is a difference."""

    def cameraman(difference: float) -> Table:
        rows = (("GHS", (Cell(values=(0.0,)),)), ("GHS (paper)", (Cell(values=(difference,)),)))
        return Table("cameraman", "", ("max, all 1,024",), rows)

    times = {"GHS": 0.3, "APS-3": 9.0, "GHS of the paper": 12.0}
    rows = tuple((name, (Cell(values=(ratio,)),)) for name, ratio in times.items())
    text = page(index(), cameraman(1e-9), Table("table6", "", ("ratio to max pooling",), rows))
    found = verdicts(text)
    assert found["The layer is exactly shift invariant"] == (claims.HOLDS, claims.FAILS)
    assert found["A layer takes about as long as one of APS"] == (claims.HOLDS, claims.FAILS)


def test_less_aliasing_than_all_rivals() -> None:
    made = []
    for method, aliased in {"ghs": 0.03, "ghs-paper": 0.005, "lpf": 0.02, "strided": 1.0}.items():
        made += runs(method, 0.5, table="related", aliasing={"aliased": aliased})
    assert verdicts(page(index(*made)))["Aliasing is lower"] == (claims.PARTLY, claims.HOLDS)


def test_a_flatten_head_must_keep_answers_and_accuracy() -> None:
    def with_agreement(value: float) -> dict[str, Any]:
        return {"consistency": {"agreement": {"circular": estimate(value)}}}

    made = [
        *runs("ghs", 0.90, table="heads", **with_agreement(1.0)),
        *runs("ghs, flatten", 0.90, table="heads", **with_agreement(1.0)),
        *runs("ghs-paper, flatten", 0.90, table="heads", **with_agreement(0.999)),
    ]
    assert verdicts(page(index(*made)))["Global pooling is not needed"] == (claims.HOLDS, claims.FAILS)


def test_parameters_and_arithmetic_are_those_of_the_records() -> None:
    made = []
    for method, flops in {"strided": 100, "ghs": 100, "ghs-paper": 117}.items():
        made += runs(method, 0.5, efficiency={"flops": flops})
    text = page(index(*made))
    words = "No change of the architecture, no parameters, no extra training"
    assert verdicts(text)[words] == (claims.HOLDS, claims.PARTLY)
    assert "GHS of the paper: 1 parameters, strided 1; 1.17 times its arithmetic" in text


def test_hours_of_the_full_experiment() -> None:
    """Ten seeds of 250 epochs, at the fastest epoch of the records."""
    made = runs("lpf", 0.5, 0.6)
    for seconds, run in zip((300, 120), made, strict=True):
        run["training"] = {"seconds": seconds, "history": [{}, {}]}
    assert "| cifar10, resnet20, lpf | 2 | 1.00 | 42 |" in page(index(*made))
