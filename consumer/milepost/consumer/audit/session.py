"""One session: its history is a chain, its live checkpoints are those of its history, its head says what both say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from milepost.consumer.audit.agreement import check_live_set, compare_head, compare_live
from milepost.consumer.audit.findings import ABSENT, PRESENT, Findings
from milepost.consumer.audit.live import LiveSet
from milepost.consumer.audit.outcomes import Outcomes
from milepost.consumer.audit.rows import Entry, HeadRow, LiveRow
from milepost.consumer.audit.view import PolicyActs
from milepost.consumer.chain import extend
from milepost.consumer.heads import Head
from milepost.consumer.integrity import Finding, Keyring, Signature, check_head, check_row
from milepost.consumer.retention import Policies
from milepost.consumer.rules import may_repeat_checkpoint, may_repeat_event
from milepost.schemas import Kind

_APPLIED: Final = "applied"


class Rules(msgspec.Struct):
    """What every session is checked by."""

    findings: Findings
    outcomes: Outcomes
    topic: str
    since: Mapping[int, int]
    """By partition: rows below are not verified, only looked at."""
    policies: Policies
    acts: PolicyActs
    measured: frozenset[int]
    """Partitions whose sessions were all measured by the policies as they are."""
    keys: Keyring | None

    def take(self, finding: Finding | None) -> None:
        """Take in what a check of MACs found."""
        if finding is not None:
            table = finding.table.removeprefix("milepost.")
            self.findings.add(table, finding.key, finding.field, finding.expected, finding.found)


class SessionCheck:
    """Feed it the session's rows of history in order, each with its live row; then `finish`."""

    def __init__(self, rules: Rules, tenant_id: str, session_id: str, head: HeadRow | None) -> None:
        self._rules = rules
        self._findings = rules.findings
        self._head = head
        self._now = Head(tenant_id, session_id, -1)
        """The head as history makes it."""
        self._key = {"tenant_id": tenant_id, "session_id": session_id}
        self._is_whole = True
        self._offset = -1
        self._set: LiveSet | None = None

    def add(self, entry: Entry, live: LiveRow | None) -> None:
        """Take the next row."""
        now, event = self._now, entry.event
        if self._set is None:
            self._set = self._begin(entry)
        if is_verified := entry.offset >= self._rules.since.get(entry.partition, 0):
            self._check(entry, now)
        else:
            self._is_whole = self._set.is_whole = False
        now.last_seq, now.chain, now.last_event_time = entry.seq, entry.chain or b"", event.event_time
        if event.event_id > now.max_event_id:
            now.max_event_id = event.event_id
        self._offset = entry.offset
        if live is not None:
            self.add_live(live)
            compare_live(self._findings, entry, live.facts)
        if entry.outcome == _APPLIED:
            self._apply(entry, self._set, is_live=live is not None, is_verified=is_verified)
        elif live is not None:
            self._findings.add("checkpoints", live.facts.key, None, ABSENT, f"{PRESENT}: its event is {entry.outcome}")

    def add_live(self, live: LiveRow) -> None:
        """A live row, whatever history says of it."""
        facts, findings = live.facts, self._findings
        self._now.live_checkpoints += 1
        self._now.live_bytes += facts.size
        if live.state_sha256 != facts.sha256:
            findings.add("checkpoints", facts.key, "state", f"the SHA-256 {facts.sha256.hex()}", live.state_sha256)
        if live.state_size != facts.size:
            findings.add("checkpoints", facts.key, "size", f"{live.state_size}, the bytes of the state", facts.size)
        if self._rules.keys is not None:
            self._rules.take(check_row(self._rules.keys, facts, Signature(live.mac, live.mac_key)))

    def finish(self) -> None:
        """Compare the head with what history and the live rows say."""
        head, live = self._head, self._set
        if head is None:
            self._findings.add("sessions", self._key, None, PRESENT, ABSENT)
        elif live is not None:
            if self._rules.keys is not None:
                self._rules.take(check_head(self._rules.keys, head.facts, Signature(head.mac, head.mac_key)))
            check_live_set(self._findings, head.facts, live, self._now.live_checkpoints)
            compare_head(self._findings, head.facts, self._now, is_whole=self._is_whole)

    def _begin(self, entry: Entry) -> LiveSet:
        self._now.partition = entry.partition
        if entry.seq == 1:
            self._now.first_event_time = entry.event.event_time
        elif self._head is not None:
            self._now.first_event_time = self._head.facts.first_event_time  # the missing row is what is named
        session = self._now.tenant_id, self._now.session_id
        policy, scope = self._rules.policies.found(*session)
        return LiveSet(
            policy,
            self._rules.acts.last(*session, scope),
            self._head.facts.pruned_seq if self._head is not None else None,
            is_measured=entry.partition in self._rules.measured,
        )

    def _check(self, entry: Entry, now: Head) -> None:
        """The row where it stands; its chain from the row before, as that is there, so that an edit is one deviation or two."""
        event = entry.event
        if entry.topic != self._rules.topic or entry.partition != now.partition or entry.offset <= self._offset:
            self._say_place(entry)
        if entry.seq != now.last_seq + 1:
            last = str(now.last_seq + 1)
            gap = {**self._key, "seq": last if entry.seq == now.last_seq + 2 else f"{last} to {entry.seq - 1}"}
            self._findings.add("history", gap, None, PRESENT, ABSENT)
        elif (chain := extend(now.chain, event, entry.seq, entry.outcome)) != entry.chain:
            self._findings.add("history", entry.key, "chain", chain, entry.chain)
        ask_event, ask_checkpoint = may_repeat_event(now, event), may_repeat_checkpoint(now, event)
        if not self._is_whole:  # nobody knows the greatest ids before
            ask_event, ask_checkpoint = True, event.checkpoint_id is not None
        if ask_event or ask_checkpoint:
            self._rules.outcomes.add(entry, now, ask_event=ask_event, ask_checkpoint=ask_checkpoint)
        else:
            self._rules.outcomes.judge(entry, now)

    def _say_place(self, entry: Entry) -> None:
        findings = self._findings
        findings.compare("history", entry.key, "topic", self._rules.topic, entry.topic)
        if entry.partition != self._now.partition:
            expected = f"{self._now.partition}, as for the session's other events"
            findings.add("history", entry.key, "partition", expected, entry.partition)
        elif entry.offset <= self._offset:
            findings.add("history", entry.key, "offset", f"more than {self._offset}, as seq grows", entry.offset)

    def _apply(self, entry: Entry, live: LiveSet, *, is_live: bool, is_verified: bool) -> None:
        now, event = self._now, entry.event
        if event.kind is Kind.SESSION_DELETED:
            if live.newest_live is not None:
                key = {**self._key, "seq": f"up to {live.newest_live}"}
                self._findings.add("checkpoints", key, None, f"{ABSENT}: deleted by seq {entry.seq}", PRESENT)
            now.deleted_at, now.deleted_seq = event.event_time, entry.seq
            now.newest_seq = now.newest_checkpoint_id = None
            live.clear()
        elif is_live or is_verified:
            if (checkpoint_id := event.checkpoint_id or "") > now.max_checkpoint_id:
                now.max_checkpoint_id = checkpoint_id
            now.newest_seq, now.newest_checkpoint_id = entry.seq, event.checkpoint_id
            is_missing = live.add(entry, is_live=is_live)
            # the head says already up to where a later deletion took all; whether it says so rightly is compared at the end
            if is_missing and self._head is not None and entry.seq > (self._head.facts.deleted_seq or 0):
                self._findings.add("checkpoints", entry.key, None, PRESENT, ABSENT)
