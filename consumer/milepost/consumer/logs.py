"""Where log lines go: standard error, readable on a terminal and JSON elsewhere."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Final

_FIELDS: Final = ("event", "server", "topic", "partition", "offset", "worker", "port")
"""What a line may say beside its message, given with `extra=`; the names are in docs/operating.md."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        line |= {name: value for name in _FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: int) -> None:
    """Send log lines of this level and above to standard error."""
    handler = logging.StreamHandler()
    if sys.stderr.isatty():
        handler.setFormatter(logging.Formatter(f"%(asctime)s {os.getpid()} %(levelname)s %(message)s", "%H:%M:%S"))
    else:
        handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
