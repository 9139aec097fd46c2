"""Steps that call others, as they are written: what is checked before anything runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.definition.clauses.http_steps import calls_of
from stepwell.definition.compiler import compile_definition
from stepwell.definition.graph import Step
from stepwell.definition.targets import parse_hosts, parse_url
from stepwell.errors import ExpressionError, Problem, UserError

API = "https://api.example.com"


def written(run: str, **more: Any) -> str:
    return json.dumps({"workflow": "w", "timeline": [{"name": "a", "run": run, "timeout": "9s", **more}]})


def step(run: str, **more: Any) -> Step:
    compiled = compile_definition(written(run, **more))
    assert compiled.graph is not None, compiled.problems
    found = compiled.graph.nodes["a"].step
    assert found is not None
    return found


def problem(run: str, **more: Any) -> Problem:
    (found,) = compile_definition(written(run, **more)).problems
    return found


def request(run: str, **names: Any) -> Any:
    found = step(run)
    assert found.http is not None
    return found.http.evaluate({"input": names})


# -- the URL


@pytest.mark.parametrize(
    ("url", "made"),
    [
        ("/refunds/{{ input.v }}", "/refunds/a%2Fb%20%3Fc%23d%26e%3D%25%C3%A9"),
        ("/{{ input.v }}/x?q={{ input.v }}&n={{ input.n }}&b={{ input.b }}", "/a%2Fb%20%3Fc%23d%26e%3D%25%C3%A9/x"
         "?q=a%2Fb%20%3Fc%23d%26e%3D%25%C3%A9&n=7&b=true"),
        ("?q={{ input.empty }}", "?q="),
        (":8443/x", ":8443/x"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_values_in_a_url_are_percent_encoded(url: str, made: str) -> None:
    names = {"v": "a/b ?c#d&e=%é", "n": 7, "b": True, "empty": ""}
    assert request(f"http:GET {API}{url}", **names)["url"] == API + made


@given(st.text())
def test_no_value_leads_a_request_to_another_host_or_path(value: str) -> None:
    expression = _FIXED.http
    assert expression is not None
    try:
        target = parse_url(expression.evaluate({"input": {"v": value}})["url"])
    except ExpressionError:
        return
    assert target.origin == API
    assert target.path.startswith("/a/")
    assert (target.path.count("/"), target.path.endswith("/z?q=1")) == (3, True)
    assert target.path.isascii()
    assert target.path.isprintable()


_FIXED = step(f"http:GET {API}/a/{{{{ input.v }}}}/z?q=1")


@pytest.mark.parametrize("value", ["", None, "..", ".", "../admin", "a/../b", "a\\..\\b", {"a": 1}, [1], "\ud800"])
def test_a_value_that_would_make_it_another_request_is_refused(value: Any) -> None:
    with pytest.raises(ExpressionError) as refusal:
        request(f"http:DELETE {API}/users/{{{{ input.v }}}}", v=value)
    assert refusal.value.code == "bad_url"


@pytest.mark.parametrize(
    "host",
    ["{{ input.h }}", "{{ input.h }}.example.com", "api.{{ input.h }}", "api.example.com{{ input.h }}",
     "api.example.com:{{ input.port }}", "user:{{ input.p }}@api.example.com"],
)  # fmt: skip
def test_a_template_cannot_be_a_part_of_the_host(host: str) -> None:
    found = problem(f"http:GET https://{host}/x")
    assert (found.code, "host" in found.message) == ("bad_url", True)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/",  # not encrypted
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "//api.example.com/",
        "api.example.com/",
        "https:/api.example.com/",
        "https://",
        "https:///path",
        "https://user@api.example.com/",
        "https://user:word@api.example.com/",
        "https://api.example.com@evil.test/",
        "https://api.example.com\\@evil.test/",
        "https://api.example.com#@evil.test/",
        "https://api.example.com/#part",
        "https://api.example.com/a b",
        "https://api.example.com/é",
        "https://exämple.com/",
        "https://api_x.example.com/",
        "https://-api.example.com/",
        "https://api..example.com/",
        "https://api.example.com./",
        "https://api.example.com:0/",
        "https://api.example.com:65536/",
        "https://api.example.com:/",
        "https://api.example.com:80:80/",
        "https://api.example.com/%zz",
        "https://api.example.com/%2",
        "https://api.example.com/../x",
        "https://api.example.com/%2e%2E/x",
        "https://api.example.com/a\\b",
        "https://api.example.com/a\r\nHost: evil.test",
        "https://api.example.com/a\tb",
        "https://api.example.com/\x00",
        "https://8.8.8.8/",  # whoever it is
        "https://169.254.169.254/latest/meta-data/",
        "https://2852039166/",  # the same, in decimal,
        "https://0xa9fea9fe/",  # in hexadecimal,
        "https://0251.0376.0251.0376/",  # in octal,
        "https://0xa9.254.0xa9.254/",  # and mixed
        "https://127.1/",
        "https://0/",
        "https://1.1.1.0x1/",
        "https://[::ffff:169.254.169.254]/",
        "https://[fd00:ec2::254]/",
        "https://[::]/",
        "https://[fe80::1%25eth0]/",
        "https://[::1/",
        "https://" + "a" * 64 + ".com/",
        "https://" + "a." * 130 + "com/",
        "https://api.example.com/" + "x" * 8_000,
    ],
)
def test_a_url_that_is_not_plainly_one_of_a_named_host_is_refused(url: str) -> None:
    found = problem(f"http:GET {url}")
    assert found.code in {"bad_url", "bad_run"}
    assert found.message
    assert "word" not in f"{found.message} {found.hint}"


@pytest.mark.parametrize("run", ["http:", "http:GET", "http:https://x.com/", "http:get https://x.com/", "http:CONNECT "
                                 "https://x.com/", "http:GET\r\nX: y https://x.com/", "https://x.com/"])  # fmt: skip
def test_a_run_without_a_method_and_a_url_is_refused(run: str) -> None:
    assert problem(run).code == "bad_run"


# -- what else is sent


def test_without_an_input_nothing_is_sent_that_nobody_named() -> None:
    silent = step(f"http:POST {API}/x")
    assert silent.input is not None
    assert silent.input.evaluate({"input": {"password": 1}, "state": {"card": 2}}) is None


def test_secrets_stay_references_and_are_listed() -> None:
    headers = {"Authorization": {"secret": ["env:KEY", "secretsmanager:shop/api#key"], "prefix": "Bearer "},
               "X-Order": "{{ input.id }}"}  # fmt: skip
    found = step(f"http:GET {API}:8443/x", http={"headers": headers})
    assert found.http is not None
    assert found.http.evaluate({"input": {"id": "7"}})["headers"] == {**headers, "X-Order": "7"}
    assert list(calls_of(found)) == [("http", f"{API}:8443"), ("secret", "env:KEY"),
                                     ("secret", "secretsmanager:shop/api#key")]  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.test"}, "bad_header"),
        ({"content-LENGTH": "5"}, "bad_header"),
        ({"Transfer-Encoding": "chunked"}, "bad_header"),
        ({"X-A\r\nHost": "evil.test"}, "bad_header"),
        ({"X A": "b"}, "bad_header"),
        ({"": "b"}, "bad_header"),
        ({"X-A": "b", "x-a": "c"}, "bad_header"),
        ({"X-A": 5}, "wrong_type"),
        ({"X-A": {"secret": "hunter2-word"}}, "bad_secret"),
        ({"X-A": {"secret": "ssm:/{{ input.word }}"}}, "bad_secret"),
        ({"X-A": {"secret": []}}, "bad_secret"),
        ({"X-A": {}}, "bad_secret"),
        ({"X-A": {"secret": "ssm:/a", "prefix": "a\r\nb"}}, "bad_header"),
        ({"X-A": {"secret": "ssm:/a", "sufix": "b"}}, "unknown_key"),
        ({"X-A": "{{ nope }}"}, "unknown_name"),
        ({f"x-{number}": "a" for number in range(51)}, "wrong_type"),
    ],
)
def test_headers_that_cannot_be_are_refused_and_no_secret_is_shown(headers: Any, code: str) -> None:
    found = problem(f"http:GET {API}/x", http={"headers": headers})
    assert found.code == code
    assert "word" not in str(found)


def test_a_secret_that_stands_in_the_definition_is_warned_of() -> None:
    found = problem(f"http:GET {API}/x", http={"headers": {"authorization": "Bearer abc"}})
    assert (found.code, found.severity) == ("plain_secret", "warning")
    assert "abc" not in found.message


def test_keys_without_an_effect_are_mistakes() -> None:
    assert problem("python:m.f", http={"body": "form"}).code == "misplaced_key"
    assert problem(f"http:GET {API}/x", http={"body": "form"}).code == "misplaced_key"
    assert problem(f"http:POST {API}/x", http={"body": "xml"}).code == "bad_value"
    assert problem(f"http:POST {API}/x", http={"method": "GET"}).code == "unknown_key"


# -- Lambda


@pytest.mark.parametrize(
    ("run", "is_one"),
    [
        ("lambda:score", True),
        ("lambda:score:live", True),
        ("lambda:arn:aws:lambda:eu-west-1:123456789012:function:score", True),
        ("lambda:arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:score:7", True),
        ("lambda:", False),
        ("lambda:{{ input.f }}", False),
        ("lambda:*", False),
        ("lambda:score-*", False),
        ("lambda:arn:aws:lambda:eu-west-1:123456789012:function:*", False),
        ("lambda:arn:aws:sqs:eu-west-1:123456789012:score", False),
        ("lambda:a b", False),
    ],
)
def test_a_function_is_named_exactly_for_its_permission_is(run: str, is_one: bool) -> None:
    problems = compile_definition(written(run)).problems
    assert [found.code for found in problems] == ([] if is_one else ["bad_run"])


# -- the list of hosts


@pytest.mark.parametrize(
    ("entries", "url", "verdict"),
    [
        ("", "https://api.example.com/", False),
        ("api.example.com", "https://api.example.com/", True),
        ("API.Example.com", "https://api.EXAMPLE.com/", True),
        ("api.example.com", "https://api.example.com:8443/", False),
        ("api.example.com:8443", "https://api.example.com:8443/", True),
        ("api.example.com:8443", "https://api.example.com/", False),
        ("api.example.com", "https://api.example.com.evil.test/", False),
        ("api.example.com", "https://xapi.example.com/", False),
        ("*.example.com", "https://api.example.com/", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://badexample.com/", False),
        ("a.test, b.test", "https://b.test/", True),
        ("*", "https://anything.test/", True),
        ("*", "https://anything.test:8443/", False),
        ("*", "https://localhost/", False),
        ("*", "http://localhost/", False),
        ("localhost:8000", "http://localhost:8000/", False),
        ("http://localhost:8000", "http://localhost:8000/", True),
        ("http://localhost:8000", "http://127.0.0.1:8000/", False),
        ("http://localhost:8000", "https://localhost:8000/", False),
        ("http://[::1]:8000", "http://[::1]:8000/", True),
    ],
)
def test_a_host_is_called_where_an_entry_names_it(entries: str, url: str, verdict: bool) -> None:
    assert parse_hosts(entries.split(",")).allow(parse_url(url)) is verdict


def test_an_entry_may_name_the_host_that_is_called_in_place_of_another() -> None:
    hosts = parse_hosts(["*", "api.example.com = http://localhost:8000", "*.shop.test=stub.test:8443"])
    named = ("https://api.example.com/orders?id=1", "https://eu.shop.test/a", "https://other.test/")
    called = [hosts.called(parse_url(url)) for url in named]
    found = [f"{one.origin}{one.path}" for one in called if one is not None]
    assert found == ["http://localhost:8000/orders?id=1", "https://stub.test:8443/a", "https://other.test/"]


def test_where_one_host_is_called_in_place_of_another_no_further_host_is_allowed() -> None:
    hosts = parse_hosts(["api.example.com=http://localhost:8000"])
    assert hosts.allow(parse_url("https://api.example.com/"))
    assert not hosts.allow(parse_url("https://other.test/"))


@pytest.mark.parametrize("entry", ["*.com", "*.", "**.example.com", "*api.example.com", "api.*.com", "http://api.x.com",
                                   "https://a.test/path", "10.0.0.1", "*.localhost", "user@a.test", "a b",
                                   "[fd00:ec2::254]", "a.test=", "=a.test", "a.test=*.b.test", "a.test=http://b.test",
                                   "a.test=b.test=c.test", "*=a.test"])  # fmt: skip
def test_an_entry_that_names_no_host_is_refused(entry: str) -> None:
    with pytest.raises(UserError) as refusal:
        parse_hosts([entry])
    assert refusal.value.code == "bad_host"
