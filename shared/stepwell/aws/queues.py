"""Selects a message's queue: the resume queue, or the work queue of its pool."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from stepwell.definition.graph import DEFAULT_POOL, Json
from stepwell.runtime.ports import Lane
from stepwell.settings import QueuePlace
from stepwell.values import dataclass

_logger = logging.getLogger("stepwell.queues")


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of a deployment. `work` has one for each pool, including `default`."""

    resume: QueuePlace
    work: Mapping[str, QueuePlace]

    def of(self, lane: Lane, message: Mapping[str, Json]) -> QueuePlace:
        """Returns a message's queue; the default pool serves removed pools of older runs."""
        if lane is Lane.RESUME:
            return self.resume
        pool = message.get("pool", DEFAULT_POOL)
        if pool not in self.work:
            _logger.warning("there is no pool %s: its step runs in %s", pool, DEFAULT_POOL)
        return self.work.get(pool) or self.work[DEFAULT_POOL]
