"""Waits: how a token parks, and the result it gets when the wait ends. Each kind of wait is one file here.

To add a kind of wait:

1. Add a row to `SCHEMAS` in `stepwell.definition.wait_schemas`: the keys that a definition may write, the time limits,
   the event. A key that no other kind has also needs a field in `WaitDef` and in `definition.graph.Wait`.
2. Add a file to this package with a `WaitKind` of the same name, an `EventWait` if events end it. It may define:

    topics      `arm` for a wait of a definition, `topics_of` for one that a step asks for
    due         `dues`, beside the time limit; `is_timed` where the time is what it waits for
    parts       `part`, what came as a part of the wait; `is_complete`, `is_refused`; `takes`, `flaw` with `judges` for
                what is not for it; `progress` for a run that is shown
    value       `value`, and `sets`: the names that it writes into the state
    failure     `failure`, `forgives`
    words       `entry`, `over` and `began` for the history; `words`, `wakers` and `reason` for people
    comings     the kinds of Resumption that can reach it, beside an event and its timer

3. Add it to `_KINDS` below, and describe it in docs/definitions.md. `python -m tests.docs.generate` adds its row to the
   table of waits.

tests/testing/gauge_wait.py is a complete example. No other module asks which kind a wait is: a test counts the
comparisons outside this package.
"""

from __future__ import annotations

from stepwell.engine.waits.approval import APPROVAL
from stepwell.engine.waits.assessment import TEST
from stepwell.engine.waits.callback import CALLBACK
from stepwell.engine.waits.children import AGENT, CHILDREN
from stepwell.engine.waits.code import CODE_WAIT
from stepwell.engine.waits.delay import DELAY, SLEEP
from stepwell.engine.waits.document import DOCUMENT
from stepwell.engine.waits.event import EVENT
from stepwell.engine.waits.kind import register
from stepwell.engine.waits.limit import LIMIT_WAIT
from stepwell.engine.waits.lock import LOCK_WAIT
from stepwell.engine.waits.response import RESPONSE
from stepwell.engine.waits.several import ALL, ANY
from stepwell.engine.waits.signature import SIGNATURE
from stepwell.engine.waits.tasks import TASKS_WAIT
from stepwell.engine.waits.topics import (
    branch_of,
    branch_topic,
    event_topic,
    is_callback,
    run_of,
    run_topic,
)

_KINDS = (APPROVAL, RESPONSE, EVENT, DOCUMENT, SIGNATURE, TEST, CALLBACK, DELAY, SLEEP, CHILDREN, AGENT, ANY, ALL,
          LOCK_WAIT, LIMIT_WAIT, CODE_WAIT, TASKS_WAIT)  # fmt: skip
for _kind in _KINDS:
    register(_kind)

__all__ = ["branch_of", "branch_topic", "event_topic", "is_callback", "run_of", "run_topic"]
