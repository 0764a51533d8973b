"""The permissions that docs/clouds.md lists, against the requests that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.azure_double import routes

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "clouds.md"
ACTIONS = {"get": "read", "list": "read", "put": "write", "patch": "write", "delete": "delete"}
# Requests whose action is not named after the resource's type and verb.
OTHERS = {
    "log": "Microsoft.Compute/virtualMachines/retrieveBootDiagnosticsData/action",
    "sizes": "Microsoft.Compute/skus/read",
    "images": "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions/read",
    "image": "Microsoft.Compute/locations/publishers/artifacttypes/offers/skus/versions/read",
}


def listed() -> dict[str, list[str]]:
    blocks = re.findall(
        r"```json\n(\{\"Name\": \"tpm-fleet-bench.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
    roles = [json.loads(block) for block in blocks]
    return {role["Name"]: role["Actions"] for role in roles}


def test_every_request_has_its_permission_and_none_is_listed_twice() -> None:
    roles = listed()
    assert set(roles) == {"tpm-fleet-bench in its group", "tpm-fleet-bench in its subscription"}
    every = [action for actions in roles.values() for action in actions]
    assert len(every) == len(set(every))
    for route in routes.table():
        needed = OTHERS.get(route.call) or f"{route.kind}/{ACTIONS.get(route.call)}"
        where = "group" if "resource_group_name" in route.path.groupindex else "subscription"
        assert needed in roles[f"tpm-fleet-bench in its {where}"], route


def test_nothing_is_listed_that_no_request_needs() -> None:
    needed = {OTHERS.get(r.call) or f"{r.kind}/{ACTIONS.get(r.call)}" for r in routes.table()}
    beyond = {action for actions in listed().values() for action in actions} - needed
    # What Azure asks for besides: links between resources, and waiting.
    assert {action.rpartition("/")[0].rpartition("/")[2] for action in beyond} == {
        "instanceView", "join", "subnets", "operations", "operationResults",
    }  # fmt: skip
