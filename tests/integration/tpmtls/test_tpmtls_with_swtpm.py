"""Attaching, finding and signing with a software TPM, set up through another program's library."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from tpm2_pytss import (
    ESAPI,
    TPM2_ALG,
    TPM2_CAP,
    TPM2_RH,
    TPM2_ST,
    TPM2B_DIGEST,
    TPMS_SCHEME_HASH,
    TPMT_SIG_SCHEME,
    TPMT_TK_HASHCHECK,
    TPMU_SIG_SCHEME,
    TCTILdr,
)
from tpm2_pytss.TCTI import PyTCTI

import tpmtls
from tests.support import tpm
from tests.support.tls import Authority
from tpmtls import commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.support.swtpm import Swtpm

HANDLE = 0x81000004
KINDS = {
    "ecc256:ecdsa-sha256": ("sha256",),
    "ecc384:ecdsa-sha384": ("sha384",),
    "ecc521:ecdsa-sha512": ("sha512",),
    "ecc256": ("sha256", "sha384", "sha512"),
    "ecc384": ("sha384", "sha256", "sha512"),
    "rsa2048:rsapss-sha256": ("sha256",),
    "rsa2048": ("sha256", "sha384", "sha512"),
}


@pytest.mark.parametrize("algorithm", KINDS)
def test_signatures_verify_in_software_for_every_curve_and_digest(
    swtpm: Swtpm, algorithm: str
) -> None:
    tpm.put_key(swtpm.tcti, HANDLE, algorithm=algorithm)
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
        assert key.hash_names == KINDS[algorithm]
        for name in key.hash_names:
            digest = hashlib.new(name, os.urandom(100)).digest()
            assert key.verify(key.sign(digest), digest)
        request = key.certificate_request("CN=store,O=Example", ["store.example"])
    assert request.is_signature_valid


def test_name_is_the_one_that_another_library_reads(swtpm: Swtpm) -> None:
    name = tpm.put_key(swtpm.tcti, HANDLE)
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
        assert key.name.hex() == name
        assert key.handle == HANDLE


# Marshalling: the bytes that the TSS sends for the same commands.


class Recording(PyTCTI):
    """A TCTI that keeps what is sent through it."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        self.sent: list[bytes] = []

    def do_transmit(self, command: bytes) -> None:
        self.sent.append(bytes(command))
        self.inner.transmit(command)

    def do_receive(self, timeout: int) -> bytes:  # noqa: ARG002  # as the TSS calls it
        return bytes(self.inner.receive())


def test_commands_are_the_bytes_that_the_tss_sends(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE, auth=b"secret")
    digest = hashlib.sha256(b"transcript").digest()
    with TCTILdr(*swtpm.tcti.split(":")) as inner:
        recording = Recording(inner)
        with ESAPI(recording) as esys:
            key = esys.tr_from_tpmpublic(HANDLE)
            esys.tr_set_auth(key, b"secret")
            recording.sent.clear()
            esys.read_public(key)
            scheme = TPMT_SIG_SCHEME(
                scheme=TPM2_ALG.ECDSA,
                details=TPMU_SIG_SCHEME(any=TPMS_SCHEME_HASH(hashAlg=TPM2_ALG.SHA256)),
            )
            ticket = TPMT_TK_HASHCHECK(tag=TPM2_ST.HASHCHECK, hierarchy=TPM2_RH.NULL)
            esys.sign(key, TPM2B_DIGEST(digest), scheme, ticket)
            esys.get_capability(TPM2_CAP.HANDLES, 0x81000000, 64)
            loaded = tpm.make_key(esys)
            esys.flush_context(loaded)
            theirs = recording.sent
    flushed = int.from_bytes(theirs[-1][10:14])
    with tpmtls.open(HANDLE, tcti=swtpm.tcti, auth=b"secret") as opened:
        ours = [
            commands.marshal("TPM2_ReadPublic", (HANDLE,)),
            opened.sign_command(digest),
            commands.marshal(
                "TPM2_GetCapability",
                parameters=b"".join(n.to_bytes(4) for n in (1, 0x81000000, 64)),
            ),
            commands.marshal("TPM2_FlushContext", parameters=flushed.to_bytes(4)),
        ]
    assert [theirs[0], theirs[1], theirs[2], theirs[-1]] == ours


def test_openers_connection_can_be_shared_and_is_left_open(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE)
    with TCTILdr(*swtpm.tcti.split(":")) as connection:
        with tpmtls.share(connection) as transport:
            assert tpmtls.persistent_handles(transport) == [HANDLE]
            digest = os.urandom(32)
            with tpmtls.attach(transport, HANDLE) as key:
                assert key.verify(key.sign(digest), digest)
        with ESAPI(connection) as esys:  # still its owner's
            assert {handle for handle, _ in tpm.handles(esys).persistent} == {HANDLE}


# Finding.


def test_key_is_found_by_public_half_and_by_certificate(swtpm: Swtpm) -> None:
    for index in range(3):
        tpm.put_key(swtpm.tcti, 0x81000010 + index, seed=bytes([index]))
    with tpmtls.open(0x81000011, tcti=swtpm.tcti) as key:
        public_key = key.public_key
    with tpmtls.connect(swtpm.tcti) as transport:
        assert tpmtls.persistent_handles(transport) == [0x81000010, 0x81000011, 0x81000012]
        assert tpmtls.find_handle(transport, public_key) == 0x81000011
        certificate = Authority().issue(public_key)
        assert tpmtls.find_for_certificate(transport, certificate) == 0x81000011
        with tpmtls.attach_for_certificate(transport, certificate) as key:
            assert key.handle == 0x81000011
        transport.exchange(commands.marshal("TPM2_ReadPublic", (0x81000011,)))  # left open
    with tpmtls.open_for_certificate(certificate, tcti=swtpm.tcti) as key:
        assert key.handle == 0x81000011


def test_fresh_tpm_lists_nothing_and_finds_nothing(swtpm: Swtpm) -> None:
    certificate = Authority().certificate
    with tpmtls.connect(swtpm.tcti) as transport:
        assert tpmtls.persistent_handles(transport) == []
        with pytest.raises(tpmtls.NotFound, match="no key at all"):
            tpmtls.find_for_certificate(transport, certificate)


def test_objects_that_are_no_keys_are_passed_over(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, 0x81000001, algorithm=tpm.STORAGE, attributes=tpm.STORAGE_KEY)
    with tpm.esapi(swtpm.tcti) as esys:
        from tpm2_pytss import ESYS_TR, TPM2B_PUBLIC, TPM2B_SENSITIVE_CREATE, TPMT_PUBLIC

        area = TPMT_PUBLIC.parse("hmac:sha256", "sign|userwithauth|sensitivedataorigin")
        secret, *_ = esys.create_primary(
            TPM2B_SENSITIVE_CREATE(), TPM2B_PUBLIC(publicArea=area), ESYS_TR.OWNER
        )
        tpm.persist(esys, secret, 0x81000002)
    tpm.put_key(swtpm.tcti, 0x81000003)
    with tpmtls.open(0x81000003, tcti=swtpm.tcti) as key:
        certificate = Authority().issue(key.public_key)
    with tpmtls.connect(swtpm.tcti) as transport:
        assert 0x81000002 not in tpmtls.persistent_handles(transport)
        assert tpmtls.find_for_certificate(transport, certificate) == 0x81000003
        with pytest.raises(tpmtls.NotASigningKey):
            tpmtls.attach(transport, 0x81000001)
        with pytest.raises(tpmtls.NotASigningKey):
            tpmtls.attach(transport, 0x81000002)


def test_no_key_matches_after_the_machine_was_provisioned_anew(swtpm: Swtpm) -> None:
    """The third way it breaks: the certificate is over the key that was there before."""
    tpm.put_key(swtpm.tcti, HANDLE, seed=b"before")
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
        stale = Authority().issue(key.public_key)
    tpm.evict(swtpm.tcti, HANDLE)
    tpm.put_key(swtpm.tcti, HANDLE, seed=b"after")
    with pytest.raises(tpmtls.NotFound, match=r"looked at 0x81000004 sha256:\w+\); provision"):
        tpmtls.open_for_certificate(stale, tcti=swtpm.tcti)
    with tpmtls.connect(swtpm.tcti) as transport:  # what the message sends one to
        assert tpmtls.persistent_handles(transport) == [HANDLE]


# Refusals.


def test_empty_handle_is_not_found(swtpm: Swtpm) -> None:
    for handle in (0x81000009, 0x80000000):
        with pytest.raises(tpmtls.NotFound, match=f"{handle:#010x}"):
            tpmtls.open(handle, tcti=swtpm.tcti)


def test_restricted_key_is_refused_because_the_tpm_would_want_a_ticket(swtpm: Swtpm) -> None:
    """The second way it breaks, and what it would look like in a handshake."""
    tpm.put_key(swtpm.tcti, HANDLE, attributes=tpm.RESTRICTED_KEY)
    with pytest.raises(tpmtls.RestrictedKey, match="TPM_RC_TICKET"):
        tpmtls.open(HANDLE, tcti=swtpm.tcti)
    tpm.put_key(swtpm.tcti, 0x81000005)
    with tpmtls.open(0x81000005, tcti=swtpm.tcti) as free:
        command = bytearray(free.sign_command(bytes(32)))
        command[10:14] = HANDLE.to_bytes(4)
        with pytest.raises(tpmtls.TpmError) as raised:
            free.parse_signature(free.transport.exchange(bytes(command)))
    assert commands.base_code(raised.value.code) == 0xA0  # TPM_RC_TICKET
    assert "ticket" in str(raised.value)


@pytest.mark.parametrize(
    ("algorithm", "attributes", "error"),
    [
        (tpm.P256_SHA384, tpm.TLS_KEY, tpmtls.WrongScheme),
        ("ecc384:ecdsa-sha256", tpm.TLS_KEY, tpmtls.WrongScheme),
        (tpm.RSA, tpm.TLS_KEY, tpmtls.WrongScheme),
        (tpm.P256, tpm.POLICY_KEY, tpmtls.AuthRequired),
    ],
)
def test_unfit_keys_are_refused(
    swtpm: Swtpm, algorithm: str, attributes: str, error: type[Exception]
) -> None:
    tpm.put_key(swtpm.tcti, HANDLE, algorithm=algorithm, attributes=attributes)
    with pytest.raises(error, match="0x81000004"):
        tpmtls.open(HANDLE, tcti=swtpm.tcti)


def test_exportable_key_attaches_and_says_so(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE, attributes=tpm.EXPORTABLE_KEY)
    tpm.put_key(swtpm.tcti, HANDLE + 1)
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
        assert not key.non_exportable()
        assert key.generated_in_tpm()
    with tpmtls.open(HANDLE + 1, tcti=swtpm.tcti) as key:
        assert key.non_exportable()


# Auth values.


@pytest.mark.parametrize("attributes", [tpm.TLS_KEY, tpm.LOCKABLE_KEY])
def test_auth_value_opens_the_key_and_without_it_nothing_is_guessed(
    swtpm: Swtpm, attributes: str
) -> None:
    tpm.put_key(swtpm.tcti, HANDLE, attributes=attributes, auth=b"correct horse")
    for auth in (b"correct horse", lambda: b"correct horse"):
        with tpmtls.open(HANDLE, tcti=swtpm.tcti, auth=auth) as key:
            digest = os.urandom(32)
            assert key.verify(key.sign(digest), digest)
    if attributes == tpm.TLS_KEY:
        with pytest.raises(tpmtls.AuthRequired):
            tpmtls.open(HANDLE, tcti=swtpm.tcti)
    else:
        with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
            assert key.digest_size == 32
    assert tpm.lockout_counter(swtpm.tcti) == 0


def test_lockout_is_told_without_a_try(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE, attributes=tpm.LOCKABLE_KEY)
    tpm.put_key(swtpm.tcti, HANDLE + 1)
    tpm.lock_out(swtpm.tcti)
    with pytest.raises(tpmtls.LockedOut, match="dictionary-attack lockout"):
        tpmtls.open(HANDLE, tcti=swtpm.tcti)
    with tpmtls.open(HANDLE + 1, tcti=swtpm.tcti) as key:  # noDA: not concerned
        assert key.sign(bytes(32))
    assert tpm.lockout_counter(swtpm.tcti) == 1


# Transports and closing.


def test_transient_key_works_on_its_own_transport_and_is_flushed(swtpm: Swtpm) -> None:
    with TCTILdr(*swtpm.tcti.split(":")) as connection, ESAPI(connection) as esys:
        tpm.make_key(esys)
        ((handle, _),) = tpm.handles(esys).transient
        with tpmtls.share(connection) as transport, tpmtls.attach(transport, handle) as key:
            digest = os.urandom(32)
            assert key.verify(key.sign(digest), digest)
        assert not tpm.handles(esys).transient


def test_closing_leaves_the_key_to_others(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE)
    before = swtpm.handles()
    with tpmtls.connect(swtpm.tcti) as transport:
        one, other = (tpmtls.attach(transport, HANDLE) for _ in range(2))
        one.close()
        one.close()
        with pytest.raises(tpmtls.KeyClosed, match="open it again"):
            one.sign(bytes(32))
        assert other.sign(bytes(32))
    own = tpmtls.open(HANDLE, tcti=swtpm.tcti)
    own.close()
    with pytest.raises(tpmtls.TransportError, match="closed"):
        own.transport.exchange(b"")
    assert swtpm.handles() == before


def test_eight_signers_at_once(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE)
    failures: list[BaseException] = []
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:

        def work() -> None:
            try:
                for _ in range(25):
                    digest = os.urandom(32)
                    assert key.verify(key.sign(digest), digest)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert key.transport.waits > 0
        assert key.transport.waited > 0


def test_frozen_tpm_meets_the_deadline_and_signs_again_when_it_thaws(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE)
    with tpmtls.open(HANDLE, tcti=swtpm.tcti, deadline=0.3) as key:
        with swtpm.frozen():
            started = time.monotonic()
            with pytest.raises(TimeoutError, match=r"did not answer TPM2_Sign within 0\.3 s"):
                key.sign(bytes(32))
            assert 0.25 < time.monotonic() - started < 2
        digest = os.urandom(32)
        assert key.verify(key.sign(digest), digest)  # not the late answer to the first


def test_tpm_that_went_away_is_told(swtpm: Swtpm) -> None:
    tpm.put_key(swtpm.tcti, HANDLE)
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
        swtpm.stop()
        with pytest.raises(tpmtls.TransportError, match="check that the TPM still runs"):
            key.sign(bytes(32))


def test_unix_socket_and_its_permissions(make_swtpm: Callable[..., Swtpm], tmp_path: Any) -> None:
    path = tmp_path / "tpm.sock"
    swtpm = make_swtpm(socket_path=path)
    with tpmtls.connect(f"swtpm:path={path}") as transport:
        assert tpmtls.persistent_handles(transport) == []
    assert swtpm.pid


def test_certificates_signed_by_a_tpm_verify_elsewhere(swtpm: Swtpm) -> None:
    import datetime as dt

    tpm.put_key(swtpm.tcti, HANDLE, algorithm="ecc384:ecdsa-sha384")
    leaf = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "CA in a TPM")])
    now = dt.datetime.now(dt.UTC)
    with tpmtls.open(HANDLE, tcti=swtpm.tcti) as key:
        certificate = (
            x509.CertificateBuilder(name, name, leaf.public_key(), 7, now, now + dt.timedelta(1))
            .sign(key.private_key, key.hash)
        )  # fmt: skip
        digest = hashlib.sha384(certificate.tbs_certificate_bytes).digest()
        key.public_key.verify(certificate.signature, digest, ec.ECDSA(Prehashed(hashes.SHA384())))
