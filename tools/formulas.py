"""Formulas as inline SVG, drawn when the site is built: no script, no font and no request is left for the reader.

`pymdownx.arithmatex` finds the formulas in the Markdown; matplotlib's mathtext draws them. They take the colour of
the text around them, and carry their TeX for those who listen to a page.
"""

from __future__ import annotations

import html
import re
from functools import cache

from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.textpath import TextToPath

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', flags=re.S)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', flags=re.S)
# what mathtext spells otherwise, or spaces badly
_WORDS = {r"\bmod": r"\;\mathrm{mod}\;", r"\top": r"\mathsf{T}", r"\sqrt\pi": r"\sqrt{\pi}"}
_LETTERS = {Path.MOVETO: "M", Path.LINETO: "l", Path.CURVE3: "q", Path.CURVE4: "c", Path.CLOSEPOLY: "z"}
_SIZE = 1.15  # the letters of STIX are smaller than those of the text around them
_UNITS = 4  # of the drawing, for each of mathtext's: whole numbers are precise enough


def draw_formulas(page: str) -> str:
    """The HTML of a page, with every formula that arithmatex found replaced by a drawing."""
    page = _DISPLAY.sub(lambda found: _display(html.unescape(found[1])), page)
    return _INLINE.sub(lambda found: svg(html.unescape(found[1])), page)


def _display(tex: str) -> str:
    """A formula on a line of its own, with fractions at full size."""
    drawn = svg(tex.replace(r"\frac", r"\dfrac"))
    return f'<div class="formula" tabindex="0">{drawn}</div>'


@cache
def svg(tex: str) -> str:
    """One formula as an `<svg>` that stands on the base line of its text."""
    text = source = " ".join(tex.split())
    for word, known in _WORDS.items():
        source = source.replace(word, known)
    maker = TextToPath()
    font = FontProperties(size=maker.FONT_SCALE, math_fontfamily="stix")
    try:
        points, codes = maker.get_text_path(font, f"${source}$", ismath=True)
        width, height, depth = maker.get_text_width_height_descent(f"${source}$", font, ismath=True)
    except ValueError as error:
        raise ValueError(f"the formula {text!r} cannot be drawn: {error}") from error
    em = _SIZE / maker.FONT_SCALE
    style = f"width:{width * em:.3f}em;height:{height * em:.3f}em;vertical-align:{-depth * em:.3f}em"
    return (
        f'<svg class="math" role="img" aria-label="{html.escape(text)}" style="{style}" '
        f'viewBox="0 0 {width * _UNITS:.0f} {height * _UNITS:.0f}">'
        f'<path d="{_outline(Path(points, codes), height - depth)}"/></svg>'
    )


def _outline(path: Path, ascent: float) -> str:
    """The path in the letters of SVG, its base line `ascent` below the top; each point relative to the last."""
    words = []
    x = y = x0 = y0 = 0
    for points, code in path.iter_segments(curves=True, simplify=False):
        letter = _LETTERS[code]
        ends = [(round(_UNITS * a), round(_UNITS * (ascent - b))) for a, b in zip(points[::2], points[1::2])]
        if letter == "M":
            x, y = x0, y0 = ends[0]
            words.append(f"M{x} {y}")
        elif letter == "z":
            x, y = x0, y0
            words.append("z")
        else:
            words.append(letter + " ".join(f"{a - x} {b - y}" for a, b in ends))
            x, y = ends[-1]
    return "".join(words)
