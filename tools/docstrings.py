"""Docstrings as the site's Markdown reads them: formulas between dollars, examples as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_MATH = re.compile(r"^\.\. math:: (.+)$", flags=re.M)
_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", flags=re.M)


class Docstrings(griffe.Extension):
    """Rewrites every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """`.. math:: x` becomes a formula on its own line; a block that starts with `>>>` becomes an example."""
        if obj.docstring is not None:
            text = _MATH.sub(lambda found: f"$$\n{found[1]}\n$$", obj.docstring.value)
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
