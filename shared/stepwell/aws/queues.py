"""Which queue a message goes to: the resume queue, or the work queue of the pool that it names."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from stepwell.definition.graph import DEFAULT_POOL, Json
from stepwell.runtime.ports import Lane
from stepwell.settings import QueuePlace

_logger = logging.getLogger("stepwell.queues")


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of a deployment. `work` has one for each pool, `default` among them."""

    resume: QueuePlace
    work: Mapping[str, QueuePlace]

    def of(self, lane: Lane, message: Mapping[str, Json]) -> QueuePlace:
        """A pool that is no more, of a run from before it went, is served by the default one."""
        if lane is Lane.RESUME:
            return self.resume
        pool = message.get("pool", DEFAULT_POOL)
        if pool not in self.work:
            _logger.warning("there is no pool %s: its step runs in %s", pool, DEFAULT_POOL)
        return self.work.get(pool) or self.work[DEFAULT_POOL]
