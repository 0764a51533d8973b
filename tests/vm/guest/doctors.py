"""Runs in the guest: sets a TPM up in one way after another and asks the agent's doctor each time.

Prints, by set-up, the doctor's exit status and report. One process for all of them, since an
emulated processor takes seconds to import the TSS.

    python3 doctors.py
"""

import contextlib
import io
import json
import tempfile

from tests.support import tpm
from tpmbench.cli import main

MANAGED, BARE = "device:/dev/tpmrm0", "device:/dev/tpm0"
HANDLE = 0x81000200


def doctor(tcti):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = main(
            ["doctor", "--json", "--tcti", tcti, "--deadline", "60", "--metadata", "never"]
        )
    return {"status": status, "report": json.loads(printed.getvalue())}


@contextlib.contextmanager
def provisioned():
    with tempfile.TemporaryDirectory() as state, contextlib.redirect_stdout(io.StringIO()):
        arguments = ["--handle", f"{HANDLE:#x}", "--tcti", MANAGED, "--state-dir", state]
        assert main(["provision", *arguments]) == 0
    yield
    tpm.evict(MANAGED, HANDLE)


@contextlib.contextmanager
def key(**options):
    tpm.put_key(MANAGED, HANDLE, **options)
    yield
    tpm.evict(MANAGED, HANDLE)


@contextlib.contextmanager
def only_loaded():
    # Left behind over the bare device, where nothing flushes it.
    with tpm.esapi(BARE) as esys:
        tpm.make_key(esys)
    yield
    tpm.flush_all(BARE)


SET_UPS = {
    "provisioned": (provisioned(), MANAGED),
    "nothing": (contextlib.nullcontext(), MANAGED),
    "restricted": (key(attributes=tpm.RESTRICTED_KEY), MANAGED),
    "rsa": (key(algorithm=tpm.RSA), MANAGED),
    "policy": (key(attributes=tpm.POLICY_KEY, policy=bytes(32)), MANAGED),
    "transient": (only_loaded(), BARE),
}

answers = {}
for name, (set_up, tcti) in SET_UPS.items():
    with set_up:
        answers[name] = doctor(tcti)
print(json.dumps(answers))
