"""A double of Google's Compute API on loopback, over TLS.

It takes only requests that Google's own discovery document allows, and of those only what a table
of rules of its own allows; it shares no code with the modules that it stands against.
"""

from __future__ import annotations

from tests.support.compute_double.faults import Fault
from tests.support.compute_double.server import ComputeDouble
from tests.support.compute_double.store import Vm

__all__ = ["ComputeDouble", "Fault", "Vm"]
