"""Run a notebook and show it. As a command: `notebook.py SOURCE.ipynb RESULT.ipynb`."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

QUICKSTART = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"


def execute(source: Path, result: Path) -> None:
    """Run every cell with this interpreter, whatever kernels are installed; the first error ends it."""
    import nbformat
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        kernel = Path(folder) / "kernels" / "python3"
        kernel.mkdir(parents=True)
        options = ["-f", "{connection_file}", "--log-level=ERROR"]
        command = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", *options]
        spec = {"argv": command, "display_name": "Python 3", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec))
        os.environ["JUPYTER_PATH"] = os.environ["JUPYTER_RUNTIME_DIR"] = folder  # looked at before any other place
        notebook = nbformat.read(source, as_version=4)  # type: ignore[no-untyped-call]
        NotebookClient(notebook, kernel_name="python3").execute(cwd=folder)
        nbformat.write(notebook, result)  # type: ignore[no-untyped-call]


@cache
def executed(text: str) -> dict[str, Any]:
    """The notebook `text` with its outputs, run in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "source.ipynb", Path(folder) / "result.ipynb"
        source.write_text(text)
        subprocess.run([sys.executable, __file__, str(source), str(result)], check=True)
        notebook: dict[str, Any] = json.loads(result.read_text())
        return notebook


def to_markdown(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """Text, code and outputs as Markdown, and the pictures it refers to as STEM-NUMBER.png."""
    lines: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        content = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines += [content, ""]
            continue
        lines += ["```python", content, "```", ""]
        printed = ""
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                lines += [f"![What the cell above draws]({name})", ""]
            else:
                printed += "".join(output.get("text", data.get("text/plain", "")))
        if printed:
            lines += ["```text", printed.strip("\n"), "```", ""]
    return "\n".join(lines), pictures


if __name__ == "__main__":
    execute(Path(sys.argv[1]), Path(sys.argv[2]))
