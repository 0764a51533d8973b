"""Runs in the guest: prints the handles of persistent and of transient objects, as JSON.

Transient objects are those of this descriptor; over /dev/tpm0 that is all there are.

    python3 handles.py TCTI
"""

import json
import sys

from tpm2_pytss import ESAPI, TPM2_CAP

with ESAPI(sys.argv[1]) as esys:
    found = {}
    for kind, first in (("persistent", 0x81000000), ("transient", 0x80000000)):
        _, data = esys.get_capability(TPM2_CAP.HANDLES, first, 64)
        found[kind] = [hex(int(handle)) for handle in data.data.handles]
print(json.dumps(found))
