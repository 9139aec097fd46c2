from stepwell.testing.kit import Stepwell


def test_a_user_without_a_profile_is_asked_for_it(stepwell: Stepwell) -> None:
    stepwell.event("user.created", {"user_id": "u1"})
    (run,) = stepwell.runs("welcome")
    stepwell.advance("25h")
    assert run.result == "welcomed"
    assert run.steps["ask"].output == "your profile to u1"


def test_a_user_with_a_profile_is_not_asked(stepwell: Stepwell) -> None:
    for _ in range(2):
        stepwell.event("user.created", {"user_id": "u1"})
    (run,) = stepwell.runs("welcome")
    stepwell.event("profile.filled", key="u1")
    assert run.result == "welcomed"
    assert "ask" not in run.steps
