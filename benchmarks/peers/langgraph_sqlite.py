# /// script
# requires-python = ">=3.11"
# dependencies = ["langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2"]
# ///
"""LangGraph with its SQLite checkpointer, which commits each superstep before the next (`durability="sync"`)."""

import operator
import sqlite3
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from rounds import serve

IMPORT_MS = process_time() * 1000


class State(TypedDict):
    outs: Annotated[list[float], operator.add]


class LangGraph:
    name = "LangGraph, SQLite"
    durability = "SQLite, WAL, synchronous=FULL; a checkpoint for each superstep, writes of branches beside it"

    def __init__(self, folder: Path) -> None:
        self._saver = SqliteSaver(sqlite3.connect(folder / "checkpoints.db", check_same_thread=False))
        self._saver.setup()
        self._threads = count()
        self._chain, self._fan, self._clock = cache(self._make_chain), cache(self._make_fan), cache(self._make_clock)

    def chain(self, steps: int) -> None:
        self._invoke(self._chain(steps), {"outs": []})

    def fan(self, width: int) -> None:
        if len(self._invoke(self._fan(width), {"outs": []})["outs"]) != width:
            raise SystemExit("LangGraph's fan-out lost a branch")

    def event(self) -> float:
        app, config = self._waiting(), self._config()
        app.invoke({"outs": []}, config, durability="sync")
        began = perf_counter()
        app.invoke(Command(resume=1), config, durability="sync")
        return perf_counter() - began

    def late(self) -> float:
        raise NotImplementedError  # it has no timers

    def tail(self) -> float:
        ended = self._invoke(self._clock(), {"outs": []})["outs"][0]
        return perf_counter() - float(ended)

    def cpu_seconds(self) -> float:
        return process_time()

    def _config(self) -> dict[str, Any]:
        return {"configurable": {"thread_id": str(next(self._threads))}, "recursion_limit": 5_000}

    def _invoke(self, app: Any, given: Any) -> Any:
        return app.invoke(given, self._config(), durability="sync")

    def _make_chain(self, steps: int) -> Any:
        graph = StateGraph(State)
        names = [START, *(f"s{number}" for number in range(steps)), END]
        for name in names[1:-1]:
            graph.add_node(name, _nothing)
        for one, other in pairwise(names):
            graph.add_edge(one, other)
        return graph.compile(checkpointer=self._saver)

    def _make_fan(self, width: int) -> Any:
        graph = StateGraph(State)
        graph.add_node("work", lambda given: {"outs": [given["item"]]})
        graph.add_conditional_edges(START, _to_each(width), ["work"])
        graph.add_edge("work", END)
        return graph.compile(checkpointer=self._saver)

    def _make_clock(self) -> Any:
        graph = StateGraph(State)
        graph.add_node("clock", lambda _: {"outs": [perf_counter()]})
        graph.add_edge(START, "clock")
        graph.add_edge("clock", END)
        return graph.compile(checkpointer=self._saver)

    def _waiting(self) -> Any:
        graph = StateGraph(State)
        graph.add_node("wait", lambda _: {"outs": [interrupt("go")]})
        graph.add_edge(START, "wait")
        graph.add_edge("wait", END)
        return graph.compile(checkpointer=self._saver)


def _nothing(state: State) -> dict[str, list[int]]:
    return {"outs": []}


def _to_each(width: int) -> Callable[[State], list[Send]]:
    return lambda _: [Send("work", {"item": item}) for item in range(width)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        serve(LangGraph(Path(folder)), IMPORT_MS)
