"""A double of Azure Resource Manager on loopback, over TLS.

It takes only requests that Microsoft's own client code describes, and of those only what a table of
rules of its own allows; it shares no code with the modules that it stands against.
"""

from __future__ import annotations

from tests.support.azure_double.faults import Fault
from tests.support.azure_double.server import AzureDouble
from tests.support.azure_double.store import Vm

__all__ = ["AzureDouble", "Fault", "Vm"]
