"""Signed links: made and read with a key that is passed in; whatever else is shown is refused."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import Conflict, NotFound, PortError
from stepwell.limits import LINK_CHARACTERS
from stepwell.local.folder import KEY_FILE, link_key
from stepwell.runtime.calls.links import ApprovalLink, CallbackLink, Links, fields_of, keys_in, sign
from tests.runtime.kit import NOW_MS

KEY, OTHER = b"k" * 32, b"o" * 32
LINK = CallbackLink("r1|0/3.1|w7", NOW_MS + 1)
APPROVAL = ApprovalLink("r1", "0", 3, "Ana Björk", NOW_MS + 1)


def links(*keys: bytes) -> Links:
    return Links("https://api.example.com/", lambda: keys or (KEY,))


def token_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_link_says_what_it_was_made_for() -> None:
    assert links().callback_url(LINK).startswith("https://api.example.com/callbacks/")
    assert links().callback(token_of(links().callback_url(LINK)), NOW_MS) == LINK
    assert links().approval(token_of(links().approval_url(APPROVAL)), NOW_MS) == APPROVAL
    second = replace(APPROVAL, approval="approval_2")
    assert links().approval(token_of(links().approval_url(second)), NOW_MS) == second


def test_a_link_is_good_until_its_time() -> None:
    token = token_of(links().callback_url(LINK))
    with pytest.raises(Conflict) as refused:
        links().callback(token, LINK.expires_ms)
    assert refused.value.code == "callback_expired"


def test_what_is_not_the_very_text_that_was_signed_is_unknown() -> None:
    token = token_of(links().callback_url(LINK))
    said, mac = token.split(".")
    spaced = base64.urlsafe_b64encode(f'["{LINK.callback}", {LINK.expires_ms}]'.encode()).decode().rstrip("=")
    later = sign(OTHER, "callback", [LINK.callback, LINK.expires_ms + 1]).split(".")[0]
    forged = ["", ".", said, f"{said}.", token[:-1], token[1:], f"{token}=", f"{token}.{mac}", f"{spaced}.{mac}",
              f"{later}.{mac}", f"{said}.{mac[::-1]}", token.upper(), "e30.x", "W1tbW10.x", "\ud800", "ü" * 9,
              base64.urlsafe_b64encode(b"[" * 2_000).decode(), "a" * (LINK_CHARACTERS + 1)]  # fmt: skip
    for one in forged:
        with pytest.raises(NotFound):
            links().callback(one, NOW_MS)


def test_a_link_of_one_purpose_is_none_of_another() -> None:
    with pytest.raises(NotFound):
        links().approval(token_of(links().callback_url(LINK)), NOW_MS)


def test_while_keys_change_the_first_signs_and_all_are_good() -> None:
    old = token_of(links(OTHER).callback_url(LINK))
    assert links(KEY, OTHER).callback(old, NOW_MS) == LINK
    with pytest.raises(NotFound):
        links(KEY).callback(old, NOW_MS)
    assert links(KEY).callback(token_of(links(KEY, OTHER).callback_url(LINK)), NOW_MS) == LINK
    assert fields_of((), "callback", old) is None


@pytest.mark.parametrize(("secret", "keys"), [("s" * 48, ["s" * 48]), (f'["{"n" * 32}", "{"o" * 32}"]', ["n", "o"])])
def test_a_secret_holds_one_key_or_a_list(secret: str, keys: list[str]) -> None:
    assert [key.decode()[0] for key in keys_in(secret)] == [key[0] for key in keys]


@pytest.mark.parametrize("secret", ["", "short", "[]", '["short"]', f'["{"n" * 32}", 7]'])
def test_a_weak_key_signs_nothing(secret: str) -> None:
    with pytest.raises(PortError) as refused:
        keys_in(secret)
    assert refused.value.code == "bad_link_key"
    assert "short" not in refused.value.message.replace("shorter", "")


def test_a_data_folder_has_a_key_of_its_own_which_others_cannot_read(tmp_path: Path) -> None:
    key = link_key(tmp_path)
    assert key == link_key(tmp_path)
    assert len(key) >= 32
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o077 == 0
    (tmp_path / "b").mkdir()
    assert link_key(tmp_path / "b") != key


def test_no_link_tells_its_key(capsys: Any) -> None:
    assert "kkkk" not in repr(links()) + repr(LINK)
