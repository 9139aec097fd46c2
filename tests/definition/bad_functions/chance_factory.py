"""Makes an object that makes its own id"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid4

from stepwell import workflow


@dataclass
class Parcel:
    order: dict
    id: UUID = field(default_factory=uuid4)


@workflow
async def flow(ctx, order):
    return str(Parcel(order).id)  # bad: not_deterministic
