"""Training, top to bottom.

Everything random is a function of (seed, epoch, step), and the learning rate depends on the step alone. A checkpoint
needs only weights, the optimizer's averages and counters: a killed run resumes to the same weights, bit for bit.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftproof import environment
from shiftproof.data.batches import Batch, augment, batches, derive_seed, in_order, normalise, steps
from shiftproof.data.sets import Dataset, Images
from shiftproof.layers import Downsample
from shiftproof.safe_io.atomic import atomic_write
from shiftproof.safe_io.locks import locked_folder
from shiftproof.training.checkpoint import Checkpoints, RunState, checkpoint_tensors, explain_full_disk, restore_tensors
from shiftproof.training.config import Config
from shiftproof.training.distributed import World, joined
from shiftproof.training.journal import Display, Journal, Speed
from shiftproof.training.optimizer import add_l1_gradient, learning_rate, make_optimizer
from shiftproof.training.process import Stopwatch, keep_memory, peak_bytes, stop_requests, threads
from shiftproof.training.resolve import resolve
from shiftproof.training.runs import build_model, find_run, launch_mark, load_data, write_weights

_LOG_EVERY = 10  # steps
_VALIDATED = 250  # images at a time
_PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Stopped(KeyboardInterrupt):
    """Ctrl-C or a request to terminate, after the checkpoint is written."""


def train(
    config: Config | None, out: Path, *, resume: bool = False, data_dir: Path | None = None, quiet: bool = False
) -> dict[str, Any]:
    """Train a network into the folder `out`, and return what `result.json` says.

    With `resume`, a run that was begun there continues to the same weights as if it had never stopped; without a
    `config` it takes the one it was begun with. Under `torchrun` the processes share each batch. Ctrl-C and SIGTERM
    raise `Stopped` after a checkpoint is written. Freed memory stays with the process (see `keep_memory`).
    """
    keep_memory()
    config = None if config is None else resolve(config)
    with joined("auto" if config is None else config.run.device) as world, torch.random.fork_rng():
        config, finished = world.call_on_first(lambda: find_run(config, out, resume, world.restarted))
        if finished is not None:
            return finished
        with threads(config.run.threads):
            data = load_data(config, data_dir)
            if world.call_on_first(lambda: data[0].checksum) != data[0].checksum:
                raise ValueError(f"{config.data.name}: the images of the first process differ from those of this one.")
            model = build_model(config, data[0], None if Checkpoints(out / "checkpoints").files() else data[1])
            if not world.first:
                return Trainer(config, out, world, data, model, Display("", 1, 1, quiet=True)).run()
            per_epoch = steps(len(data[1].labels), config.optim.batch_size)
            name = f"{config.model.name} {config.recipe} {config.data.name} seed {config.run.seed}"
            display = Display(name, config.optim.epochs, per_epoch, quiet)
            if (size := config.optim.batch_size) > (count := len(data[1].labels)):
                display.warn(f"{out}: `optim.batch_size` (={size}) is more than the {count} images for training.")
            needed = (config.run.keep + 3) * 8 * sum(p.numel() for p in model.parameters()) + 2**20
            with locked_folder(out, needed), display.shown(), explain_full_disk(out):
                # again, now that the folder is locked: another process may have worked there a moment ago
                _, finished = find_run(config, out, resume, world.restarted)
                return finished or Trainer(config, out, world, data, model, display).run()


class Trainer:
    """A run in progress, from the newest checkpoint in its folder or from the beginning."""

    def __init__(
        self,
        config: Config,
        out: Path,
        world: World,
        data: tuple[Dataset, Images, Images],
        model: nn.Module,
        display: Display,
    ) -> None:
        self.config, self.out, self.world, self.display = config, out, world, display
        self.dataset, self.training, self.validation = data
        self.form = torch.channels_last if config.run.channels_last else torch.contiguous_format
        self.model = model.to(world.device, memory_format=self.form)  # type: ignore[call-overload]
        self.layers = [m for m in model.modules() if isinstance(m, Downsample)]
        self.optimizer = make_optimizer(self.model, config.optim)
        precision = config.run.precision
        self.scaler = torch.amp.GradScaler(world.device.type, enabled=precision == "fp16")
        self.autocast = partial(
            torch.autocast,
            world.device.type,
            dtype=_PRECISIONS.get(precision, torch.bfloat16),
            enabled=precision != "fp32",
        )
        self.per_epoch = steps(len(self.training.labels), config.optim.batch_size)
        self.checkpoints = Checkpoints(out / "checkpoints", config.run.keep)
        self.state = self.restore()
        self.net: nn.Module = self.model
        if world.size > 1:
            self.net = nn.parallel.DistributedDataParallel(self.net)
        if config.run.compile:
            self.net = torch.compile(self.net)  # type: ignore[assignment]
        self.where = {"code": environment.code(), "machine": environment.machine()}
        self.journal: Journal | None = None  # only the first process writes
        if world.first:
            self.journal = Journal(out, self.passed, self.state.epoch, config.run.tensorboard)
            atomic_write(out / "config.json", (json.dumps(config.to_dict(), indent=2) + "\n").encode())
            launch_mark(out).touch()
        self.watch, self.speed = Stopwatch(self.state.seconds), Speed()
        self.saved_at = self.watch()

    @property
    def passed(self) -> int:
        """The number of finished steps, over all epochs."""
        return self.state.epoch * self.per_epoch + self.state.step

    def restore(self) -> RunState:
        """The state of the newest checkpoint, with its tensors put back, or that of the beginning."""
        out, display, world = self.out, self.display, self.world
        there, found = world.call_on_first(lambda: (self.checkpoints.files(), self.checkpoints.newest(display.warn)))
        if found is None:
            if there:  # damaged, and the network was built for one of them
                self.model.load_state_dict(build_model(self.config, self.dataset, self.training).state_dict())
            return RunState(data=self.dataset.checksum, threads=torch.get_num_threads(), processes=world.size)
        tensors, state = found[0], RunState.from_dict(found[1])
        if state.data != self.dataset.checksum:
            raise ValueError(f"{out}: the images of {self.dataset.name} are not those the run was begun with.")
        display.say(f"{out}: resuming at epoch {state.epoch + 1}, step {state.step + 1}")
        if state.threads != torch.get_num_threads():
            display.say(f"{out}: with {state.threads} threads, as it was begun: another number rounds differently")
            torch.set_num_threads(state.threads)
        if state.processes != world.size:
            display.warn(f"{out}: begun with {state.processes} processes, now {world.size}: the bits will differ")
        restore_tensors(self.model, self.optimizer, tensors)
        if state.scaler:
            self.scaler.load_state_dict(state.scaler)
        return state

    def run(self) -> dict[str, Any]:
        """All epochs that are left, then the result."""
        with contextlib.ExitStack() as stack:
            if self.journal is not None:
                stack.callback(self.journal.close)
            stop = stack.enter_context(stop_requests(self.world.size == 1))
            while self.state.epoch < self.config.optim.epochs:
                self.epoch(stop)
            result = self.finish()
            if stop.is_set():
                raise Stopped(f"{self.out}: finished.")
        return result

    def epoch(self, stop: threading.Event) -> None:
        """The rest of an epoch, validation, a checkpoint; a request to `stop` ends it after the next step."""
        config, state, world = self.config, self.state, self.world
        self.net.train()
        for batch in batches(
            self.training,
            config.optim.batch_size,
            seed=config.run.seed,
            epoch=state.epoch,
            first=state.step,
            augmentation=partial(augment, **vars(config.augment)),
            rank=world.rank,
            world=world.size,
        ):
            self.step(batch)
            if stop.is_set() or self.watch() - self.saved_at > 60 * config.run.checkpoint_minutes:
                if state.step < self.per_epoch or stop.is_set():
                    self.save()
                self.saved_at = self.watch()
            if stop.is_set():
                raise Stopped(f"{self.out}: stopped in epoch {state.epoch + 1}; continue with --resume.")

        world.broadcast(self.model.buffers())
        better = state.end_epoch(self.validate(), self.watch())
        row = state.history[-1]
        if self.journal is not None:
            if better:
                write_weights(self.out / "best.safetensors", self.model, config, self.dataset)
            self.journal.write("epoch", self.passed, **row, seconds=state.seconds)
        self.save()
        self.saved_at = self.watch()
        self.display.epoch(row, state.seconds)
        if stop.is_set() and state.epoch < config.optim.epochs:
            raise Stopped(f"{self.out}: stopped after epoch {state.epoch}; continue with --resume.")

    def validate(self) -> dict[str, Any]:
        """Loss and accuracy on the held-out images, if any, over all processes; a loss that is not finite is None."""
        if not len(self.validation.labels):
            return {}
        world, sums = self.world, [0.0, 0.0]
        self.model.eval()
        with torch.no_grad():
            for images, labels in in_order(self.validation, _VALIDATED, rank=world.rank, world=world.size):
                labels = labels.to(world.device)
                with self.autocast():
                    scores = self.model(self.normalised(images)).float()
                sums[0] += float(F.cross_entropy(scores, labels, reduction="sum"))
                sums[1] += float((scores.argmax(1) == labels).sum())
        loss, right = (v / len(self.validation.labels) for v in world.total(sums))
        return {"validation_loss": loss if math.isfinite(loss) else None, "validation_accuracy": right}

    def normalised(self, images: Tensor) -> Tensor:
        """8-bit images as the network takes them, on the device of this process."""
        return normalise(images.to(self.world.device), self.dataset.mean, self.dataset.std, self.form)

    def step(self, batch: Batch) -> None:
        """One step of gradient descent, on this process's part of a batch."""
        optim, state, world, optimizer = self.config.optim, self.state, self.world, self.optimizer
        # for dropout and stochastic pooling
        torch.manual_seed(derive_seed(self.config.run.seed, state.epoch, 2, batch.step, world.rank))
        for layer in self.layers:
            layer.progress(self.passed / (optim.epochs * self.per_epoch))
        rate = learning_rate(optim, self.passed, self.per_epoch)
        for group in optimizer.param_groups:
            group["lr"] = rate

        labels, weights = batch.labels.to(world.device), batch.weights.to(world.device)
        with self.autocast(), _explain_batch_norm(self.out, batch.total):
            scores = self.net(self.normalised(batch.images))
        losses = F.cross_entropy(scores.float(), labels, reduction="none") * weights
        # the parts of the processes differ in size, and gradients are averaged over processes
        loss = losses.sum() * (world.size / batch.total)
        if not math.isfinite(float(loss.detach())):
            raise ValueError(
                f"{self.out}: the loss is {float(loss.detach())} in epoch {state.epoch + 1}, step {batch.step + 1}: "
                f"lower `optim.lr` (={optim.lr}). The last checkpoint is kept."
            )
        optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        if optim.l1:
            self.scaler.unscale_(optimizer)
            add_l1_gradient(optimizer)
        self.scaler.step(optimizer)
        self.scaler.update()

        right = ((scores.argmax(1) == labels) * weights).sum()
        sums = world.total([float(losses.detach().sum()), float(right), float(weights.sum())])
        mean_loss, accuracy = state.add(sums)
        state.seconds = self.watch()
        images_per_second = self.speed(batch.total)
        self.display.step(state.epoch, state.step, mean_loss, accuracy, images_per_second)
        if self.journal is not None and self.passed % _LOG_EVERY == 0:
            self.journal.write("step", self.passed, loss=float(loss.detach()), lr=rate, speed=images_per_second)

    def save(self) -> None:
        """Write a checkpoint."""
        if self.world.first:
            self.state.scaler = self.scaler.state_dict()
            self.checkpoints.save(self.passed, checkpoint_tensors(self.model, self.optimizer), self.state.to_dict())

    def finish(self) -> dict[str, Any]:
        """Write the last weights and the result."""
        state = self.state
        if not self.config.optim.epochs:  # the network as it begins is the best
            state.history, state.best = [{"epoch": 0, **self.validate()}], {"epoch": 0}
            if self.world.first:
                write_weights(self.out / "best.safetensors", self.model, self.config, self.dataset)
        assert state.best is not None
        result = {
            "config": self.config.to_dict(),
            "best": state.history[state.best["epoch"] - 1],
            "final": state.history[-1],
            "history": state.history,
            "steps": self.passed,
            "images": {"training": len(self.training.labels), "validation": len(self.validation.labels)},
            "processes": self.world.size,
            "seconds": state.seconds,
            "peak_bytes": peak_bytes(),
            **self.where,
        }
        if self.world.first:
            write_weights(self.out / "final.safetensors", self.model, self.config, self.dataset)
            atomic_write(self.out / "result.json", (json.dumps(result, indent=2) + "\n").encode())
        self.world.wait()
        return result


@contextlib.contextmanager
def _explain_batch_norm(out: Path, count: int) -> Iterator[None]:
    """Batch norm cannot work on one image of one pixel: name the setting that leads there."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise ValueError(
            f"{out}: a batch of {count} images leaves batch norm a single value: choose another `optim.batch_size`."
        ) from None
