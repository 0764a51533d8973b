"""Attaching to keys and signing with them, against a TPM that answers as it is told."""

from __future__ import annotations

import hashlib
import logging
import os
import traceback
from typing import TYPE_CHECKING

import pytest

import tpmtls
from tests.support.fake_tpm import FakeObject, FakeTpm
from tests.support.tls import Authority
from tests.support.tpm import LOCKABLE_KEY, POLICY_KEY, RESTRICTED_KEY, TLS_KEY

if TYPE_CHECKING:
    from typing import Any

HANDLE = 0x81000004
SIGN, FLUSH = 0x15D, 0x165


def over(tpm: FakeTpm) -> tpmtls.Transport:
    return tpmtls.Transport(tpm, "fake", 2.0)


def attach(item: FakeObject, **options: Any) -> tuple[tpmtls.Key, FakeTpm]:
    tpm = FakeTpm({HANDLE: item})
    return tpmtls.attach(over(tpm), HANDLE, **options), tpm


@pytest.mark.parametrize(
    ("algorithm", "hash_name"),
    [
        ("ecc256:ecdsa-sha256", "sha256"),
        ("ecc384:ecdsa-sha384", "sha384"),
        ("ecc521:ecdsa-sha512", "sha512"),
        ("rsa2048:rsapss-sha256", "sha256"),
        ("rsa2048:rsapss-sha384", "sha384"),
    ],
)
def test_key_with_a_scheme_signs_digests_of_its_hash_only(algorithm: str, hash_name: str) -> None:
    key, _ = attach(FakeObject(algorithm))
    assert key.hash_names == (hash_name,)
    digest = hashlib.new(hash_name, b"transcript").digest()
    assert key.digest_size == len(digest)
    assert key.verify(key.sign(digest), digest)
    for size in {20, 32, 48, 64} - {len(digest)}:
        with pytest.raises(ValueError, match=f"not of {size}"):
            key.sign(bytes(size))


@pytest.mark.parametrize("algorithm", ["ecc256", "ecc384", "rsa2048"])
def test_key_without_a_scheme_signs_any_digest_and_its_length_decides(algorithm: str) -> None:
    key, _ = attach(FakeObject(algorithm))
    assert set(key.hash_names) == {"sha256", "sha384", "sha512"}
    for name in key.hash_names:
        digest = hashlib.new(name, b"transcript").digest()
        assert key.verify(key.sign(digest), digest)


def test_hashes_that_the_tpm_lacks_are_not_offered() -> None:
    tpm = FakeTpm({HANDLE: FakeObject("ecc256")})
    tpm.algorithms.remove(0x0D)
    assert tpmtls.attach(over(tpm), HANDLE).hash_names == ("sha256", "sha384")


def test_signature_over_another_digest_is_not_accepted() -> None:
    key, _ = attach(FakeObject())
    signature = key.sign(bytes(32))
    assert not key.verify(signature, b"\x01" + bytes(31))
    assert not key.verify(signature, b"short")


def test_wrong_signatures_are_noticed_at_attach() -> None:
    tpm = FakeTpm({HANDLE: FakeObject()})
    tpm.broken = True
    with pytest.raises(tpmtls.UnusableKey, match="does not verify with its own public key"):
        tpmtls.attach(over(tpm), HANDLE)


# RSA: the first of the four ways it breaks (a salt that TLS 1.3 does not take).


@pytest.mark.parametrize("salt", [0, 20, 222])
def test_rsa_salt_that_tls_does_not_take_is_refused_at_attach_with_its_length(salt: int) -> None:
    tpm = FakeTpm({HANDLE: FakeObject("rsa2048:rsapss-sha256")})
    tpm.salt = salt
    with pytest.raises(tpmtls.WrongScheme, match=f"salt of {salt} bytes where TLS 1.3 demands 32"):
        tpmtls.attach(over(tpm), HANDLE)


def test_rsa_salt_is_probed_once_per_key() -> None:
    key, tpm = attach(FakeObject("rsa2048:rsapss-sha256"))
    assert tpm.commands.count(SIGN) == 1
    tpm.broken = True  # later signatures are not looked at: the peer does that
    key.sign(bytes(32))
    assert tpm.commands.count(SIGN) == 2


def test_rsa_with_the_old_padding_is_refused() -> None:
    with pytest.raises(tpmtls.WrongScheme, match=r"TLS 1\.3 asks for RSA-PSS"):
        attach(FakeObject("rsa2048:rsassa-sha256"))


@pytest.mark.parametrize(
    ("item", "error", "words"),
    [
        (FakeObject(attributes=RESTRICTED_KEY), tpmtls.RestrictedKey, "TPM_RC_TICKET"),
        (FakeObject(attributes="userwithauth|decrypt"), tpmtls.NotASigningKey, "not an asymmetric"),
        (FakeObject("ecc256:ecdsa-sha384"), tpmtls.WrongScheme, "signs p256 with hash 0x000c"),
        (FakeObject("ecc384:ecdsa-sha256"), tpmtls.WrongScheme, "signs p384 with hash 0x000b"),
        (FakeObject("ecc256:ecschnorr-sha256"), tpmtls.WrongScheme, "signing scheme 0x001c"),
        (FakeObject(attributes=POLICY_KEY), tpmtls.AuthRequired, "under a policy only"),
    ],
    ids=["restricted", "decrypting", "p256-sha384", "p384-sha256", "schnorr", "policy"],
)
def test_unfit_keys_are_refused_before_anything_is_signed(
    item: FakeObject, error: type[Exception], words: str
) -> None:
    tpm = FakeTpm({HANDLE: item})
    with pytest.raises(error, match=words) as raised:
        tpmtls.attach(over(tpm), HANDLE)
    assert SIGN not in tpm.commands
    assert f"{HANDLE:#010x}" in str(raised.value)


def test_other_curves_are_refused() -> None:
    item = FakeObject()
    item.area.parameters.eccDetail.curveID = 0x0020  # SM2
    with pytest.raises(tpmtls.WrongScheme, match=r"curve 0x0020.*use P-256"):
        attach(item)


def test_symmetric_objects_are_no_signing_keys() -> None:
    item = FakeObject()
    item.area.type = 0x0008  # TPM_ALG_KEYEDHASH
    item.area.parameters.keyedHashDetail.scheme.scheme = 0x0010
    item.area.unique.keyedHash = bytes(32)
    with pytest.raises(tpmtls.NotASigningKey):
        attach(item)


def test_empty_handle_is_not_found() -> None:
    with pytest.raises(tpmtls.NotFound, match="no object at handle 0x81000009"):
        tpmtls.attach(over(FakeTpm()), 0x81000009)


# Auth values: right, wrong, missing; never a guess, never shown.


@pytest.mark.parametrize("auth", [b"correct horse", lambda: b"correct horse"])
@pytest.mark.parametrize("attributes", [TLS_KEY, LOCKABLE_KEY])
def test_key_with_an_auth_value_signs(auth: Any, attributes: str) -> None:
    key, _ = attach(FakeObject(attributes=attributes, auth=b"correct horse"), auth=auth)
    digest = os.urandom(32)
    assert key.verify(key.sign(digest), digest)


def test_callable_is_asked_for_each_signature_and_not_kept() -> None:
    asked = []

    def auth() -> bytes:
        asked.append(len(asked))
        return b"once more"

    key, _ = attach(FakeObject(auth=b"once more"), auth=auth)
    key.sign(bytes(32))
    key.sign(bytes(32))
    assert len(asked) == 3  # the trial signature and two
    assert b"once more" not in b"".join(b"".join(frame) for frame in key._frames.values())


def test_missing_auth_value_is_told_at_attach() -> None:
    with pytest.raises(tpmtls.AuthRequired, match="has an auth value; give it as auth="):
        attach(FakeObject(auth=b"secret"))


def test_wrong_auth_value_is_told_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = bytes.fromhex("77723075672d6775337373")
    with pytest.raises(tpmtls.AuthRequired, match="another auth value than the one") as raised:
        attach(FakeObject(auth=b"secret"), auth=wrong)
    shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + caplog.text
    assert wrong.decode() not in shown
    assert wrong.hex() not in shown


def test_auth_value_is_in_no_representation() -> None:
    key, _ = attach(FakeObject(auth=b"s3cret-value"), auth=b"s3cret-value")
    assert "s3cret" not in repr(key) + str(key) + repr(key.private_key) + repr(key.transport)
    assert repr(key) == "<tpmtls.Key p256 at 0x81000004 on fake>"


def test_no_trial_where_a_wrong_value_would_count() -> None:
    key, tpm = attach(FakeObject(attributes=LOCKABLE_KEY))
    assert SIGN not in tpm.commands
    digest = os.urandom(32)
    assert key.verify(key.sign(digest), digest)  # it is the first signature that is checked


def test_first_signature_is_checked_where_there_was_no_trial() -> None:
    key, tpm = attach(FakeObject("rsa2048:rsapss-sha256", attributes=LOCKABLE_KEY))
    tpm.salt = 20
    with pytest.raises(tpmtls.WrongScheme, match="salt of 20 bytes"):
        key.sign(bytes(32))


def test_refused_auth_value_is_never_sent_twice() -> None:
    key, tpm = attach(FakeObject(attributes=LOCKABLE_KEY, auth=b"secret"))
    for _ in range(5):
        with pytest.raises(tpmtls.AuthRequired):
            key.sign(bytes(32))
    assert tpm.commands.count(SIGN) == 1


def test_lockout_is_told_at_attach_without_a_try() -> None:
    tpm = FakeTpm({HANDLE: FakeObject(attributes=LOCKABLE_KEY)})
    tpm.permanent = 1 << 9
    with pytest.raises(tpmtls.LockedOut, match="--clear-lockout"):
        tpmtls.attach(over(tpm), HANDLE, auth=b"whatever")
    assert SIGN not in tpm.commands


def test_lockout_does_not_concern_keys_that_are_free_of_it() -> None:
    tpm = FakeTpm({HANDLE: FakeObject()})
    tpm.permanent = 1 << 9
    assert tpmtls.attach(over(tpm), HANDLE).sign(bytes(32))


def test_lockout_that_comes_later_is_told() -> None:
    key, tpm = attach(FakeObject(attributes=LOCKABLE_KEY))
    tpm.codes = [0x921]
    with pytest.raises(tpmtls.LockedOut):
        key.sign(bytes(32))


# Closing.


def test_persistent_key_stays_when_closed_and_others_go_on() -> None:
    tpm = FakeTpm({HANDLE: FakeObject()})
    transport = over(tpm)
    one, other = tpmtls.attach(transport, HANDLE), tpmtls.attach(transport, HANDLE)
    one.close()
    one.close()
    assert FLUSH not in tpm.commands
    assert not tpm.closed
    assert other.sign(bytes(32))
    with pytest.raises(tpmtls.KeyClosed, match=r"0x81000004 was closed; open it again"):
        one.sign(bytes(32))


def test_transient_key_is_flushed_once_when_closed() -> None:
    tpm = FakeTpm({0x80000000: FakeObject()})
    with tpmtls.attach(over(tpm), 0x80000000) as key:
        key.sign(bytes(32))
    key.close()
    assert tpm.commands.count(FLUSH) == 1
    assert not tpm.objects


def test_transient_key_that_is_gone_closes_quietly() -> None:
    tpm = FakeTpm({0x80000000: FakeObject()})
    key = tpmtls.attach(over(tpm), 0x80000000)
    tpm.objects.clear()
    key.close()


def test_attributes_are_read_back() -> None:
    safe, _ = attach(FakeObject())
    assert safe.non_exportable()
    assert safe.generated_in_tpm()
    loose, _ = attach(FakeObject(attributes="sign|userwithauth|noda"))
    assert not loose.non_exportable()
    assert not loose.generated_in_tpm()


# Finding.


def test_fresh_tpm_lists_nothing() -> None:
    tpm = FakeTpm()
    assert tpmtls.persistent_handles(over(tpm)) == []
    with pytest.raises(tpmtls.NotFound, match="looked at no key at all"):
        tpmtls.find_handle(over(tpm), FakeObject().public_key)


def test_every_handle_is_listed_past_the_first_page() -> None:
    item = FakeObject()
    objects: dict[int, FakeObject | None] = {0x81000000 + 7 * n: item for n in range(150)}
    last = FakeObject()
    objects[0x81FFFFFF] = last
    tpm = FakeTpm(objects)
    assert tpmtls.persistent_handles(over(tpm)) == sorted(objects)
    assert tpmtls.find_handle(over(tpm), last.public_key) == 0x81FFFFFF


def test_objects_that_are_no_keys_or_cannot_be_read_are_passed_over() -> None:
    secret = FakeObject()
    secret.area.type = 0x0008
    secret.area.parameters.keyedHashDetail.scheme.scheme = 0x0010
    secret.area.unique.keyedHash = bytes(32)
    wanted = FakeObject()
    tpm = FakeTpm({0x81000001: secret, 0x81000002: None, 0x81000003: wanted})
    assert tpmtls.persistent_handles(over(tpm)) == [0x81000003]
    assert tpmtls.find_handle(over(tpm), wanted.public_key) == 0x81000003


def test_miss_names_what_was_looked_at() -> None:
    tpm = FakeTpm({0x81000001: FakeObject(), 0x81000010: FakeObject("ecc384")})
    certificate = Authority().issue(FakeObject().public_key)
    with pytest.raises(tpmtls.NotFound) as raised:
        tpmtls.attach_for_certificate(over(tpm), certificate)
    message = str(raised.value)
    assert "0x81000001 sha256:" in message
    assert "0x81000010 sha256:" in message
    assert "renew the certificate over the key that is there" in message


def test_of_several_matching_keys_the_lowest_is_taken_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    twin = FakeObject()
    tpm = FakeTpm({0x81000020: twin, 0x81000003: FakeObject(), 0x81000010: twin})
    caplog.set_level(logging.INFO, "tpmtls")
    assert tpmtls.find_handle(over(tpm), twin.public_key) == 0x81000010
    assert [record.getMessage() for record in caplog.records] == [
        "the key is at several handles: taking 0x81000010, leaving 0x81000020"
    ]
