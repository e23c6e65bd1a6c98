"""What an S3 store refuses, as a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import BotoCoreError, ClientError

from gpuferry.errors import StepFailed


@contextmanager
def refusals(bucket: str, what: str = "") -> Iterator[None]:
    """Turn errors of boto3 into StepFailed; `what` of the bucket was wanted, such as `logs in `."""
    try:
        yield
    except ClientError as error:
        reason = error.response["Error"]
        raise StepFailed(
            f"The object store refused {what}bucket {bucket}: {reason['Code']}, {reason['Message']}"
        ) from None
    except BotoCoreError as error:
        raise StepFailed(f"Bucket {bucket}: the object store does not answer: {error}") from None
