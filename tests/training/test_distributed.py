"""Several processes: the same numbers as one, one writer, and a dead process costs nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from helpers import tally
from helpers.short_runs import SECTION, count
from shiftproof.data.batches import batches, normalise
from shiftproof.training import loop
from shiftproof.training.config import Config, configure
from shiftproof.training.loop import train
from shiftproof.training.optimizer import learning_rate
from shiftproof.training.process import threads
from shiftproof.training.runs import build_model, load_data

# two epochs of 33 + 33 + 1 images: the second process has none of the last batch
CHANGES = {"data.limit": 67, "optim.batch_size": 33, "optim.epochs": 2, "run.threads": 1, "run.tensorboard": False}

SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path[:0] = {folders!r}  # of this file, and of the helpers
import torch
import test_distributed as here
from shiftproof.training import loop

out, kind = Path(sys.argv[1]), sys.argv[2]
if kind == "apart" and os.environ["RANK"] == "1":
    out = Path(f"{{out}}-1")
if kind == "plain":
    loop.build_model = here.without_norms
if kind == "killed" and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    original, seen = torch.optim.SGD.step, []
    def step(self, *a):
        seen.append(1)
        if len(seen) == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, *a)
    torch.optim.SGD.step = step
changes = {{"run.checkpoint_minutes": 0.0}} if kind == "killed" else {{}}
loop.train(here.calm() if kind == "plain" else here.config(**changes), out, quiet=True)
"""


def config(method: str = "ghs", **changes: Any) -> Config:
    return configure("smoke", dataset="digits", method=method, changes=CHANGES | changes)


def calm() -> Config:
    """A run in which rounding stays small: no near-ties that it could turn, and small steps without batch norm."""
    return config("lpf", **{"optim.lr": 0.01})


def without_norms(config: Config, dataset: Any, images: Any = None) -> nn.Module:
    """The same network with a fixed scale in place of each batch norm."""
    model = build_model(config, dataset)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(module, name, nn.Identity())
    return model


def torchrun(tmp_path: Path, out: Path, kind: str, *flags: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(folders=[str(folder) for folder in Path(__file__).parents[:2]]))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *flags]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, str(script), str(out), kind], capture_output=True, text=True, env=env, check=False, timeout=300
    )


def weights(out: Path) -> dict[str, Tensor]:
    return safetensors.torch.load_file(out / "final.safetensors")


def by_hand() -> dict[str, Tensor]:
    """One process, the same half-batches, gradients added up, statistics of the first half only."""
    settings = config()
    dataset, training, _ = load_data(settings)
    model = build_model(settings, dataset).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optim = settings.optim
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=optim.momentum, weight_decay=optim.weight_decay)
    step = 0
    for epoch in range(optim.epochs):
        parts = [batches(training, 33, seed=0, epoch=epoch, rank=r, world=2) for r in (0, 1)]
        for pair in zip(*parts):
            optimizer.param_groups[0]["lr"] = learning_rate(optim, step, 3)
            optimizer.zero_grad()
            for rank, part in enumerate(pair):
                kept = [b.clone() for b in model.buffers()]
                x = normalise(part.images, dataset.mean, dataset.std, torch.channels_last)
                losses = F.cross_entropy(model(x), part.labels, reduction="none") * part.weights
                (losses.sum() / part.total).backward()
                if rank:
                    for buffer, old in zip(model.buffers(), kept):
                        buffer.copy_(old)
            optimizer.step()
            step += 1
    return dict(model.state_dict())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    done = torchrun(folder, folder / "run", "norms")
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / "run"


def test_two_processes_are_two_half_batches(undisturbed: Path) -> None:
    """Accumulated gradients of the halves, running statistics of rank 0: the same bits. Metrics count all images."""
    out = undisturbed
    with threads(1):
        expected = by_hand()
    for name, tensor in weights(out).items():
        assert torch.equal(tensor, expected[name]), name
    result = json.loads((out / "result.json").read_text())
    assert result["processes"] == 2
    assert result["steps"] == 6
    for row in result["history"]:
        assert (row["accuracy"] * 67) == pytest.approx(round(row["accuracy"] * 67), abs=1e-9)
        assert (row["validation_accuracy"] * 7) == pytest.approx(round(row["validation_accuracy"] * 7), abs=1e-9)
    assert len((out / "log.jsonl").read_text().splitlines()) == 2  # one writer


def test_without_batch_norm_two_processes_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The full batch in one process gives the same weights and the same metrics, to rounding."""
    done = torchrun(tmp_path, tmp_path / "two", "plain")
    assert done.returncode == 0, done.stderr[-2000:]
    monkeypatch.setattr(loop, "build_model", without_norms)
    one = train(calm(), tmp_path / "one", quiet=True)
    two = json.loads((tmp_path / "two" / "result.json").read_text())
    expected = weights(tmp_path / "one")
    for name, tensor in weights(tmp_path / "two").items():
        assert torch.allclose(tensor, expected[name], rtol=1e-4, atol=1e-6), name
    for a, b in zip(one["history"], two["history"]):
        assert a == pytest.approx(b, rel=1e-4)


@pytest.mark.counted
def test_a_killed_worker_is_restarted(undisturbed: Path, tmp_path: Path) -> None:
    """The elastic agent starts the processes anew, and they end with the weights of the undisturbed run."""
    done = torchrun(tmp_path, tmp_path / "run", "killed", "--max-restarts", "1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "exitcode: -9" in done.stderr
    files = [folder / "final.safetensors" for folder in (tmp_path / "run", undisturbed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    results = [json.loads((folder / "result.json").read_text()) for folder in (tmp_path / "run", undisturbed)]
    assert results[0]["history"] == results[1]["history"]  # though it went on in the middle of an epoch
    count(runs=1, kills=1, resumes=1, ranks_that_die=1)
    tally.count(SECTION, "bit-identical ends")


def test_other_processes_need_no_folder(tmp_path: Path) -> None:
    """Only rank 0 looks at the folder: what it finds, an error included, is what all find."""
    again = torchrun(tmp_path, tmp_path / "run", "apart")
    assert again.returncode == 0, again.stderr[-2000:]
    assert not (tmp_path / "run-1").exists()
    refused = torchrun(tmp_path, tmp_path / "run", "apart")
    assert refused.returncode != 0
    assert refused.stderr.count("already holds a run") >= 2
