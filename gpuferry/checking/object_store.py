"""Use a bucket from a server without giving the server its keys.

The controller signs single requests that are valid for a few minutes; the server sends them and
verifies the store's certificate against its own trust store.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config

from gpuferry.checking.expectations import ExpectedStore
from gpuferry.checking.node import Node

_VALID_SECONDS = 120

# Sends the signed requests one after the other; stops at the first that fails.
_PROGRAM = """
import ssl, urllib.error, urllib.request
context = ssl.create_default_context()
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
)
answer = []
for method, url, body in payload:
    data = body.encode() if body is not None else None
    request = urllib.request.Request(url, data=data, method=method)
    try:
        with opener.open(request, timeout=10) as reply:
            text, version = reply.read().decode(), reply.headers.get("x-amz-version-id", "")
            answer.append([reply.status, text, version])
    except urllib.error.HTTPError as error:
        answer.append([error.code, error.read(300).decode(errors="replace"), ""])
    except OSError as error:
        answer.append([0, str(getattr(error, "reason", error)), ""])
        break
"""


class StoreTrouble(Exception):
    """The store cannot be used from the server; the text says at which step and why."""


def round_trip(node: Node, store: ExpectedStore) -> str:
    """Write, read back and delete an object from the server; return what was done.

    Leaves nothing behind: in a bucket with versions, the very version is deleted. Where a retention
    forbids that, the object is hidden by a delete marker and goes when its time is over.
    """
    sign = _signer(store, f".gpuferry-check/{secrets.token_hex(8)}")
    content = secrets.token_hex(32)
    put, get = sign("put_object"), sign("get_object")
    written, read = _send(node, [("PUT", put, content), ("GET", get, None)])
    _expect(written, 200, "write")
    _expect(read, 200, "read back")
    if read[1] != content:
        raise StoreTrouble("read back: another content than was written")
    version = written[2] if written[2] not in ("", "null") else None
    extra = {"VersionId": version} if version else {}
    removed, gone = _send(
        node, [("DELETE", sign("delete_object", **extra), None), ("GET", get, None)]
    )
    ending = "deleted"
    if version and removed[0] == 403:
        hide = ("DELETE", sign("delete_object"), None)
        removed, gone = _send(node, [hide, ("GET", get, None)])
        ending = "hidden until its retention ends"
    _expect(removed, 204, "delete")
    _expect(gone, 404, "read after deletion")
    return f"{len(content)} bytes written, read back and {ending}"


def _send(node: Node, requests: list[tuple[str, str, str | None]]) -> list[tuple[int, str, str]]:
    answers = [tuple(answer) for answer in node.python(_PROGRAM, requests, 60)]
    return answers + [(0, "not sent", "")] * (len(requests) - len(answers))


def _expect(answer: tuple[int, str, str], status: int, step: str) -> None:
    if answer[0] == status:
        return
    code = re.search(r"<Code>(\w+)</Code>", answer[1])
    said = code[1] if code else " ".join(answer[1].split())[:200]
    raise StoreTrouble(f"{step}: {f'HTTP {answer[0]}: ' if answer[0] else ''}{said}")


def _signer(store: ExpectedStore, key: str) -> Callable[..., str]:
    client = boto3.client(
        "s3",
        endpoint_url=store.endpoint,
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key.get_secret_value(),
        region_name=store.region,
        config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )

    def sign(operation: str, **extra: Any) -> str:
        parameters = {"Bucket": store.bucket, "Key": key, **extra}
        return str(client.generate_presigned_url(operation, parameters, ExpiresIn=_VALID_SECONDS))

    return sign
