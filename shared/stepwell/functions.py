"""What the writer of durable functions needs beside `stepwell` itself: the type of `ctx`, for editors and checkers."""

from stepwell.runtime.functions.context import Context as WorkflowContext

__all__ = ["WorkflowContext"]
