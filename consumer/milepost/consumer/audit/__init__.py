"""Is the view still what was written: verified against itself, against the log, against seals."""

from milepost.consumer.audit.findings import Deviation
from milepost.consumer.audit.seal import Seal, read_seal, seal_view
from milepost.consumer.audit.sealed import NamedSeal, SealResult
from milepost.consumer.audit.verify import VerifyReport, VerifyRequest, verify

__all__ = [
    "Deviation",
    "NamedSeal",
    "Seal",
    "SealResult",
    "VerifyReport",
    "VerifyRequest",
    "read_seal",
    "seal_view",
    "verify",
]
