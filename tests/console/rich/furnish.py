"""Runs of the rich demonstration: nested forks, a DAG, loops, tasks, lines, deliveries, and a full inbox."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.console.kit import reaches, start
from tests.local.kit import Dev, until

RICH = Path(__file__).parent
ASKED = 50  # approvals in the inbox
BIG_NODES = 300


def big() -> str:
    """A definition of 300 nodes: a trunk, and three ways between each two of its nodes."""
    lines = ["workflow: big", "description: 300 nodes in one graph.", "nodes:"]
    for at in range(BIG_NODES // 4):
        ways = [f"{{to: way-{at}-{way}, when: 'input.way == {way}', priority: {way}}}" for way in (1, 2)]
        ways.append(f"{{to: way-{at}-3, priority: 3}}")
        lines.append(f"  trunk-{at}: {{transitions: [{', '.join(ways)}]}}")
        after = f"trunk-{at + 1}" if at + 1 < BIG_NODES // 4 else "end"
        lines += [f"  way-{at}-{way}: {{transitions: [{{to: {after}}}]}}" for way in (1, 2, 3)]
    return "\n".join(lines) + "\n"


def lay_out(place: Path) -> Path:
    """Copies the definitions to a folder that is served, with the one of 300 nodes."""
    shutil.copytree(RICH, place, ignore=shutil.ignore_patterns("furnish.py", "__init__.py", "__pycache__"))
    (place / "big.yaml").write_text(big())
    return place


def furnish(dev: Dev) -> dict[str, str]:
    """Starts a run for each thing that a page shows. Returns their ids."""
    runs = {
        "nested": start(dev, "inventory", {"regions": 3, "shops": 4}),
        "dag": start(dev, "rollout", {}, tags={"team": "platform", "commit": "9f1c2ab"}),
        "loop": start(dev, "essay", {}),
        "deep": start(dev, "abyss", {}),
        "tasks": start(dev, "dinner", {"guests": 6}),
        "slow": start(dev, "slowly", {}),
        "late": start(dev, "deadline", {}),
        "parent": start(dev, "parent", {}),
        "agent": start(dev, "hiring", {"name": "Ana"}),
        "big": start(dev, "big", {"way": 2}),
        "paused": start(dev, "lane", {"customer": "ana"}),
    }
    permits = "/runs?workflow=lane&status=waiting"
    until(lambda: len(dev.call("GET", permits)[1]["items"]) == 2, "both permits of the lane are taken: one by a child")
    for number in range(5):
        runs[f"line-{number}"] = start(dev, "lane", {"customer": f"c{number}"})
    for number in range(ASKED):
        given = {"title": f"Order {number}", "kind": "order", "address": {"street": "Long Street 1", "city": "Vigo"},
                 "lines": [{"sku": "lamp"}], "payment": {"card": "4242 4242"}}  # fmt: skip
        runs[f"asked-{number}"] = start(dev, "forms", given)
    for number in range(6):
        dev.call("POST", "/webhooks/till", {"shop": f"s{number}"}, **{"x-id": f"delivery-{number:04d}"})
    dev.call("POST", "/webhooks/till", {"till": 7}, **{"x-id": "delivery-refused"})
    dev.call("POST", "/webhooks/forms", {}, **{"x-id": "form-1"})
    for name in ("nested", "dag", "loop", "tasks"):
        reaches(dev, runs[name], "waiting")
    for name, status in (("deep", "failed"), ("late", "timed_out"), ("big", "completed")):
        reaches(dev, runs[name], status)
    runs |= flow(dev)
    dev.call("POST", f"/runs/{runs['paused']}/pause", {"by": "ana", "reason": "the till is being counted"})
    _, made = dev.call("POST", f"/runs/{runs['deep']}/redrive", {"by": "ben"})
    runs["redriven"] = made["run_id"]
    _, made = dev.call("POST", f"/runs/{runs['loop']}/fork", {"at": 2, "by": "ben"})
    runs["forked"] = made["run_id"]
    return runs


def flow(dev: Dev) -> dict[str, str]:
    """A batch of three starts, a run that has cost too much, and a paused workflow with two runs."""
    digests = {start(dev, "digest", {"note": "first"})}
    for note in ("second", "third"):
        digests.add(dev.call("POST", "/workflows/digest/runs", {"input": {"note": note}})[1]["run_id"])
    knocks = reaches(dev, start(dev, "errand", {}), "waiting")
    costly = reaches(dev, start(dev, "costly", {}), "waiting")
    dev.call("POST", "/workflows/errand/pause", {"by": "ana", "reason": "the street is closed"})
    dev.call("POST", "/workflows/errand/aliases", {"alias": "stable"})
    loan = reaches(dev, start(dev, "loan", {"amount": 9000}), "waiting")
    registered = consented(dev, start(dev, "loan", {"amount": 70}))
    return {"digest": digests.pop(), "errand": knocks, "costly": costly, "loan": loan, "registered": registered}


def consented(dev: Dev, run_id: str) -> str:
    """Brings a loan to where it waits for another system."""
    reaches(dev, run_id, "waiting")
    dev.call("POST", f"/runs/{run_id}/approve", {"by": "ana"})
    for paper in ("payslip", "passport"):
        dev.call("POST", f"/runs/{run_id}/events", {"name": "DOCUMENT_UPLOADED", "payload": {"document": paper}})
    until(lambda: dev.call("GET", f"/runs/{run_id}")[1]["waiting_for"] == "callback", "it waits for a callback")
    return run_id
