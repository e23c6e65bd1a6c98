"""The chunks of all servers in the store: what is there, and what is in it."""

from __future__ import annotations

import heapq
import itertools
import tempfile
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.client import Config
from botocore.exceptions import ClientError

from gpuferry.logs import seal
from gpuferry.logs.lines import Line, Wanted, lines
from gpuferry.s3_errors import refusals
from shipper import keys
from shipper.keys import Chunk

# Of each source so many chunks are fetched before they are needed.
_AHEAD = 4


class Archive:
    """One bucket. All methods raise StepFailed when the store refuses or does not answer."""

    def __init__(self, access: dict[str, Any], client: Any) -> None:
        self._bucket, self._identity, self._client = access["bucket"], access["identity"], client
        self.opened = 0

    def servers(self) -> list[str]:
        """Names of the servers with logs."""
        with refusals(self._bucket, "logs in "):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=f"{keys.LOGS}/", Delimiter="/"
            )
            found = [p["Prefix"] for page in pages for p in page.get("CommonPrefixes", [])]
        return sorted(prefix.rstrip("/").rsplit("/", 1)[1] for prefix in found)

    def chunks(self, server: str, wanted: Wanted) -> list[Chunk]:
        """The chunks that may hold wanted lines."""
        prefix = f"{keys.LOGS}/{server}/"
        with refusals(self._bucket, "logs in "):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=prefix, StartAfter=f"{prefix}{keys.day(wanted.since)}"
            )
            named = [keys.parse(o["Key"]) for page in pages for o in page.get("Contents", [])]
        return [c for c in named if c and c.last >= wanted.since and c.first < wanted.until]

    def stream(self, chunks: list[Chunk], wanted: Wanted) -> Iterator[Line]:
        """Wanted lines of all sources, by time; holds a few chunks in memory."""
        by_source = sorted(chunks, key=lambda chunk: (chunk.source, chunk.first, chunk.last))
        pool = ThreadPoolExecutor(2 * _AHEAD)
        try:
            sources = [
                self._lines_of(list(own), pool)
                for _, own in itertools.groupby(by_source, key=lambda chunk: chunk.source)
            ]
            merged = heapq.merge(*sources, key=lambda line: line.time)
            yield from (line for line in merged if wanted.has(line))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _lines_of(self, chunks: list[Chunk], pool: ThreadPoolExecutor) -> Iterator[Line]:
        coming: deque[Future[list[Line]]] = deque()
        left = iter(chunks)
        while True:
            coming.extend(
                pool.submit(self._read, c) for c in itertools.islice(left, _AHEAD - len(coming))
            )
            if not coming:
                return
            yield from coming.popleft().result()
            self.opened += 1

    def _read(self, chunk: Chunk) -> list[Line]:
        with refusals(self._bucket, "logs in "):
            answer = self._client.get_object(Bucket=self._bucket, Key=chunk.key)
            data = answer["Body"].read()
        if chunk.sealed:
            data = seal.unseal(data, self._identity, chunk.key)
        return lines(data, chunk.key)

    def prune(self, before: int) -> int:
        """Remove chunks whose last line is older, with all their versions; the number of chunks."""
        gone: set[str] = set()
        with refusals(self._bucket, "logs in "):
            pages = self._client.get_paginator("list_object_versions").paginate(
                Bucket=self._bucket, Prefix=f"{keys.LOGS}/"
            )
            for page in pages:
                for entry in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]:
                    chunk = keys.parse(entry["Key"])
                    if chunk is None or chunk.last >= before:
                        continue
                    self._remove(chunk.key, entry["VersionId"])
                    gone.add(chunk.key)
        return len(gone)

    def _remove(self, key: str, version: str) -> None:
        try:
            self._client.delete_object(Bucket=self._bucket, Key=key, VersionId=version)
        except ClientError:
            # Two may prune at once, and versitygw refuses what is gone already; S3 does not.
            told = self._client.list_object_versions(Bucket=self._bucket, Prefix=key)
            left = [*told.get("Versions", []), *told.get("DeleteMarkers", [])]
            if any((e["Key"], e["VersionId"]) == (key, version) for e in left):
                raise


@contextmanager
def open_archive(access: dict[str, Any]) -> Iterator[Archive]:
    """The bucket that `access` names, reached over TLS that is verified."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as ca:
        ca.write(access["ca_pem"])
        ca.flush()
        client = boto3.client(
            "s3",
            endpoint_url=access["endpoint"],
            region_name=access["region"],
            verify=ca.name if access["ca_pem"] else True,
            aws_access_key_id=access["access_key"],
            aws_secret_access_key=access["secret_key"],
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 3},
                          max_pool_connections=2 * _AHEAD, connect_timeout=10),
        )  # fmt: skip
        yield Archive(access, client)
