"""Keys that people bring from other workflow tools, and how what they mean is written here."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from stepwell.definition.graph import Json
from stepwell.definition.text import counted

_FOREACH = 'transitions: [{to: NODE, foreach: "{{ input.items }}"}]'
_ON_ERROR = "\"error.type == 'NAME'\""
_FAN_IN = "write it in fan_in, beside its policy"
_A_TIME = "which gives a time such as 2030-01-31T12:00:00Z"
_MOVED = "remove it: a transition stands at the node that it leads from"


def _words(hints: Mapping[str, str]) -> dict[str, str]:
    """Returns a hint for each of the words, which are given with spaces between them."""
    return {word: hint for words, hint in hints.items() for word in words.split()}


_CALLS = {
    "uses function handler call task activity lambda script command": "write run: python:module.function",
    "workflow_call subworkflow sub_workflow workflow child": "write run: workflow:name",
    "url request endpoint": "write run: http:GET https://…",
    "with args arguments params parameters inputs payload body": "write input: {name: value}",
}

_PLACES = {
    **_CALLS,
    "step": "write run: python:module.function",
    "outputs result returns register save_as result_path": 'write output: {name: "{{ result }}"}',
    "retries max_retries retry_count": "write retry: {max_retries: 3}",
    "attempts max_attempts maximum_attempts": "write retry: {max_retries: ATTEMPTS}",
    "timeout_ms timeout_seconds time_limit deadline": "write timeout: 5s, with its unit",
    "execution": "write its retry_policy and its timeout at the node itself",
    "delay pause duration seconds timer sleep_seconds": "write sleep: 5m",
    "until wait_until sleep_until": f'write sleep: "{{{{ input.due }}}}", {_A_TIME}',
    "approval approve manual human": "write wait: {for: approval}",
    "event wait_for wait_for_event signal": "write wait: {for: event, name: NAME}",
    "type kind": "remove it: `run`, `wait`, `sleep` or `children` says what it does",
    "undo rollback revert compensation": "write compensate: {run: python:module.function}",
    "mutex locks semaphore": "write lock: NAME",
    "for approvers escalate heartbeat": "indent it below `wait:`, as in wait: {for: approval}",
}

_IN_TURN = "the next step follows by itself; for another one: branch: [{when: CONDITION, skip_to: STEP}]"
_GRAPH_ONLY = "only `nodes:` has it: "

_ENTRIES = {
    **_PLACES,
    "id title label": "write name: NAME",
    "if when unless condition only_if": "write it at the step before: branch: [{when: CONDITION, skip_to: STEP}]",
    "next then goto go_to on_success": _IN_TURN,
    "needs requires after depends_on dependencies": "remove it: the steps run in order; `steps:` has depends_on",
    "on_error catch rescue fallback": f"write diverge: [{{when: {_ON_ERROR}, skip_to: STEP}}], or on_failure: skip",
    "foreach for_each map loop items with_items matrix": f"{_GRAPH_ONLY}{_FOREACH}",
    "parallel branches fork concurrently": "steps of `steps:` run at once; in `nodes:`, write fan_out: all",
    "transitions": "only `nodes:` has transitions; a timeline has diverge: and branch:",
}

_DAG_STEPS = {
    **_PLACES,
    "id title label": "write name: NAME",
    "needs requires after dependencies depends": "write depends_on: [STEP]",
    "if when unless condition only_if": f"{_GRAPH_ONLY}transitions: [{{to: NODE, when: CONDITION}}]",
    "next then goto go_to on_success": "write depends_on: [STEP] at the step that comes after",
    "on_error catch rescue fallback": "write on_failure: skip, or compensate; `nodes:` has rules for errors",
    "foreach for_each map loop items with_items matrix": f"{_GRAPH_ONLY}{_FOREACH}",
    "parallel branches fork concurrently": "remove it: steps that do not depend on each other run at once",
    "transitions diverge branch": "only `nodes:` has transitions, and `timeline:` diverge and branch",
}

_NODES = {
    **_PLACES,
    "name id title label": "remove it: a node's key is its name",
    "next then goto go_to on_success": "write transitions: [{to: NODE}]",
    "if when unless condition only_if": "write it where a transition leads here: [{to: NODE, when: CONDITION}]",
    "needs requires after depends_on dependencies": "write transitions: [{to: NODE}] at the node before it",
    "on_error catch rescue fallback": f"write transitions: [{{to: NODE, when: {_ON_ERROR}}}], or on_failure: skip",
    "foreach for_each map loop items with_items matrix": f"write it where a transition leads here: {_FOREACH}",
    "parallel branches fork concurrently": "write fan_out: all, with a transition for each",
    "end final terminal is_end": "remove it: a node without transitions ends the run",
    "diverge branch": "write transitions: [{to: NODE, when: CONDITION}]",
    "join wait_for_all": "write fan_in: {policy: all} at the node where the branches meet",
    "merge target on_early_complete tolerate policy": _FAN_IN,
    "m_of_n": "write fan_in: {policy: {m_of_n: 2}}",
}

HINTS: dict[str, dict[str, str]] = {
    model: _words(hints)
    for model, hints in {
        "WorkflowDef": {
            "name id title": "write workflow: NAME",
            "on trigger schedule cron event": 'write triggers: [{event: NAME}], or [{schedule: "0 9 * * *"}]',
            "timezone tz time_zone": 'write it beside its schedule: triggers: [{schedule: "0 9 * * *", timezone: '
            "Europe/Madrid}]",
            "tasks jobs stages activities flow states": "write `timeline:` for steps one after the other, `steps:` for "
            "a DAG, or `nodes:` for a graph",
            "inputs parameters params": "write input_schema: {properties: {NAME: {type: string}}}",
            "on_error on_failure catch": "write failure_policy: fail, or compensate; steps have rules for their errors",
            "ttl expire expires": "write retention: 30d",
            "max_concurrency parallelism": "write concurrency: {limit: 10}",
            "retries max_retries": "write retry: {max_retries: 3}",
            "timeout_ms timeout_seconds": "write timeout: 30m, with its unit",
        },
        "EntryDef": _ENTRIES,
        "DagStepDef": _DAG_STEPS,
        "NodeDef": _NODES,
        "ActionDef": _CALLS,
        "CompensationDef": {**_CALLS, "of undoes": "write step: the name of the step to undo"},
        "TransitionDef": {
            "if unless condition match expression": "write when: the condition",
            "target next node then goto go_to": "write to: NODE",
            "for_each map loop items with_items": 'write foreach: "{{ input.items }}"',
            "item item_name": "write as: NAME",
            "limit concurrency parallelism": "write max_concurrency: 10",
            "from from_node_id": _MOVED,
            "merge on_early_complete tolerate": _FAN_IN,
        },
        "WaitDef": {
            "event signal event_name": "write for: event, name: NAME",
            "approval approve": "write for: approval",
            "delay duration seconds sleep": "write sleep: 5m in place of `wait`",
            "by approver users assignee assignees who": "write approvers: {of: [ann, ben]}",
            "filter condition when if where": "write match: CONDITION, over `event`",
            "timeout_ms timeout_seconds deadline expires": "write timeout: 24h, with its unit",
            "remind reminder reminders remind_after": "write escalate: {after: 4h, to: [boss]}, who is asked "
            "too; or let each timeout send one: on_timeout: retry, max_retries: 2, timeout_actions: "
            "[{run: python:module.function}]",
            "until": f'write timeout: "{{{{ input.due }}}}", {_A_TIME}',
            "form payload message": "write data: {name: value}",
        },
        "RetryDef": {
            "max count limit times retries": "write max_retries: 3",
            "max_attempts maximum_attempts attempts": "write max_retries: ATTEMPTS",
            "delay interval interval_seconds initial_interval min_delay": "write initial_delay: 1s",
            "multiplier backoff_rate factor backoff_coefficient": "write backoff: constant, linear or exponential",
            "max_interval max_delay_seconds": "write max_delay: 60s",
            "errors error_equals retry_on exceptions when if": "write on: [transient], or the types of errors",
        },
        "FanInDef": {
            "join mode type wait_for": "write policy: all, any or {m_of_n: 2}",
            "m_of_n": "write fan_in: {policy: {m_of_n: 2}}",
            "count need": "write policy: {m_of_n: 2}",
            "into output": "write target: NAME",
        },
        "TriggerDef": {
            "name on type": "write event: NAME, or schedule: RULE",
            "cron rate every interval": 'write schedule: "0 9 * * *", cron(…) or rate(…)',
            "filter condition when if where": "write match: CONDITION, over `event`",
            "tz time_zone": "write timezone: Europe/Madrid",
        },
        "ConcurrencyDef": {
            "max max_runs max_concurrency": "write limit: 10",
            "group by": 'write key: "{{ input.NAME }}"',
        },
        "RateLimitDef": {
            "max count": "write limit: 100",
            "period interval window every": "write per: 1m",
            "group by": 'write key: "{{ input.NAME }}"',
        },
    }.items()
}


def _with_attempts(hint: str, value: Json) -> str:
    """Fills in the retries for this number of attempts, of which the first is no retry."""
    if "ATTEMPTS" not in hint:
        return hint
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    attempts = value if is_count else 3
    made = hint.replace("ATTEMPTS", str(attempts - 1))
    return f"{made}, which is {counted(attempts, 'attempt')}: the first is no retry"


def meant_by(model: str, key: str, value: Json, known: Collection[str]) -> str:
    """Returns how to write what an unknown key means in this model, if other tools have such a key; else "".

    `value`: what the key has; `known`: the model's keys.
    """
    if hint := HINTS.get(model, {}).get(key):
        return _with_attempts(hint, value)
    if model in ("EntryDef", "DagStepDef") and isinstance(value, dict) and value.keys() <= set(known):
        return f"write its name beside what it does: - {{name: {key}, {next(iter(value), 'run')}: …}}"
    return ""
