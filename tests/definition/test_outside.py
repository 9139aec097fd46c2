"""Threads, processes and sockets that a durable function reaches by asyncio or anyio are named by `check`."""

from __future__ import annotations

import pytest

from stepwell.definition.code.checks import check_code
from stepwell.definition.code.modules import read_code

HEAD = """
import anyio, asyncio
from stepwell import workflow
@workflow
async def flow(ctx, order):
    loop = asyncio.get_running_loop()
"""


def found(line: str) -> list[tuple[int, str]]:
    return [
        (one.line, one.message.partition(":")[0])
        for one in check_code(read_code({"flow": ("flow.py", f"{HEAD}    {line}")}))
    ]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("asyncio.Runner().run(order)", "thread"),
        ("asyncio.run_coroutine_threadsafe(order, loop)", "thread"),
        ("await asyncio.wrap_future(order)", "thread"),
        ("await loop.run_in_executor(None, len, order)", "thread"),
        ("loop.run_until_complete(order)", "thread"),
        ("loop.call_soon_threadsafe(print)", "thread"),
        ("loop.add_signal_handler(1, print)", "thread"),
        ("asyncio.get_event_loop().subprocess_exec(order)", "thread"),
        ("anyio.run(order)", "thread"),
        ("await anyio.run_process(order)", "thread"),
        ("await anyio.to_thread.run_sync(len, order)", "thread"),
        ("await anyio.open_file(order)", "file"),
        ("await anyio.connect_tcp(order, 80)", "socket"),
        ("await asyncio.start_unix_server(print)", "socket"),
        ("await loop.create_connection(order)", "socket"),
        ("await loop.getaddrinfo(order, 80)", "socket"),
        ("loop.add_reader(0, print)", "socket"),
        ("await loop.sock_recv(order, 1)", "socket"),
    ],
)
def test_what_leaves_the_loop_is_named(line: str, kind: str) -> None:
    assert (7, kind) in found(line)


@pytest.mark.parametrize(
    "line",
    [
        "loop.call_later(3, print); loop.call_soon(print); loop.create_future(); loop.create_task(order); loop.time()",
        "await anyio.sleep(1); anyio.create_task_group(); anyio.create_memory_object_stream(1); anyio.Event()",
        "await asyncio.wait_for(order, 1); asyncio.Queue(); asyncio.TaskGroup(); asyncio.timeout(1)",
    ],
)
def test_what_stays_in_the_loop_is_left_alone(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("found = []; await ctx.run(lambda: found.append(1))", ["lost_in_branch"]),
        ("found = load(order); await ctx.run(lambda: found.append(1))", ["lost_in_branch"]),
        ("found = Counter(); await ctx.run(lambda: found.update('a'))", ["lost_in_branch"]),
        ("found = []; await ctx.run(lambda: heapq.heappush(found, 1))", ["lost_in_branch"]),
        ("found = load(order); await ctx.run(lambda: insort(found, 1))", ["lost_in_branch"]),
        ("found = []; heapq.heappush(found, 1); await ctx.run(lambda: heapq.nsmallest(1, found))", []),
        ("deck, found = Deck(), []; await ctx.run(lambda: (deck.shuffle(found), shuffle(found)))", []),
        ("till = Till(); await ctx.run(lambda: till.add(order))", []),
        ("till = shop.Till(); await ctx.run(lambda: (till.update(order), till.remove(order)))", []),
    ],
)
def test_a_method_of_an_object_is_no_change_of_a_container_by_its_name_alone(line: str, codes: list[str]) -> None:
    code = read_code({"flow": ("flow.py", f"{HEAD}    {line}")})
    assert [one.code for one in check_code(code) if one.code == "lost_in_branch"] == codes
