"""The one error of the converter."""

from __future__ import annotations

from collections.abc import Mapping


class ConversionError(ValueError):
    """The network cannot be converted: `problem` says where and why, `remedy` what to do.

    `module` is the path of the innermost module that could not be traced, if that was the problem.
    """

    def __init__(self, problem: str, remedy: str = "", *, module: str = "") -> None:
        separator = "\n" if "\n" in problem else " "
        super().__init__(f"{problem}{separator}{remedy}".rstrip())
        self.problem, self.remedy, self.module = problem, remedy, module

    def reworded(self, words: Mapping[str, str]) -> ConversionError:
        """The same error with other words in its remedy, such as `--loose` for `strict=False`."""
        return ConversionError(self.problem, reworded(self.remedy, words), module=self.module)


def reworded(text: str, words: Mapping[str, str]) -> str:
    """`text` with the new words in place of the old ones."""
    for old, new in words.items():
        text = text.replace(old, new)
    return text


def listed(problems: list[str]) -> str:
    """Problems as lines of a list."""
    return "\n".join(f"* {problem}" for problem in problems)
