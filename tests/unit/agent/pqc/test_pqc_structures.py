"""Post-quantum structures, byte for byte as the specification's tables lay them out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpmbench.device.ecc import NO_TICKET
from tpmbench.pqc import structures
from tpmbench.pqc.structures import KINDS, MalformedError
from tpmtls.commands import marshal, password, sized

BY_NAME = {kind.name: kind for kind in KINDS}
MARK = bytes(range(0xA0, 0xC0))
POLICY = "0020" + MARK.hex()


@pytest.mark.parametrize(
    ("name", "external_mu", "expected"),
    # type, nameAlg, objectAttributes, authPolicy, parameters, unique
    [
        ("ML-DSA-44", False, f"00a1 000b 00040472 {POLICY} 0001 00 0000"),
        ("ML-DSA-65", False, f"00a1 000b 00040472 {POLICY} 0002 00 0000"),
        ("ML-DSA-87", True, f"00a1 000b 00040472 {POLICY} 0003 01 0000"),
        ("Hash-ML-DSA-65", False, f"00a2 000b 00040472 {POLICY} 0002 000d 0000"),
        ("ML-KEM-512", False, f"00a0 000b 00020472 {POLICY} 0010 0001 0000"),
        ("ML-KEM-768", False, f"00a0 000b 00020472 {POLICY} 0010 0002 0000"),
        ("ML-KEM-1024", False, f"00a0 000b 00020472 {POLICY} 0010 0003 0000"),
    ],
)
def test_a_template_is_laid_out_as_specified(name: str, external_mu: bool, expected: str) -> None:
    area = bytes.fromhex(expected)
    found = structures.template(BY_NAME[name], MARK, external_mu=external_mu)
    assert found == len(area).to_bytes(2) + area


def test_unique_stands_at_the_end() -> None:
    found = structures.template(BY_NAME["ML-KEM-768"], MARK, b"\x01\x02")
    assert found.endswith(bytes.fromhex("0010 0002 0002 0102"))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(
            marshal(
                "TPM2_SignSequenceStart",
                (0x80000001,),
                structures.sign_sequence_start(b"\xaa\xbb"),
            ),
            "8001 00000014 000001aa 80000001 0002aabb 0000",
            id="SignSequenceStart: auth, context",
        ),
        pytest.param(
            marshal(
                "TPM2_VerifySequenceStart",
                (0x80000001,),
                structures.verify_sequence_start(b"\xaa", context=b"\xcc"),
            ),
            "8001 00000016 000001a9 80000001 0001aa 0000 0001cc",
            id="VerifySequenceStart: auth, hint, context",
        ),
        pytest.param(
            marshal(
                "TPM2_SignSequenceComplete",
                (0x80000002, 0x80000001),
                sized(b"msg"),
                (password(b"\xaa"), password()),
            ),
            "8002 0000002e 000001a4 80000002 80000001 00000013"
            " 40000009 0000 00 0001aa  40000009 0000 00 0000  0003 6d7367",
            id="SignSequenceComplete: both handles authorised",
        ),
        pytest.param(
            marshal(
                "TPM2_VerifySequenceComplete",
                (0x80000002, 0x80000001),
                structures.signature(BY_NAME["ML-DSA-65"], b"\x05\x06"),
                (password(b"\xaa"),),
            ),
            "8002 00000026 000001a3 80000002 80000001 0000000a 40000009 0000 00 0001aa"
            " 00a1 0002 0506",
            id="VerifySequenceComplete: the sequence authorised alone",
        ),
        pytest.param(
            marshal(
                "TPM2_SignDigest",
                (0x80000001,),
                structures.sign_digest(b"\x11\x22", NO_TICKET),
                (password(),),
            ),
            "8002 00000029 000001a6 80000001 00000009 40000009 0000 00 0000"
            " 0000 0002 1122 8024 40000007 0000",
            id="SignDigest: context, digest, validation",
        ),
        pytest.param(
            marshal(
                "TPM2_VerifyDigestSignature",
                (0x80000001,),
                structures.verify_digest(
                    b"\x11", structures.signature(BY_NAME["Hash-ML-DSA-44"], b"\x07")
                ),
            ),
            "8001 0000001a 000001a5 80000001 0000 0001 11 00a2 000d 0001 07",
            id="VerifyDigestSignature: context, digest, signature",
        ),
        pytest.param(
            marshal("TPM2_Encapsulate", (0x80000001,)),
            "8001 0000000e 000001a7 80000001",
            id="Encapsulate: the key alone",
        ),
        pytest.param(
            marshal("TPM2_Decapsulate", (0x80000001,), sized(b"\x09\x08"), (password(),)),
            "8002 0000001f 000001a8 80000001 00000009 40000009 0000 00 0000 0002 0908",
            id="Decapsulate: the key authorised, the ciphertext",
        ),
    ],
)
def test_a_command_is_laid_out_as_specified(command: bytes, expected: str) -> None:
    assert command == bytes.fromhex(expected)


@pytest.mark.parametrize(
    ("name", "public", "output"),
    [
        ("ML-DSA-44", 1312, 2420), ("ML-DSA-65", 1952, 3309), ("ML-DSA-87", 2592, 4627),
        ("Hash-ML-DSA-87", 2592, 4627), ("ML-KEM-512", 800, 768), ("ML-KEM-768", 1184, 1088),
        ("ML-KEM-1024", 1568, 1568),
    ],
)  # fmt: skip
def test_sizes_are_those_of_fips_203_and_204(name: str, public: int, output: int) -> None:
    assert (BY_NAME[name].public_size, BY_NAME[name].output_size) == (public, output)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_put_in_comes_out(kind: structures.Kind) -> None:
    key, raw = bytes(kind.public_size), bytes(kind.output_size)
    area = structures.template(kind, MARK, key)
    assert structures.public_key(kind, area) == key
    if kind.signs:
        assert structures.raw_signature(kind, structures.signature(kind, raw)) == raw


@given(st.sampled_from(KINDS), st.integers(0, 60), st.booleans())
def test_a_structure_cut_short_or_drawn_out_is_refused(
    kind: structures.Kind, cut: int, longer: bool
) -> None:
    area = structures.template(kind, MARK, bytes(kind.public_size))
    spoilt = area + bytes(cut + 1) if longer else area[: cut + 1]
    if longer:  # its size does not grow with it, so what follows is not part of it
        assert structures.public_key(kind, spoilt) == bytes(kind.public_size)
    else:
        with pytest.raises(MalformedError):
            structures.public_key(kind, spoilt)
    made = structures.signature(kind, bytes(kind.output_size))
    with pytest.raises(MalformedError):
        structures.raw_signature(kind, made + bytes(cut + 1) if longer else made[: -cut - 1])


@given(st.binary(max_size=80))
def test_encapsulate_answers_are_two_buffers_and_no_more(data: bytes) -> None:
    whole = sized(data[:32]) + sized(data[32:])
    assert structures.encapsulated(whole) == (data[:32], data[32:])
    with pytest.raises(MalformedError):
        structures.encapsulated(whole + b"\0")
    with pytest.raises(MalformedError):
        structures.encapsulated(whole[:-1])


def test_the_wrong_kind_is_refused() -> None:
    made = structures.signature(BY_NAME["ML-DSA-65"], bytes(3309))
    with pytest.raises(MalformedError, match="the signature of ML-DSA-44 has 3309 bytes"):
        structures.raw_signature(BY_NAME["ML-DSA-44"], made)
    with pytest.raises(MalformedError, match="not of Hash-ML-DSA-65"):
        structures.raw_signature(BY_NAME["Hash-ML-DSA-65"], made)
