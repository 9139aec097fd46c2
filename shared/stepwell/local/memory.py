"""The ports in memory, for tests and the simulator. For one thread; nothing is durable."""

from stepwell.local.blobs import MemoryBlobs
from stepwell.local.memory_queue import MemoryQueue
from stepwell.local.memory_store import MemoryStore

__all__ = ["MemoryBlobs", "MemoryQueue", "MemoryStore"]
