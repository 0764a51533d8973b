"""The image of a VM, found by what its guest operating system can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.gce_errors import GceError

if TYPE_CHECKING:
    from ansible.module_utils.gce_api import Api


def find_image(api: Api, options: dict[str, Any], features: list[str]) -> str:
    """The image by name, or the newest of the family, with every feature.

    Args:
        api: the client.
        options: ``image_project``, ``image_family``, ``image``.
        features: entries of ``guestOsFeatures`` that it must have.

    Returns:
        Its partial URL, ``projects/PROJECT/global/images/NAME``.

    Raises:
        GceError: there is none (kind ``not-found``), or none with the features (kind ``image``).
    """
    project = options["image_project"]
    images = f"projects/{project}/global/images"
    if options["image"]:
        candidates = [api.get(f"{images}/{options['image']}")]
        called = f"Image {options['image']}"
    else:
        pages = api.pages(images, {"filter": f"family = {options['image_family']}"})
        every = [image for page in pages for image in page.get("items", [])]
        candidates = [image for image in every if not image.get("deprecated", {}).get("state")]
        called = f"Image family {options['image_family']}"
        if not candidates:
            raise GceError(
                "not-found",
                f"{called} in project {project} has no image that is not deprecated; check "
                "image_family and image_project.",
            )
    candidates.sort(key=lambda image: image.get("creationTimestamp", ""), reverse=True)
    lacking = [(image, _lacking(image, features)) for image in candidates]
    for image, missing in lacking:
        if not missing:
            return f"{images}/{image['name']}"
    newest, missing = lacking[0]
    raise GceError(
        "image",
        f"{called} in project {project} has no guestOsFeatures {', '.join(missing)} (newest: "
        f"{newest['name']}); choose an image for this kind of VM.",
    )


def _lacking(image: dict[str, Any], features: list[str]) -> list[str]:
    has = {feature["type"] for feature in image.get("guestOsFeatures", [])}
    return [feature for feature in features if feature not in has]
