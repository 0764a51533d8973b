"""The TPM goes away in the middle of a run; the machine starts again with it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.support import swtpm_log

if TYPE_CHECKING:
    from tests.support.vm import Machine

STATE = "/tmp/unplugged"
DEADLINE = 5.0
# The guest is emulated: what takes the agent a second takes it many there.
SLACK = 300.0


def _wait_for_signatures(vm: Machine, count: int) -> None:
    until = time.monotonic() + 400
    begun = len(vm.log.read_bytes())
    while time.monotonic() < until:
        with vm.log.open(errors="replace") as log:
            log.seek(begun)
            seen = [swtpm_log.name(command) for command in swtpm_log.commands(log.read())]
        if seen.count("Sign") >= count:
            return
        time.sleep(0.2)
    raise AssertionError(f"no {count} signatures in time")


def test_a_tpm_that_vanishes_ends_the_run_and_the_next_boot_is_cleaned(vm: Machine) -> None:
    before = vm.handles()
    running = vm.begin(
        vm.agent_command(
            ["run", "--curve", "p256", "--scenario", "raw-signing", "--signatures", "100000",
             "--deadline", str(DEADLINE), "--metadata", "never", "--state-dir", STATE]
        )
    )  # fmt: skip
    _wait_for_signatures(vm, 10)
    vm.kill_tpm()
    out, error = running.communicate(timeout=DEADLINE + SLACK)
    assert "Traceback" not in error
    sentences = [line for line in error.splitlines() if line.startswith("tpm-tls-bench: ")]
    assert len(sentences) == 1, error
    assert "/dev/tpmrm0" in sentences[0]
    # Its key is still in the TPM, and it says so.
    assert running.returncode == 4, (out, error)
    assert "tpm-tls-bench evict" in sentences[0]

    # The guest's disk is in memory; a host's outlives the power cut, and with it the journal.
    journal = vm.ssh(f"tar -C {STATE} -cf - . | base64 -w0")
    vm.stop()
    assert vm.processes() == []
    vm.start()
    left = vm.handles()
    assert len(left["persistent"]) == len(before["persistent"]) + 1
    vm.ssh(f"mkdir -m 700 {STATE} && echo {journal} | base64 -d | tar -C {STATE} -xf -")
    evicted = vm.agent("evict", "--state-dir", STATE)
    assert evicted.returncode == 0, evicted.stderr
    assert evicted.stdout.startswith("freed 1 object")
    assert vm.handles() == before
