"""Redriving: where the log of a failed run can go on, and where it cannot."""

from __future__ import annotations

import pytest

from stepwell.engine.redriving import check_start
from stepwell.engine.table import Phase
from stepwell.engine.token import Begun, Locks, Token
from stepwell.errors import Conflict


@pytest.mark.parametrize("phase", [Phase.INITIALIZING, Phase.EXECUTING_STEP])
def test_a_run_goes_on_where_nothing_else_was_under_way(phase: Phase) -> None:
    check_start(Token(phase=phase))


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (Token(phase=Phase.WAITING_AT_FAN_IN), "failed_in_fork"),
        (Token(phase=Phase.EXECUTING_STEP, tasks={3: Begun("w", 0, open=(0,))}), "failed_in_fork"),
        (Token(phase=Phase.EXECUTING_STEP, locks=Locks(("till",), 0, held=True)), "held_lock"),
    ],
)
def test_a_run_does_not_go_on_amid_what_cannot_be_had_again(token: Token, code: str) -> None:
    with pytest.raises(Conflict) as refused:
        check_start(token)
    assert refused.value.code == code
