"""What can go wrong, each with the remedy in its message."""

import ssl


class TpmTlsError(Exception):
    """Base of everything that tpmtls raises on purpose."""


class TransportError(TpmTlsError):
    """The way to the TPM could not be opened, or broke."""


class DeviceMissing(TransportError):
    """There is no such device, or nobody listens at that address."""


class DevicePermission(TransportError):
    """This user may not open the device."""


class DeviceBusy(TransportError):
    """Another program holds the device."""


class DeadlineExceeded(TransportError, TimeoutError):
    """The lock on the transport, or the TPM's answer, did not come in time."""


class TpmError(TpmTlsError):
    """The TPM answered a command with an error.

    Attributes:
        code: the response code (TPM 2.0 part 2, 6.6), as received.
        command: name of the command, such as ``TPM2_Sign``.
    """

    def __init__(self, code: int, command: str, text: str) -> None:
        super().__init__(f"{command} failed: {text}")
        self.code = code
        self.command = command


class NotFound(TpmTlsError):
    """Nothing at the handle, or no persistent key matches the certificate."""


class UnusableKey(TpmTlsError):
    """The key is there but cannot sign TLS handshakes."""


class RestrictedKey(UnusableKey):
    """The key signs only what the TPM itself hashed, such as an attestation key."""


class NotASigningKey(UnusableKey):
    """The object is not an asymmetric signing key."""


class WrongScheme(UnusableKey):
    """Its scheme, hash or curve does not fit what TLS asks of it."""


class AuthRequired(UnusableKey):
    """The key has an auth value or a policy."""


class LockedOut(UnusableKey):
    """The TPM is in dictionary-attack lockout and the key is subject to it."""


class CertificateMismatch(TpmTlsError):
    """The certificate is over another key."""


class BridgeUnavailable(TpmTlsError):
    """This Python's ssl module cannot be given a key from outside."""


class KeyClosed(TpmTlsError):
    """The key was closed before."""


class IdentityRefused(TpmTlsError, ssl.SSLError):
    """The other side ended the connection on seeing our certificate or signature."""

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""


class SignatureFailed(TpmTlsError, ssl.SSLError):
    """The key could not sign a handshake; ``__cause__`` says why.

    It is an :class:`ssl.SSLError` too, so that code written for ordinary
    handshake failures handles it.
    """

    def __str__(self) -> str:
        return str(self.args[-1]) if self.args else ""
