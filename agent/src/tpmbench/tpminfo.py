"""What the TPM says of itself, and whether it can be used as asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpmbench.outcome import BenchError
from tpmtls import commands
from tpmtls.errors import TpmError
from tpmtls.public import CURVES
from tpmtls.transport import resource_manager

if TYPE_CHECKING:
    from tpmtls.transport import Transport

# TPM_PT (part 2, 6.13)
_FAMILY, _REVISION, _DAY, _YEAR, _MANUFACTURER = 0x100, 0x102, 0x103, 0x104, 0x105
_VENDOR_STRINGS = (0x106, 0x107, 0x108, 0x109)
_FIRMWARE = (0x10B, 0x10C)
_FIXED_FIRST, _FIXED_COUNT = 0x100, 48
_PERMANENT = 0x200
_PERSISTENT_AVAIL = 0x209
_VARIABLE_COUNT = 20

_OWNER_AUTH_SET = 1 << 0  # TPMA_PERMANENT (part 2, 8.6)
_IN_LOCKOUT = 1 << 9

_RC_INITIALIZE = 0x100
_RC_FAILURE = 0x101


@dataclass(frozen=True)
class TpmInfo:
    """A TPM's description of itself.

    Attributes:
        manufacturer: TPM_PT_MANUFACTURER as text.
        vendor_string: TPM_PT_VENDOR_STRING_1 to 4 as text.
        firmware_version: four dotted numbers.
        spec_version: family, revision and date of the specification it follows.
        curves: short names of its curves where TLS knows them, else the number.
        owner_auth_set: the owner hierarchy has an auth value.
        in_lockout: dictionary-attack lockout is in force.
        persistent_available: further persistent objects that surely fit.
    """

    manufacturer: str
    vendor_string: str
    firmware_version: str
    spec_version: str
    curves: tuple[str, ...]
    owner_auth_set: bool
    in_lockout: bool
    persistent_available: int

    def document(self, tcti: str, *, simulated: bool) -> dict[str, Any]:
        """Return the ``tpm`` part of a result document."""
        return {
            "tcti": tcti,
            "resource_manager": resource_manager(tcti),
            "manufacturer": self.manufacturer,
            "vendor_string": self.vendor_string,
            "firmware_version": self.firmware_version,
            "spec_version": self.spec_version,
            "curves": list(self.curves),
            "simulated_device": simulated,
        }


def read(transport: Transport) -> TpmInfo:
    """Ask a TPM what it is.

    Raises:
        BenchError: it is not started, or in failure mode.
        TpmTlsError: it cannot be asked.
    """
    try:
        fixed = commands.properties(transport, _FIXED_FIRST, _FIXED_COUNT)
        variable = commands.properties(transport, _PERMANENT, _VARIABLE_COUNT)
        curves = commands.curves(transport)
    except TpmError as error:
        if error.code == _RC_INITIALIZE:
            raise BenchError(
                f"the TPM at {transport.tcti} was not started; send it TPM2_Startup (swtpm: "
                "--flags startup-clear)"
            ) from error
        if error.code == _RC_FAILURE:
            raise BenchError(
                f"the TPM at {transport.tcti} is in failure mode; restart the machine"
            ) from error
        raise
    names = {curve.tpm_id: curve.name for curve in CURVES}
    permanent = variable.get(_PERMANENT, 0)
    firmware = [half for part in _FIRMWARE for half in divmod(fixed.get(part, 0), 1 << 16)]
    return TpmInfo(
        manufacturer=_text(fixed, _MANUFACTURER),
        vendor_string=_text(fixed, *_VENDOR_STRINGS),
        firmware_version=".".join(str(number) for number in firmware),
        spec_version=(
            f"{_text(fixed, _FAMILY)} revision {fixed.get(_REVISION, 0) / 100:.2f}, "
            f"{fixed.get(_YEAR, 0)} day {fixed.get(_DAY, 0)}"
        ),
        curves=tuple(names.get(number, f"{number:#06x}") for number in curves),
        owner_auth_set=bool(permanent & _OWNER_AUTH_SET),
        in_lockout=bool(permanent & _IN_LOCKOUT),
        persistent_available=variable.get(_PERSISTENT_AVAIL, 0),
    )


def check_usable(info: TpmInfo, *, owner_auth_given: bool, persistent: bool = True) -> None:
    """Check that a key can be made and kept.

    Args:
        info: the TPM.
        owner_auth_given: whether the owner's auth value is at hand.
        persistent: whether a key is to be made persistent.

    Raises:
        BenchError: it cannot, and why.
    """
    if info.owner_auth_set and not owner_auth_given:
        raise BenchError(
            "the TPM's owner hierarchy has an auth value, which making a key takes; name the file "
            "that holds it with --owner-auth-file"
        )
    if persistent and info.persistent_available == 0:
        raise BenchError(
            "the TPM has no free slot for a persistent key; evict one that is no longer needed "
            "(tpm2_getcap handles-persistent lists them)"
        )


def _text(properties: dict[int, int], *numbers: int) -> str:
    raw = b"".join(properties.get(number, 0).to_bytes(4) for number in numbers)
    return raw.replace(b"\0", b"").decode("ascii", "replace").rstrip()
