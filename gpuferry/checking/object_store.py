"""Use a bucket from a server without giving the server its keys.

The controller signs single requests that are valid for a few minutes; the server sends them and
verifies the store's certificate against its own trust store.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import boto3
from botocore.config import Config

from gpuferry.checking.expectations import ExpectedStore
from gpuferry.checking.node import Node
from gpuferry.checking.recorder import Answer

_VALID_SECONDS = 120

# Sends the signed requests one after the other; stops at the first that fails.
_PROGRAM = """
TOLD = ("version-id", "server-side-encryption")
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
            told = [reply.headers.get(f"x-amz-{name}", "") for name in TOLD]
            answer.append([reply.status, reply.read().decode(), *told])
    except urllib.error.HTTPError as error:
        answer.append([error.code, error.read(300).decode(errors="replace"), "", ""])
    except OSError as error:
        answer.append([0, str(getattr(error, "reason", error)), "", ""])
        break
"""


class StoreTrouble(Exception):
    """The store cannot be used from the server; the text says at which step and why."""


def round_trip(node: Node, store: ExpectedStore) -> str:
    """Write, read back and delete an object from the server; return what was done.

    Between, who has no key asks for it and for the list of the bucket, and must get neither. Leaves
    nothing behind: in a bucket with versions, the very version is deleted. Where a retention
    forbids that, the object is hidden by a delete marker and goes when its time is over.
    """
    sign = _signer(store, f".gpuferry-check/{secrets.token_hex(8)}")
    content = secrets.token_hex(32)
    put, get = sign("put_object"), sign("get_object")
    unsigned = get.partition("?")[0]
    listing = f"{store.endpoint}/{store.bucket}?list-type=2"
    strangers = [("GET", unsigned, None), ("GET", listing, None), ("PUT", unsigned, "x")]
    written, read, *refused = _send(node, [("PUT", put, content), ("GET", get, None), *strangers])
    _expect(written, 200, "write")
    _expect(read, 200, "read back")
    if read.text != content:
        raise StoreTrouble("read back: another content than was written")
    ending = _remove(node, sign, written)
    for reply, step in zip(refused, ("read", "list", "write"), strict=True):
        _expect(reply, 403, f"{step} without a key")
    return f"{len(content)} bytes written, read back, refused without a key and {ending}"


def encryption_at_rest(node: Node, store: ExpectedStore) -> str:
    """The algorithm that the store says it encrypted a new object with; empty: it says none.

    Nothing but the answer counts: there are stores that take a request for encryption and keep the
    object in clear (versitygw 1.8 does, also with a customer's key).
    """
    sign = _signer(store, f".gpuferry-check/{secrets.token_hex(8)}")
    written, read = _send(
        node, [("PUT", sign("put_object"), "x"), ("GET", sign("get_object"), None)]
    )
    _expect(written, 200, "write")
    _expect(read, 200, "read back")
    _remove(node, sign, written)
    return read.encryption


def judge_encryption(told: Mapping[str, str], required: Sequence[str]) -> Answer:
    """`told`: bucket to algorithm, empty: none; `required`: buckets that must have one. Pure.

    Where nothing is declared, clear objects are no failure, and no good news either.
    """
    clear = [name for name, algorithm in told.items() if not algorithm]
    good = [f"{name}: {algorithm}" for name, algorithm in told.items() if algorithm]
    wrong = [name for name in clear if name in required]
    measured = "; ".join([*good, *(f"{name}: in clear" for name in clear)])
    return Answer(
        "fail" if wrong else "not_measured" if clear else "pass",
        measured,
        f"x-amz-server-side-encryption for {', '.join(required) or 'no bucket'}",
        "the store's own word about an object just written",
        next_step="encrypt before the upload: ./ferry data push --help" if clear else "",
    )


def _remove(node: Node, sign: Callable[..., str], written: _Reply) -> str:
    """Delete the very version that was written; return what became of it."""
    extra = {"VersionId": written.version} if written.version not in ("", "null") else {}
    get = ("GET", sign("get_object"), None)
    removed, gone = _send(node, [("DELETE", sign("delete_object", **extra), None), get])
    ending = "deleted"
    if extra and removed.status == 403:
        removed, gone = _send(node, [("DELETE", sign("delete_object"), None), get])
        ending = "hidden until its retention ends"
    _expect(removed, 204, "delete")
    _expect(gone, 404, "read after deletion")
    return ending


class _Reply(NamedTuple):
    """What the store answered; `status` 0: nothing."""

    status: int
    text: str
    version: str = ""
    encryption: str = ""


def _send(node: Node, requests: list[tuple[str, str, str | None]]) -> list[_Reply]:
    answers = [_Reply(*answer) for answer in node.python(_PROGRAM, requests, 60)]
    return answers + [_Reply(0, "not sent")] * (len(requests) - len(answers))


def _expect(answer: _Reply, status: int, step: str) -> None:
    if answer.status == status:
        return
    code = re.search(r"<Code>(\w+)</Code>", answer.text)
    said = code[1] if code else " ".join(answer.text.split())[:200] or "no reason given"
    if answer.status in range(200, 300):
        said = f"was allowed; expected HTTP {status}"
    raise StoreTrouble(f"{step}: {f'HTTP {answer.status}: ' if answer.status else ''}{said}")


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
