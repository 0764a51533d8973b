"""What each of the APIs' operations does to the double's state."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.support.ec2_double import rules
from tests.support.ec2_double.faults import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.ec2_double.store import Store

Answer = dict[str, Any]


def _value(item: Answer, name: str) -> list[str]:
    """What a filter of that name looks at."""
    tags = {tag["Key"]: tag["Value"] for tag in item.get("Tags", [])}
    if name.startswith("tag:"):
        return [tags[name[4:]]] if name[4:] in tags else []
    looks: dict[str, Callable[[], list[str]]] = {
        "tag-key": lambda: list(tags),
        "instance-id": lambda: [item["InstanceId"]],
        "instance-state-name": lambda: [item["State"]["Name"]],
        "volume-id": lambda: [item["VolumeId"]],
        "group-name": lambda: [item["GroupName"]],
        "vpc-id": lambda: [item["VpcId"]],
        "is-default": lambda: [str(item["IsDefault"]).lower()],
    }
    if name not in looks:
        raise RefusedError(400, "InvalidParameterValue", f"The filter '{name}' is invalid")
    return looks[name]()


def _passing(items: Any, body: Answer) -> list[Answer]:
    return [
        item
        for item in items
        if all(set(_value(item, f["Name"])) & set(f["Values"]) for f in body.get("Filters", []))
    ]


def _paged(store: Store, field: str, items: list[Answer], body: Answer) -> Answer:
    start = int(body.get("NextToken", "0"))
    end = start + store.page_size
    return {field: items[start:end]} | ({"NextToken": str(end)} if end < len(items) else {})


def _run(store: Store, body: Answer, fault: Any) -> Answer:
    if body["ImageId"] not in store.images:
        raise RefusedError(
            400, "InvalidAMIID.NotFound", f"The image id '[{body['ImageId']}]' does not exist"
        )
    image = store.images[body["ImageId"]]
    if why := rules.run_instances(body, image, store.region):
        raise RefusedError(400, *why)
    return {"ReservationId": "r-1", "Instances": [store.run(body, fault)]}


def _instances(store: Store, body: Answer, _: Any) -> Answer:
    found = _passing(store.seen(), body)
    return _paged(store, "Reservations", [{"Instances": [item]} for item in found], body)


def _attribute(store: Store, body: Answer, _: Any) -> Answer:
    store.instance(body["InstanceId"])
    asked = store.bodies[body["InstanceId"]]
    if body["Attribute"] != "instanceInitiatedShutdownBehavior":
        raise RefusedError(400, "InvalidParameterValue", "The double knows no such attribute.")
    value = asked.get("InstanceInitiatedShutdownBehavior", "stop")
    return {
        "InstanceId": body["InstanceId"],
        "InstanceInitiatedShutdownBehavior": {"Value": value},
    }


def _terminate(store: Store, body: Answer, fault: Any) -> Answer:
    changes = []
    for number in body["InstanceIds"]:
        before, now = store.terminate(number, fault)
        changes.append(
            {
                "InstanceId": number,
                "PreviousState": {"Name": before},
                "CurrentState": {"Name": now},
            }
        )
    return {"TerminatingInstances": changes}


def _tag(store: Store, body: Answer, _: Any) -> Answer:
    for number in body["Resources"]:
        resource = store.instance(number)
        tags = {tag["Key"]: tag for tag in [*resource["Tags"], *body["Tags"]]}
        resource["Tags"] = list(tags.values())
    return {}


def _images(store: Store, body: Answer, _: Any) -> Answer:
    for number in body["ImageIds"]:
        if number not in store.images:
            raise RefusedError(
                400, "InvalidAMIID.NotFound", f"The image id '[{number}]' does not exist"
            )
    return {"Images": [store.images[number] for number in body["ImageIds"]]}


def _types(store: Store, body: Answer, _: Any) -> Answer:
    found = []
    for name in body["InstanceTypes"]:
        if name not in rules.KNOWN_TYPES:
            raise RefusedError(
                400,
                "InvalidInstanceType",
                f"The following supplied instance types do not exist: [{name}]",
            )
        snp = name in rules.SNP_TYPES and store.region in rules.SNP_REGIONS
        processor: Answer = {"Manufacturer": "AMD"}
        if snp:
            processor["SupportedFeatures"] = ["amd-sev-snp"]
        found.append(
            {"InstanceType": name, "ProcessorInfo": processor, "NitroTpmSupport": "supported"}
        )
    return {"InstanceTypes": found}


def _console(store: Store, body: Answer, _: Any) -> Answer:
    store.instance(body["InstanceId"])
    vm = store.vms.get(body["InstanceId"])
    if vm is None or not vm.console:
        return {"InstanceId": body["InstanceId"]}
    kept = vm.console[-65536:]
    return {
        "InstanceId": body["InstanceId"],
        "Output": base64.b64encode(kept.encode()).decode(),
    }


def _ek(store: Store, body: Answer, _: Any) -> Answer:
    store.instance(body["InstanceId"])
    vm = store.vms.get(body["InstanceId"])
    keys = vm.endorsement_keys if vm else {}
    if body["KeyType"] not in keys or body["KeyFormat"] != "der":
        raise RefusedError(
            400, "UnsupportedOperation", "The operation is not supported for this instance."
        )
    return {name: body[name] for name in ("InstanceId", "KeyType", "KeyFormat")} | {
        "KeyValue": keys[body["KeyType"]]
    }


def _volumes(store: Store, body: Answer, _: Any) -> Answer:
    return _paged(store, "Volumes", _passing(store.volumes.values(), body), body)


def _delete_volume(store: Store, body: Answer, _: Any) -> Answer:
    number = body["VolumeId"]
    if number not in store.volumes or store.volumes[number]["State"] == "deleting":
        raise RefusedError(400, "InvalidVolume.NotFound", f"The volume '{number}' does not exist.")
    if store.volumes[number]["State"] == "in-use":
        raise RefusedError(400, "VolumeInUse", f"Volume {number} is currently attached")
    del store.volumes[number]
    return {}


def _vpcs(store: Store, body: Answer, _: Any) -> Answer:
    return _paged(store, "Vpcs", _passing(store.vpcs.values(), body), body)


def _subnets(store: Store, body: Answer, _: Any) -> Answer:
    for number in body["SubnetIds"]:
        if number not in store.subnets:
            raise RefusedError(
                400, "InvalidSubnetID.NotFound", f"The subnet ID '{number}' does not exist"
            )
    return {"Subnets": [store.subnets[number] for number in body["SubnetIds"]]}


def _groups(store: Store, body: Answer, _: Any) -> Answer:
    return _paged(store, "SecurityGroups", _passing(store.groups.values(), body), body)


def _create_group(store: Store, body: Answer, _: Any) -> Answer:
    for group in store.groups.values():
        if (group["GroupName"], group["VpcId"]) == (body["GroupName"], body["VpcId"]):
            raise RefusedError(
                400, "InvalidGroup.Duplicate", f"The security group '{body['GroupName']}' exists"
            )
    number = store.number("sg")
    tags = {item["ResourceType"]: item["Tags"] for item in body.get("TagSpecifications", [])}
    store.groups[number] = {
        "GroupId": number,
        "GroupName": body["GroupName"],
        "Description": body["Description"],
        "VpcId": body["VpcId"],
        "IpPermissions": [],
        "Tags": tags.get("security-group", []),
    }
    return {"GroupId": number}


def _group(store: Store, number: str) -> Answer:
    if number not in store.groups:
        raise RefusedError(
            400, "InvalidGroup.NotFound", f"The security group '{number}' does not exist"
        )
    return store.groups[number]


def _delete_group(store: Store, body: Answer, _: Any) -> Answer:
    _group(store, body["GroupId"])
    for instance in store.live():
        interface = store.bodies[instance["InstanceId"]]["NetworkInterfaces"][0]
        if body["GroupId"] in interface.get("Groups", []):
            raise RefusedError(
                400, "DependencyViolation", f"resource {body['GroupId']} has a dependent object"
            )
    del store.groups[body["GroupId"]]
    return {}


def _authorize(store: Store, body: Answer, _: Any) -> Answer:
    group = _group(store, body["GroupId"])
    for entry in body["IpPermissions"]:
        if entry in group["IpPermissions"]:
            raise RefusedError(400, "InvalidPermission.Duplicate", "the rule already exists")
        group["IpPermissions"].append(entry)
    return {}


def _revoke(store: Store, body: Answer, _: Any) -> Answer:
    group = _group(store, body["GroupId"])
    for entry in body["IpPermissions"]:
        if entry not in group["IpPermissions"]:
            raise RefusedError(400, "InvalidPermission.NotFound", "The rule does not exist.")
        group["IpPermissions"].remove(entry)
    return {}


def _create_schedule(store: Store, body: Answer, _: Any) -> Answer:
    if why := rules.create_schedule(body):
        raise RefusedError(400, *why)
    name = body["Name"]
    if name in store.schedules:
        raise RefusedError(409, "ConflictException", f"Schedule {name} already exists.")
    kept = {key: value for key, value in body.items() if key != "ClientToken"}
    store.schedules[name] = kept | {"CreationDate": datetime.now(UTC), "State": "ENABLED"}
    return {"ScheduleArn": f"arn:aws:scheduler:{store.region}:123456789012:schedule/default/{name}"}


def _schedule(store: Store, body: Answer) -> Answer:
    if body["Name"] not in store.schedules:
        raise RefusedError(
            404, "ResourceNotFoundException", f"Schedule {body['Name']} does not exist."
        )
    return store.schedules[body["Name"]]


def _get_schedule(store: Store, body: Answer, _: Any) -> Answer:
    return _schedule(store, body)


def _delete_schedule(store: Store, body: Answer, _: Any) -> Answer:
    _schedule(store, body)
    del store.schedules[body["Name"]]
    return {}


def _list_schedules(store: Store, body: Answer, _: Any) -> Answer:
    found = [
        {
            "Name": name,
            "State": item["State"],
            "CreationDate": item["CreationDate"],
            "Target": {"Arn": item["Target"]["Arn"]},
        }
        for name, item in store.schedules.items()
        if name.startswith(body.get("NamePrefix", ""))
    ]
    return _paged(store, "Schedules", found, body)


METHODS: dict[str, Callable[[Store, Answer, Any], Answer]] = {
    "RunInstances": _run,
    "DescribeInstances": _instances,
    "DescribeInstanceAttribute": _attribute,
    "TerminateInstances": _terminate,
    "CreateTags": _tag,
    "DescribeImages": _images,
    "DescribeInstanceTypes": _types,
    "GetConsoleOutput": _console,
    "GetInstanceTpmEkPub": _ek,
    "DescribeVolumes": _volumes,
    "DeleteVolume": _delete_volume,
    "DescribeVpcs": _vpcs,
    "DescribeSubnets": _subnets,
    "DescribeSecurityGroups": _groups,
    "CreateSecurityGroup": _create_group,
    "DeleteSecurityGroup": _delete_group,
    "AuthorizeSecurityGroupIngress": _authorize,
    "RevokeSecurityGroupIngress": _revoke,
    "CreateSchedule": _create_schedule,
    "GetSchedule": _get_schedule,
    "DeleteSchedule": _delete_schedule,
    "ListSchedules": _list_schedules,
}
