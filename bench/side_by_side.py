"""The project's own speed, as ratios taken side by side in one run on one software TPM.

    make bench

Every round runs each contender once, in a drawn order; a figure is the median over the
rounds. gobench is the peer in Go (bench/gobench), ``openssl s_time`` is OpenSSL's own client.
Absolute times are this machine's; only the ratios mean something elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import secrets
import shutil
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.asymmetric import ec

import tpmtls
from own_tpm import software_tpm
from tpmbench import pki
from tpmbench.client import Peer, serving
from tpmbench.tpmkeys import Owner, create_primary, evict_control, template
from tpmtls import commands
from tpmtls.public import CURVES

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
GO_ENVIRONMENT = ROOT / ".cache" / "go"
PEER_HANDLE = 0x81000004
SIGNATURES, CONNECTIONS = 200, 100

Figures = dict[str, list[float]]


@dataclass(frozen=True)
class Ratio:
    """One line of the outcome: a figure over another, and the bar it is held to."""

    what: str
    over: Callable[[dict[str, float]], float]
    lowest: float
    highest: float


RATIOS = (
    Ratio("tpmtls sign / floor", lambda f: f["tpmtls sign"] / f["floor"], 0, 1.10),
    Ratio("tpmtls sign / gobench sign", lambda f: f["tpmtls sign"] / f["gobench sign"], 0, 1.10),
    Ratio(
        "new handshake, software-native / s_time -new (means)",
        lambda f: f["native loop mean"] / f["s_time mean"],
        0,
        1.10,
    ),
    Ratio(
        "bridge: software / software-native, new handshake",
        lambda f: f["new, software"] / f["new, software-native"],
        0,
        1.05,
    ),
    Ratio(
        "TPM share: (tpm - software) / tpmtls sign",
        lambda f: (f["new, tpm"] - f["new, software"]) / f["tpmtls sign"],
        0.9,
        1.25,
    ),
    Ratio(
        "new handshake, software / gobench software",
        lambda f: f["new, software"] / f["gobench new, software"],
        0,
        1.2,
    ),
    Ratio(
        "new handshake, tpm / gobench tpm",
        lambda f: f["new, tpm"] / f["gobench new, tpm"],
        0,
        float("inf"),
    ),
)


def main() -> int:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    missing = [name for name in ("swtpm", "openssl") if shutil.which(name) is None]
    if missing:
        print(f"bench: {missing[0]} is not installed; run make setup", file=sys.stderr)
        return 2
    peer_program = build_gobench()
    figures: Figures = defaultdict(list)
    order = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name, software_tpm(Path(name)) as tcti:
        directory = Path(name)
        make_peer_key(tcti)
        with serving(directory, tpmtls.DEFAULT_DEADLINE) as peer:
            contenders = [
                lambda: agent(tcti, directory, figures),
                lambda: gobench(peer_program, tcti, figures),
                lambda: native_clients(peer, directory, figures),
            ]
            for number in range(arguments.rounds):
                print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
                for contend in order.sample(contenders, len(contenders)):
                    contend()
    report({name: statistics.median(values) for name, values in figures.items()})
    return 0


def report(figures: dict[str, float]) -> None:
    """Print every figure and every ratio."""
    library = subprocess.run(["openssl", "version"], capture_output=True, text=True, check=True)
    print(f"Python {sys.version.split()[0]} with {ssl.OPENSSL_VERSION}; {library.stdout.strip()}")
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors")
    print()
    for name, value in figures.items():
        print(f"  {name:<28}{value:9.3f} ms")
    print()
    for ratio in RATIOS:
        value = ratio.over(figures)
        met = "met" if ratio.lowest <= value <= ratio.highest else "NOT met"
        bar = f"{ratio.lowest:g} to {ratio.highest:g}" if ratio.lowest else f"<= {ratio.highest:g}"
        verdict = "shown" if ratio.highest == float("inf") else f"bar {bar}: {met}"
        print(f"  {ratio.what:<54}{value:6.2f}   {verdict}")


def make_peer_key(tcti: str) -> None:
    """Put a P-256 key where gobench looks for it. It goes with the TPM, which is ours."""
    with tpmtls.connect(tcti) as transport:
        owner = Owner()
        loaded = create_primary(transport, template(CURVES[0], secrets.token_bytes(32)), owner)
        evict_control(transport, loaded, PEER_HANDLE, owner)
        commands.flush(transport, loaded)


def agent(tcti: str, directory: Path, figures: Figures) -> None:
    """Run the agent and keep its medians."""
    output = directory / "result.json"
    subprocess.run(
        [
            sys.executable, "-m", "tpmbench.cli", "run", "--tcti", tcti, "--curve", "p256",
            "--scenario", "raw-signing", "--scenario", "handshake-new",
            "--signatures", str(SIGNATURES), "--connections", str(CONNECTIONS),
            "--state-dir", str(directory / "agent"), "--metadata", "never",
            "--output", str(output),
        ],
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT / "agent" / "src")},
    )  # fmt: skip
    names = {
        ("raw-signing", "floor"): "floor",
        ("raw-signing", "tpm-persistent"): "tpmtls sign",
        ("handshake-new", "tpm-persistent"): "new, tpm",
        ("handshake-new", "software"): "new, software",
        ("handshake-new", "software-native"): "new, software-native",
    }
    for scenario in json.loads(output.read_text())["scenarios"]:
        for arm in scenario["arms"]:
            name = names.get((scenario["name"], arm["name"]))
            if name:
                figures[name].append(statistics.median(arm["samples_ns"]) / 1e6)


def gobench(program: Path, tcti: str, figures: Figures) -> None:
    """Run the peer in Go and keep its medians."""
    port = tcti.rpartition("=")[2]
    done = subprocess.run(
        [
            program, "-tcp", f"127.0.0.1:{port}", "-handle", hex(PEER_HANDLE),
            "-signatures", str(SIGNATURES), "-connections", str(CONNECTIONS),
        ],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    rows = json.loads(done.stdout)
    for row, name in (
        ("raw/tpm", "gobench sign"),
        ("full/tpm", "gobench new, tpm"),
        ("full/software", "gobench new, software"),
    ):
        figures[name].append(rows[row]["median_ms"])


def native_clients(peer: Peer, directory: Path, figures: Figures) -> None:
    """Run ``openssl s_time`` and our client, each in a closed loop against the same server."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = peer.authority.issue("native", key.public_key())
    bundle, trusted = directory / "native.pem", directory / "authority.pem"
    bundle.write_bytes(pki.private_pem(key) + pki.pem(certificate))
    trusted.write_bytes(pki.pem(peer.authority.certificate))
    context = peer.context()
    context.load_cert_chain(bundle)

    def ours() -> None:
        for _ in range(20):
            peer.connect(context, None)[0].close()
        count = 3 * CONNECTIONS
        started = time.perf_counter()
        for _ in range(count):
            peer.connect(context, None)[0].close()
        figures["native loop mean"].append((time.perf_counter() - started) / count * 1e3)

    def theirs() -> None:
        # s_time prints whole seconds only, so its count is divided by our own clock.
        started = time.perf_counter()
        done = subprocess.run(
            [
                "openssl", "s_time", "-connect", f"127.0.0.1:{peer.port}", "-new", "-time", "2",
                "-www", "/", "-tls1_3", "-cert", bundle, "-key", bundle, "-CAfile", trusted,
                "-verify", "2",
            ],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        elapsed = time.perf_counter() - started
        found = re.search(r"^(\d+) connections in", done.stdout, re.MULTILINE)
        if found is None:
            raise SystemExit(f"bench: s_time printed no count: {done.stdout}{done.stderr}")
        figures["s_time mean"].append(elapsed / int(found[1]) * 1e3)

    for step in random.sample((ours, theirs), 2):
        step()
    bundle.unlink()


def build_gobench() -> Path:
    """Build the peer with the Go toolchain of a package, once."""
    program = ROOT / ".cache" / "gobench"
    source = ROOT / "bench" / "gobench"
    if program.exists() and program.stat().st_mtime > (source / "main.go").stat().st_mtime:
        return program
    if not (GO_ENVIRONMENT / "bin" / "go").exists():
        subprocess.run([sys.executable, "-m", "venv", GO_ENVIRONMENT], check=True)
        subprocess.run(
            [
                GO_ENVIRONMENT / "bin" / "pip", "install", "--quiet", "--require-hashes",
                "-r", ROOT / "requirements" / "bench.lock",
            ],
            check=True,
        )  # fmt: skip
    subprocess.run(
        [GO_ENVIRONMENT / "bin" / "go", "build", "-o", program, "."],
        check=True,
        cwd=source,
        env={**os.environ, "GOTOOLCHAIN": "local", "GOCACHE": str(ROOT / ".cache" / "gocache")},
    )
    return program


if __name__ == "__main__":
    sys.exit(main())
