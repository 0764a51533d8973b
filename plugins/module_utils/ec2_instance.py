"""One VM through the API: read, made, changed, removed."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_leftovers import moment
from ansible.module_utils.cloud_rules import OWN_LABEL, not_ours
from ansible.module_utils.ec2_body import SECONDS_TAG, as_tags, client_token, tags_in
from ansible.module_utils.ec2_errors import Ec2Error

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from ansible.module_utils.ec2_api import Api

GONE = "terminated"  # an hour later the API forgets it
UNSETTLED = ("pending", "stopping", "shutting-down")


def instances(api: Api, filters: dict[str, list[str]]) -> Iterator[dict[str, Any]]:
    """Every VM that passes the filters.

    Raises:
        Ec2Error: the list is refused.
    """
    wanted = [{"Name": name, "Values": values} for name, values in filters.items()]
    for reservation in api.each("describe_instances", "Reservations", Filters=wanted):
        yield from reservation.get("Instances", [])


class Instance:
    """A VM that may or may not exist. EC2 knows VMs by number; ours have a name, as a tag.

    Args:
        api: the client.
        name: its name.
        fleet: whose it is.
    """

    def __init__(self, api: Api, name: str, fleet: str) -> None:
        self.api = api
        self.name = name
        self.fleet = fleet

    def found(self) -> tuple[list[dict[str, Any]], list[str]]:
        """The VMs of that name that are there, and the ids of those that are gone.

        Raises:
            Ec2Error: one of them is not of our fleet (kind ``not-ours``), or they cannot be read.
        """
        ours, others, gone = self._named()
        if others:
            raise self._not_ours(others[0])
        return ours, gone

    def to_remove(self) -> list[dict[str, Any]]:
        """Our VMs of that name. Names are not unique on EC2: another's beside them is left alone.

        Raises:
            Ec2Error: there are only others' (kind ``not-ours``), or they cannot be read.
        """
        ours, others, _ = self._named()
        if others and not ours:
            raise self._not_ours(others[0])
        return ours

    def _named(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
        """The VMs of that name: ours, others', and the ids of those that are gone."""
        every = list(instances(self.api, {"tag:Name": [self.name]}))
        there = [item for item in every if item["State"]["Name"] != GONE]
        ours = [item for item in there if tags_in(item).get(OWN_LABEL) == self.fleet]
        others = [item for item in there if item not in ours]
        return ours, others, [item["InstanceId"] for item in every if item not in there]

    def _not_ours(self, item: dict[str, Any]) -> Ec2Error:
        name = f"{self.name} ({item['InstanceId']})"
        whose = tags_in(item).get(OWN_LABEL)
        return Ec2Error("not-ours", not_ours(name, self.api.region, whose))

    def settled(self, number: str = "") -> tuple[dict[str, Any] | None, list[str]]:
        """As :meth:`found`, of the one VM, after it has finished starting or going.

        Args:
            number: id of the VM that was just made; the API may take a while to know it.

        Raises:
            Ec2Error: as :meth:`found`; there are two (kind ``conflict``); or it does not settle
                until the deadline.
        """

        def look() -> tuple[dict[str, Any] | None, list[str]] | None:
            there, gone = self.found()
            if any(item["State"]["Name"] in UNSETTLED for item in there):
                return None
            if number and number not in gone + [item["InstanceId"] for item in there]:
                return None
            if len(there) > 1:
                ids = ", ".join(item["InstanceId"] for item in there)
                raise Ec2Error(
                    "conflict",
                    f"There are {len(there)} VMs {self.name} in {self.api.region}: {ids}. Remove "
                    "them with state absent, and run again.",
                )
            return (there[0] if there else None), gone

        return self.api.until(look, f"{self.name} is still starting or being terminated")

    def behaviour(self, number: str) -> str:
        """What becomes of a VM that shuts itself down: ``terminate`` or ``stop``.

        Raises:
            Ec2Error: it cannot be read.
        """
        # What has just been made is not known to each part of the API at once.
        answer: dict[str, Any] = self.api.until(
            lambda: self.api.find(
                "describe_instance_attribute",
                InstanceId=number,
                Attribute="instanceInitiatedShutdownBehavior",
            ),
            f"the API does not say how {number} ends",
        )
        value: str = answer.get("InstanceInitiatedShutdownBehavior", {}).get("Value", "")
        return value

    def run(self, body: dict[str, Any], gone: list[str]) -> dict[str, Any]:
        """Make it.

        Args:
            body: of :func:`ec2_body.instance_body`.
            gone: ids of VMs of that name that are no more.

        Returns:
            What the API says of it at once.

        Raises:
            Ec2Error: it cannot be made.
        """
        token = client_token(body, gone)
        try:
            answer = self.api.call("run_instances", **body, ClientToken=token)
        except Ec2Error as error:
            # The same VM was made before, and is so long gone that nothing but its token is known.
            if error.code != "IdempotentInstanceTerminated":
                raise
            answer = self.api.call("run_instances", **body, ClientToken=str(uuid.uuid4()))
        made: dict[str, Any] = answer["Instances"][0]
        return made

    def tag(self, number: str, tags: dict[str, str]) -> None:
        """Set tags; what others added stays.

        Raises:
            Ec2Error: refused.
        """
        self.api.call("create_tags", Resources=[number], Tags=as_tags(tags))

    def terminate(self, there: list[dict[str, Any]]) -> None:
        """Remove them with their volumes, and wait until the API says that they are gone.

        Raises:
            Ec2Error: refused, or still there at the deadline.
        """
        for item in there:
            terminate(self.api, item["InstanceId"])
        disks = [
            mapping["Ebs"]["VolumeId"]
            for item in there
            for mapping in item.get("BlockDeviceMappings", [])
            if mapping.get("Ebs", {}).get("DeleteOnTermination")
        ]
        if disks:
            wanted = [{"Name": "volume-id", "Values": disks}]
            self.api.until(
                lambda: not list(self.api.each("describe_volumes", "Volumes", Filters=wanted)),
                f"the volume of {self.name} is still there",
            )


def terminate(api: Api, number: str) -> None:
    """Terminate one VM and wait until it is; one that is gone already too.

    Raises:
        Ec2Error: refused, or still there at the deadline.
    """
    if api.find("terminate_instances", InstanceIds=[number]) is None:
        return

    def gone() -> bool:
        found = list(instances(api, {"instance-id": [number]}))
        return all(item["State"]["Name"] == GONE for item in found)

    api.until(gone, f"{number} is still being terminated")


def ends_at(found: dict[str, Any]) -> datetime | None:
    """When the VM's deadline is, by its start and the tag that it was made with."""
    seconds, started = tags_in(found).get(SECONDS_TAG, ""), moment(found.get("LaunchTime"))
    if started is None or not (seconds.isdecimal() and len(seconds) < 10):  # anyone may edit a tag
        return None
    return started + timedelta(seconds=int(seconds))


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """What callers need to know of a VM, out of the API's answer."""
    snp = found.get("CpuOptions", {}).get("AmdSevSnp") == "enabled"
    internal = found.get("PrivateIpAddress", "")
    ends = ends_at(found)
    return {
        "id": found["InstanceId"],
        "name": tags_in(found).get("Name", ""),
        "status": found["State"]["Name"],
        "confidential_instance_type": "SEV_SNP" if snp else "none",
        "tpm_support": found.get("TpmSupport", ""),
        "machine_type": found.get("InstanceType", ""),
        "zone": found.get("Placement", {}).get("AvailabilityZone", ""),
        "address": found.get("PublicIpAddress") or internal,
        "internal_address": internal,
        "tags": tags_in(found),
        "ends_at": ends.isoformat() if ends else "",
    }
