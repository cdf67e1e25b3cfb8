"""The receipt alone: it settles once, wakes everybody, and keeps nothing of who went away."""

from __future__ import annotations

import asyncio
import threading
from uuid import uuid4

import pytest

from milepost.producer import Receipt
from milepost.schemas import DeliveryFailed, Position
from tests.producer.helpers import wait_until

HERE = Position("t", 1, 2)


def test_result_wakes_every_thread_that_waits() -> None:
    receipt = Receipt(uuid4(), "c")
    found: list[Position] = []
    threads = [threading.Thread(target=lambda: found.append(receipt.result(15))) for _ in range(20)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(receipt._waiters or ()) == 20)
    receipt.settle(HERE)
    for thread in threads:
        thread.join(15)
    assert found == [HERE] * 20
    assert receipt._waiters == []


def test_settling_races_with_waiting_and_nobody_sleeps_on() -> None:
    for _ in range(300):
        receipt = Receipt(uuid4(), None)
        thread = threading.Thread(target=receipt.settle, args=[HERE])
        thread.start()
        assert receipt.result(15) == HERE
        thread.join(15)


def test_a_failure_is_raised_to_each_as_an_error_of_its_own() -> None:
    receipt = Receipt(uuid4(), None)
    receipt.settle(DeliveryFailed(receipt.event_id, "_MSG_TIMED_OUT", "x"))
    errors = []
    for _ in range(2):
        with pytest.raises(DeliveryFailed) as caught:
            receipt.result()
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert errors[0].reason == errors[1].reason == "_MSG_TIMED_OUT"


def test_an_awaiter_that_gives_up_leaves_nothing_behind() -> None:
    receipt = Receipt(uuid4(), None)

    async def give_up() -> None:
        for _ in range(5):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(_wait(receipt), 0.01)

    asyncio.run(give_up())
    assert receipt._waiters == []


def test_a_loop_that_was_closed_meanwhile_does_not_disturb() -> None:
    receipt = Receipt(uuid4(), None)
    loop = asyncio.new_event_loop()
    step = receipt.__await__()

    async def begin() -> None:
        next(step)

    loop.run_until_complete(begin())
    loop.close()
    receipt.settle(HERE)
    assert receipt.result(0) == HERE
    step.close()


def test_a_wait_does_not_block_the_loop() -> None:
    receipt = Receipt(uuid4(), None)

    async def both() -> Position:
        waiting = asyncio.ensure_future(_wait(receipt))
        await asyncio.sleep(0)
        threading.Thread(target=receipt.settle, args=[HERE]).start()
        return await asyncio.wait_for(waiting, 15)

    assert asyncio.run(both()) == HERE


async def _wait(receipt: Receipt) -> Position:
    return await receipt
