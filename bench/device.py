"""What the device suite finds on one software TPM by both rules, and what it adds to a command.

    make bench-device
    make bench-device WOLFTPM_BENCH='/path/to/wolfTPM/examples/bench/bench'
    make bench-device WOLFTPM_OUTPUT=captured.txt

Operations per second come from the spans between a command and its response, as many operations as
each rule allows: ours, and wolfTPM's of 1000 ms an operation. wolfTPM's own bench is run where the
user has a build of it; its words about the TPM to use (``TPM2_SWTPM_HOST``, ``TPM2_SWTPM_PORT``)
are in its environment. Output captured elsewhere serves only if it was taken on the same machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tpmtls
from collector.imported import slug
from collector.importing import recognise
from own_tpm import software_tpm

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[1]
SLOW_S = 0.0003
SLOW_BAR, FIXED_BAR_MS = 0.95, 0.06
ROUNDS = 2000
# Prepared commands that a TPM answers at once, so that what surrounds them shows most.
FAST = {
    "GetRandom, 32 bytes": bytes.fromhex("80010000000c0000017b0020"),
    "ReadClock": bytes.fromhex("80010000000a00000181"),
    "GetCapability, one property": bytes.fromhex("8001000000160000017a000000060000010500000001"),
}
WOLFTPM_RULE_MS = 1000


def main() -> int:
    """Run both rules, the peer where there is one, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wolftpm-bench", default="", help="command line of wolfTPM's bench")
    parser.add_argument("--wolftpm-output", default="", help="what it printed, in a file")
    arguments = parser.parse_args()
    if shutil.which("swtpm") is None:
        print("bench: swtpm is not installed; run make setup", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as name, software_tpm(Path(name)) as tcti:
        directory = Path(name)
        ours, ours_s = suite(directory, tcti, "device")
        theirs, theirs_s = suite(
            directory, tcti, "device", "--max-duration-ms", str(WOLFTPM_RULE_MS)
        )
        _, messages_s = suite(directory, tcti, "messages")
        overheads = added(tcti)
        peer = wolftpm(arguments, tcti)
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} processors\n")
    operations(ours, theirs, peer)
    print(f"\nWhole runs: --suite device {ours_s:.1f} s; by the {WOLFTPM_RULE_MS} ms rule", end=" ")
    print(f"{theirs_s:.1f} s; --suite messages {messages_s:.1f} s")
    print("\nAdded to a prepared command, over a bare socket (medians, ms)")
    for what, (bare, transport) in overheads.items():
        met = "met" if transport - bare <= FIXED_BAR_MS else "NOT met"
        print(
            f"  {what:<30}{bare:7.4f} bare{transport:9.4f} ours{transport - bare:9.4f} added"
            f"   bar <= {FIXED_BAR_MS}: {met}"
        )
    return 0


def suite(directory: Path, tcti: str, name: str, *options: str) -> tuple[dict[str, Any], float]:
    """Run one suite of the agent; return its document and the seconds that it took."""
    output = directory / f"{name}{len(options)}.json"
    print(f"bench: --suite {name} {' '.join(options)}", file=sys.stderr)
    started = time.monotonic()
    done = subprocess.run(
        [
            sys.executable, "-m", "tpmbench.cli", "run", "--tcti", tcti, "--suite", name, *options,
            "--state-dir", str(directory / "agent"), "--metadata", "never",
            "--output", str(output),
        ],
        check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "agent" / "src")},
    )  # fmt: skip
    elapsed = time.monotonic() - started
    if not output.exists():
        raise SystemExit(f"bench: {done.stderr}")
    document = json.loads(output.read_text())
    for scenario in document["scenarios"]:
        if scenario["status"] == "invalid":
            print(f"bench: {scenario['name']} is invalid: {scenario['reason']}", file=sys.stderr)
    return document, elapsed


def rates(document: Mapping[str, Any]) -> dict[str, tuple[str, float, int, int]]:
    """Title, operations per second, operations done and bytes of each, by its title's slug."""
    found = {}
    for scenario in document["scenarios"]:
        if scenario["status"] != "valid":
            continue
        samples = next(arm for arm in scenario["arms"] if arm["name"] == "floor")["samples_ns"]
        title = scenario["operation"]["title"]
        rate = len(samples) / sum(samples) * 1e9
        found[slug(title)] = title, rate, len(samples), scenario["operation"]["bytes"] or 0
    return found


def wolftpm(arguments: argparse.Namespace, tcti: str) -> dict[str, float]:
    """Operations per second (KB per second for data) that wolfTPM's bench printed, by slug."""
    if arguments.wolftpm_output:
        printed = Path(arguments.wolftpm_output).read_bytes()
    elif arguments.wolftpm_bench:
        port = tcti.rpartition("=")[2]
        done = subprocess.run(
            shlex.split(arguments.wolftpm_bench), capture_output=True, check=False,
            env={**os.environ, "TPM2_SWTPM_HOST": "127.0.0.1", "TPM2_SWTPM_PORT": port},
        )  # fmt: skip
        printed = done.stdout
    else:
        return {}
    found = recognise(printed)
    if found is None:
        raise SystemExit("bench: wolfTPM's bench printed no figure; does it reach the TPM?")
    return {
        figure["operation"]: float(figure.get("value_per_s") or figure["value_bytes_per_s"])
        for figure in found.figures
        if figure["statistic"] == "rate"
    }


def operations(
    ours: Mapping[str, Any], theirs: Mapping[str, Any], peer: Mapping[str, float]
) -> None:
    """Print a line for each operation; beside it, where there is one, wolfTPM's figure."""
    plain, ruled = rates(ours), rates(theirs)
    print(f"{'':<26}{'ours':>12}{'(n)':>7}{'1000 ms rule':>15}{'(n)':>7}", end="")
    print(f"{'wolfTPM':>13}{'ratio':>7}" if peer else "")
    for name, (title, rate, count, size) in plain.items():
        _, ruled_rate, ruled_count, _ = ruled.get(name, (title, float("nan"), 0, 0))
        line = f"  {title:<24}{rate:12.1f}{count:7d}{ruled_rate:15.1f}{ruled_count:7d}"
        if name in peer:
            other = peer[name] / size if size else peer[name]
            ratio = ruled_rate / other
            line += f"{other:13.1f}{ratio:7.2f}"
            if 1 / other > SLOW_S:
                line += f"   bar >= {SLOW_BAR}: {'met' if ratio >= SLOW_BAR else 'NOT met'}"
        print(line)
    if not peer:
        print("(operations per second; wolfTPM's bench was not run: no WOLFTPM_BENCH was given)")


def added(tcti: str) -> dict[str, tuple[float, float]]:
    """Medians in ms of prepared commands over a bare socket and over our transport."""
    host, port = "127.0.0.1", int(tcti.rpartition("=")[2])
    figures = {}
    for what, command in FAST.items():
        bare, transport = [], []
        for turn in range(10):  # in blocks: a software TPM takes one client at a time
            if turn % 2:
                with socket.create_connection((host, port)) as plain:
                    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    for _ in range(ROUNDS // 5):
                        started = time.perf_counter_ns()
                        plain.sendall(command)
                        plain.recv(4096)
                        bare.append(time.perf_counter_ns() - started)
            else:
                with tpmtls.connect(tcti) as ours:
                    for _ in range(ROUNDS // 5):
                        started = time.perf_counter_ns()
                        ours.exchange(command)
                        transport.append(time.perf_counter_ns() - started)
        figures[what] = statistics.median(bare) / 1e6, statistics.median(transport) / 1e6
    return figures


if __name__ == "__main__":
    sys.exit(main())
