"""The lines of a run on AWS: which log groups are asked, how, and how far a page looks. boto3 is stubbed."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stepwell.aws.run_logs import CloudWatchLogs
from stepwell.errors import InvalidInput, PortError
from stepwell.limits import LOG_CALLS
from stepwell.runtime.loop.driving import run_now
from stepwell.runtime.stores.log_lines import Asked, LogLine, LogPage

RUN = "run_01JABC"
GROUPS = ("group-default", "group-gpu")


class Cloud:
    """CloudWatch Logs, which is asked for lines of RUN since 5 until 99, and nothing else."""

    def __init__(self) -> None:
        self.client: Any = boto3.client(
            "logs", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        self.stub = Stubber(self.client)
        self.stub.activate()

    def answers(self, group: str, limit: int, *events: dict[str, Any], after: str = "", token: str = "") -> None:
        asked = {"logGroupName": group, "startTime": 5, "endTime": 99, "filterPattern": f'"{RUN}"', "limit": limit,
                 **({"nextToken": after} if after else {})}  # fmt: skip
        answer = {"events": list(events), **({"nextToken": token} if token else {})}
        self.stub.add_response("filter_log_events", answer, asked)

    def page(self, limit: int, cursor: str = "") -> LogPage:
        found = run_now(CloudWatchLogs(GROUPS, lambda: self.client).read(Asked(RUN, 5, 99, limit, cursor)))
        self.stub.assert_no_pending_responses()
        return found


def event(number: int, at_ms: int, **told: Any) -> dict[str, Any]:
    return {"eventId": str(number), "timestamp": at_ms, "message": json.dumps({"run_id": RUN} | told)}


def test_the_lines_of_a_run_come_from_all_workers() -> None:
    """Lines of other runs that name this one, and what is no JSON, are left out."""
    cloud = Cloud()
    cloud.answers(
        "group-default", 10, event(1, 10, level="INFO", message="hello", step="speak", attempt=2), token="more"
    )
    cloud.answers("group-default", 9, event(2, 30, level="WARNING", message="no", exception="Traceback"), after="more")
    others = [
        event(4, 15, run_id="run_other", message=RUN),
        {"eventId": "5", "timestamp": 16, "message": f"print {RUN}"},
    ]
    cloud.answers("group-gpu", 8, *others, event(3, 20, level="INFO", message={"trained": 3}))
    assert cloud.page(10) == LogPage(
        [
            LogLine("1", 10, "info", "speak", 2, "hello"),
            LogLine("2", 30, "warning", "", 0, "no\nTraceback"),
            LogLine("3", 20, "info", "", 0, '{"trained": 3}'),
        ]
    )


def test_a_line_of_a_branch_names_it_and_what_a_step_calls_a_token_is_no_branch() -> None:
    cloud = Cloud()
    tokens = ("0", "0/3.12", "0/3.12/5.0", "abc", 7)
    cloud.answers(
        "group-default", 10, *(event(at, at, message="hello", token=token) for at, token in enumerate(tokens))
    )
    cloud.answers("group-gpu", 5)
    assert [line.branch for line in cloud.page(10).lines] == ["", "0/3.12", "0/3.12/5.0", "", ""]


def test_a_full_page_goes_on_where_it_ended() -> None:
    cloud = Cloud()
    cloud.answers("group-default", 1, event(1, 10, message="a"), token="more")
    first = cloud.page(1)
    assert ([one.message for one in first.lines], first.next_cursor) == (["a"], "0:more")
    cloud.answers("group-default", 1, event(2, 11, message="b"), after="more")
    second = cloud.page(1, first.next_cursor)
    assert ([one.message for one in second.lines], second.next_cursor) == (["b"], "1:")
    cloud.answers("group-gpu", 1)
    assert cloud.page(1, second.next_cursor) == LogPage([])


def test_a_page_makes_a_bounded_number_of_requests_however_many_lines_others_have() -> None:
    """It may be empty, and says where to go on."""
    cloud = Cloud()
    for number in range(LOG_CALLS):
        cloud.answers("group-default", 7, after=f"t{number}" if number else "", token=f"t{number + 1}")
    assert cloud.page(7) == LogPage([], f"0:t{LOG_CALLS}")


def test_an_event_without_an_id_is_told_by_its_time_and_text() -> None:
    cloud, told = Cloud(), event(0, 10, level="INFO", message="hello")
    del told["eventId"]
    cloud.answers("group-default", 5, told, {**told, "timestamp": 11})
    cloud.answers("group-gpu", 3)
    first, second = cloud.page(5).lines
    assert (first.message, second.message, first.id != second.id) == ("hello", "hello", True)


@pytest.mark.parametrize("cursor", ["run_1:x", "9" * 5_000, "\u0663:x"])
def test_a_cursor_of_another_list_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidInput, match="cursor"):
        Cloud().page(5, cursor)


def test_a_refusal_is_an_outage_that_names_the_request() -> None:
    cloud = Cloud()
    cloud.stub.add_client_error("filter_log_events", "AccessDeniedException", "not allowed")
    with pytest.raises(PortError, match="FilterLogEvents"):
        cloud.page(5)


def test_a_token_that_cloudwatch_does_not_know_is_a_bad_cursor() -> None:
    """It tells nothing of an outage, which a client would wait for; CloudWatch forgets a token after a day."""
    cloud = Cloud()
    cloud.stub.add_client_error("filter_log_events", "InvalidParameterException", "the token is invalid")
    with pytest.raises(InvalidInput) as refused:
        cloud.page(5, "0:old")
    assert refused.value.code == "bad_cursor"


def test_a_run_that_ended_before_the_time_asked_for_has_no_lines_and_costs_no_request() -> None:
    asked = Asked(RUN, 100, 99, 5)
    assert run_now(CloudWatchLogs(GROUPS, lambda: Cloud().client).read(asked)) == LogPage([])


def test_a_line_in_which_users_name_something_else_attempt_is_told() -> None:
    """What code logs as `extra` stands beside the engine's own ids, and may replace them."""
    cloud = Cloud()
    cloud.answers("group-default", 5, event(1, 10, message="hello", attempt="third", step={"a": 1}))
    cloud.answers("group-gpu", 4)
    assert cloud.page(5).lines == [LogLine("1", 10, "", "{'a': 1}", 0, "hello")]
