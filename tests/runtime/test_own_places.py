"""Which source is a user's, and where it is in the workflow folder."""

from __future__ import annotations

import pytest

from stepwell.runtime.steps import folders
from stepwell.runtime.steps.folders import STEPWELL, own_place


@pytest.fixture(autouse=True)
def two_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "FOLDERS", {"/flows", "/flows/shop", STEPWELL})


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("/flows/mail.py", "mail.py"),
        ("/flows/lib/rates/tax.py", "lib/rates/tax.py"),
        ("/flows/shop/till.py", "till.py"),  # of the inner folder
        ("/flows/shopping/cart.py", "shopping/cart.py"),
        ("/flows/.venv/site-packages/httpx/client.py", None),
        ("/flowsheet/mail.py", None),
        ("/usr/lib/python3/json.py", None),
        (f"{STEPWELL}/values.py", None),
        ("<string>", None),
        ("", None),
    ],
)
def test_a_source_is_a_users_below_the_innermost_of_the_folders(file: str, place: str | None) -> None:
    assert own_place(file) == place
