"""Training, top to bottom.

Everything random is a function of (seed, epoch, step), and the learning rate of the step alone, so a checkpoint holds
weights, the optimizer's averages and counters, and a run that was killed goes on to the same weights, bit for bit.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from shiftproof import environment
from shiftproof.data.augment import augment
from shiftproof.data.batches import batches, derive, in_order, normalise, steps
from shiftproof.data.sets import Dataset, Images
from shiftproof.data.store import atomic_write
from shiftproof.layers import Downsample
from shiftproof.training.checkpoint import Checkpoints, claimed, write_tensors
from shiftproof.training.config import Config, differences
from shiftproof.training.distributed import World, joined
from shiftproof.training.journal import Display, Journal, Speed
from shiftproof.training.optimizer import learning_rate, make_optimizer, pull, restore, tensors
from shiftproof.training.process import Stopwatch, peak_bytes, stop_requests, threads
from shiftproof.training.resolve import resolve
from shiftproof.training.runs import build_model, describe, load_data, read_config, read_result

_LOG_EVERY = 10  # steps
_PRECISIONS = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Stopped(KeyboardInterrupt):
    """Ctrl-C or a request to terminate, after the checkpoint is written."""


def train(
    config: Config | None,
    out: Path,
    *,
    resume: bool = False,
    data_dir: Path | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Train a network into the folder `out`, and return what `result.json` says.

    With `resume` a run that was begun there goes on, to the same weights as if nothing had happened; without a
    `config` it takes the one it was begun with. Under `torchrun` the processes share each batch.
    """
    config = None if config is None else resolve(config)
    with joined("auto" if config is None else config.run.device) as world, torch.random.fork_rng():
        config, finished = world.once(lambda: _find(config, out, resume, world))
        if finished is not None:
            return finished
        with threads(config.run.threads):
            data = load_data(config, data_dir)
            if world.once(lambda: data[0].checksum) != data[0].checksum:
                raise ValueError(f"{config.data.name}: the first process has other images than this one.")
            if not world.first:
                return _train(config, out, world, data, Display("", 1, 1, quiet=True))
            per_epoch = steps(len(data[1].labels), config.optim.batch_size)
            name = f"{config.model.name} {config.recipe} {config.data.name} seed {config.run.seed}"
            display = Display(name, config.optim.epochs, per_epoch, quiet)
            size = 4 * sum(p.numel() for p in build_model(config, data[0]).parameters())
            with claimed(out, needed=(config.run.keep + 3) * 2 * size + 2**20), display.shown(), _room(out):
                # again, now that it is ours: another process may have been at work there a moment ago
                _, finished = _find(config, out, resume, world)
                return finished or _train(config, out, world, data, display)


def _find(config: Config | None, out: Path, resume: bool, world: World) -> tuple[Config, dict[str, Any] | None]:
    """What to train, and the result if that is already finished."""
    saved = read_config(out)
    if saved is None:
        if config is None:
            raise ValueError(f"{out}: no run was begun there; say what to train.")
        return config, None
    # a dead process of this very launch, started anew, need not be told to go on
    if not resume and not (world.restarted and _launch(out).exists()):
        raise ValueError(f"{out}: already holds a run; add --resume to go on with it, or choose another folder.")
    if config is not None and (different := differences(saved, config)):
        raise ValueError(f"{out}: the run there has other settings: {'; '.join(different)}.")
    return config or saved, read_result(out)


def _launch(out: Path) -> Path:
    """The file that says which launch of torchrun a run belongs to."""
    return out / f".launch-{re.sub('[^A-Za-z0-9_-]', '_', os.environ.get('TORCHELASTIC_RUN_ID', 'none'))}"


def _train(
    config: Config, out: Path, world: World, data: tuple[Dataset, Images, Images], display: Display
) -> dict[str, Any]:
    dataset, training, validation = data
    optim, seed, device = config.optim, config.run.seed, world.device
    form = torch.channels_last if config.run.channels_last else torch.contiguous_format
    model = build_model(config, dataset).to(device, memory_format=form)  # type: ignore[call-overload]
    layers = [m for m in model.modules() if isinstance(m, Downsample)]
    optimizer = make_optimizer(model, optim)
    scaler = torch.amp.GradScaler(device.type, enabled=config.run.precision == "fp16")
    autocast = partial(
        torch.autocast,
        device.type,
        dtype=_PRECISIONS.get(config.run.precision, torch.bfloat16),
        enabled=config.run.precision != "fp32",
    )
    augmentation = partial(augment, flip=config.augment.flip, shift=config.augment.shift, crop=config.augment.crop)

    # where we are: taken from the newest checkpoint, or the beginning
    state: dict[str, Any] = {
        "epoch": 0,
        "step": 0,
        "sums": [0.0, 0.0, 0.0],
        "seconds": 0.0,
        "best": None,
        "history": [],
        "scaler": {},
        "data": dataset.checksum,
        "threads": torch.get_num_threads(),
        "processes": world.size,
    }
    checkpoints = Checkpoints(out / "checkpoints", config.run.keep)
    found = world.once(lambda: checkpoints.newest(display.warn))
    if found is not None:
        saved, state = found
        if state["data"] != dataset.checksum:
            raise ValueError(f"{out}: the images of {dataset.name} are not those the run was begun with.")
        display.say(f"{out}: going on at epoch {state['epoch'] + 1}, step {state['step'] + 1}")
        if state["threads"] != torch.get_num_threads():
            display.say(f"{out}: with {state['threads']} threads, as it was begun: another number rounds differently")
            torch.set_num_threads(state["threads"])
        if state["processes"] != world.size:
            display.warn(f"{out}: begun with {state['processes']} processes, now {world.size}: not the same bits")
        restore(model, optimizer, scaler, saved, state)
    per_epoch = steps(len(training.labels), optim.batch_size)
    total_steps = optim.epochs * per_epoch
    net: nn.Module = model
    if world.size > 1:
        net = nn.parallel.DistributedDataParallel(net)
    if config.run.compile:
        net = torch.compile(net)  # type: ignore[assignment]

    def passed() -> int:
        return int(state["epoch"] * per_epoch + state["step"])

    def keep() -> None:
        if world.first:
            state["scaler"] = scaler.state_dict()
            checkpoints.save(passed(), tensors(model, optimizer), state)

    journal = Journal(out, passed(), state["epoch"], config.run.tensorboard) if world.first else None
    if world.first:
        atomic_write(out / "config.json", (json.dumps(config.to_dict(), indent=2) + "\n").encode())
        _launch(out).touch()
    where = {"code": environment.code(), "machine": environment.machine()}
    watch = Stopwatch(state["seconds"])
    last_kept = watch()
    speed = Speed()
    with contextlib.ExitStack() as stack:
        if journal is not None:
            stack.callback(journal.close)
        stop = stack.enter_context(stop_requests(world.size == 1))
        while state["epoch"] < optim.epochs:
            epoch = state["epoch"]
            net.train()
            for batch in batches(
                training,
                optim.batch_size,
                seed=seed,
                epoch=epoch,
                first=state["step"],
                augmentation=augmentation,
                rank=world.rank,
                world=world.size,
            ):
                torch.manual_seed(derive(seed, epoch, 2, batch.step, world.rank))  # dropout, stochastic pooling
                for layer in layers:
                    layer.progress(passed() / total_steps)
                rate = learning_rate(optim, passed(), per_epoch)
                for group in optimizer.param_groups:
                    group["lr"] = rate

                x = normalise(batch.images.to(device), dataset.mean, dataset.std, form)
                labels, weights = batch.labels.to(device), batch.weights.to(device)
                with autocast(), _explained(out, batch.total):
                    scores = net(x)
                losses = F.cross_entropy(scores.float(), labels, reduction="none") * weights
                # processes hold parts of different size, and gradients are averaged over processes
                loss = losses.sum() * (world.size / batch.total)
                if not math.isfinite(float(loss.detach())):
                    raise ValueError(
                        f"{out}: the loss is {float(loss.detach())} in epoch {epoch + 1}, step {batch.step + 1}: lower "
                        f"`optim.lr` (={optim.lr}). The last checkpoint is untouched."
                    )
                optimizer.zero_grad(set_to_none=True)
                scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
                if optim.l1:
                    scaler.unscale_(optimizer)
                    pull(optimizer)
                scaler.step(optimizer)
                scaler.update()

                right = ((scores.argmax(1) == labels) * weights).sum()
                news = world.total([float(losses.detach().sum()), float(right), float(weights.sum())])
                state["sums"] = [a + b for a, b in zip(state["sums"], news)]
                state["step"] = batch.step + 1
                state["seconds"] = watch()
                mean_loss, accuracy = (v / state["sums"][2] for v in state["sums"][:2])
                images_per_second = speed(batch.total)
                display.step(epoch, state["step"], mean_loss, accuracy, images_per_second)
                if journal is not None and passed() % _LOG_EVERY == 0:
                    journal.write("step", passed(), loss=float(loss.detach()), lr=rate, speed=images_per_second)
                if stop.is_set() or watch() - last_kept > 60 * config.run.checkpoint_minutes:
                    if state["step"] < per_epoch or stop.is_set():
                        keep()
                    last_kept = watch()
                if stop.is_set():
                    raise Stopped(f"{out}: stopped in epoch {epoch + 1}; go on with --resume.")

            loss_sum, right_sum, count = state["sums"]
            world.from_first(model.buffers())
            checked = measure(model, validation, dataset, form, world, autocast) if len(validation.labels) else {}
            row = {"epoch": epoch + 1, "loss": loss_sum / count, "accuracy": right_sum / count, **checked}
            state["history"].append(row)
            judged = row.get("validation_accuracy", float(epoch))  # without validation the last epoch is the best
            state |= {"epoch": epoch + 1, "step": 0, "sums": [0.0, 0.0, 0.0], "seconds": watch()}
            better = state["best"] is None or judged > state["best"]["judged"]
            if better:
                state["best"] = {"epoch": epoch + 1, "judged": judged}
            if journal is not None:
                if better:
                    write_tensors(out / "best.safetensors", model.state_dict(), describe(config, dataset))
                journal.write("epoch", passed(), **row, seconds=state["seconds"])
            keep()
            last_kept = watch()
            display.say(_line(row, optim.epochs, state["seconds"]))
            if stop.is_set() and state["epoch"] < optim.epochs:
                raise Stopped(f"{out}: stopped after epoch {epoch + 1}; go on with --resume.")

    result = {
        "config": config.to_dict(),
        "best": state["history"][state["best"]["epoch"] - 1],
        "final": state["history"][-1],
        "history": state["history"],
        "steps": passed(),
        "images": {"training": len(training.labels), "validation": len(validation.labels)},
        "processes": world.size,
        "seconds": state["seconds"],
        "peak_bytes": peak_bytes(),
        **where,
    }
    if world.first:
        write_tensors(out / "final.safetensors", model.state_dict(), describe(config, dataset))
        atomic_write(out / "result.json", (json.dumps(result, indent=2) + "\n").encode())
    world.wait()
    if stop.is_set():
        raise Stopped(f"{out}: finished.")
    return result


def measure(
    model: nn.Module, images: Images, dataset: Dataset, form: torch.memory_format, world: World, autocast: Any
) -> dict[str, Any]:
    """Loss and accuracy on held-out images, over all processes."""
    model.eval()
    sums = [0.0, 0.0]
    with torch.no_grad():
        for x, labels in in_order(images, 250, rank=world.rank, world=world.size):
            labels = labels.to(world.device)
            with autocast():
                scores = model(normalise(x.to(world.device), dataset.mean, dataset.std, form)).float()
            sums[0] += float(F.cross_entropy(scores, labels, reduction="sum"))
            sums[1] += float((scores.argmax(1) == labels).sum())
    loss, right = world.total(sums)
    mean = loss / len(images.labels)
    found = {"validation_loss": mean if math.isfinite(mean) else None}
    return {**found, "validation_accuracy": right / len(images.labels)}


@contextlib.contextmanager
def _explained(out: Path, count: int) -> Iterator[None]:
    """Batch norm cannot work on one image of one pixel: say which batch that is."""
    try:
        yield
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise ValueError(
            f"{out}: a batch of {count} images leaves batch norm a single value: choose another `optim.batch_size`."
        ) from None


@contextlib.contextmanager
def _room(out: Path) -> Iterator[None]:
    """A disk that is full, in the middle of a run: say that nothing is lost."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise OSError(
            f"{error.filename or out}: {error.strerror}. The last checkpoint is untouched: make room and go on with "
            "--resume."
        ) from None


def _line(row: dict[str, Any], epochs: int, seconds: float) -> str:
    words = [f"epoch {row['epoch']}/{epochs}", f"loss {row['loss']:.4f}", f"accuracy {row['accuracy']:.2%}"]
    if "validation_accuracy" in row:
        words.append(f"validation {row['validation_accuracy']:.2%}")
    return ", ".join([*words, f"{seconds:.0f} s"])
