"""`shiftproof train`: settings from the command line, a run into its folder."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from shiftproof.training.config import configure, parse_pairs


def run(options: argparse.Namespace) -> int:
    """Train, and print how it went; only the first of several processes prints."""
    from shiftproof.training.distributed import LostError
    from shiftproof.training.loop import train
    from shiftproof.training.process import keep_memory

    keep_memory()
    changes = parse_pairs(options.set)
    if options.folder is not None:
        changes["data.path"] = str(options.folder)
    said = (options.model, options.method, options.dataset, options.seed, options.config, *changes)
    if options.resume and options.out is not None and not any(v is not None for v in said):
        config, out = None, options.out
    else:
        config = configure(
            options.preset,
            model=options.model,
            method=options.method,
            dataset=options.dataset,
            seed=options.seed,
            file=options.config,
            changes=changes,
        )
        parts = (config.data.name, config.model.name, config.recipe, config.preset)
        out = options.out or Path("runs") / "-".join([*parts, f"seed{config.run.seed}"])
    try:
        result = train(config, out, resume=options.resume, data_dir=options.data_dir, quiet=options.quiet)
    except LostError as error:
        print(f"shiftproof: {error}", file=sys.stderr, flush=True)
        os._exit(2)  # what is left of the connections may wait for the dead one, half an hour, before it lets go
    if os.environ.get("RANK", "0") != "0":
        return 0
    if options.json:
        print(json.dumps(result, indent=2))
        return 0
    best, minutes = result["best"], result["seconds"] / 60
    found = f", validation accuracy {best['validation_accuracy']:.2%}" if "validation_accuracy" in best else ""
    print(f"{out}: finished after {minutes:.1f} minutes; best epoch {best['epoch']}{found}")
    print(f"next: shiftproof evaluate {out}")
    return 0
