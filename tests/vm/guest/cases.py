"""Runs in the guest: signs beside other objects, so that the commands can be counted outside.

Speaks to the TPM through the TSS only, and to nothing of the project. Prints one JSON object:
what each case answered, "signed" or a response code.

    python3 cases.py TCTI SIGNATURES
"""

import contextlib
import json
import sys

from tpm2_pytss import (
    ESAPI,
    ESYS_TR,
    TPM2_ALG,
    TPM2_RH,
    TPM2_SE,
    TPM2_ST,
    TPM2B_DIGEST,
    TPM2B_PUBLIC,
    TPM2B_SENSITIVE_CREATE,
    TPMA_OBJECT,
    TPMT_SIG_SCHEME,
    TPMT_SYM_DEF,
    TPMT_TK_HASHCHECK,
    TSS2_Exception,
)

TCTI, SIGNATURES = sys.argv[1], int(sys.argv[2])
HANDLE = 0x81000100
BEGIN, END = 20, 40  # as in tests/support/swtpm_log.py
SIGNING = (
    TPMA_OBJECT.FIXEDTPM
    | TPMA_OBJECT.FIXEDPARENT
    | TPMA_OBJECT.SENSITIVEDATAORIGIN
    | TPMA_OBJECT.USERWITHAUTH
    | TPMA_OBJECT.SIGN_ENCRYPT
)

# Case: transient objects, HMAC sessions, and whether they are on the descriptor that signs.
LOADS = {
    "persistent": (0, 0, True),
    "one object": (1, 0, True),
    "two objects": (2, 0, True),
    "three objects": (3, 0, True),
    "one object elsewhere": (1, 0, False),
    "session": (0, 1, True),
}

signing, marking, other = ESAPI(TCTI), ESAPI(TCTI), ESAPI(TCTI)


def primary(esys, unique=b""):
    public = TPM2B_PUBLIC.parse("ecc256:ecdsa-sha256:null", objectAttributes=SIGNING)
    public.publicArea.unique.ecc.x = unique
    return esys.create_primary(TPM2B_SENSITIVE_CREATE(), public, ESYS_TR.OWNER)[0]


def session(esys):
    return esys.start_auth_session(
        ESYS_TR.NONE,
        ESYS_TR.NONE,
        TPM2_SE.HMAC,
        TPMT_SYM_DEF(algorithm=TPM2_ALG.NULL),
        TPM2_ALG.SHA256,
    )


def sign(key):
    signing.sign(
        key,
        TPM2B_DIGEST(b"\x5a" * 32),
        TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL),
        TPMT_TK_HASHCHECK(tag=TPM2_ST.HASHCHECK, hierarchy=TPM2_RH.NULL),
    )


def case(number, key):
    marking.get_random(BEGIN + number)
    try:
        for _ in range(SIGNATURES):
            sign(key)
        said = "signed"
    except TSS2_Exception as error:
        said = hex(error.rc)
    marking.get_random(END + number)
    return said


answers = {}
made = primary(signing)
persistent = signing.evict_control(ESYS_TR.OWNER, made, HANDLE)
signing.flush_context(made)
# A TPM may want its first signature again while it tests itself, and the kernel sends it again.
sign(persistent)
try:
    with contextlib.ExitStack() as stack:
        transient = primary(signing)
        stack.callback(signing.flush_context, transient)
        answers["transient"] = case(0, transient)
    for number, (name, (objects, sessions, same)) in enumerate(LOADS.items(), 1):
        where = signing if same else other
        with contextlib.ExitStack() as stack:
            for count in range(objects):
                stack.callback(where.flush_context, primary(where, b"unrelated %d" % count))
            for _ in range(sessions):
                stack.callback(where.flush_context, session(where))
            answers[name] = case(number, persistent)
finally:
    signing.evict_control(ESYS_TR.OWNER, persistent, HANDLE)
print(json.dumps(answers))
