"""The steps of the demonstration."""

from __future__ import annotations


class OutOfStock(Exception):
    """The shelf is empty."""


def check(order_id: str, amount: float) -> dict[str, object]:
    return {"order": order_id, "total": round(amount * 1.19, 2)}


def ship(order_id: str, amount: float) -> dict[str, str]:
    if amount > 9000:
        raise OutOfStock(f"nothing is left of what {order_id} asks for")
    if amount > 500:
        _carrier()
    return {"parcel": f"PX-{order_id}"}


def _carrier() -> None:
    raise ConnectionError("the carrier does not answer")


def confirm(order_id: str) -> str:
    return f"{order_id} is on its way"


def collect(letters: int) -> list[dict[str, int]]:
    return [{"letter": number} for number in range(letters)]


def read(letter: dict[str, int]) -> dict[str, int]:
    if letter["letter"] % 20 == 7:
        raise ValueError(f"letter {letter['letter']} cannot be read")
    return {"words": letter["letter"] * 3}


def publish() -> str:
    return "published"


def part() -> str:
    return "ready"


def book(nights: int) -> dict[str, str]:
    return {"booking": f"B-{nights:03d}"}


def release() -> str:
    return "released"


def rent(nights: int) -> str:
    if nights > 20:
        raise OutOfStock("no car is free for so long")
    return "car"
