"""The parser of a command, whose errors are one line in the words of all other errors."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from shiftproof import checks

# what argparse says, and what is said instead
_WORDS = (
    (r"argument (\S+): invalid int value: (.+)", r"`\1` (=\2) must be a whole number."),
    (r"argument (\S+): expected (?:at least )?one argument", r"`\1` must be followed by a value."),
    (r"argument (\S+): expected (.+) arguments?", r"`\1` must be followed by \2 values."),
    (r"argument (\S+): ignored explicit argument (.+)", r"`\1` (=\2) must stand without a value."),
    (r"ambiguous option: (\S+) could match (.+)", r"`\1` must be written in full: \2."),
    (r"the following arguments are required: (.+)", r"\1 must be given."),
)


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that says in one line what is wrong, and where to read on.

    `options.parser` is the one of the command that the user chose.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.set_defaults(parser=self)

    def error(self, message: str) -> NoReturn:
        """Print the line, and end with exit code 2."""
        for theirs, ours in _WORDS:
            message = re.sub(f"^{theirs}$", ours, message)
        self.exit(2, f"shiftproof: {message} See `{self.prog} --help`.\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None:
            try:
                checks.choice(str(action.metavar), value, action.choices)
            except ValueError as error:
                self.error(str(error))

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """As in the base class, but a word that a command does not know is an error of that command."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = difflib.get_close_matches(unknown[0], self._option_string_actions, n=1, cutoff=0.7)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            self.error(f"`{unknown[0]}` is no argument of `{self.prog}`.{hint}")
        return found, unknown

    def explain_missing(self, file: str, options: argparse.Namespace) -> str:
        """Which argument named a file that does not exist, and what is expected there."""
        for action in self._actions:
            given = getattr(options, action.dest, None)
            values = given if isinstance(given, list) else [given]
            paths = [str(Path(value)) for value in values if isinstance(value, (str, Path))]
            if str(Path(file)) in paths:
                name = action.option_strings[-1] if action.option_strings else action.metavar
                expected = str(action.help).partition("; default")[0]
                return f"`{name}` (={file}) does not exist. Expected: {expected}."
        return f"{file}: no such file."
