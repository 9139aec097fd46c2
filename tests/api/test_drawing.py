"""Pictures of workflows: what they show, and that no name can break out of them."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from stepwell.api.drawing.layout import Link, Size, arrange
from stepwell.api.drawing.picture import draw, outline
from stepwell.definition.graph import Graph, Json, Node, Rule, Step, Wait

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '"]; click n0 "javascript:alert(1)" <script>alert(1)</script> %%{init: {}}%% \\" \\N & \x1b\x00 -->'


class Condition:
    """An expression that is only looked at."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def names(self) -> frozenset[str]:
        return frozenset()

    @property
    def reads_error(self) -> bool:
        return "error" in self.text

    def evaluate(self, names: Mapping[str, Json]) -> Json:
        raise NotImplementedError

    def items(self, names: Mapping[str, Json]) -> Sequence[Json]:
        raise NotImplementedError


def rule(stage: str, when: str = "", to: str | None = None, fail: str | None = None, most: int | None = None) -> Rule:
    return Rule("r", stage, Condition(when) if when else None, to, fail, most)


def step(name: str, *rules: Rule) -> Node:
    return Node(name, Step(f"python:shop.{name}"), rules=rules)


def graph(*nodes: Node, name: str = "shop") -> Graph:
    return Graph(name, "sha256:0", "timeline", nodes[0].name, {node.name: node for node in nodes}, {})


TIMELINE = graph(
    step("validate", rule("next", to="charge")),
    step(
        "charge",
        rule("diverge", "error.category == 'timeout'", "charge", most=3),
        rule("diverge", "error.type == 'CardDeclined'", fail="card_declined"),
        rule("diverge", "error.type == 'Minor'"),
        rule("branch", "result.amount > 1000", "audit"),
        rule("next", to="approve"),
    ),
    Node("approve", wait=Wait("approval", timeout_ms=86_400_000), rules=(rule("next", to="audit"),)),
    step("audit", rule("diverge", "error.type == 'Mismatch'", "validate"), rule("next", to="end")),
)
STATES = {"validate": "completed", "charge": "failed", "approve": "waiting", "audit": "nonsense"}


def edges(drawn: Graph) -> dict[tuple[str, str], tuple[list[str], bool]]:
    told = outline(drawn, {})
    names = {node["id"]: node["name"] for node in told["nodes"]}
    return {(names[e["from"]], names[e["to"]]): (e["conditions"], e["error"]) for e in told["edges"]}


def test_every_rule_that_leads_somewhere_is_an_edge() -> None:
    assert edges(TIMELINE) == {
        ("start", "validate"): ([], False),
        ("validate", "charge"): ([], False),
        ("charge", "charge"): (["error.category == 'timeout' (max 3)"], True),
        ("charge", "card_declined"): (["error.type == 'CardDeclined'"], True),
        ("charge", "audit"): (["result.amount > 1000"], False),
        ("charge", "approve"): ([], False),
        ("approve", "audit"): ([], False),
        ("audit", "validate"): (["error.type == 'Mismatch'"], True),
        ("audit", "end"): ([], False),
    }


def test_a_transition_after_conditions_is_the_otherwise_and_a_node_without_rules_ends() -> None:
    drawn = graph(
        step(
            "a", rule("transition", "{{ state.x }}", "b"), rule("transition", to="c"), rule("transition", "1 > 2", "b")
        ),
        step("b"),
        step("c", rule("transition", to="nowhere")),
    )
    assert edges(drawn) == {
        ("start", "a"): ([], False),
        ("a", "b"): (["state.x", "1 > 2"], False),
        ("a", "c"): (["otherwise"], False),
        ("b", "end"): ([], False),
    }


def test_nodes_say_what_they_run_or_wait_for() -> None:
    arms = (Wait("event", event="paid"), Wait("delay", timeout_ms=7_200_000))
    drawn = graph(*TIMELINE.nodes.values(), Node("first", wait=Wait("any", arms=arms)), Node("route"))
    assert {node["name"]: node["detail"] for node in outline(drawn, {})["nodes"] if node["detail"]} == {
        "validate": "python:shop.validate",
        "charge": "python:shop.charge",
        "approve": "approval, at most 1d",
        "audit": "python:shop.audit",
        "first": "first of event paid, delay 2h",
    }


def test_a_status_that_is_unknown_counts_as_untouched_and_passed_as_completed() -> None:
    states = {**STATES, "approve": "passed"}
    assert [node["status"] for node in outline(TIMELINE, states)["nodes"]] == [
        *("", "completed", "failed", "completed", "", "", "")
    ]


def test_mermaid_has_a_line_for_each_shape_and_edge() -> None:
    assert draw("mermaid", graph(step("a", rule("next", to="b")), step("b")), {"a": "completed"}) == (
        "flowchart TD\n"
        '    s(("start"))\n'
        '    n0["#10003; a<br/>python#58;shop.a"]\n'
        '    n1["b<br/>python#58;shop.b"]\n'
        '    e(["end"])\n'
        "    s --> n0\n"
        "    n0 --> n1\n"
        "    n1 --> e\n"
        "    linkStyle 0 stroke-width:3px\n"
        "    classDef completed fill:#d2f4d9,stroke:#1a7f37,color:#0b3d1a\n"
        "    class n0 completed\n"
    )
    assert "n1 -.->|" in draw("mermaid", TIMELINE, STATES)


def test_dot_has_a_line_for_each_shape_and_edge() -> None:
    lines = draw("dot", TIMELINE, STATES).splitlines()
    assert "    n2 -> n3" in lines
    assert '    n1 -> n3 [label="result.amount > 1000"]' in lines
    assert any(line.startswith("    n3 -> n0 [label=") and "style=dashed" in line for line in lines)


WALKED = graph(
    Node("a", Step("python:shop.a"), rules=(
        Rule("a.diverge[0]", "diverge", Condition("error.type == 'Busy'"), "a"), Rule("a.next", "next", None, "b"))),
    step("b"), step("c"),
)  # fmt: skip
RAN = {"a": "completed", "b": "completed"}, {"a": "3 tries · 1.2 s"}, {"a.diverge[0]": 2, "a.next": 1}


def test_the_lines_that_a_run_took_are_thick_and_say_how_often() -> None:
    assert """n0 -.->|"error.type == 'Busy'<br/>2x"| n0""" in draw("mermaid", WALKED, *RAN)
    assert "    linkStyle 0,1,2,3 stroke-width:3px\n" in draw("mermaid", WALKED, *RAN)
    assert "linkStyle" not in draw("mermaid", WALKED, {})
    assert [line.split()[:3] for line in draw("dot", WALKED, *RAN).splitlines() if "penwidth=3" in line] == [
        ["s", "->", "n0"], ["n0", "->", "n0"], ["n0", "->", "n1"], ["n1", "->", "e"],
    ]  # fmt: skip
    root = ElementTree.fromstring(draw("svg", WALKED, *RAN))  # noqa: S314
    widths = [element.get("stroke-width") for element in root.iter(SVG + "path") if element.get("marker-end")]
    assert sorted(widths, key=str) == ["1.6", "3", "3", "3", "3"]


def test_every_format_says_how_a_node_went() -> None:
    assert '"#10003; a<br/>python#58;shop.a<br/>3 tries #183; 1.2 s"' in draw("mermaid", WALKED, *RAN)
    assert "✓ a\\npython:shop.a\\n3 tries · 1.2 s" in draw("dot", WALKED, *RAN)
    root = ElementTree.fromstring(draw("svg", WALKED, *RAN))  # noqa: S314
    assert "3 tries · 1.2 s" in [element.text for element in root.iter(SVG + "text")]


def test_no_name_breaks_out_of_mermaid() -> None:
    text = draw("mermaid", graph(step(EVIL, rule("branch", EVIL, EVIL)), name=EVIL), {})
    for line in text.splitlines()[1:]:
        inside = re.findall(r'"([^"]*)"', line)
        outside = re.sub(r'"[^"]*"', "", line)
        assert re.fullmatch(r" +[\w.\-<>|()\[\] ]+", outside)
        assert all(re.fullmatch(r"(?:[\w _\-.,/=+*?!']|#\d+;|<br/>)*", one) for one in inside)


def test_no_name_breaks_out_of_dot() -> None:
    text = draw("dot", graph(step(EVIL, rule("branch", EVIL, EVIL)), name=EVIL), {})
    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', "S", text)
    assert re.fullmatch(r"[\w\s{}\[\]=,\->]*", without_strings)
    assert "\x1b" not in text
    assert "\\N" not in text.replace("\\\\", "")


def test_no_name_breaks_out_of_svg() -> None:
    root = ElementTree.fromstring(draw("svg", graph(step(EVIL, rule("branch", EVIL, EVIL)), name=EVIL), {}))  # noqa: S314
    allowed = {SVG + tag for tag in ("svg", "title", "defs", "marker", "path", "g", "rect", "circle", "text")}
    assert {element.tag for element in root.iter()} <= allowed
    assert not any(name.startswith("on") or "href" in name for element in root.iter() for name in element.attrib)
    (name,) = [element.get("data-node") for element in root.iter() if (element.get("data-node") or "").startswith('"')]
    assert name == EVIL.replace("\x1b", "\ufffd").replace("\x00", "\ufffd")


def test_svg_marks_nodes_with_their_status_and_has_a_legend_of_those_that_occur() -> None:
    root = ElementTree.fromstring(draw("svg", TIMELINE, STATES))  # noqa: S314
    marked = {element.get("data-node"): element.get("data-status") for element in root.iter(SVG + "g")}
    assert marked["charge"] == "failed"
    texts = [element.text for element in root.iter(SVG + "text")]
    assert "✓ validate" in texts
    assert texts[-3:] == ["✓ completed", "◔ waiting", "✗ failed"]
    assert "completed" not in draw("svg", TIMELINE, {})


def test_svg_dashes_the_lines_that_errors_take() -> None:
    root = ElementTree.fromstring(draw("svg", TIMELINE, {}))  # noqa: S314
    dashed = [e for e in root.iter(SVG + "path") if e.get("stroke-dasharray") and e.get("marker-end")]
    assert len(dashed) == 3


@pytest.mark.parametrize("seed", range(30))
def test_nothing_lies_on_top_of_anything(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"n{number}" for number in range(chance.randint(2, 20))]
    sizes = {name: Size(chance.randint(20, 200), chance.randint(20, 60), chance.choice([0, 40])) for name in names}
    pairs = [*pairwise(names), *((chance.choice(names), chance.choice(names)) for _ in range(15))]
    links = [Link(*pair, Size(chance.randint(20, 150), 18) if chance.random() < 0.5 else None) for pair in pairs]
    layout = arrange(sizes, links)
    for row in layout.rows:
        for left, right in pairwise(row):
            assert left.x + left.reach_right < right.x - right.reach_left
        assert all(spot.x - spot.reach_left >= 0 and spot.x + spot.reach_right <= layout.width for spot in row)
    tops = [max((spot.y + spot.size.height / 2 for spot in row), default=0.0) for row in layout.rows]
    for bottom, row in zip(tops, layout.rows[1:], strict=False):
        assert all(spot.y - spot.size.height / 2 > bottom for spot in row)


def test_a_chain_is_straight_and_forward_lines_run_down() -> None:
    sizes = {name: Size(100, 40) for name in "abcd"}
    layout = arrange(sizes, [Link("a", "b"), Link("b", "c"), Link("c", "d"), Link("d", "a"), Link("b", "b")])
    assert len({layout.shapes[name].x for name in "abcd"}) == 1
    assert [route.back if route else None for route in layout.routes] == [False, False, False, True, None]


def test_a_thousand_nodes_are_drawn() -> None:
    nodes = [
        step(
            f"s{i}", rule("branch", "x > 1", f"s{i * 7919 % 1000}"), rule("next", to=f"s{i + 1}" if i < 999 else "end")
        )
        for i in range(1000)
    ]
    assert draw("svg", graph(*nodes), {}).count("data-node") == 1002
