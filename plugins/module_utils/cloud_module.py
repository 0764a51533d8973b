"""The frame of every module for a cloud's API: its client, and failures in one sentence."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.cloud_errors import CloudError, line

if TYPE_CHECKING:
    from collections.abc import Callable


class Client(NamedTuple):
    """What all modules of one cloud have in common.

    Attributes:
        make: makes the client out of the options.
        arguments: options that every module of the cloud takes.
        missing: why the libraries could not be imported; empty where they could.
        needs: the libraries, in words, with the verb: ``botocore is``.
        required_if: as :class:`AnsibleModule` has it, of those options.
    """

    make: Callable[[dict[str, Any]], Any]
    arguments: dict[str, dict[str, Any]]
    missing: str
    needs: str
    required_if: list[tuple[str, str, list[str]]]


def run_with(
    client: Client,
    arguments: dict[str, dict[str, Any]],
    work: Callable[[Any, dict[str, Any], bool], dict[str, Any]],
    required_if: list[tuple[str, str, list[str]]] | None = None,
    check: Callable[[dict[str, Any]], list[str]] | None = None,
) -> None:
    """Read the options, do the work, and end the module.

    Args:
        client: of the cloud.
        arguments: the module's options besides those that every such module takes.
        work: called with the client, the options, and whether this is check mode; returns the
            module's answer.
        required_if: as :class:`AnsibleModule` has it.
        check: what is wrong with the options, in sentences; asked before the first call.
    """
    module = AnsibleModule(
        argument_spec={**client.arguments, **arguments},
        required_if=[*client.required_if, *(required_if or [])],
        supports_check_mode=True,
    )
    if client.missing:
        module.fail_json(
            msg=f"{client.needs} needed on the control node: {client.missing}. "
            "Install with: pip install -r requirements/control.lock"
        )
    if check and (says := check(module.params)):
        module.fail_json(msg=" ".join(says), kind="rules")
    trusted = module.params.get("api_ca_file")
    if trusted and not Path(trusted).exists():
        module.fail_json(msg=f"api_ca_file: there is no file {trusted}.", kind="invalid")
    if module.params.get("validate_only"):
        module.exit_json(changed=False, action="none")
    try:
        answer = work(client.make(module.params), module.params, module.check_mode)
    except CloudError as error:
        module.fail_json(msg=str(error), kind=error.kind, **error.details)
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        # What no client foresees: an answer without what every answer has, an odd option.
        place = traceback.extract_tb(error.__traceback__)[-1]
        module.fail_json(
            msg=f"The answer, or an option, is not of the form that is expected: "
            f"{type(error).__name__}: {line(error)} ({Path(place.filename).name}, line "
            f"{place.lineno}). Run again; what was made has its deadline and its label, and "
            "playbooks/teardown.yml removes it.",
            kind="server",
        )
    module.exit_json(**answer)
