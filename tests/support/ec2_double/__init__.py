"""A double of Amazon's EC2 and EventBridge Scheduler APIs on loopback, over TLS.

It takes only requests that botocore's own models of the services allow, and of those only what a
table of rules of its own allows; it shares no code with the modules that it stands against.
"""

from __future__ import annotations

from tests.support.ec2_double.faults import Fault
from tests.support.ec2_double.server import Ec2Double
from tests.support.ec2_double.store import Vm

__all__ = ["Ec2Double", "Fault", "Vm"]
