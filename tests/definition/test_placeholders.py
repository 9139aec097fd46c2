"""`${input.x}`, which another language's templates are written like."""

from __future__ import annotations

from stepwell.definition.compiler import compile_definition

TIMELINE = "workflow: w\ntimeline:\n"


def test_a_placeholder_of_another_language_is_shown_as_it_should_be_written() -> None:
    """What is no name of a template may be meant as it stands: a variable of a shell, a pattern of a schema."""
    text = TIMELINE + "  - {name: a, run: x, timeout: 1s, input: {id: 'for ${input.id}', home: '${HOME} ${inputs}'}}"
    (found,) = compile_definition("input_schema: {pattern: '${input}'}\n" + text).problems
    assert found.message == "`${input.id}` is plain text, because it is no template"
    assert found.hint == "write {{ input.id }}"
