"""`triggers:` in a definition: what a graph knows of them, and what `check` says of those that cannot be."""

from __future__ import annotations

import pytest

from stepwell.definition.compiler import compile_definition, compile_document

TIMELINE = "timeline: [{name: a, sleep: 1s}]"


def checked(*triggers: str) -> list[tuple[str, str]]:
    """(code, path) of what is wrong."""
    lines = "\n".join(f"  - {one}" for one in triggers)
    found = compile_definition(f"workflow: w\ntriggers:\n{lines}\n{TIMELINE}")
    return [(problem.code, problem.path) for problem in found.errors]


def test_events_and_schedules_become_part_of_the_graph_and_survive_its_storage() -> None:
    compiled = compile_definition(f"""
workflow: w
triggers:
  - {{event: order.created, key: "{{{{ event.id }}}}", match: "event.total > 5", input: {{order: "{{{{ event }}}}"}}}}
  - {{schedule: "cron(0 9 * * ? *)", timezone: Europe/Madrid, overlap: allow, catchUp: 1h}}
  - {{schedule: "rate(5 minutes)", input: {{day: "{{{{ event.scheduled_at }}}}"}}}}
{TIMELINE}""")
    assert compiled.graph is not None, compiled.problems
    again = compile_document(compiled.graph.document, trusted=True)
    for graph in (compiled.graph, again):
        (event,) = graph.event_triggers
        assert event.event == "order.created"
        assert event.key is not None
        assert event.key.evaluate({"event": {"id": 7}, "now": ""}) == 7
        daily, often = graph.schedules
        assert (daily.name, daily.timezone, daily.overlap, daily.catch_up_ms) == (
            "w:1", "Europe/Madrid", "allow", 3_600_000
        )  # fmt: skip
        assert (often.name, often.timezone, often.overlap, often.catch_up_ms) == ("w:2", "UTC", "skip", None)


@pytest.mark.parametrize(
    ("trigger", "expected"),
    [
        ("{overlap: skip}", ("missing_key", "/triggers/0")),
        ("{event: a, schedule: 0 9 * * *}", ("conflict", "/triggers/0")),
        ("{event: a, timezone: UTC}", ("misplaced_key", "/triggers/0/timezone")),
        ("{schedule: 0 9 * * *, match: 'true'}", ("misplaced_key", "/triggers/0/match")),
        ("{event: 'a b'}", ("bad_name", "/triggers/0/event")),
        ("{event: a, match: 'input.x'}", ("unknown_name", "/triggers/0/match")),
        ("{event: a, input: {x: '{{ state.y }}'}}", ("unknown_name", "/triggers/0/input")),
        ("{event: a, key: '{{ event. }}'}", ("bad_expression", "/triggers/0/key")),
        ("{schedule: 0 9 15W * *}", ("unsupported_schedule", "/triggers/0/schedule")),
        ("{schedule: 0 9 * *}", ("bad_schedule", "/triggers/0/schedule")),
        ("{schedule: 0 9 * * *, timezone: Mars}", ("bad_timezone", "/triggers/0/timezone")),
        ("{schedule: 0 9 * * *, overlap: queue}", ("bad_value", "/triggers/0/overlap")),
        ("{schedule: 0 9 * * *, catch_up: soon}", ("bad_duration", "/triggers/0/catch_up")),
        ("{schedule: 0 9 * * *, catch_up: '{{ event }}'}", ("bad_duration", "/triggers/0/catch_up")),
        ("{event: 3}", ("wrong_type", "/triggers/0/event")),
        ("{evnt: a}", ("unknown_key", "/triggers/0/evnt")),
    ],
)
def test_what_is_wrong_with_a_trigger_is_said_at_its_place(trigger: str, expected: tuple[str, str]) -> None:
    assert expected in checked(trigger)


def test_a_trigger_that_is_no_mapping_leaves_the_others_checked() -> None:
    assert checked("often", "{schedule: never}") == [
        ("wrong_type", "/triggers/0"), ("bad_schedule", "/triggers/1/schedule")
    ]  # fmt: skip


def test_an_internal_workflow_has_none() -> None:
    found = compile_definition(f"workflow: w\ninternal: true\ntriggers: [{{event: a}}]\n{TIMELINE}")
    assert [(problem.code, problem.path) for problem in found.errors] == [("conflict", "/triggers")]


def test_triggers_are_bounded() -> None:
    assert checked(*["{event: a}"] * 21) == [("too_many_triggers", "/triggers")]


def test_an_input_that_no_firing_can_compute_is_a_warning() -> None:
    """Such a schedule starts nothing, night after night."""
    lines = """
triggers:
  - {schedule: "rate(1 day)", input: {day: "{{ event.scheduledAt }}"}}
  - {schedule: "rate(1 day)", input: {day: "{{ event.scheduled_at }}", at: "{{ now }}", of: "{{ event.schedule }}"}}
"""
    found = compile_definition(f"workflow: w{lines}{TIMELINE}")
    assert [(one.severity, one.path) for one in found.problems] == [("warning", "/triggers/0/input")]
    assert "scheduledAt" in found.problems[0].message
    assert found.problems[0].hint == "the `event` of a schedule has `schedule` and `scheduled_at`"
