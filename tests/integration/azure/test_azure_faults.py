"""What Azure may do wrong on the way, and that no VM is made twice or left for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from tests.support.azure_double.faults import refusal
from tests.support.azure_double.store import DISK, VM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.azure.conftest import Azure

PUT_VM = r"^PUT .*/virtualMachines/"
PUT_SCHEDULE = r"^PUT .*/schedules/"
KEY = (VM, "bench-snp")
NETWORKS = {
    "virtualNetworks tpm-fleet-bench-trial-westeurope",
    "networkSecurityGroups tpm-fleet-bench-trial-westeurope",
}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_or_broken_server_is_asked_again(azure: Azure, status: int) -> None:
    azure.double.fail(on=PUT_VM, status=status, times=2)
    azure.double.fail(on=r"^GET /operations/", status=status, times=2)
    made = azure.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert azure.double.count(PUT_VM) == 3


def test_a_time_beyond_the_deadline_is_not_waited_for(azure: Azure) -> None:
    azure.double.fail(on=r"^GET .*/skus", status=429, headers={"Retry-After": "100"})
    failed = azure.vm(timeout=90)
    assert (failed.status, failed.answer["kind"]) == (1, "rate")
    assert azure.double.count("^GET .*/skus") == 1


def test_a_server_that_stays_broken_is_said_to_be(azure: Azure) -> None:
    azure.double.fail(on=r"^GET ", status=503, times=100)
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "server")
    assert azure.double.count("^GET ") == 7


def test_a_lost_response_does_not_make_two_vms(azure: Azure) -> None:
    azure.double.fail(on=PUT_VM, lose_response=True, times=2)
    made = azure.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert azure.double.count(PUT_VM) == 3
    assert [vm["name"] for vm in azure.double.store.named(VM)] == ["bench-snp"]
    assert azure.double.count(PUT_SCHEDULE) == 1


@pytest.mark.parametrize("part", ["publicIPAddresses", "networkInterfaces", "schedules"])
def test_a_lost_response_to_one_of_its_parts_does_not_matter(azure: Azure, part: str) -> None:
    azure.double.fail(on=f"^PUT .*/{part}/", lose_response=True)
    made = azure.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert azure.vm().answer["action"] == "none"


def test_a_vm_that_appeared_after_the_look_is_not_overwritten(azure: Azure) -> None:
    """Someone else's VM of the same name, made between this play's look and its request."""
    theirs = {"team": "other"}

    class Meanwhile(dict[Any, Any]):
        def get(self, key: Any, default: Any = None) -> Any:
            found = super().get(key, default)
            if key == KEY and azure.double.count(r"^GET .*/virtualMachines/") == 1:
                azure.double.store.held[KEY] = {
                    "id": azure.double.store.identity(*KEY),
                    "name": "bench-snp",
                    "type": VM,
                    "tags": theirs,
                    "properties": {"provisioningState": "Succeeded"},
                }
            return found

    azure.double.store.held = Meanwhile(azure.double.store.held)
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "not-ours"), failed.answer
    assert azure.double.store.held[KEY]["tags"] == theirs
    assert azure.double.count(r"^DELETE .*/virtualMachines/") == 0
    assert azure.double.store.names() == NETWORKS | {"virtualMachines bench-snp"}


def test_a_play_that_was_killed_after_the_request_goes_on_with_its_vm(azure: Azure) -> None:
    azure.double.fail(on=PUT_VM, slow=1000)
    late = azure.vm(timeout=8)
    assert (late.status, late.answer["kind"]) == (1, "deadline"), late.answer
    assert "Run again to go on waiting" in late.answer["msg"]
    azure.double.store.finish()
    again = azure.vm()
    assert again.status == 0, again.answer
    assert again.answer["action"] in ("none", "updated")  # the disk's tags may have been missing
    assert azure.double.count(PUT_VM) == 1


def test_a_play_that_was_killed_before_the_deadline_was_set_leaves_that_to_the_next(
    azure: Azure,
) -> None:
    azure.vm()
    azure.double.store.held = {
        key: item for key, item in azure.double.store.held.items() if "schedules" not in key[0]
    }
    again = azure.vm()
    assert (again.status, again.answer["action"]) == (0, "updated"), again.answer
    assert "schedules shutdown-computevm-bench-snp" in azure.double.store.names()


def test_a_play_that_was_killed_before_the_disk_was_tagged_leaves_that_to_the_next(
    azure: Azure,
) -> None:
    azure.vm()
    del azure.double.store.held[DISK, "bench-snp-os"]["tags"]
    assert azure.vm(check=True).answer["action"] == "updated"
    again = azure.vm()
    assert (again.status, again.answer["action"]) == (0, "updated"), again.answer
    assert azure.double.store.get(DISK, "bench-snp-os")["tags"]["tpm-fleet-bench"] == "trial"
    del azure.double.store.held[DISK, "bench-snp-os"]["tags"]
    assert azure.vm(state="absent").answer["action"] == "deleted"
    assert azure.double.store.names() == NETWORKS


def test_a_vm_that_cannot_get_its_deadline_is_not_kept(azure: Azure) -> None:
    message = "The subscription is not registered to use namespace 'Microsoft.DevTestLab'."
    azure.double.fail(
        on=PUT_SCHEDULE,
        status=409,
        error=refusal("MissingSubscriptionRegistration", message),
    )
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "provider"), failed.answer
    assert "az provider register --namespace Microsoft.DevTestLab" in failed.answer["msg"]
    assert azure.double.store.names() == NETWORKS


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("AllocationFailed", "capacity"),
        ("OverconstrainedAllocationRequest", "capacity"),
        ("OSProvisioningTimedOut", "invalid"),
        ("OperationPreempted", "busy"),
    ],
)
def test_an_operation_that_fails_leaves_nothing_and_is_classed(
    azure: Azure, code: str, kind: str
) -> None:
    azure.double.fail(on=PUT_VM, operation_error=(code, "It could not be done."))
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, kind), failed.answer
    assert failed.answer["msg"].startswith("It could not be done.")
    assert azure.double.count(PUT_VM) == 1
    assert azure.double.store.names() == NETWORKS


def test_what_cannot_be_taken_back_is_named(azure: Azure) -> None:
    azure.double.fail(on=PUT_VM, operation_error=("AllocationFailed", "It could not be done."))
    reserved = refusal("NicReservedForAnotherVm", "The interface is reserved for 180 seconds.")
    azure.double.fail(on="^DELETE .*/virtualMachines/", status=400, error=reserved)
    failed = azure.vm()
    assert failed.answer["kind"] == "capacity", failed.answer
    assert "What was made for it is still there: The interface is" in failed.answer["msg"]
    assert azure.vm(state="absent").answer["action"] == "deleted"


def test_a_failed_vm_needs_a_new_one(azure: Azure) -> None:
    azure.vm()
    azure.double.store.held[KEY]["properties"]["provisioningState"] = "Failed"
    refused = azure.vm()
    assert (refused.status, refused.answer["kind"]) == (1, "needs-recreation")
    assert "status is Failed, not running" in refused.answer["msg"]


@pytest.mark.parametrize(
    ("code", "message", "kind", "words"),
    [
        ("OperationNotAllowed", "exceeding approved Cores quota.", "quota", "Quotas"),
        (
            "AuthorizationFailed",
            "no authorization to perform action 'Microsoft.Compute/virtualMachines/write' over x.",
            "permission",
            "Grant Microsoft.Compute/virtualMachines/write",
        ),
    ],
)
def test_refusals_are_worded_and_leave_nothing(
    azure: Azure, code: str, message: str, kind: str, words: str
) -> None:
    azure.double.fail(on=PUT_VM, status=403, error=refusal(code, message))
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, kind), failed.answer
    assert words in failed.answer["msg"]
    assert azure.double.store.names() == NETWORKS


def test_a_provider_that_is_not_registered_is_named(azure: Azure) -> None:
    azure.double.store.unregistered.add("Microsoft.Compute")
    failed = azure.vm()
    assert failed.answer["kind"] == "provider"
    assert "az provider register --namespace Microsoft.Compute" in failed.answer["msg"]


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_group_or_subscription_that_is_not_there_is_no_empty_one(
    azure: Azure, state: str
) -> None:
    for option, kind in (("resource_group", "no-group"), ("subscription_id", "no-subscription")):
        failed = azure.vm(state=state, **{option: "other"})
        assert (failed.status, failed.answer["kind"]) == (1, kind), failed.answer
        assert azure.run("azure_leftovers", **{option: "other"}).answer["kind"] == kind


def test_a_vm_that_vanishes_at_once_is_said_to_have(azure: Azure) -> None:
    azure.double.fail(on=PUT_VM, slow=0.5, vanish=True)
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "vanished"), failed.answer


def test_a_lost_response_to_a_deletion_is_a_deletion(azure: Azure) -> None:
    azure.vm()
    azure.double.fail(on=r"^DELETE .*/virtualMachines/", lose_response=True)
    gone = azure.vm(state="absent")
    assert (gone.status, gone.answer["action"]) == (0, "deleted"), gone.answer
    assert azure.double.store.named(VM) == []


def test_a_vm_that_is_going_is_made_anew_when_it_is_gone(azure: Azure) -> None:
    number = azure.vm().answer["vm"]["id"]
    azure.double.store.latency = 0.3
    azure.double.store.delete(*KEY, None)
    made = azure.vm()
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert made.answer["vm"]["id"] != number


def test_no_token_is_sent_to_an_address_elsewhere(azure: Azure) -> None:
    azure.double.fail(
        on="^PUT .*/publicIPAddresses/",
        status=202,
        headers={"Azure-AsyncOperation": "https://192.0.2.1/operations/1"},
    )
    failed = azure.vm()
    assert (failed.status, failed.answer["kind"]) == (1, "server"), failed.answer
    assert "on 192.0.2.1, to which no token is sent" in failed.answer["msg"]


def test_a_token_that_is_not_accepted_is_said_to_be(azure: Azure) -> None:
    failed = azure.vm(access_token="expired")  # noqa: S106 - no secret
    assert (failed.status, failed.answer["kind"]) == (1, "credentials")
    assert "expired" not in failed.text


def principal(azure: Azure, **options: Any) -> dict[str, Any]:
    """Options for a service principal that the double knows."""
    return {
        "auth_kind": "service_principal",
        "tenant_id": "tenant",
        "client_id": "application",
        "access_token": None,
        "authority_host": azure.double.endpoint.removeprefix("https://"),
    } | options


def test_a_service_principal_gets_its_own_token(
    azure: Azure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(azure.double.ca_file))
    made = azure.vm(**principal(azure, client_secret="right"))  # noqa: S106
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    (grant,) = azure.double.grants
    assert grant["scope"] == f"{azure.double.endpoint}/.default"
    refused = azure.vm(**principal(azure, client_secret="wrong"))  # noqa: S106
    assert (refused.status, refused.answer["kind"]) == (1, "credentials")
    assert "AADSTS7000215" in refused.answer["msg"]
    assert "az login" in refused.answer["msg"]


def test_a_service_principal_may_have_a_certificate(
    azure: Azure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(azure.double.ca_file))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "principal.pem"
    file.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    made = azure.vm(**principal(azure, client_certificate_file=str(file)))
    assert (made.status, made.answer["action"]) == (0, "created"), made.answer
    assert "client_assertion" in azure.double.grants[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"client_certificate_file": "/no/such/file.pem"}, "/no/such/file.pem"),
        ({"client_secret": "x", "tenant_id": "not a tenant!"}, "tenant"),
    ],
)
def test_unusable_credentials_are_one_sentence(
    azure: Azure, options: dict[str, Any], words: str
) -> None:
    failed = azure.vm(**principal(azure, **options))
    assert (failed.status, failed.answer["kind"]) == (1, "credentials"), failed.answer
    assert words in failed.answer["msg"]
    assert azure.double.requests == []


def test_an_endpoint_with_another_certificate_gets_no_token(azure: Azure) -> None:
    failed = azure.vm(api_ca_file=None)
    assert (failed.status, failed.answer["kind"]) == (1, "unreachable")
    assert "is not trusted" in failed.answer["msg"]
    assert azure.double.requests == []


def test_an_endpoint_without_tls_is_refused(azure: Azure) -> None:
    failed = azure.vm(api_endpoint=azure.double.endpoint.replace("https", "http"))
    assert "must begin with https://" in failed.answer["msg"]
