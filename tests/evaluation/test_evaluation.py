"""The evaluation, on classifiers whose numbers are known beforehand."""

import contextlib
import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from shiftproof.data.sets import Dataset, Images
from shiftproof.evaluation import suite
from shiftproof.evaluation.accuracy import measure_accuracy
from shiftproof.evaluation.aliasing import all_waves, measure_aliasing, plane_waves, surviving
from shiftproof.evaluation.classifier import Classifier, evaluating, scores
from shiftproof.evaluation.consistency import aps_protocol, describe, measure_consistency
from shiftproof.evaluation.efficiency import measure_efficiency
from shiftproof.evaluation.robustness import DAMAGES, measure_robustness
from shiftproof.evaluation.statistics import hits, mean, proportion
from shiftproof.layers import methods
from shiftproof.models import create_model


def corner(x: Tensor) -> Tensor:
    """Class 1 where the first pixel is brighter than a half, 0 otherwise."""
    bright = x[:, 0, 0, 0]
    return torch.stack([1 - bright, bright], 1)


def largest(x: Tensor) -> Tensor:
    """Exactly invariant: the class is the channel with the brightest pixel."""
    return x.amax((2, 3))


class Largest(nn.Module):
    """`largest` as a network."""

    def forward(self, x: Tensor) -> Tensor:
        return largest(x)


def plain(f: Any, mean: float = 0.0) -> Classifier:
    """A classifier on grey pictures whose model sees `x - mean`, moved back."""
    return Classifier(lambda x: f(x + mean), [mean], [1.0])


def white(count: int, size: int = 8) -> tuple[Tensor, Tensor]:
    return torch.full((count, 1, size, size), 255, dtype=torch.uint8), torch.ones(count, dtype=torch.int64)


def dataset(count: int = 12, channels: int = 3, size: int = 8) -> Dataset:
    part = Images(torch.randint(0, 256, (count, channels, size, size), dtype=torch.uint8), torch.arange(count) % 3)
    return Dataset("tiny", part, part, ("a", "b", "c"), (0.5,) * channels, (0.25,) * channels, "made up", "0" * 64)


class TestStatistics:
    @pytest.mark.parametrize(
        ("successes", "n", "low", "high"),
        [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
    )
    def test_wilson_against_newcombe(self, successes: int, n: int, low: float, high: float) -> None:
        """The four examples of Newcombe (1998), method 3; and the mirror images."""
        estimate = proportion(successes / n, n)
        assert (round(estimate.low, 4), round(estimate.high, 4)) == (low, high)
        mirrored = proportion(1 - successes / n, n)
        assert mirrored.low == pytest.approx(1 - estimate.high)
        assert mirrored.high == pytest.approx(1 - estimate.low)

    def test_shares(self) -> None:
        """The interval stays inside [0, 1], holds the value, and shrinks with n."""
        for k in range(11):
            few, many = proportion(k / 10, 10), proportion(k / 10, 1000)
            assert 0 <= few.low <= few.value <= few.high <= 1
            assert many.high - many.low < few.high - few.low
        assert hits(torch.tensor([True, False, True, True])).to_dict() == proportion(0.75, 4).to_dict()
        with pytest.raises(ValueError, match="at least 1"):
            hits(torch.zeros(0, dtype=torch.bool))

    def test_means(self) -> None:
        """For many observations the interval is that of the normal distribution; equal for equal seeds only."""
        values = torch.randn(2000, dtype=torch.float64)
        estimate = mean(values)
        reach = 1.96 * float(values.std()) / math.sqrt(2000)
        assert estimate.high - estimate.value == pytest.approx(reach, rel=0.1)
        assert estimate.value - estimate.low == pytest.approx(reach, rel=0.1)
        assert estimate == mean(values)
        assert estimate != mean(values, seed=1)
        assert mean(torch.ones(3)).to_dict() == {"value": 1.0, "low": 1.0, "high": 1.0, "n": 3}
        with pytest.raises(ValueError, match="at least one observation"):
            mean(torch.zeros(0))


class TestClassifier:
    def test_normalises(self) -> None:
        """The model sees (x - mean) / std of every channel, and keeps no graph."""
        weight = torch.ones(1, requires_grad=True)
        f = Classifier(lambda x: x.mean((2, 3)) * weight, (0.5, 0.25), (0.5, 0.25))
        out = f(torch.tensor([1.0, 0.5]).view(1, 2, 1, 1).expand(1, 2, 4, 4))
        assert out.tolist() == [[1.0, 1.0]]
        assert not out.requires_grad
        with pytest.raises(ValueError, match="with C = 2"):
            f(torch.rand(1, 3, 4, 4))
        with pytest.raises(ValueError, match="one value per channel each"):
            Classifier(largest, (0.5,), (0.5, 0.5))
        with pytest.raises(ValueError, match="must be positive"):
            Classifier(largest, (0.5,), (0.0,))

    @pytest.mark.parametrize("batch_size", [1, 4, 7, 100])
    def test_batches(self, batch_size: int) -> None:
        """All calls have one shape, and scores do not depend on it."""
        images = torch.randint(0, 256, (10, 2, 3, 3), dtype=torch.uint8)
        shapes, heard = set(), []

        def f(x: Tensor) -> Tensor:
            shapes.add(tuple(x.shape))
            return largest(x)

        found = scores(f, images, batch_size=batch_size, name="n", report=lambda *a: heard.append(a))
        assert torch.equal(found, largest(images.float() / 255))
        assert shapes == {(min(batch_size, 10), 2, 3, 3)}
        assert heard[-1] == ("n", 10, 10)

    def test_changes_know_their_images(self) -> None:
        """A change is told which images it gets, and sees no copies."""
        images = torch.rand(10, 1, 2, 2)
        order = torch.arange(10.0)
        found = scores(largest, images, lambda x, where: x * 0 + order[where, None, None, None], batch_size=4)
        assert found[:, 0].tolist() == order.tolist()

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="at least one image"):
            scores(largest, torch.rand(0, 1, 2, 2))
        with pytest.raises(ValueError, match=r"must return scores \(3, classes\)"):
            scores(lambda x: x, torch.rand(3, 1, 2, 2))

    def test_modes_come_back(self) -> None:
        """Also those of parts, and after an error."""
        model = nn.Sequential(nn.Dropout(), nn.Dropout())
        model[1].eval()
        with evaluating(model):
            assert not any(m.training for m in model.modules())
        with contextlib.suppress(RuntimeError), evaluating(model):
            raise RuntimeError
        assert [m.training for m in model.modules()] == [True, True, False]


class TestAccuracy:
    def test_the_border_is_what_it_is_called(self) -> None:
        """White pictures, a network that looks at the first pixel: of the 9 shifts by up to one pixel, 5 uncover it."""
        images, labels = white(900)
        found = measure_accuracy(plain(corner, mean=0.25), images, labels, batch_size=400)
        assert found["clean"]["value"] == found["circular"]["value"] == 1
        assert found["cropped"]["reflect"]["value"] == 1
        assert found["cropped"]["black"]["low"] < 4 / 9 < found["cropped"]["black"]["high"]
        assert found["cropped"]["mean"] == found["cropped"]["black"]  # a mean of 0.25 is dark as well
        assert measure_accuracy(plain(corner, mean=0.75), images, labels)["cropped"]["mean"]["value"] == 1
        assert found["clean"]["n"] == 900

    def test_all_circular_shifts_are_equally_likely(self) -> None:
        """One of four pixels is bright, so it comes first in a quarter of the cases; each image has its own shift."""
        images = torch.zeros(2000, 1, 2, 2, dtype=torch.uint8)
        images[:, 0, 1, 1] = 255
        found = measure_accuracy(plain(corner), images, torch.ones(2000, dtype=torch.int64))["circular"]
        assert found["low"] < 0.25 < found["high"]

    def test_parts_of_a_pixel(self) -> None:
        """A slow wave whose zero lies 3/8 pixel before the first pixel: it is passed by 1/2 pixel, not by 1/4."""
        wave = 0.5 + 0.4 * torch.sin((torch.arange(8) + 3 / 8) * 2 * math.pi / 8)
        images = (255 * wave).round().byte().expand(4, 1, 8, 8)
        found = measure_accuracy(plain(corner), images, torch.ones(4, dtype=torch.int64))["fractional"]
        assert {name: estimate["value"] for name, estimate in found.items()} == {"1/2": 0.0, "1/4": 1.0, "1/8": 1.0}

    def test_seeds(self) -> None:
        data = dataset(200)
        f = Classifier(lambda x: x[:, :, 0, 0], data.mean, data.std)

        def run(seed: int, batch_size: int = 250) -> dict[str, Any]:
            return measure_accuracy(f, data.test.images, data.test.labels, seed=seed, batch_size=batch_size)

        assert run(seed=3) == run(seed=3, batch_size=7)
        assert run(seed=3) != run(seed=4)


class TestConsistency:
    def test_an_invariant_classifier(self) -> None:
        """Circular shifts never change its answer, nor one bit of its scores."""
        found = measure_consistency(largest, dataset(5).test.images, batch_size=16)
        assert found["aps_protocol"]["value"] == 1
        circular = found["all_pairs"]
        assert circular["exact"]
        assert circular["pairs"] == circular["reference"] == proportion(1.0, 5).to_dict()
        assert circular["largest_change"] == circular["mean_change"] == 0
        assert (circular["images"], circular["shifts"], circular["possible_shifts"]) == (5, 64, 64)
        assert circular["map"] == [[1.0] * 8] * 8
        assert circular["change_map"] == [[0.0] * 8] * 8
        assert found["cropped"]["black"]["shifts"] == 9
        assert found["fractional"]["1/2"]["shifts"] == 3
        assert found["fractional"]["1/8"]["mean_change"] > 0

    def test_one_pixel(self) -> None:
        """One of 64 shifts brings the bright pixel to the first place: pairs agree with (63/64)^2 + (1/64)^2."""
        x = torch.zeros(1, 1, 8, 8)
        x[0, 0, 2, 3] = 1
        found = describe(corner, x, "all", "circular")
        assert found["pairs"]["value"] == pytest.approx((63**2 + 1) / 64**2)
        assert found["reference"]["value"] == pytest.approx(63 / 64)
        assert found["largest_change"] == 1
        assert found["worst_shift"] == found["least_agreement"]["shift"] == [6, 5]
        assert found["least_agreement"]["value"] == found["map"][6][5] == 0
        cropped = describe(corner, x.roll((-1, -2), (2, 3)), "all", "cropped")
        assert cropped["least_agreement"]["shift"] == cropped["worst_shift"] == [-1, -1]

    def test_a_sample_of_shifts_says_so(self) -> None:
        """Images of more than 4,096 pixels get 1,024 shifts, unless one asks for others."""
        found = measure_consistency(largest, torch.rand(1, 2, 65, 64), batch_size=512)["all_pairs"]
        assert (found["shifts"], found["possible_shifts"]) == (1024, 4160)
        few = measure_consistency(largest, torch.rand(1, 2, 16, 16), shifts=10)["all_pairs"]
        assert (few["shifts"], few["possible_shifts"]) == (10, 256)

    def test_the_last_batch_weighs_more(self) -> None:
        """The mean of batch means: two stable batches of four, a last one of one image that flips, give 2/3."""
        stripes = torch.tensor([1.0, 0.0]).repeat(4).expand(1, 1, 8, 8)
        images = torch.cat([torch.zeros(8, 1, 8, 8), stripes])
        values = {round(aps_protocol(corner, images, batch=4, seed=s).value, 6) for s in range(12)}
        assert values == {round(2 / 3, 6), 1.0}
        assert aps_protocol(corner, images, batch=4).n == 9

    def test_the_shifts_of_the_protocol(self) -> None:
        """Rows and columns from {-3 .. 2}, all of them, the same for all images of a batch."""
        seen: list[list[int]] = []

        def f(x: Tensor) -> Tensor:
            seen.extend((x[:, 0] == 1).nonzero()[:, 1:].tolist())
            return largest(x)

        images = torch.zeros(600, 1, 9, 9)
        images[:, 0, 4, 4] = 1
        aps_protocol(f, images, batch=2, batch_size=100)
        places = torch.tensor(seen).view(2, 300, 2, 2) - 4  # (which, batch, image, axis)
        assert torch.equal(places[:, :, 0], places[:, :, 1])
        for axis in (0, 1):
            assert set(places[..., axis].flatten().tolist()) == {-3, -2, -1, 0, 1, 2}

    def test_seeds(self) -> None:
        images = dataset(40).test.images
        f = lambda x: x[:, :, 0, 0]  # noqa: E731
        assert measure_consistency(f, images, shift_images=4) == measure_consistency(f, images, shift_images=4)
        assert measure_consistency(f, images, shift_images=4) != measure_consistency(f, images, shift_images=4, seed=1)


class TestRobustness:
    def test_erasure(self) -> None:
        """White on black: the first pixel is erased in 1 of (size - k + 1)^2 places, or of (size - 4 - k + 1)^2."""
        images, labels = white(2000, size=12)
        found = measure_robustness(plain(corner), images, labels)["erasure"]
        for patch, per_image in (("4", 81), ("6", 49), ("8", 25)):
            estimate = found["per_image"][patch]["accuracy"]
            assert estimate["low"] < 1 - 1 / per_image < estimate["high"]
            assert found["per_image"][patch]["agreement"] == estimate
        assert found["per_batch"]["8"]["accuracy"]["value"] == 0  # one place is left on 12 pixels
        assert found["per_batch"]["0"]["accuracy"]["value"] == found["per_image"]["0"]["agreement"]["value"] == 1
        assert list(measure_robustness(plain(corner), *white(2, size=6))["erasure"]["per_image"]) == ["0", "4", "6"]

    def test_flips(self) -> None:
        """The first pixel comes from the last row of the same column, or from the opposite corner."""
        images = torch.zeros(3, 1, 8, 8, dtype=torch.uint8)
        images[:, 0, 0, 0] = images[:, 0, 7, 0] = 255
        found = measure_robustness(plain(corner), images, torch.ones(3, dtype=torch.int64))
        assert found["vertical_flip"]["accuracy"]["value"] == 1
        assert found["half_turn"]["accuracy"]["value"] == 0
        assert found["half_turn"]["agreement"]["value"] == 0

    def test_damaged_images_are_shifted(self) -> None:
        """Consistency of damaged images: damaged first, then shifted twice, as if they had come damaged."""
        images, labels = dataset(40).test.images, dataset(40).test.labels
        f = Classifier(lambda x: x[:, :, 0, 0], [0.0] * 3, [1.0] * 3)
        found = measure_robustness(f, images, labels)
        for name, flipped in (("vertical_flip", images.flip(2)), ("half_turn", images.flip(2, 3))):
            assert found[name]["consistency"] == aps_protocol(f, flipped).to_dict()
        batch = found["erasure"]["per_batch"]
        assert batch["0"]["consistency"] == aps_protocol(f, images).to_dict()
        assert batch["4"]["consistency"] != batch["0"]["consistency"]
        assert "consistency" not in found["erasure"]["per_image"]["4"]
        exact = measure_robustness(Classifier(largest, [0.0] * 3, [1.0] * 3), images, labels)
        assert exact["erasure"]["per_batch"]["8"]["consistency"]["value"] == 1

    def test_rotation(self) -> None:
        """A corner turns black at all but few angles, the middle never, and at half of them left is right."""
        images, labels = white(400, size=9)
        found = measure_robustness(plain(corner, mean=0.75), images, labels)["rotation"]
        assert found["accuracy"]["value"] < 0.3
        assert found["accuracy"] == found["agreement"]
        middle = measure_robustness(plain(lambda x: corner(x[:, :, 4:, 4:])), images, labels)["rotation"]
        assert middle["accuracy"]["value"] == 1
        images, labels = white(400, size=10)
        images[..., :5] = 0
        left = measure_robustness(plain(lambda x: corner(x[:, :, 4:])), images, labels)["rotation"]["accuracy"]
        assert left["low"] < 0.5 < left["high"]

    def test_noise(self) -> None:
        """Scores that are pixels of value 1 change by sigma, relative to their length; answers that are clear stay."""
        images, labels = white(50, size=16)
        flat = measure_robustness(plain(lambda x: x.flatten(1)), images, labels)["noise"]
        clear = measure_robustness(plain(corner), images, labels)["noise"]
        for sigma in ("0.02", "0.05", "0.1"):
            change = flat[sigma]["relative_change"]
            assert change["low"] <= change["value"] <= change["high"]
            assert change["value"] == pytest.approx(float(sigma), rel=0.02)
            assert clear[sigma]["agreement"]["value"] == clear[sigma]["accuracy"]["value"] == 1
        nothing = measure_robustness(plain(lambda x: x.flatten(1) * 0), images, labels)["noise"]["0.1"]
        assert nothing["relative_change"]["value"] == 0


class TestAliasing:
    @pytest.mark.parametrize("size", [7, 8])
    def test_waves_are_a_basis(self, size: int) -> None:
        """Each wave once: cosines and sines of all, and the constant, are as many as pixels, and orthogonal."""
        waves = all_waves(size)
        both = [{(u % size, v % size), (-u % size, -v % size)} for u, v in waves]
        assert sum(len(pair) for pair in both) == len(set.union(*both)) == size * size - 1
        x = plane_waves(waves, size, 2)
        torch.testing.assert_close(x.square().mean((1, 2, 3)), torch.full((len(waves),), 0.5, dtype=torch.float64))
        power = torch.fft.fft2(x[:, 0]).abs() > 1e-9
        assert power.sum((1, 2)).le(2).all()

    def test_strided_keeps_everything(self) -> None:
        """Subsampling filters nothing: all energy survives, above the limit too."""
        found = measure_aliasing("strided", size=16)
        assert found["aliased"] == pytest.approx(1)
        assert found["kept"] == pytest.approx(found["kept_in_place"]) == pytest.approx(1)
        assert found["axis"]["energy"] == pytest.approx([1] * 8)
        assert found["axis"]["constant"] == pytest.approx([0] * 7 + [1])  # the fastest wave becomes brightness

    def test_a_filter_has_the_gain_of_its_formula(self) -> None:
        """The mean of two pixels passes cos^2(pi k / M) of the energy; the binomial filter of three its square."""
        gain = [math.cos(math.pi * k / 16) ** 2 for k in range(1, 9)]
        found = measure_aliasing("avg", size=16)
        assert found["axis"]["energy"] == pytest.approx(gain)
        by_wave = {(u, v): (math.cos(math.pi * u / 16) * math.cos(math.pi * v / 16)) ** 2 for u, v in all_waves(16)}
        above = [g for (u, v), g in by_wave.items() if max(u, abs(v)) > 4]
        below = [g for (u, v), g in by_wave.items() if max(u, abs(v)) < 4]
        assert found["aliased"] == pytest.approx(sum(above) / len(above))
        assert found["kept"] == pytest.approx(sum(below) / len(below))
        assert measure_aliasing("lpf", size=16)["axis"]["energy"] == pytest.approx([g**2 for g in gain])
        assert measure_aliasing("lpf", size=16)["diagonal"]["energy"] == pytest.approx([g**4 for g in gain])

    def test_order_of_methods(self) -> None:
        """GHS can let less of the energy above the limit through than others; cut off, it keeps more of what is below.

        By default it lets through about as much as the filter of three taps.
        """
        found = {m: measure_aliasing(m, size=16) for m in ("max", "avg", "lpf", "aps", "ghs-paper", "ghs")}
        assert 0.5 < found.pop("ghs")["aliased"] / found["lpf"]["aliased"] < 2
        ours, cut = (measure_aliasing("ghs", o, size=16) for o in ({"sigma": "1.5*band"}, {"taper": "none"}))
        assert cut["aliased"] < ours["aliased"] < 0.001
        assert cut["kept_in_place"] > 0.95
        assert found["ghs-paper"].pop("kept_in_place") is None
        for other in found.values():
            assert ours["aliased"] < other["aliased"]
            assert cut["kept_in_place"] > other.get("kept_in_place", 0)
        assert min(cut["axis"]["energy"][:3]) > 0.9
        for curve in (cut["axis"]["energy"], ours["axis"]["energy"]):
            assert max(curve[4:]) < 0.01

    def test_the_constant_of_max_pooling(self) -> None:
        """Fast waves become brightness; leaving that out, less energy is left than came."""
        found = measure_aliasing("max", size=16)
        assert found["aliased"] > found["aliased_constant"] > 1
        assert found["aliased"] - found["aliased_constant"] < 0.5

    @pytest.mark.parametrize("method", methods())
    def test_every_method(self, method: str) -> None:
        """JSON can hold it; equal for equal seeds; the caller's random numbers are untouched."""
        before = torch.get_rng_state()
        found = measure_aliasing(method, size=8)
        assert torch.equal(before, torch.get_rng_state())
        assert json.loads(json.dumps(found, allow_nan=False)) == found == measure_aliasing(method, size=8)
        assert (found["output"], found["frequencies"]) == (4, [1, 2, 3, 4])

    def test_chunks_do_not_matter(self) -> None:
        """Waves are measured one by one as they are together."""
        waves = all_waves(8)
        together, n = surviving(nn.AvgPool2d(2), waves, 8)
        alone = [surviving(nn.AvgPool2d(2), [w], 8)[0]["energy"] for w in waves]
        torch.testing.assert_close(together["energy"], torch.cat(alone))
        assert n == 4

    def test_drawn(self, tmp_path: Path) -> None:
        from shiftproof.reports import figures

        curves = {m: measure_aliasing(m, size=8) for m in ("max", "ghs")}
        assert figures.aliasing(tmp_path / "a.png", curves).stat().st_size > 10_000


class TestEfficiency:
    def test_known_costs(self) -> None:
        """A 3 x 3 convolution: its weights, two FLOPs per weight and pixel; the output is held at once."""
        model = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        found = measure_efficiency(model, torch.rand(5, 2, 6, 6), nn.Conv2d(2, 4, 3), repetitions=2)
        assert found["batch"] == [5, 2, 6, 6]
        assert found["parameters"] == 72
        assert found["flops"] == 2 * 72 * 36
        assert found["peak_bytes"] >= 4 * 5 * 4 * 36
        assert found["latency_ratio"] > 0
        assert found["seconds"]["repetitions"] == 2
        assert model.training
        assert measure_efficiency(model, torch.rand(1, 2, 6, 6), repetitions=1)["latency_ratio"] is None


class TestSuite:
    def test_a_ghs_network(self) -> None:
        """All parts, JSON without NaN; consistency 1 and change 0; modes restored; progress told."""
        network = create_model("resnet20", "ghs", num_classes=3)
        heard: list[tuple[str, int, int]] = []
        found = suite.evaluate(
            network, dataset(6), shift_images=2, method="lpf", report=lambda *a: heard.append(a), batch_size=64
        )
        assert list(found) == list(suite.PARTS)
        assert json.loads(json.dumps(found, allow_nan=False)) == found
        assert found["consistency"]["all_pairs"]["exact"]
        assert found["consistency"]["all_pairs"]["largest_change"] == 0
        assert found["consistency"]["all_pairs"]["pairs"]["value"] == 1
        assert found["consistency"]["aps_protocol"]["value"] == 1
        assert found["accuracy"]["circular"] == found["accuracy"]["clean"]
        assert found["accuracy"]["clean"]["n"] == 6
        assert found["aliasing"]["method"] == "lpf"
        assert found["efficiency"]["parameters"] == sum(p.numel() for p in network.parameters())
        assert all(m.training for m in network.modules())
        last = {name: (done, total) for name, done, total in heard}
        assert all(done == total for done, total in last.values())
        assert {name.partition(":")[0] for name in last} == set(suite.PARTS)

    def test_a_strided_network_is_not(self) -> None:
        """The negative control."""
        found = suite.evaluate(create_model("resnet20", "strided", 3), dataset(6), parts=["consistency"])
        assert list(found) == ["consistency"]
        assert found["consistency"]["all_pairs"]["largest_change"] > 0
        assert not found["consistency"]["all_pairs"]["exact"]

    def test_one_damage_only(self) -> None:
        """It gives the same numbers as among the others."""
        model, data = create_model("resnet8", "strided", 3), dataset(6)
        every = suite.evaluate(model, data, parts=["robustness"])["robustness"]
        assert list(every) == list(DAMAGES)
        found = suite.evaluate(model, data, parts=["robustness.noise", "robustness.rotation"])
        assert found == {"robustness": {name: every[name] for name in ("rotation", "noise")}}

    def test_limit_and_seed(self) -> None:
        """A limit draws images with the seed; equal seeds give equal numbers, others do not."""
        model, data = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(192, 3)), dataset(60)
        parts = ["accuracy", "consistency", "robustness"]
        first, again, other = (
            suite.evaluate(model, data, parts=parts, shift_images=3, limit=20, seed=seed) for seed in (1, 1, 2)
        )
        assert first["accuracy"]["clean"]["n"] == 20
        assert first["consistency"]["all_pairs"]["images"] == 3
        assert first == again
        for part in parts:
            assert first[part] != other[part]

    def test_the_benchmark_is_measured_beside_the_test_part(self) -> None:
        """Its accuracy alone; the rest is that of the test part."""
        data, white = dataset(6), torch.full((30, 3, 8, 8), 255, dtype=torch.uint8)
        more = dataclasses.replace(data, benchmark=Images(white, torch.arange(30) % 3))
        plain, both = (suite.evaluate(Largest(), d, parts=["accuracy"])["accuracy"] for d in (data, more))
        assert both.pop("benchmark") == proportion(10 / 30, 30).to_dict()  # all answers are the first class
        assert both == plain
        few = suite.evaluate(Largest(), more, parts=["accuracy"], limit=4)["accuracy"]
        assert few["benchmark"]["n"] == few["clean"]["n"] == 4

    def test_a_broken_network(self) -> None:
        """Scores that are not numbers give None, not something JSON cannot hold."""

        class Broken(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return x.mean((2, 3)) * torch.nan

        found = suite.evaluate(Broken(), dataset(4), parts=["consistency", "robustness"])
        json.dumps(found, allow_nan=False)
        assert found["robustness"]["noise"]["0.1"]["relative_change"]["value"] is None

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="Did you mean 'accuracy'"):
            suite.evaluate(nn.Identity(), dataset(), parts=["acuracy"])
        with pytest.raises(ValueError, match="'tiny' has no test images"):
            suite.evaluate(nn.Identity(), dataset(0))
        assert suite.evaluate(nn.Identity(), dataset(), parts=["aliasing"]) == {}
