"""Collects every piece of evidence, in a fixed order, and changes nothing on the host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tpmbench.platform import cloud, kernel, processor
from tpmbench.platform import cpuid as _cpuid
from tpmbench.platform import tpm as tpm_evidence
from tpmbench.platform.host import Host, Run, run_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpmbench.platform.cpuid import Registers
    from tpmbench.platform.model import Evidence, TpmStrings

READERS = (*kernel.READERS, *processor.READERS, *cloud.READERS)


def collect(
    tpm: TpmStrings | None,
    *,
    root: Path = Path("/"),
    run: Run = run_command,
    cpuid: Callable[[int], Registers | None] = _cpuid.read,
    metadata: Literal["auto", "never"] = "auto",
    metadata_address: tuple[str, int] = cloud.ADDRESS,
) -> list[Evidence]:
    """Reads every source on this machine, also those that cannot be read, and keeps each apart.

    Args:
        tpm: What the opened TPM says of itself; None where none could be opened.
        root: Directory that stands for ``/``.
        run: How commands are run.
        cpuid: How CPUID is executed; takes the leaf.
        metadata: auto: the cloud's metadata service is asked where DMI names the cloud.
            never: nothing is sent.
        metadata_address: Host and port of the metadata service.

    Returns:
        One piece of evidence for each source, in the same order on every machine.
    """
    host = Host(root=root, run=run, cpuid=cpuid)
    return [
        *(reader.observe(host) for reader in READERS),
        *cloud.observe_metadata(host, ask=metadata == "auto", address=metadata_address),
        *tpm_evidence.observe(host, tpm),
    ]
