"""The security group that lets SSH through to the VMs of a fleet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ansible.module_utils.cloud_rules import OWN_LABEL
from ansible.module_utils.ec2_body import MADE_TAG, as_tags, tags_in
from ansible.module_utils.ec2_errors import Ec2Error

if TYPE_CHECKING:
    from ansible.module_utils.ec2_api import Api


def group_name(fleet: str) -> str:
    """What the fleet's group is called."""
    return f"{OWN_LABEL}-{fleet}-ssh"


def vpc_of(api: Api, subnet: str | None) -> str:
    """The VPC of a subnet, or the region's default VPC.

    Raises:
        Ec2Error: there is none (kind ``not-found``), or it cannot be read.
    """
    if subnet:
        found = api.call("describe_subnets", SubnetIds=[subnet]).get("Subnets", [])
    else:
        wanted = [{"Name": "is-default", "Values": ["true"]}]
        found = list(api.each("describe_vpcs", "Vpcs", Filters=wanted))
    if not found:
        raise Ec2Error(
            "not-found",
            f"{api.region} has no default VPC in this account; name a subnet, or make one: aws ec2 "
            f"create-default-vpc --region {api.region}",
        )
    vpc: str = found[0]["VpcId"]
    return vpc


def find_group(api: Api, fleet: str, vpc: str) -> dict[str, Any] | None:
    """The fleet's group in a VPC.

    Raises:
        Ec2Error: a group of that name is not ours (kind ``not-ours``), or it cannot be read.
    """
    wanted = [
        {"Name": "group-name", "Values": [group_name(fleet)]},
        {"Name": "vpc-id", "Values": [vpc]},
    ]
    for group in api.each("describe_security_groups", "SecurityGroups", Filters=wanted):
        if tags_in(group).get(OWN_LABEL) != fleet:
            raise Ec2Error(
                "not-ours",
                f"There is a security group {group_name(fleet)} ({group['GroupId']}) in "
                f"{api.region} that this project did not make; it is left alone. Choose another "
                "name for the fleet.",
            )
        return group
    return None


def make_group(api: Api, fleet: str, vpc: str) -> dict[str, Any]:
    """Make the fleet's group, with nothing let through yet.

    Raises:
        Ec2Error: refused.
    """
    made = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S+00:00}"  # the API keeps no such time
    tags = as_tags({OWN_LABEL: fleet, MADE_TAG: made, "Name": group_name(fleet)})
    try:
        api.call(
            "create_security_group",
            GroupName=group_name(fleet),
            Description=f"SSH to the VMs of {OWN_LABEL} {fleet}",
            VpcId=vpc,
            TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
        )
    except Ec2Error as error:
        # An earlier attempt got through after all, or another host's.
        if error.code != "InvalidGroup.Duplicate":
            raise
    return api.until(
        lambda: find_group(api, fleet, vpc), f"the API does not know {group_name(fleet)} yet"
    )


def ranges_of(group: dict[str, Any]) -> list[str]:
    """What it lets through to port 22 by range, and anything else in words, so that it differs."""
    found = []
    for entry in group.get("IpPermissions", []):
        if (entry.get("IpProtocol"), entry.get("FromPort"), entry.get("ToPort")) != ("tcp", 22, 22):
            found.append(f"{entry.get('IpProtocol')} {entry.get('FromPort')}-{entry.get('ToPort')}")
            continue
        found += [item["CidrIp"] for item in entry.get("IpRanges", [])]
        found += [item["CidrIpv6"] for item in entry.get("Ipv6Ranges", [])]
        found += [f"group {item.get('GroupId')}" for item in entry.get("UserIdGroupPairs", [])]
        found += [f"list {item.get('PrefixListId')}" for item in entry.get("PrefixListIds", [])]
    return sorted(found)


def permission(source_ranges: list[str]) -> dict[str, Any]:
    """SSH from ranges, in the API's form."""
    return {
        "IpProtocol": "tcp",
        "FromPort": 22,
        "ToPort": 22,
        "IpRanges": [{"CidrIp": text} for text in source_ranges if ":" not in text],
        "Ipv6Ranges": [{"CidrIpv6": text} for text in source_ranges if ":" in text],
    }


def set_ranges(api: Api, fleet: str, group: dict[str, Any], source_ranges: list[str]) -> None:
    """Let SSH through from these ranges alone; what else the group lets in is taken away.

    Every host's task does so at the same time, so what one finds in the way may be gone already.

    Raises:
        Ec2Error: refused.
    """

    def done() -> bool:
        nonlocal group
        try:
            _set_ranges(api, group, source_ranges)
        except Ec2Error as error:
            if error.code != "InvalidPermission.NotFound":
                raise
            group = find_group(api, fleet, group["VpcId"]) or group
            return False
        return True

    api.until(done, f"the rules of {group_name(fleet)} are being changed")


def _set_ranges(api: Api, group: dict[str, Any], source_ranges: list[str]) -> None:
    there = set(ranges_of(group))
    if surplus := there - set(source_ranges):
        entries = [
            entry
            for entry in group.get("IpPermissions", [])
            if surplus & set(ranges_of({"IpPermissions": [entry]}))
        ]
        api.call(
            "revoke_security_group_ingress", GroupId=group["GroupId"], IpPermissions=_sent(entries)
        )
        there = {text for text in there if not surplus & _beside(text, entries)}
    if missing := sorted(set(source_ranges) - there):
        try:
            api.call(
                "authorize_security_group_ingress",
                GroupId=group["GroupId"],
                IpPermissions=[permission(missing)],
            )
        except Ec2Error as error:
            if error.code != "InvalidPermission.Duplicate":  # another host's play was first
                raise


def _beside(text: str, entries: list[dict[str, Any]]) -> set[str]:
    """The ranges of the entry that a range stands in."""
    return {
        other
        for entry in entries
        if text in ranges_of({"IpPermissions": [entry]})
        for other in ranges_of({"IpPermissions": [entry]})
    }


def _sent(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries as a request takes them: without what is empty."""
    return [{name: value for name, value in entry.items() if value != []} for entry in entries]


def remove_group(api: Api, number: str) -> None:
    """Remove a group; wait while a VM that is going still has it; one that is gone already too.

    Raises:
        Ec2Error: refused, or still in use at the deadline.
    """

    def gone() -> bool:
        try:
            api.find("delete_security_group", GroupId=number)
        except Ec2Error as error:
            if error.code != "DependencyViolation":
                raise
            return False
        return True

    api.until(gone, f"the security group {number} is still in use")
