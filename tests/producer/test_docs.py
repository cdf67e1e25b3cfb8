"""docs/publishing.md: its scripts run, its snippets are Python."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.producer.helpers import read_log

PAGE = Path(__file__).parents[2] / "docs" / "publishing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_is_python(number: int) -> None:
    ast.parse(BLOCKS[number])


@pytest.mark.parametrize(
    ("called", "keys"), [("research-agent", {b"acme/s-1"}), ("workers", {b"acme/s-%d" % n for n in range(4)})]
)
def test_the_scripts_publish(tmp_path: Path, kafka_servers: str, topic: str, called: str, keys: set[bytes]) -> None:
    (block,) = [block for block in BLOCKS if f"/runtimes/{called}" in block]
    script = tmp_path / "script.py"
    script.write_text(block.replace('"localhost:9092"', f'"{kafka_servers}", topic="{topic}"'), "utf-8")
    subprocess.run([sys.executable, str(script)], check=True, timeout=60)
    assert {record.key for record in read_log(kafka_servers, topic)} == keys
