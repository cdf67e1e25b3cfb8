"""W3C Trace Context: passed on when OpenTelemetry is there, and harmless when it misbehaves."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from milepost.producer.testing import MemoryPublisher
from tests.producer.helpers import created, header


def _install(monkeypatch: pytest.MonkeyPatch, context: object) -> None:
    module = ModuleType("opentelemetry.trace")
    module.get_current_span = lambda: SimpleNamespace(get_span_context=lambda: context)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", module)


def _context(*, valid: bool = True, state: str = "") -> object:
    trace_state = SimpleNamespace(to_header=lambda: state)
    return SimpleNamespace(
        is_valid=valid,
        trace_id=0x0AF7651916CD43DD8448EB211C80319C,
        span_id=0xB7AD6B7169203331,
        trace_flags=1,
        trace_state=trace_state,
    )


@pytest.mark.parametrize("state", ["", "vendor=1"])
def test_an_active_span_is_passed_on(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    _install(monkeypatch, _context(state=state))
    publisher = MemoryPublisher()
    publisher.publish(created())
    (record,) = publisher.records
    assert header(record, "traceparent") == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert header(record, "tracestate") == (state or None)


@pytest.mark.parametrize("context", [_context(valid=False), None, object()])
def test_no_span_or_a_broken_tracer_gives_no_header(monkeypatch: pytest.MonkeyPatch, context: object) -> None:
    _install(monkeypatch, context)
    publisher = MemoryPublisher()
    publisher.publish(created())
    assert header(publisher.records[0], "traceparent") is None
