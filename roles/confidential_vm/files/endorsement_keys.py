"""Print the public endorsement keys of a TPM as a JSON list of PEM texts. Changes nothing in it.

Run with the agent's Python: endorsement_keys.py TCTI. The templates, and where a TPM keeps its own,
are those of the TCG EK Credential Profile. Each key is made as a transient object and flushed.
"""

import json
import sys

from tpm2_pytss import ESAPI, ESYS_TR, TPM2B_SENSITIVE_CREATE, TSS2_Exception
from tpm2_pytss.utils import NVReadEK, create_ek_template


def endorsement_keys(tcti: str) -> list[str]:
    """RSA 2048 and ECC P-256, as far as the TPM has them."""
    found = []
    with ESAPI(tcti) as tpm:
        for kind in ("EK-RSA2048", "EK-ECC256"):
            _, template = create_ek_template(kind, NVReadEK(tpm))
            try:
                handle, public, *_ = tpm.create_primary(
                    TPM2B_SENSITIVE_CREATE(), template, ESYS_TR.ENDORSEMENT
                )
            except TSS2_Exception as error:
                print(f"{kind}: {error}", file=sys.stderr)
                continue
            tpm.flush_context(handle)
            found.append(public.to_pem().decode())
    return found


if __name__ == "__main__":
    keys = endorsement_keys(sys.argv[1])
    print(json.dumps(keys))
    sys.exit(0 if keys else 1)
