"""`start.py ask /state`: a page of the running agent, for who may read its token."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

from agent.config import Config

_PATIENCE_SECONDS = 10


def ask(config: Config, path: str) -> str:
    """The page.

    Raises:
        OSError: the token cannot be read, or nobody answers.
    """
    host = f"[{config.listen}]" if ":" in config.listen else config.listen
    request = urllib.request.Request(f"http://{host}:{config.port}/{path.lstrip('/')}")
    if config.token_file:
        token = Path(config.token_file).read_text(encoding="ascii").strip()
        request.add_header("Authorization", f"Bearer {token}")
    # Without the proxies of the environment: they would be shown the token.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=_PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())
