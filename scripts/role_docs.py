"""Write each role's README.md from its meta/argument_specs.yml.

python scripts/role_docs.py            write them
python scripts/role_docs.py --check    exit 1 and name those that are not current
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

ROLES = Path(__file__).resolve().parent.parent / "roles"
NOTE = "<!-- Written by scripts/role_docs.py from meta/argument_specs.yml; do not edit. -->"


def sentences(description: str | list[str]) -> str:
    """A description of an argument specification on one line."""
    parts = [description] if isinstance(description, str) else description
    return " ".join(" ".join(parts).split())


def shown(value: object) -> str:
    """A default as it would stand in an inventory."""
    if isinstance(value, str):
        return value or '""'
    return yaml.safe_dump(value, default_flow_style=True, width=1000).split("\n")[0]


def row(name: str, option: dict[str, Any]) -> str:
    """One variable as a line of a table."""
    kind = option["type"] + (f" of {option['elements']}" if "elements" in option else "")
    choices = option.get("choices")
    allowed = f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else ""
    default = f"`{shown(option['default'])}`" if "default" in option else "needed"
    cells = [f"`{name}`", kind, default, sentences(option["description"]) + allowed]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def readme(role: Path) -> str:
    """The text of a role's README.md."""
    specs = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())["argument_specs"]
    main = specs["main"]
    about = main.get("description", [])
    lines = [NOTE, "", f"# {role.name}", "", f"{main['short_description']}.", ""]
    lines += [
        f"{' '.join(text.split())}\n" for text in ([about] if isinstance(about, str) else about)
    ]
    lines += ["| variable | type | default | meaning |", "|---|---|---|---|"]
    lines += [row(name, option) for name, option in main["options"].items()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Write the files, or compare them."""
    stale = []
    for role in sorted(path.parent.parent for path in ROLES.glob("*/meta/argument_specs.yml")):
        file, text = role / "README.md", readme(role)
        if file.is_file() and file.read_text() == text:
            continue
        stale.append(file)
        if "--check" not in arguments:
            file.write_text(text)
    if stale and "--check" in arguments:
        names = ", ".join(str(file.relative_to(ROLES.parent)) for file in stale)
        print(f"role_docs: not current: {names}; run scripts/role_docs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
