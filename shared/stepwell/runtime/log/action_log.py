"""Logs one line for each action, a node with a label: that it began, waits or ended. Without data."""

from __future__ import annotations

import logging

from stepwell.engine.actions import RunStep
from stepwell.engine.durable.turns import Stuck
from stepwell.engine.records import End, Kind, Pause, Record, RetryAt
from stepwell.engine.retry import Policy, is_retried
from stepwell.engine.waits.code import is_again, is_for_code, told
from stepwell.limits import SECOND_MS
from stepwell.runtime.log.standing import Standing

_logger, _worker = logging.getLogger("stepwell.agent"), logging.getLogger("stepwell.worker")
TRIED_AGAIN = "%s %s is tried again in %.1f s (attempt %s)"  # the log line after that of an attempt's failure

LEFT_OUT = (
    "%s %s is not tried again after a time-out: `on` of its retry policy lacks `timeout`; "
    "write on: [%s], or on=[%s] in Python, if it may run twice"
)


def log_started(at: Standing, action: RunStep) -> None:
    """Logs that a function is about to run as an action, or as an action of a time-out."""
    node = at.graph.nodes.get(action.node)
    if node and node.label and action.undo is None:
        _log(at, node.name, node.label, "timeout action started" if action.action else "started")


def log_tried_again(at: Standing, action: RunStep, record: Record, policy: Policy) -> None:
    """Logs when a step whose attempt failed is tried again, if it is. Retriers of a state count each for itself.

    Of a time-out that its retry policy leaves out, it logs why there is no further attempt.
    """
    if not isinstance(record.next, RetryAt):
        if _is_left_out(action, record, policy):
            _log_left_out(at, action, policy)
        return
    node, attempt = action.node if action.undo is None else f"{action.node}.compensate", action.attempt + 1
    tries = f"{attempt} of {policy.retry.max_retries + 1}" if policy.retry and not policy.retriers else str(attempt)
    ids = {"run_id": at.run_id, "step": node, "attempt": action.attempt}
    _worker.info(TRIED_AGAIN, at.run_id, node, (record.next.at_ms - record.at_ms) / SECOND_MS, tries, extra=ids)


def _is_left_out(action: RunStep, record: Record, policy: Policy) -> bool:
    """Tells whether a time-out had attempts left, and `on` of the retry policy does not name it."""
    retry, error = policy.retry, record.error
    if retry is None or policy.retriers or error is None or error.category != "timeout":
        return False
    return action.attempt <= retry.max_retries and not is_retried(retry, error)


def _log_left_out(at: Standing, action: RunStep, policy: Policy) -> None:
    node = action.node if action.undo is None else f"{action.node}.compensate"
    on = sorted({"timeout", *(policy.retry.on if policy.retry else ())})
    ids = {"run_id": at.run_id, "step": node, "attempt": action.attempt}
    _worker.warning(LEFT_OUT, at.run_id, node, ", ".join(on), ", ".join(f'"{one}"' for one in on), extra=ids)


def log_written(at: Standing, record: Record) -> None:
    """Logs that a record was written. `at`: the token before it."""
    if record.parked is not None and is_for_code(record) and not is_again(at.token, record.parked):
        error, ids = record.parked.data, {"run_id": at.run_id, "step": record.node}
        code = error.get("code", at.graph.code)
        _worker.warning("%s waits for code: %s: %s%s", at.run_id, code, told(error), _frames(at), extra=ids)
    node = at.graph.nodes.get(record.node)
    if node and node.label and (word := _word(record)):
        _log(at, node.name, node.label, word)
    if isinstance(record.next, End) and at.graph.first.label is not None:
        _logger.info("%s %s", at.run_id, record.next.status.value, extra={"run_id": at.run_id})


def _frames(at: Standing) -> str:
    """Returns where in users' code a durable function cannot go on, in lines of their own; "" if that is not known."""
    result = at.turn.result if at.turn is not None else None
    frames = result.failure.traceback if isinstance(result, Stuck) else ""
    return f"\n{frames}" if frames else ""


def _word(record: Record) -> str:
    match record.kind, record.next:
        case Kind.WAITING, _:
            return "waiting"
        case Kind.ACTED, _:
            return "timeout action failed" if record.error else "timeout action completed"
        case ((Kind.STEP | Kind.MOVED), RetryAt()):
            return "failed, to be tried again"
        case ((Kind.STEP | Kind.MOVED), _) if record.error is not None:
            return "skipped" if record.skipped else "failed"
        case Kind.STEP, Pause():
            return ""  # the record of its wait follows
        case ((Kind.STEP | Kind.MOVED), _):
            return "completed"
    return ""


def _log(at: Standing, name: str, label: tuple[int, str], word: str) -> None:
    number, kind = label
    ids = {"run_id": at.run_id, "action": name, "number": number, "action_type": kind, "became": word}
    _logger.info("%s action %d: %s - %s", at.run_id, number, kind, word, extra=ids)
