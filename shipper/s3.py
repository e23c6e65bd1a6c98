"""Put an object into an S3 store and see that it is there. Standard library only."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.client
import re
import ssl
import urllib.parse
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from shipper import config

_UTC = datetime.timezone.utc  # noqa: UP017 - `datetime.UTC` is of Python 3.11
_TIMEOUT_SECONDS = 10.0
# What a connection that lay idle and was closed by the store ends with.
_STALE = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
_MD5 = re.compile(r"[0-9a-f]{32}")
_MARK = "x-amz-meta-gpuferry-sha256"


class StoreTrouble(Exception):
    """The store cannot be used; the text says at which step and why. Worth trying again."""


@dataclass(frozen=True)
class Place:
    """A bucket, and who may write there."""

    endpoint: str
    bucket: str
    region: str
    ca_pem: str
    credentials_file: str


def sign(
    method: str,
    host: str,
    path: str,
    headers: Mapping[str, str],
    payload_sha256: str,
    *,
    region: str,
    access_key: str,
    secret_key: str,
    now: datetime.datetime,
) -> dict[str, str]:
    """All headers of a request, signed (AWS Signature Version 4, no query).

    https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
    """
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    signed = {
        **{name.lower(): value for name, value in headers.items()},
        "host": host,
        "x-amz-content-sha256": payload_sha256,
        "x-amz-date": stamp,
    }
    names = ";".join(sorted(signed))
    listed = "".join(f"{name}:{signed[name].strip()}\n" for name in sorted(signed))
    request = "\n".join([method, path, "", listed, names, payload_sha256])
    scope = f"{day}/{region}/s3/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}"
    key = f"AWS4{secret_key}".encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return {
        **signed,
        "authorization": f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}",
    }


class Store:
    """One connection to the store, opened when needed; used by one thread.

    Raises:
        ConfigError: the authority cannot be used.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        address = urllib.parse.urlsplit(place.endpoint)
        self._host, self._netloc = address.hostname or "", address.netloc
        self._port = address.port or 443
        try:
            self._context = ssl.create_default_context(cadata=place.ca_pem or None)
        except (ssl.SSLError, ValueError) as error:
            raise config.ConfigError(f"ca_pem holds no certificate: {error}.") from None
        self._connection: http.client.HTTPSConnection | None = None

    def put(self, key: str, body: bytes, *, may_be_there: bool = False) -> None:
        """Write an object, then ask for it; nothing is sent where the store has these bytes.

        Raises:
            StoreTrouble: it is not known to be there.
        """
        sha256, md5 = hashlib.sha256(body), hashlib.md5(body, usedforsecurity=False)
        if may_be_there and self._differs(key, body, sha256.hexdigest(), md5.hexdigest()) == "":
            return
        headers = {
            "content-length": str(len(body)),
            "content-type": "application/octet-stream",
            # The store refuses other bytes than these; a bucket with object lock wants it, too.
            "content-md5": b64encode(md5.digest()).decode(),
            _MARK: sha256.hexdigest(),
        }
        status, _, said = self._ask("PUT", key, headers, body)
        if status != 200:
            raise StoreTrouble(f"write: HTTP {status} {_code(said)}")
        differs = self._differs(key, body, sha256.hexdigest(), md5.hexdigest())
        if differs:
            raise StoreTrouble(f"written, but {differs}")

    def _differs(self, key: str, body: bytes, sha256: str, md5: str) -> str:
        """What the store has other than these bytes; empty: nothing."""
        status, told, _ = self._ask("HEAD", key, {}, b"")
        if status != 200:
            return f"asked for it the store says HTTP {status}"
        size, etag = told.get("content-length", ""), told.get("etag", "").strip('"')
        if size != str(len(body)):
            return f"the store has {size} bytes of {len(body)}"
        if told.get(_MARK) != sha256:
            return "the store has another object under this name"
        # Not every store's ETag is the MD5 (encryption with a key service, several parts).
        if _MD5.fullmatch(etag) and etag != md5:
            return "the store has other bytes"
        return ""

    def _ask(
        self, method: str, key: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        try:
            access_key, secret_key = config.credentials(self._place.credentials_file)
        except config.ConfigError as error:
            raise StoreTrouble(str(error)) from None
        path = urllib.parse.quote(f"/{self._place.bucket}/{key}", safe="/-_.~")
        signed = sign(
            method,
            self._netloc,
            path,
            headers,
            hashlib.sha256(body).hexdigest(),
            region=self._place.region,
            access_key=access_key,
            secret_key=secret_key,
            now=datetime.datetime.now(_UTC),
        )
        reused = self._connection is not None
        try:
            answer, said = self._send(method, path, body, signed)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if not reused or not isinstance(error, _STALE):
                raise StoreTrouble(f"{method}: {_words(error)}") from None
            try:
                answer, said = self._send(method, path, body, signed)
            except (OSError, http.client.HTTPException) as again:
                self.close()
                raise StoreTrouble(f"{method}: {_words(again)}") from None
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, said

    def _send(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=_TIMEOUT_SECONDS, context=self._context
            )
        self._connection.request(method, path, body or None, headers)
        answer = self._connection.getresponse()
        return answer, answer.read()

    def close(self) -> None:
        """Give the connection up; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _words(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


def _code(said: bytes) -> str:
    found = re.search(rb"<Code>(\w+)</Code>", said)
    return found[1].decode() if found else ""
