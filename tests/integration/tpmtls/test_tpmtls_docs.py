"""The commands and names in docs/tpmtls.md are there and do what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tpmtls

if TYPE_CHECKING:
    from tests.support.swtpm import Swtpm

PAGE = (Path(__file__).parents[3] / "docs" / "tpmtls.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_key_made_as_the_page_says_is_one_to_attach_to(swtpm: Swtpm, tmp_path: Path) -> None:
    if shutil.which("tpm2_createprimary") is None:
        pytest.skip("tpm2-tools are not installed")
    (commands,) = blocks("shell")
    environment = {**os.environ, "TPM2TOOLS_TCTI": swtpm.tcti}
    subprocess.run(
        ["bash", "-euc", commands], cwd=tmp_path, env=environment, check=True, capture_output=True
    )
    with tpmtls.open(0x81000004, tcti=swtpm.tcti) as key:
        assert key.non_exportable()
        assert key.generated_in_tpm()
        assert key.certificate_request("CN=store,O=Example").is_signature_valid
    assert not swtpm.handles().transient


def test_python_on_the_page_is_python_and_its_names_exist() -> None:
    python = blocks("python")
    assert len(python) >= 5
    for block in python:
        compile(block, "docs/tpmtls.md", "exec")
    named = set(re.findall(r"\btpmtls\.([A-Za-z_]+)\b(?!\.md)", PAGE))
    assert len(named) >= 10
    assert {name for name in named if not hasattr(tpmtls, name)} == set()


def test_table_of_errors_is_complete_and_true() -> None:
    table = PAGE.partition("## Errors")[2].partition("\n\nUnfit")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\|([^|]*)\|$", table, re.MULTILINE))
    raised = {
        name
        for name in tpmtls.__all__
        if isinstance(kind := getattr(tpmtls, name), type) and issubclass(kind, tpmtls.TpmTlsError)
    }
    bases = {"TpmTlsError", "TransportError", "UnusableKey"}
    assert set(rows) == raised - bases
    namespace = {**vars(tpmtls), "ssl.SSLError": __import__("ssl").SSLError}
    namespace["TimeoutError"] = TimeoutError
    for name, also in rows.items():
        for base in re.findall(r"`([\w.]+)`", also):
            assert issubclass(getattr(tpmtls, name), namespace[base]), (name, base)
