"""The frame of every module for the Compute API: its client, and failures in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.gce_api import ARGUMENTS, MISSING, REQUIRED_IF, Api
from ansible.module_utils.gce_errors import GceError

if TYPE_CHECKING:
    from collections.abc import Callable


def run(
    arguments: dict[str, dict[str, Any]],
    work: Callable[[Api, dict[str, Any], bool], dict[str, Any]],
    required_if: list[tuple[str, str, list[str]]] | None = None,
    check: Callable[[dict[str, Any]], list[str]] | None = None,
) -> None:
    """Read the options, do the work, and end the module.

    Args:
        arguments: the module's options besides those that every such module takes.
        work: called with the client, the options, and whether this is check mode; returns the
            module's answer.
        required_if: as :class:`AnsibleModule` has it.
        check: what is wrong with the options, in sentences; asked before the first call.
    """
    module = AnsibleModule(
        argument_spec={**ARGUMENTS, **arguments},
        required_if=[*REQUIRED_IF, *(required_if or [])],
        supports_check_mode=True,
    )
    if MISSING:
        module.fail_json(
            msg=f"google-auth and requests are needed on the control node: {MISSING}. "
            "Install them: pip install -r requirements/control.lock"
        )
    if check and (says := check(module.params)):
        module.fail_json(msg=" ".join(says), kind="rules")
    if module.params.get("validate_only"):
        module.exit_json(changed=False, action="none")
    try:
        answer = work(Api(module.params), module.params, module.check_mode)
    except GceError as error:
        module.fail_json(msg=str(error), kind=error.kind, **error.details)
    module.exit_json(**answer)
