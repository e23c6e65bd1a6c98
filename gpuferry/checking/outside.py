"""Look at a server from the controller: which TCP ports answer."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

Answer = Literal["open", "closed", "silent", "no route"]

# Long enough for one lost packet (TCP sends again after 1 s), short enough for a whole round.
TIMEOUT_SECONDS = 1.5


def probe(address: str, ports: Iterable[int]) -> dict[int, Answer]:
    """Try a TCP connection to every port at once.

    `closed` means that the machine itself answered "nobody listens": no filter stopped the packet.
    """
    wanted = sorted(set(ports))
    with ThreadPoolExecutor(max_workers=max(1, len(wanted))) as pool:
        return dict(zip(wanted, pool.map(lambda port: _probe(address, port), wanted), strict=True))


def _probe(address: str, port: int) -> Answer:
    try:
        with socket.create_connection((address, port), timeout=TIMEOUT_SECONDS):
            return "open"
    except TimeoutError:
        return "silent"
    except ConnectionRefusedError:
        return "closed"
    except OSError as error:
        # A filter may also answer with ICMP "administratively prohibited" (EHOSTUNREACH, EACCES).
        return "no route" if error.errno == errno.ENETUNREACH else "silent"
