"""W3C Trace Context, when the application uses OpenTelemetry: looked for, never imported."""

from __future__ import annotations

import sys


def trace_headers() -> list[tuple[str, str | bytes | None]]:
    """`traceparent`, and `tracestate` if there is one, of the active span; nothing when there is none."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return []
    try:
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return []
        headers: list[tuple[str, str | bytes | None]] = [
            ("traceparent", f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}")
        ]
        if state := context.trace_state.to_header():
            headers.append(("tracestate", state))
    except Exception:  # noqa: BLE001
        return []  # a tracer must not keep an event from being published
    return headers
