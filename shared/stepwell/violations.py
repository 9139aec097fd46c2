"""Words what a schema refuses: `the input violates input_schema: / lacks month` is `the input lacks month`, in quotes.

The engine names each mistake by a JSON pointer. That of the whole value is empty, which people read as a path.
"""

from __future__ import annotations

import re

_REFUSED = re.compile(r"(the input|the state|the run's result) violates (?:input|state|output)_schema: (?=/)")
_LACKS = re.compile(r"(\S+) lacks (.+)")


def worded(message: str) -> str:
    """Returns the message of an error in plain words; any other message as it is."""
    found = _REFUSED.search(message)
    if found is None:
        return message
    before, what, mistakes = message[: found.start()], found[1], message[found.end() :].split("; ")
    if len(mistakes) == 1 and mistakes[0].startswith("/ "):
        return before + _mistake(mistakes[0], what)
    return message[: found.end()] + "; ".join(_mistake(one, "it") for one in mistakes)


def _mistake(text: str, whole: str) -> str:
    """Words one mistake; `whole` stands for the value itself."""
    if (lacks := _LACKS.fullmatch(text)) is not None:
        names = ", ".join(f"`{name}`" for name in lacks[2].split(", "))
        text = f"{lacks[1]} lacks {names}"
    return f"{whole}{text[1:]}" if text.startswith("/ ") else text
