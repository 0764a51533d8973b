"""What a region offers: the size with its technology, and the image's newest version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.azure_errors import AzureError
from ansible.module_utils.azure_rules import TECHNOLOGIES

if TYPE_CHECKING:
    from ansible.module_utils.azure_api import Api


def check_size(api: Api, options: dict[str, Any]) -> None:
    """See that the region has the size, for this subscription, and that it is of the kind wanted.

    Args:
        api: the client.
        options: ``location``, ``vm_size``, ``confidential_computing_type``.

    Raises:
        AzureError: it has not; kind ``machine-type`` or ``capacity``.
    """
    location, size = options["location"], options["vm_size"]
    kind = options["confidential_computing_type"]
    offered = api.every(
        api.of_subscription("providers/Microsoft.Compute/skus"),
        {"$filter": f"location eq '{location}'"},
    )
    found = [
        sku
        for sku in offered
        if sku.get("resourceType") == "virtualMachines" and sku["name"].lower() == size.lower()
    ]
    if not found:
        known = TECHNOLOGIES[kind].regions if kind else ()
        elsewhere = f" (it was seen in {', '.join(known)})" if known else ""
        raise AzureError(
            "machine-type", f"{location} has no {size}; choose another region{elsewhere}."
        )
    for restriction in found[0].get("restrictions") or []:
        if restriction.get("type") == "Location":
            raise AzureError(
                "capacity",
                f"{size} is not open to this subscription in {location} "
                f"({restriction.get('reasonCode', 'restricted')}); choose another region, or ask "
                "for access under Quotas in the portal.",
            )
    can = {item["name"]: str(item["value"]) for item in found[0].get("capabilities") or []}
    has = can.get("ConfidentialComputingType", "")
    if kind and kind not in has.upper():
        raise AzureError(
            "machine-type",
            f"Azure says that {size} has {has or 'no confidential type'}, not {kind}.",
        )
    if not kind and (has or can.get("TrustedLaunchDisabled") == "True"):
        raise AzureError(
            "machine-type",
            f"Azure says that {size} {f'has {has}' if has else 'cannot do Trusted Launch'}, so it "
            "is no control; take a size such as Standard_D2as_v5.",
        )


def find_image(api: Api, options: dict[str, Any]) -> str:
    """The version of the image: the one that was asked for, or the newest.

    Args:
        api: the client.
        options: ``location``, ``image_publisher``, ``image_offer``, ``image_sku``,
            ``image_version``, ``confidential_computing_type``.

    Raises:
        AzureError: there is none (kind ``image``), or it says that it cannot do what is needed.
    """
    names = [options[f"image_{part}"] for part in ("publisher", "offer", "sku")]
    versions = api.of_subscription(
        f"providers/Microsoft.Compute/locations/{options['location']}/publishers/{names[0]}"
        f"/artifacttypes/vmimage/offers/{names[1]}/skus/{names[2]}/versions"
    )
    called, version = ":".join(names), options["image_version"]
    try:
        if version == "latest":
            listed = api.every(versions, {"$orderby": "name desc", "$top": "1"})
            version = max((item["name"] for item in listed), key=_number, default="")
        image = api.get(f"{versions}/{version}") if version else None
    except AzureError as error:
        if error.kind != "not-found":
            raise
        image = None
    if image is None:
        raise AzureError(
            "image",
            f"There is no image {called}:{options['image_version']} in {options['location']}; az "
            f"vm image list --all --publisher {names[0]} shows what there is.",
        )
    properties = image.get("properties", {})
    says = {item["name"]: item["value"] for item in properties.get("features") or []}
    wanted = "Confidential" if options["confidential_computing_type"] else "TrustedLaunch"
    # An image that says nothing is left for Azure to judge.
    security = says.get("SecurityType", wanted)
    if wanted.lower() not in security.lower() or properties.get("hyperVGeneration") == "V1":
        raise AzureError(
            "image",
            f"Image {called}:{version} is for {security}, generation "
            f"{properties.get('hyperVGeneration', 'V2')}; this VM needs one for {wanted}, "
            "generation V2: set image_sku.",
        )
    return str(version)


def _number(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]
