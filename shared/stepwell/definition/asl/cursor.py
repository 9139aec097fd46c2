"""Reads an expression's text from left to right, and says where it is wrong."""

from __future__ import annotations

import re

from stepwell.definition.text import one_line
from stepwell.errors import ExpressionError
from stepwell.limits import EXPRESSION_CHARACTERS

NESTING = 10  # of calls in calls, and of brackets in filters

_SPACES = re.compile(r"[ \t\r\n]*")
_ESCAPE = re.compile(r"\\(.)", re.S)
_QUOTED = {quote: re.compile(rf"{quote}((?:[^{quote}\\]|\\.)*){quote}", re.S) for quote in "'\""}


class Cursor:
    """A text, and how far it is read."""

    __slots__ = ("at", "depth", "text")

    def __init__(self, text: str) -> None:
        if len(text) > EXPRESSION_CHARACTERS:
            raise ExpressionError(
                f"the expression has {len(text)} characters; {EXPRESSION_CHARACTERS} are allowed",
                code="bad_expression",
                hint="compute it in a step",
            )
        self.text = text
        self.at = 0
        self.depth = 0

    @property
    def next(self) -> str:
        """The character that is read next; "" at the end."""
        return self.text[self.at : self.at + 1]

    def take(self, word: str) -> bool:
        """Reads this word if it is what comes next."""
        if not self.text.startswith(word, self.at):
            return False
        self.at += len(word)
        return True

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Reads what fits the pattern, if anything does."""
        if found := pattern.match(self.text, self.at):
            self.at = found.end()
        return found

    def spaces(self) -> None:
        self.match(_SPACES)

    def quoted(self) -> str:
        """Reads a string in quotes, and returns what is between them with its escapes as written."""
        found = self.match(_QUOTED[self.next])
        if found is None:
            raise self.wrong("a string does not end", f"close it with {self.next}")
        return found[1]

    def expect(self, word: str, hint: str) -> None:
        if not self.take(word):
            raise self.wrong(f"`{word}` is missing", hint)

    def end(self, hint: str) -> None:
        if self.at < len(self.text):
            raise self.wrong(f"{self.next!r} is not expected here", hint)

    def deeper(self) -> None:
        """Counts a level of nesting; `shallower` ends it."""
        self.depth += 1
        if self.depth > NESTING:
            raise self.wrong(f"it is nested deeper than {NESTING}", "make a part of it in a state before")

    def shallower(self) -> None:
        self.depth -= 1

    def wrong(self, message: str, hint: str, at: int | None = None) -> ExpressionError:
        place = (self.at if at is None else at) + 1
        return ExpressionError(
            f"{message}, at character {place} of {one_line(self.text)}", code="bad_expression", hint=hint
        )


def unescaped(text: str) -> str:
    return _ESCAPE.sub(r"\1", text) if "\\" in text else text
