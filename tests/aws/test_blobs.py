"""Large values in the bucket that cannot be read: what is gone is told from what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from stepwell.aws.s3_blobs import S3Blobs
from stepwell.errors import PortError
from stepwell.runtime.ports import BROKEN_BLOB
from stepwell.runtime.stores.blobs import of_run, reference_of
from tests.contract.kit import run

BLOB = reference_of(b"large", of_run("r1"))


class Refusing:
    """A client of S3 that answers each read with this error."""

    def __init__(self, code: str, message: str) -> None:
        self._answer: Any = {"Error": {"Code": code, "Message": message}}

    def get_object(self, **place: str) -> Any:
        raise ClientError(self._answer, "GetObject")


def refused(code: str, message: str) -> PortError:
    client: Any = Refusing(code, message)
    with pytest.raises(PortError) as found:
        run(S3Blobs("stack-bucket", lambda: client).get(BLOB))
    return found.value


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("NoSuchKey", "The specified key does not exist."),
        ("AccessDenied", "Access Denied"),
        ("AccessDenied", "User: worker is not authorized to perform: s3:ListBucket on resource: stack-bucket"),
    ],
)
def test_a_value_that_is_gone_is_gone_though_its_reader_may_not_list_the_bucket(code: str, message: str) -> None:
    assert refused(code, message).code == BROKEN_BLOB


@pytest.mark.parametrize("action", ["kms:Decrypt", "s3:GetObject"])
def test_a_value_that_a_policy_or_a_key_refuses_is_there_and_is_asked_for_again(action: str) -> None:
    found = refused("AccessDenied", f"User: worker is not authorized to perform: {action} on resource: blobs/1")
    assert found.code != BROKEN_BLOB
    assert action in str(found)
