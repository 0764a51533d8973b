"""One VM and what belongs to it: read, made, given its deadline, removed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_body import (
    address_body,
    interface_body,
    names,
    schedule_body,
    schedule_holds,
    tag,
    timed,
    vm_body,
)
from ansible.module_utils.azure_errors import AzureError
from ansible.module_utils.azure_pieces import ADDRESS, DISK, INTERFACE, SCHEDULE, VM, Piece
from ansible.module_utils.azure_rules import DEADLINE_TAG, technology_of
from ansible.module_utils.cloud_errors import line
from ansible.module_utils.cloud_rules import OWN_LABEL

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api

_UNSETTLED = ("Creating", "Updating", "Deleting", "Migrating")
_TYPES = {"SNP": "SEV_SNP", "TDX": "TDX"}  # Azure's words for technologies, and every cloud's
# The order in which the pieces can be removed.
_PIECES = (VM, SCHEDULE, INTERFACE, ADDRESS, DISK)


class Machine:
    """A VM that may or may not exist.

    Args:
        api: the client.
        name: its name.
        fleet: whose it must be, if it exists.
    """

    def __init__(self, api: Api, name: str, fleet: str) -> None:
        self.api = api
        self.name = name
        called = names(name)
        users = tuple(api.resource(kind, called[kind]) for kind in (VM, INTERFACE))
        self.pieces = {kind: Piece(api, kind, called[kind], fleet, users) for kind in _PIECES}

    def find(self) -> dict[str, Any] | None:
        """What the API says of the VM; None where there is none.

        Raises:
            AzureError: it is not this fleet's (kind ``not-ours``), or cannot be read.
        """
        return self.pieces[VM].find({"$expand": "instanceView"})

    def settled(self) -> dict[str, Any] | None:
        """As :meth:`find`, after it has finished being made, changed or removed.

        Raises:
            AzureError: as :meth:`find`, or it does not settle until the deadline.
        """

        def look() -> tuple[dict[str, Any] | None] | None:
            found = self.find()
            state = found["properties"].get("provisioningState") if found else ""
            return None if state in _UNSETTLED else (found,)

        under_way = f"{self.name} is still being made or removed"
        return self.api.deadline.until(look, under_way)[0]

    def has_deadline(self, vm: dict[str, Any]) -> bool:
        """Whether the VM's auto-shutdown is set to its deadline.

        Raises:
            AzureError: it cannot be read.
        """
        wanted = schedule_body(vm, {DEADLINE_TAG: ends_at(vm)})
        return schedule_holds(self.pieces[SCHEDULE].find(), wanted)

    def set_deadline(self, vm: dict[str, Any], tags: dict[str, str]) -> None:
        """Have Azure deallocate the VM at its deadline.

        Args:
            vm: its ``id`` and ``location``.
            tags: of the auto-shutdown, the deadline among them.

        Raises:
            AzureError: it is refused.
        """
        self.pieces[SCHEDULE].find()  # someone else's is not overwritten
        self.pieces[SCHEDULE].put(schedule_body(vm, tags))

    def create(self, options: dict[str, Any], image_version: str) -> None:
        """Make the VM with all that belongs to it, and give it its deadline before it boots.

        What fails half-way is removed again.

        Args:
            options: the module's options.
            image_version: of the image.

        Raises:
            AzureError: it cannot be made.
        """
        tags = timed(options["tags"], options["max_run_duration"])
        for kind in (SCHEDULE, INTERFACE, ADDRESS, DISK):
            self.pieces[kind].find()  # refuses what another fleet has under that name
        try:
            self._create(options, image_version, tags)
        except AzureError as error:
            # What is only slow is gone on with by the next play.
            if error.kind != "deadline":
                self._take_back(error)
            raise
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # An answer of another form: nobody knows whether the deadline is set.
            self._take_back(AzureError("server", f"Azure's answer is odd: {line(error)}."))
            raise

    def _create(self, options: dict[str, Any], image_version: str, tags: dict[str, str]) -> None:
        location = options["location"]
        address = ""
        if options["public_address"]:
            self.pieces[ADDRESS].put(address_body(location, tags))
            address = self.pieces[ADDRESS].path
        interface = interface_body(
            location,
            tags,
            subnet=options["subnet_id"],
            group=options["network_security_group_id"] or "",
            address=address,
        )
        self.pieces[INTERFACE].put(interface)
        vm = self.pieces[VM]
        body = vm_body(options, self.pieces[INTERFACE].path, image_version, tags)
        try:
            # Only made, never overwritten: so that another's VM of this name is safe even if it
            # appeared after the look at it.
            making = self.api.begin("PUT", vm.path, body, {"If-None-Match": "*"})
        except AzureError as error:
            # An earlier attempt got through after all. Whether it is what was asked for is
            # compared afterwards, as for any VM.
            found = self.find() if error.kind == "conflict" else None
            if found is None:
                raise
            making, tags = None, tags | {DEADLINE_TAG: ends_at(found)}
        self.set_deadline({"id": vm.path, "location": location}, tags)
        if making:
            self.api.wait(making)
        self.name_disk(tags)

    def disk_is_named(self) -> bool:
        """Whether the boot disk carries the fleet's name, so that it is known without the VM.

        Raises:
            AzureError: it is another's, or cannot be read.
        """
        disk = self.pieces[DISK].find()
        return disk is None or tag(disk, OWN_LABEL) is not None

    def name_disk(self, tags: dict[str, str]) -> None:
        """Have the boot disk carry the VM's tags.

        Raises:
            AzureError: it is another's, or refused.
        """
        disk = self.pieces[DISK].find()
        if disk is not None and tag(disk, OWN_LABEL) is None:
            self.api.change(
                "PATCH", self.pieces[DISK].path, {"tags": (disk.get("tags") or {}) | tags}
            )

    def _take_back(self, error: AzureError) -> None:
        """Remove what was made before it failed, and nothing that is another's."""
        failures = []
        # Where the VM of that name is another's, so is what serves it without a tag.
        stranger = error.kind == "not-ours"
        for piece in self.pieces.values():
            try:
                found = piece.find()
                if found is not None and not (stranger and tag(found, OWN_LABEL) is None):
                    piece.delete()
            except AzureError as second:
                if second.kind != "not-ours":
                    failures.append(str(second))
        if failures:
            said = f"{str(error).rstrip('.')}. What was made for it is still there: {failures[0]}"
            raise AzureError(error.kind, said) from error

    def set_tags(self, wanted: dict[str, str]) -> None:
        """Change tags; what others added stays.

        Raises:
            AzureError: refused.
        """
        path = self.pieces[VM].path
        there = {
            key: value
            for key, value in (self.api.get(path).get("tags") or {}).items()
            if key.lower() not in wanted
        }
        self.api.change("PATCH", path, {"tags": there | wanted})

    def delete(self) -> bool:
        """Remove the VM and all that belongs to it; each is gone when this returns.

        Returns:
            Whether there was anything.

        Raises:
            AzureError: refused, or still there at the deadline.
        """
        there = [piece for piece in self.pieces.values() if piece.find() is not None]
        for piece in there:
            piece.delete()
        return bool(there)

    def summary(self, vm: dict[str, Any]) -> dict[str, Any]:
        """What callers need to know of the VM, out of the API's answers.

        Raises:
            AzureError: its addresses cannot be read.
        """
        properties = vm["properties"]
        size = properties["hardwareProfile"]["vmSize"]
        security = properties.get("securityProfile", {}).get("securityType", "Standard")
        internal, outside = self._addresses()
        # The API names no technology; it is the size's.
        technology = technology_of(size) if security == "ConfidentialVM" else None
        return {
            "id": properties.get("vmId", ""),
            "name": vm["name"],
            "status": power(vm),
            "security_type": security,
            "confidential_instance_type": _TYPES.get(technology or "", "none"),
            "vm_size": size,
            "address": outside or internal,
            "internal_address": internal,
            "tags": vm.get("tags") or {},
            "ends_at": ends_at(vm),
        }

    def _addresses(self) -> tuple[str, str]:
        interface = self.api.find(self.pieces[INTERFACE].path) or {}
        configurations = interface.get("properties", {}).get("ipConfigurations") or [{}]
        inner = configurations[0].get("properties", {})
        outside = ""
        if inner.get("publicIPAddress"):
            found = self.api.find(self.pieces[ADDRESS].path) or {}
            outside = found.get("properties", {}).get("ipAddress", "")
        return inner.get("privateIPAddress", ""), outside


def power(vm: dict[str, Any]) -> str:
    """Whether the VM runs, in Azure's words: running, stopped, deallocated.

    The provisioning state where that says more.
    """
    state = str(vm["properties"].get("provisioningState", ""))
    if state != "Succeeded":
        return state
    statuses = vm["properties"].get("instanceView", {}).get("statuses") or []
    codes = [str(status.get("code", "")) for status in statuses]
    found = next((code for code in codes if code.startswith("PowerState/")), "PowerState/running")
    return found.removeprefix("PowerState/")


def ends_at(vm: dict[str, Any]) -> str:
    """The VM's deadline, RFC 3339; the moment that it was made where its tag is not legible.

    A VM whose deadline nobody can read is taken for one that is past it.
    """
    said = tag(vm, DEADLINE_TAG) or ""
    for text in (said, str(vm["properties"].get("timeCreated", ""))):
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            continue
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).isoformat()
    return datetime.fromtimestamp(0, UTC).isoformat()


def overdue(vm: dict[str, Any], now: datetime | None = None) -> bool:
    """Whether the VM's deadline has passed."""
    return datetime.fromisoformat(ends_at(vm)) <= (now or datetime.now(UTC))
