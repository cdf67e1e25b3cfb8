"""The commands of docs/moving.md, so that what is tested is what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from string import Template

PAGE = (Path(__file__).parents[2] / "docs" / "moving.md").read_text(encoding="utf-8")


def blocks(title: str, language: str) -> list[str]:
    """The code blocks of one section."""
    (section,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def commands(title: str, **variables: str) -> list[list[str]]:
    """The arguments of each `milepost` of one section, with its variables filled in."""
    lines = [line for block in blocks(title, "sh") for line in block.splitlines() if line.startswith("milepost ")]
    return [shlex.split(Template(line).substitute(variables), comments=True)[1:] for line in lines]
