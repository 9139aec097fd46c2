"""What to do about an error that brings no hint of its own, by its code: in problems of the API, and at a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from stepwell.limits import KEY_CHARACTERS

_ENDED = "stepwell show RUN shows how it ended; stepwell rerun RUN starts it anew"
_RUNS = "stepwell runs lists the runs"
_BRANCHES = "stepwell show RUN --branches all lists the branches"
_SMALLER = "keep what is large elsewhere, such as in S3, and give its address"
_FUNCTION = "correct the workflow's code; python -m pydoc stepwell.WorkflowContext says what it takes"
_JSON_VALUE = "give plain JSON: text, numbers, true, false, null, lists and objects"
_TRY_AGAIN = "try again; stepwell doctor checks this machine and the account"

HINTS: Mapping[str, str] = {
    # what a whole kind of errors has, where it has no code of its own
    "bad_expression": "it may read input, state, steps, result, error, branch, event, run and now",
    "bad_request": "correct the call as the message says; GET /docs, and --help of a command, show what it takes",
    "conflict": "stepwell explain RUN says where the run stands",
    "engine_fault": "report it with the output of stepwell export RUN; the other runs go on",
    "internal_error": "search the server's log for the id in the message; try again",
    "invalid_input": "correct the input as the message says",
    "lease_lost": _TRY_AGAIN,
    "newer_format": "upgrade stepwell, or wait until the deployment is done",
    "not_found": "stepwell runs lists the runs, stepwell check the workflows of the folder",
    "run_cancelled": _ENDED,
    "run_compensated": _ENDED,
    "run_failed": "stepwell show RUN shows the error; stepwell redrive RUN goes on from there",
    "run_timed_out": "stepwell show RUN shows what it waited for; stepwell redrive RUN goes on from there",
    "stepwell_error": _TRY_AGAIN,
    "unavailable": _TRY_AGAIN,
    # one mistake each
    "already_answered": "stepwell show RUN shows who has answered, and how",
    "already_used": "choose another id for the new run",
    "answer_too_large": "let the query return less, for example one page",
    "approval_expired": "ask for a new link; stepwell show RUN shows whether its wait is over",
    "approval_over": "stepwell show RUN shows how the approval ended",
    "approval_used": "stepwell show RUN shows who has answered",
    "bad_assumptions": "such as steps: {charge: {takes: 800ms, fails: 5%}}; or default, waits, rules, items or input",
    "bad_decision": "answer with stepwell approve RUN or stepwell reject RUN",
    "bad_definition": "stepwell check shows each error with its line",
    "bad_duration": "write a number and a unit, such as 90s, 15m, 24h or 7d",
    "bad_export": "export the run again: stepwell export RUN > run.jsonl",
    "bad_form": "open the link again, and send the form once more",
    "bad_json": _JSON_VALUE,
    "bad_key": f"give text of 1 to {KEY_CHARACTERS} printable ASCII characters",
    "bad_message": 'send {"after": ID}, or nothing',
    "bad_name": "use letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
    "bad_origin": 'write a list such as ["https://app.example.com"]',
    "bad_overlap": "write overlap: skip or overlap: allow",
    "bad_prices": 'write as_of: "2027-01-31", and prices in USD by their names',
    "bad_project": "correct the file; `context` of cdk.json, or [tool.stepwell], has the stack's properties",
    "bad_property": "python -m pydoc stepwell.cdk.props.EngineProps lists the properties with their types",
    "bad_query": "encode the query string, as a browser does",
    "bad_query_handler": "give ctx.query a plain `def`, which returns at once",
    "bad_reason": "give a shorter reason",
    "bad_schedule": "write cron(0 9 * * ? *), rate(5 minutes), or the five fields of a crontab: 0 9 * * *",
    "bad_signature": "sign the raw body with the secret that webhooks.yaml names for this source",
    "bad_time": "write a time such as 2026-03-01T14:00:00Z",
    "bad_update_handler": _FUNCTION,
    "bad_url": "write a whole address, such as https://api.example.com/orders",
    "bad_usage": "add --help to the command to see what it takes",
    "bad_value": _FUNCTION,
    "bad_world": "correct that file; `python FILE` shows where it fails",
    "callback_expired": "nothing can be sent to this URL any more; stepwell show RUN shows how its wait ended",
    "callback_over": "nothing more can be sent to this URL; stepwell show RUN shows how its wait ended",
    "cannot_be_stored": _JSON_VALUE,
    "cannot_verify": "first make one run of it end: stepwell dev, then stepwell run WORKFLOW --watch",
    "child_depth": "end the chain of workflows that call each other",
    "deploy_failed": "correct what the reason names, and deploy again",
    "emulator_failed": "run the command again with STEPWELL_LOG_LEVEL=debug to see what the emulator says",
    "foreign_await": _FUNCTION,
    "fork_too_wide": "split the list, and handle each part in one branch or one child run",
    "internal_workflow": "start the workflow that calls it; or remove `internal` from its definition",
    "gathering_due": "start it again: it becomes part of the next run",
    "gathering_over": "start it again: it becomes part of the next run",
    "intrinsic_failure": "look at the input of the state: stepwell history RUN",
    "message_too_large": _SMALLER,
    "no_callback": "run it with stepwell dev, or deploy it: there a callback has a key",
    "no_code": "simulate it where its code is: stepwell simulate WORKFLOW FOLDER",
    "no_reset": "add `reset()`, which empties the world before each run",
    "not_a_machine": "correct the file; it is the definition, or the JSON of describe-state-machine",
    "not_begun": "stepwell explain RUN says what it waits for",
    "not_built": "build it first, or choose a release from the package index",
    "not_deterministic": "restore the old order, or put the new part behind ctx.patched; see stepwell replay RUN",
    "not_ended": "stepwell explain RUN says where it stands; stepwell cancel RUN ends it",
    "not_idle": "stepwell explain RUN says where it stands; only an idle run can be started",
    "not_installed": 'pip install "stepwell[dev,deploy]" has all that the commands need',
    "not_json": _JSON_VALUE,
    "not_packed": "correct what the message names, and deploy again",
    "not_paused": "there is nothing to do; stepwell explain RUN says where the run stands",
    "not_storable": _JSON_VALUE,
    "not_waiting": "stepwell explain RUN says what the run waits for",
    "query_failed": "correct the query's function: it returns at once, and changes nothing",
    "run_ended": _ENDED,
    "state_schema": "give a state that fits state_schema of the definition",
    "step_input": "give the parameters that the function has; stepwell check compares them",
    "step_signature": "annotate the function with types that JSON can be converted to",
    "synth_failed": "correct the CDK app; cdk synth shows the whole error",
    "timeout_too_long": "choose a shorter time limit",
    "too_deep": "nest less deeply, or keep that part as text",
    "too_large": _SMALLER,
    "too_many_delegations": "one of those who are asked is to answer: stepwell show RUN lists them",
    "too_many_replays": "send the delivery from its source again",
    "too_many_tags": "give fewer tags",
    "two_cursors": "send one of them",
    "unknown_branch": _BRANCHES,
    "unknown_fork": _BRANCHES,
    "unknown_link": "the link may have expired or be incomplete: ask for a new one",
    "unknown_run": _RUNS,
    "unknown_update_id": "send the update again: stepwell update RUN NAME",
    "unknown_workflow": "stepwell check lists the errors of the folder",
    "unreachable": _TRY_AGAIN,
    "unreadable": "ls -l shows whether the file is there and whose it is; it must be text in UTF-8",
    "unwritable": "choose a folder that is there and that you may write to",
    "update_failed": "stepwell history RUN shows what the update did",
    "update_pending": "the function answers when it next waits; stepwell explain RUN says what it does now",
    "update_refused": "correct the input as the message says, and send the update again",
    "wrong_type": "let the step return what its annotation says, or change the annotation",
}
_OF_CALLER = "correct the call as the message says; GET /docs shows what it takes"
_OF_SERVER = "send the same again in a while; the server's log says more"


def hint_for(code: str, status: int) -> str:
    """Returns what to do about a problem of the API that brings no hint of its own."""
    return HINTS.get(code) or (_OF_SERVER if status >= 500 else _OF_CALLER)
