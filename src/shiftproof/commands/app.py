"""`shiftproof app`: serve the interactive page on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from shiftproof.commands.shared import add_data_dir

HELP = "Open a page in the browser: drag pictures and watch how layers and networks respond."
EXAMPLES = ("", "--runs demo/runs")
RUNS = (Path("runs"), Path("demo/runs"))  # searched without `--runs`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    add_data_dir(parser)
    parser.add_argument(
        "--port", type=int, default=7860, help="port on 127.0.0.1; if it is taken, the next free one; 0: any"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="finished runs, or folders of runs, whose networks to show; default: runs and demo/runs",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, do not open a browser")


def run(options: argparse.Namespace) -> int:
    """Run the command; returns the exit code."""
    import asyncio
    import json
    import tempfile
    import webbrowser

    from shiftproof.app import server

    runs = options.runs or [folder for folder in RUNS if folder.is_dir()]
    listening = server.listen(options.port)
    url = f"http://{server.HOST}:{listening.getsockname()[1]}"

    def ready(_: object) -> None:
        print(json.dumps({"url": url}) if options.json else f"shiftproof app: {url} (Ctrl-C stops it)", flush=True)
        if not options.no_browser:
            webbrowser.open(url)

    with listening, tempfile.TemporaryDirectory(prefix="shiftproof-app-", ignore_cleanup_errors=True) as cache:
        asyncio.run(server.serve(lambda: server.application(runs, options.data_dir, Path(cache)), listening, ready))
    return 0
