"""The progress bars of commands that take long: what is done, of how many, and the time left."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def bars(console: Console, *, transient: bool = True) -> Progress:
    """A bar for each task, named by its description; `transient` ones are gone at their end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=transient)
