"""Checkpoints whose checksums are right and whose content is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenstream.checkpoint import text_digest


def alter_newest(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what the newest checkpoint in a folder says, and its checksum with it."""
    manifest = sorted(folder.glob("checkpoint-*.json"))[-1]
    body = json.loads(manifest.read_text())
    del body["sha256"]
    change(body["state"])
    manifest.write_text(json.dumps({**body, "sha256": text_digest(body)}))
