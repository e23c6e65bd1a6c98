"""A time server for the one guest of this container, as clouds give each of their machines one.

A container shares its host's clock; a virtual machine has its own, and not every network lets NTP
out. SNTP in its simplest form (RFC 4330, section 6), from the host's clock.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

# Seconds between NTP's epoch (1900) and Unix's (RFC 5905, figure 4).
_EPOCH = 2_208_988_800
_STRATUM = 10  # a clock of unknown origin, good enough to follow


def serve(address: str) -> None:
    """Answer on UDP port 123 of `address`, in the background."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 123))
    threading.Thread(target=_loop, args=(server,), daemon=True).start()


def _loop(server: socket.socket) -> None:
    while True:
        request, sender = server.recvfrom(512)
        if len(request) >= 48 and request[0] & 7 == 3:  # mode 3: a client
            server.sendto(reply(request, time.time()), sender)


def reply(request: bytes, now: float) -> bytes:
    """The answer to one request, with `now` (Unix seconds) as times of receipt and sending."""
    stamp = struct.pack("!Q", int((now + _EPOCH) * (1 << 32)))
    version = request[0] & 0x38
    # No leap second announced; mode 4: a server; a precision of 2**-20 s; no delay to a source.
    head = struct.pack("!BBbbII4s", version | 4, _STRATUM, request[2] & 0x7F, -20, 0, 0, b"HOST")
    return head + stamp + request[40:48] + stamp + stamp
