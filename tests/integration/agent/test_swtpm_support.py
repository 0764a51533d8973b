"""The software TPM of the tests does what the other tests take for granted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support import tpm

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.swtpm import Swtpm


def test_instances_do_not_see_each_other(make_swtpm: Callable[..., Swtpm]) -> None:
    one, other = make_swtpm(), make_swtpm()
    name = tpm.put_key(one.tcti, 0x81000004)
    assert one.handles().persistent == {(0x81000004, name)}
    assert other.handles() == (frozenset(), frozenset())


def test_persistent_objects_survive_a_power_cut_and_transient_ones_do_not(swtpm: Swtpm) -> None:
    name = tpm.put_key(swtpm.tcti, 0x81000004)
    with tpm.esapi(swtpm.tcti) as esys:
        tpm.make_key(esys, seed=b"loaded")
    assert len(swtpm.handles().transient) == 1
    swtpm.restart()
    assert swtpm.handles() == (frozenset({(0x81000004, name)}), frozenset())


def test_lockout_is_reached_by_one_guess(swtpm: Swtpm) -> None:
    assert tpm.lockout_counter(swtpm.tcti) == 0
    tpm.lock_out(swtpm.tcti)
    assert tpm.lockout_counter(swtpm.tcti) == 1
