"""What is kept of sessions in memory: an event costs the same however long its session's window, and all windows have a limit."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from milepost.consumer.heads import Head, HeadCache
from milepost.consumer.retention import Live, Policy, Window


class CountedSize(int):
    """A size that knows how often one was added or taken off."""

    uses = 0

    def __radd__(self, other: int) -> int:
        CountedSize.uses += 1
        return other + int(self)

    def __rsub__(self, other: int) -> int:
        CountedSize.uses += 1
        return other - int(self)


def test_a_limit_of_bytes_is_kept_without_adding_the_window_up() -> None:
    window, policy = Window(), Policy(10_000, max_bytes=20_000)
    CountedSize.uses = 0
    removed = 0
    for number in range(1, 3_001):
        window.append(Live(number, CountedSize(10), number, False))
        removed += len(policy.prune(window))
    assert (len(window), window.size, removed) == (2_000, 20_000, 1_000)
    assert CountedSize.uses == 3_000 + 1_000


def head(number: int, length: int) -> Head:
    """A session with so many live checkpoints."""
    found = Head("acme", f"s{number}", number % 4)
    for seq in range(length):
        found.window.append(Live(seq, 1, seq, False))
    return found


def test_long_windows_leave_room_for_fewer_sessions() -> None:
    cache = HeadCache(limit=100, checkpoints=1_000)
    cache.keep(head(number, 5) for number in range(150))
    assert len(cache) == 100
    cache.keep(head(1_000 + number, 300) for number in range(4))
    assert [cache.get(("acme", f"s{1_000 + number}")) is not None for number in range(4)] == [False, True, True, True]
    assert (len(cache), cache.checkpoints) == (3, 900)
    cache.keep(head(2_000 + number, 5) for number in range(30))
    assert (len(cache), cache.checkpoints) == (2 + 30, 600 + 150)


def test_the_session_used_last_stays_however_long_it_is() -> None:
    cache = HeadCache(limit=100, checkpoints=1_000)
    cache.keep([head(1, 5), head(2, 2_000)])
    assert cache.get(("acme", "s1")) is None
    assert cache.get(("acme", "s2")) is not None
    cache.keep([head(3, 5)])
    assert (len(cache), cache.checkpoints) == (1, 5)


class Reluctant(Window):
    """A window that cannot be walked through."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Live]:
        raise AssertionError("a window was walked through")


keys = st.integers(0, 6)
steps = st.one_of(
    st.tuples(st.just("keep"), keys, st.integers(0, 12)),
    st.tuples(st.just("use"), keys, st.integers(0, 12)),
    st.tuples(st.just("forget"), keys, st.just(0)),
    st.tuples(st.just("forget_partitions"), keys, st.just(0)),
    st.tuples(st.just("clear"), keys, st.just(0)),
)


@given(st.lists(steps, max_size=40), st.integers(1, 5), st.integers(1, 30))
def test_the_sum_of_the_windows_is_known(taken: list[tuple[str, int, int]], limit: int, checkpoints: int) -> None:
    """Whatever batches do to windows that are kept, and whether they commit or not."""
    cache = HeadCache(limit, checkpoints)
    for what, number, length in taken:
        key = ("acme", f"s{number}")
        used = cache.get(key) or Head("acme", f"s{number}", number % 4, window=Reluctant())
        if what in ("keep", "use"):
            used.window.clear()
            used.window.lives.extend(Live(seq, 1, seq, False) for seq in range(length))
        if what == "keep":
            cache.keep([used])
            assert cache.get(key) is used
        elif what == "forget_partitions":
            cache.forget_partitions({number % 4})
        elif what == "clear":
            cache.clear()
        else:
            cache.forget([key])
        kept = [found for each in range(7) if (found := cache.get(("acme", f"s{each}"))) is not None]
        assert cache.checkpoints == sum(len(found.window) for found in kept)
        assert len(cache) == len(kept) <= limit
        assert len(kept) <= 1 or cache.checkpoints <= checkpoints
