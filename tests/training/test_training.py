"""Training: deterministic, and a run that is killed at any moment loses nothing."""

import dataclasses
import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from PIL import Image

from helpers import known_classifiers
from shiftproof.commands.main import main
from shiftproof.data.batches import normalise
from shiftproof.layers import Downsample
from shiftproof.layers.front import RollToPivot
from shiftproof.models import create_model
from shiftproof.training import loop
from shiftproof.training.checkpoint import RunState
from shiftproof.training.config import Config, OptimConfig, configure
from shiftproof.training.journal import Display, Journal, Speed
from shiftproof.training.loop import train
from shiftproof.training.optimizer import add_l1_gradient, learning_rate, make_optimizer
from shiftproof.training.process import threads
from shiftproof.training.resolve import resolve
from shiftproof.training.runs import build_model, load_data, load_run, read_result

TINY = {
    "data.limit": 96,
    "optim.batch_size": 40,  # 40 + 40 + 16
    "optim.epochs": 3,
    "run.threads": 1,
    "run.tensorboard": False,
    "augment.crop": 1,
    "augment.shift": -1,
}


def tiny(method: str = "ghs", **changes: Any) -> Config:
    dotted = {k.replace("__", "."): v for k, v in changes.items()}
    return configure("smoke", dataset="digits", method=method, changes=TINY | dotted)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    train(tiny(), out, quiet=True)
    return out


def weights(out: Path) -> bytes:
    return (out / "final.safetensors").read_bytes()


def test_same_seed_same_bits(whole: Path, tmp_path: Path) -> None:
    train(tiny(), tmp_path / "again", quiet=True)
    assert weights(tmp_path / "again") == weights(whole)
    assert (tmp_path / "again" / "best.safetensors").read_bytes() == (whole / "best.safetensors").read_bytes()
    train(tiny(run__seed=1), tmp_path / "other", quiet=True)
    assert weights(tmp_path / "other") != weights(whole)


def test_the_run_is_written_down(whole: Path) -> None:
    """Configuration, log, result: losses of every epoch, the best one by validation."""
    result = read_result(whole)
    assert result is not None
    assert json.loads((whole / "config.json").read_text()) == result["config"] == resolve(tiny()).to_dict()
    assert [row["epoch"] for row in result["history"]] == [1, 2, 3]
    assert result["steps"] == 9
    assert result["peak_bytes"] > 2**27
    assert result["images"] == {"training": 96, "validation": 11}
    best = max(result["history"], key=lambda row: (row["validation_accuracy"], -row["epoch"]))
    assert result["best"] == best
    lines = [json.loads(line) for line in (whole / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["event"] == "epoch"] == [3, 6, 9]
    assert {p.name for p in (whole / "checkpoints").iterdir()} == {
        "step-000000006.safetensors",
        "step-000000009.safetensors",
    }


def test_the_network_of_a_run_can_be_loaded(whole: Path, tmp_path: Path) -> None:
    """In eval mode, with the accuracy it had when its weights were kept."""
    model, config, dataset = load_run(whole, "best")
    assert not model.training
    assert config == resolve(tiny())
    _, _, validation = load_data(config)
    with torch.no_grad():
        scores = model(normalise(validation.images, dataset.mean, dataset.std, torch.channels_last))
    result = read_result(whole)
    assert result is not None
    right = int((scores.argmax(1) == validation.labels).sum())
    assert right / len(validation.labels) == result["best"]["validation_accuracy"]
    with pytest.raises(ValueError, match="no run was begun there"):
        load_run(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(tiny().to_dict()))
    with pytest.raises(ValueError, match="the run is not finished"):
        load_run(tmp_path)


def test_a_damaged_checkpoint_costs_nothing_but_time(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newest is damaged: the one before is taken, it is said, and the end is the same."""
    out = tmp_path / "run"
    train(tiny(), out, quiet=True)
    for name in ("result.json", "final.safetensors"):
        (out / name).unlink()
    newest = out / "checkpoints" / "step-000000009.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    train(None, out, resume=True)
    said = capsys.readouterr().err
    assert "do not match its digest" in said
    assert "resuming at epoch 3, step 1" in said
    assert weights(out) == weights(whole)


@pytest.mark.parametrize("changes", [{}, {"optim__l1": 1e-3}, {"run__precision": "fp16", "optim__l1": 1e-3}])
def test_adam_resumes_to_the_same_bits(changes: dict[str, Any], tmp_path: Path) -> None:
    """Both averages and the counter of every parameter are kept."""
    config = tiny("strided", optim__name="adam", optim__lr=0.01, optim__epochs=2, **changes)
    train(config, tmp_path / "whole", quiet=True)
    train(config, tmp_path / "run", quiet=True)
    for name in ("result.json", "final.safetensors", "checkpoints/step-000000006.safetensors"):
        (tmp_path / "run" / name).unlink()
    train(None, tmp_path / "run", resume=True, quiet=True)
    assert weights(tmp_path / "run") == weights(tmp_path / "whole")


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_l1_draws_weights_to_zero(name: str) -> None:
    """The gradient is that of the loss plus l1 * |p|."""
    model = torch.nn.Linear(3, 1, bias=False)
    optimizer = make_optimizer(model, OptimConfig(name=name, l1=0.1, weight_decay=0.0))
    model.weight.grad = torch.zeros(1, 3)
    add_l1_gradient(optimizer)
    assert torch.equal(model.weight.grad, 0.1 * model.weight.detach().sign())


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_finishes_the_step_and_keeps_it(
    name: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    original, seen = torch.optim.SGD.step, []

    def step(self: Any, *args: Any) -> Any:
        seen.append(1)
        if len(seen) == 5:
            os.kill(os.getpid(), number)
        return original(self, *args)

    monkeypatch.setattr(torch.optim.SGD, "step", step)
    with pytest.raises(loop.Stopped, match="stopped in epoch 2; continue with --resume"):
        train(tiny(), tmp_path / "run", quiet=True)
    assert len(seen) == 5
    assert signal.getsignal(number) is before
    assert (tmp_path / "run" / "checkpoints" / "step-000000005.safetensors").exists()
    train(None, tmp_path / "run", resume=True, quiet=True)
    assert weights(tmp_path / "run") == weights(whole)


def test_a_stop_during_validation_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the epoch is kept; after the last one, when the result is written."""
    original = loop.Trainer.validate

    def validating(trainer: loop.Trainer) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return original(trainer)

    monkeypatch.setattr(loop.Trainer, "validate", validating)
    with pytest.raises(loop.Stopped, match="stopped after epoch 1; continue with --resume"):
        train(tiny("strided", optim__epochs=2), tmp_path / "run", quiet=True)
    with pytest.raises(loop.Stopped, match="finished"):
        train(None, tmp_path / "run", resume=True, quiet=True)
    assert read_result(tmp_path / "run") is not None


def test_a_run_resumes_with_the_threads_it_began_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another number rounds differently, so the number is part of the checkpoint."""
    config = tiny(run__threads=0, optim__epochs=2)
    with threads(2):
        train(config, tmp_path / "two", quiet=True)
        train(config, tmp_path / "run", quiet=True)
    for name in ("result.json", "final.safetensors", "checkpoints/step-000000006.safetensors"):
        (tmp_path / "run" / name).unlink()
    with threads(1):
        train(config, tmp_path / "run", resume=True)
        assert torch.get_num_threads() == 1
    assert "with 2 threads, as it was begun" in capsys.readouterr().err
    assert weights(tmp_path / "run") == weights(tmp_path / "two")


def test_what_fails_before_the_first_step_leaves_the_folder_free(tmp_path: Path) -> None:
    """Settings that torch refuses can be corrected in the same folder."""
    with pytest.raises(ValueError, match="Nesterov"):
        train(tiny(optim__nesterov=True, optim__momentum=0.0), tmp_path / "run", quiet=True)
    train(tiny("strided", optim__epochs=1), tmp_path / "run", quiet=True)


def test_a_batch_that_batch_norm_cannot_take(tmp_path: Path) -> None:
    """One image, one pixel in the last stage: the error names the setting to change."""
    config = tiny("strided", model__name="resnet18", data__limit=33, optim__batch_size=32)
    with pytest.raises(ValueError, match=r"a batch of 1 images .* choose another `optim.batch_size`"):
        train(config, tmp_path / "run", quiet=True)


def test_a_run_is_not_begun_twice(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="already holds a run; add --resume"):
        train(tiny(), whole, quiet=True)
    with pytest.raises(ValueError, match=r"has other settings: optim.lr: 0.1 and 0.2"):
        train(tiny(optim__lr=0.2), whole, resume=True, quiet=True)
    with pytest.raises(ValueError, match="no run was begun there; say what to train"):
        train(None, tmp_path, resume=True)
    assert train(None, whole, resume=True, quiet=True) == read_result(whole)  # finished: nothing to do
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="not the configuration of a run"):
        train(None, tmp_path, resume=True)


def test_learning_rates() -> None:
    """`step` falls at its milestones; `one-cycle` climbs to its top and ends near zero."""
    steps_ = OptimConfig(lr=1.0, epochs=6, milestones=[2, 4], gamma=0.1)
    assert [learning_rate(steps_, k, 2) for k in (0, 3, 4, 7, 8, 11)] == pytest.approx([1, 1, 0.1, 0.1, 0.01, 0.01])
    cycle = OptimConfig(lr=1.0, epochs=10, schedule="one-cycle", warm_up=0.3)
    rates = [learning_rate(cycle, k, 10) for k in range(100)]
    assert max(rates) == pytest.approx(rates[29], abs=0.02) == pytest.approx(1, abs=0.02)
    assert rates[:30] == sorted(rates[:30])
    assert rates[30:] == sorted(rates[30:], reverse=True)
    assert rates[0] < 0.02 > rates[-1]
    for share in (0.0, 1.0):
        assert all(0 < learning_rate(OptimConfig(schedule="one-cycle", warm_up=share), k, 1) <= 0.1 for k in range(250))


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"lower `optim.lr` \(=1e\+20\)"):
        train(tiny(optim__lr=1e20, optim__schedule="step"), tmp_path / "run", quiet=True)


def test_methods_are_told_how_far_training_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[float] = []
    monkeypatch.setattr(Downsample, "progress", lambda self, done: told.append(done))
    train(tiny("lpf", optim__epochs=1), tmp_path / "run", quiet=True)
    assert sorted(set(told)) == pytest.approx([0, 1 / 3, 2 / 3])


def test_without_validation_the_last_epoch_is_the_best(tmp_path: Path) -> None:
    result = train(tiny("strided", data__validation=0.0, optim__epochs=2), tmp_path / "run", quiet=True)
    assert result["best"] == result["final"]
    assert "validation_accuracy" not in result["best"]
    best, final = (safetensors.torch.load_file(tmp_path / "run" / f"{n}.safetensors") for n in ("best", "final"))
    assert all(torch.equal(best[k], final[k]) for k in final)


def test_without_epochs_the_network_stays_as_it_begins(tmp_path: Path) -> None:
    """It is checked and written down like one that was trained; a finished run stays finished."""
    config, out = tiny("strided", optim__epochs=0), tmp_path / "run"
    result = train(config, out, quiet=True)
    assert (result["steps"], result["best"]["epoch"]) == (0, 0)
    assert 0 <= result["best"]["validation_accuracy"] <= 1
    begun = build_model(config, load_data(config)[0]).state_dict()
    for which in ("best", "final"):
        found = load_run(out, which)[0].state_dict()
        assert all(torch.equal(found[k], begun[k]) for k in begun)
    assert train(config, out, resume=True, quiet=True) == result


def test_training_begins_with_the_weights_of_the_package() -> None:
    """Under another front too: it has no weights."""
    data = dataclasses.replace(known_classifiers.dataset(size=32), classes=tuple("abcdefghij"))
    config = configure("smoke", method="ghs", changes={"model.weights": "cifar10", "model.subpixel": True})
    found, packaged = build_model(config, data), create_model("resnet20", "ghs", weights="cifar10")
    assert isinstance(found.front, RollToPivot)
    assert found.front.subpixel
    assert all(torch.equal(found.state_dict()[k], v) for k, v in packaged.state_dict().items())
    with pytest.raises(ValueError, match="no weights 'resnet20-ghs-digits' come with the package; there are"):
        build_model(configure("smoke", changes={"model.weights": "digits"}), data)
    with pytest.raises(ValueError, match="`subpixel=True` needs a network that is invariant"):
        build_model(configure("smoke", method="lpf", changes={"model.subpixel": True}), data)


@pytest.mark.parametrize(("precision", "channels_last"), [("bf16", True), ("fp16", False)])
def test_half_precision_trains_and_resumes(precision: str, channels_last: bool, tmp_path: Path) -> None:
    """Autocast: close to float32, and as repeatable, the scale of fp16 included."""
    slow: dict[str, Any] = {"run__channels_last": channels_last, "optim__epochs": 2, "optim__lr": 0.01}
    config = tiny(run__precision=precision, **slow)
    result = train(config, tmp_path / "a", quiet=True)
    plain = train(tiny(**slow), tmp_path / "plain", quiet=True)
    assert result["final"]["loss"] == pytest.approx(plain["final"]["loss"], rel=0.2)
    assert weights(tmp_path / "a") != weights(tmp_path / "plain")
    train(config, tmp_path / "b", quiet=True)
    for name in ("result.json", "final.safetensors"):
        (tmp_path / "b" / name).unlink()
    (tmp_path / "b" / "checkpoints" / "step-000000006.safetensors").unlink()
    train(None, tmp_path / "b", resume=True, quiet=True)
    assert weights(tmp_path / "a") == weights(tmp_path / "b")


@pytest.mark.slow
def test_compiled(tmp_path: Path) -> None:
    result = train(tiny("strided", run__compile=True, optim__epochs=1), tmp_path / "run", quiet=True)
    plain = train(tiny("strided", optim__epochs=1), tmp_path / "plain", quiet=True)
    assert result["final"]["loss"] == pytest.approx(plain["final"]["loss"], rel=1e-3)


def test_global_state_is_left_alone(tmp_path: Path) -> None:
    """Random numbers and threads of the caller are as before."""
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    train(tiny("strided", optim__epochs=1, run__threads=threads + 1), tmp_path / "run", quiet=True)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), random)


def test_training_in_a_thread(tmp_path: Path) -> None:
    """Signals belong to the main thread; elsewhere training works without."""
    results: list[Any] = []
    config = tiny("strided", optim__epochs=1)
    thread = threading.Thread(target=lambda: results.append(train(config, tmp_path / "run", quiet=True)))
    thread.start()
    thread.join()
    assert results[0]["steps"] == 3


def test_no_gpu_no_cuda(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(ValueError, match="torch sees no GPU"):
        train(tiny(run__device="cuda"), tmp_path / "run")


def test_journal_forgets_what_comes_after_the_checkpoint(tmp_path: Path) -> None:
    """Lines after the step are dropped, a line cut off by a kill too; TensorBoard gets the same numbers."""
    journal = Journal(tmp_path, 0, 0, tensorboard=True)
    for step in (1, 2, 3):
        journal.write("step", step, loss=1.0 / step)
    journal.close()
    with journal.path.open("a") as file:
        file.write('{"event": "step", "st')
    Journal(tmp_path, 2, 0, tensorboard=False).close()
    assert [json.loads(line)["step"] for line in journal.path.read_text().splitlines()] == [1, 2]
    assert [p for p in (tmp_path / "tensorboard").iterdir() if "tfevents" in p.name]


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_bars_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "140")
    stream = Terminal()
    display = Display("resnet20 ghs", 2, 4, stream=stream)  # type: ignore[arg-type]
    with display.shown():
        display.step(1, 3, 0.5, 0.75, 1234.0)
        display.say("hello")
    for words in ("resnet20 ghs", "epoch 2", "loss 0.500", "75.0%", "1,234 images/s", "hello", "7/8", "3/4"):
        assert words in stream.text


def test_speed_is_of_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    speed = Speed()
    for _ in range(30):
        now[0] += 1
        found = speed(100)
    assert found == pytest.approx(100)
    for _ in range(30):
        now[0] += 1
        found = speed(200)
    assert found == pytest.approx(200)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`shiftproof train`: a folder of its own name, a line per epoch, the next command; --resume alone is enough."""
    monkeypatch.chdir(tmp_path)
    pairs = [f"--set={k}={json.dumps(v)}" for k, v in (TINY | {"optim.epochs": 1}).items()]
    arguments = ["train", "--dataset", "digits", "--method", "lpf", "--preset", "smoke", *pairs]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "runs/digits-resnet20-lpf-smoke-seed0: finished after" in printed.out
    assert "next: shiftproof evaluate runs/digits-resnet20-lpf-smoke-seed0" in printed.out
    assert "epoch 1/1, loss" in printed.err
    assert main(arguments) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert main(["train", "--resume", "--out", "runs/digits-resnet20-lpf-smoke-seed0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 3
    assert main([*arguments, "--set", "optim.lrr=1"]) == 2
    assert "Did you mean `--set optim.lr=VALUE`?" in capsys.readouterr().err
    assert main([*arguments, "--set", 'model.options={"tap": 3}', "--out", "x"]) == 2
    assert "has no option `tap`" in capsys.readouterr().err
    assert not Path("x").exists()


def test_the_command_stops_politely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: Any, **__: Any) -> None:
        raise loop.Stopped("run: stopped in epoch 1; continue with --resume.")

    monkeypatch.setattr(loop, "train", stopped)
    assert main(["train", "--out", str(tmp_path)]) == 130
    assert "continue with --resume" in capsys.readouterr().err


def test_the_words_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors name options, not settings or arguments of Python."""
    monkeypatch.chdir(tmp_path)
    for kind, side in (("cats", 8), ("dogs", 9)):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        for i in range(2):
            Image.new("L", (side, side)).save(tmp_path / "pets" / kind / f"{i}.png")
    (tmp_path / "mine.toml").write_text('[optim]\nlr = "fast"\n')
    cases = [
        (["--dataset", "folder"], "`--folder DIR` must name the folder of pictures, because `--dataset` is 'folder'"),
        (["--folder", "pets"], "`--folder DIR` (='pets') needs the data set 'folder': `--dataset` is 'cifar10'"),
        (["--dataset", "folder", "--folder", "pets"], "pass `--set data.size=VALUE` to resize all of them"),
        (["--dataset", "digits", "--set", "data.size=4"], "`--set data.size=4` must be at least that of the images"),
        (["--dataset", "digits", "--set", "data.validation=0.9999"], "`--set data.validation=0.9999` leaves none of"),
        (["--dataset", "digits", "--model", "resnet9"], "`--model` (='resnet9') must be one of"),
        (["--dataset", "digit"], "`--dataset` (='digit') must be one of"),
        (["--set", "optim.lr=fast"], "`--set optim.lr='fast'` must be of type float"),
        (["--seed", "-1"], "`--seed` (=-1) must be at least 0"),
        (["--set", "lr"], "`--set lr` must be KEY=VALUE, as in `--set optim.lr=0.05`"),
        (["--config", "mine.toml"], "mine.toml: `optim.lr` (='fast') must be of type float"),
    ]
    for words, message in cases:
        assert main(["train", "--out", "run", *words]) == 2
        assert message in capsys.readouterr().err


def test_the_state_of_a_run_comes_back_from_its_checkpoint() -> None:
    """Under the names that its files have always had; another state is an error."""
    state = RunState(data="x", threads=1, processes=1)
    names = ["best", "data", "epoch", "history", "processes", "scaler", "seconds", "step", "sums", "threads"]
    assert sorted(state.to_dict()) == names
    assert state.add([2.0, 1.0, 4.0]) == (0.5, 0.25)
    assert RunState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
    assert state.end_epoch({"validation_accuracy": 0.5}, 3.0)
    state.add([1.0, 1.0, 1.0])
    assert not state.end_epoch({"validation_accuracy": 0.5}, 4.0)
    assert state.best == {"epoch": 1, "judged": 0.5}
    assert (state.epoch, state.step, state.sums, len(state.history)) == (2, 0, [0.0, 0.0, 0.0], 2)
    with pytest.raises(ValueError, match="not the state of a run"):
        RunState.from_dict({"epoch": 3})


def test_the_network_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    original = build_model

    def build(*arguments: Any) -> Any:
        built.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(loop, "build_model", build)
    train(tiny("strided", optim__epochs=1), tmp_path / "run", quiet=True)
    assert len(built) == 1


def test_python_sets_up_what_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that is kept; threads and signals are tested above."""
    called = []
    monkeypatch.setattr(loop, "keep_memory", lambda: called.append(1))
    train(tiny("strided", optim__epochs=1), tmp_path / "run", quiet=True)
    assert called == [1]
