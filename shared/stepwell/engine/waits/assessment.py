"""A wait for the result of a test that a person takes. Definitions call it `test`."""

from stepwell.engine.waits.event import EventWait

TEST = EventWait(
    "test",
    of_people=True,
    sets={"testScore": ("testScore", "score"), "testResult": ("testResult", "result")},
)
