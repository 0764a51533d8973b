"""Make plugins/module_utils importable as Ansible does: as part of ``ansible.module_utils``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import ansible.module_utils

if TYPE_CHECKING:
    from types import ModuleType

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
if str(PLUGINS / "module_utils") not in ansible.module_utils.__path__:
    ansible.module_utils.__path__.append(str(PLUGINS / "module_utils"))


def load_module(name: str) -> ModuleType:
    """One of plugins/modules, imported."""
    spec = importlib.util.spec_from_file_location(name, PLUGINS / "modules" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
