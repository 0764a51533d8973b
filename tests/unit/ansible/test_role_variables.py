"""Roles keep their variables' names, defaults, specifications and descriptions together."""

import re
from pathlib import Path

import pytest
import yaml

from scripts import role_docs

PROJECT = Path(__file__).resolve().parents[3]
ROLES = sorted(path for path in (PROJECT / "roles").iterdir() if path.is_dir())


def load(path: Path) -> object:
    return yaml.safe_load(path.read_text())


def options(role: Path, entry: str) -> dict:
    return load(role / "meta" / "argument_specs.yml")["argument_specs"][entry]["options"]


def every_role(function):
    return pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)(function)


def test_the_roles_of_the_design_are_there():
    expected = {"bench_agent", "bench_report", "bench_run", "software_tpm"}
    assert expected <= {role.name for role in ROLES}


@every_role
def test_defaults_and_specification_name_the_same_variables_with_the_same_values(role):
    specified = {name: option.get("default") for name, option in options(role, "main").items()}
    assert specified == load(role / "defaults" / "main.yml")


@every_role
def test_the_check_before_a_run_knows_every_variable(role):
    assert options(role, "validate") == options(role, "main")


@every_role
def test_public_variables_carry_the_roles_name(role):
    assert [name for name in options(role, "main") if not name.startswith(f"{role.name}_")] == []


@every_role
def test_variables_that_a_role_sets_for_itself_are_private(role):
    names = set()
    for file in (role / "vars").glob("*.yml"):
        names |= set(load(file))
    for file in (role / "tasks").glob("*.yml"):
        text = file.read_text()
        names |= set(re.findall(r"register: (\w+)", text))
        for facts in re.findall(r"set_fact:\n((?:\s+\w+:.*\n)+)", text):
            names |= set(re.findall(r"^ {4,10}(\w+):", facts, re.MULTILINE)) - {"when"}
    # Where a host is, and how it is reached, Ansible itself reads from its own variables.
    private = (f"_{role.name}_", "ansible_")
    public = {name for name in names if not name.startswith(private)}
    assert public == set()


@every_role
def test_readme_is_what_the_specification_says(role):
    assert (role / "README.md").read_text() == role_docs.readme(role)


@every_role
def test_main_reads_as_a_table_of_contents(role):
    def tasks(entries):
        for task in entries:
            yield from tasks(task["block"]) if "block" in task else [task]

    short = [*tasks(load(role / "tasks" / "main.yml"))]
    files = [
        task.get("ansible.builtin.import_tasks") or task.get("ansible.builtin.include_tasks")
        for task in short
    ]
    assert len(short) <= 8
    assert all((role / "tasks" / file).is_file() for file in files if file)
    assert len([file for file in files if not file]) <= 2


def test_a_secret_is_never_logged():
    assert (
        options(PROJECT / "roles" / "bench_run", "main")["bench_run_owner_auth"]["no_log"] is True
    )
    for file in (PROJECT / "roles" / "bench_run" / "tasks").glob("*.yml"):
        for task in all_tasks(load(file)):
            module = next((value for key, value in task.items() if "." in key), None)
            if "bench_run_owner_auth }}" in str(module):
                assert task.get("no_log") is True, f"{file.name}: {task['name']}"


def all_tasks(entries):
    for entry in entries or []:
        blocks = [entry[part] for part in ("block", "rescue", "always") if part in entry]
        for block in blocks:
            yield from all_tasks(block)
        if not blocks:
            yield entry


def task_files():
    return sorted([*PROJECT.glob("roles/*/tasks/*.yml"), *PROJECT.glob("playbooks/tasks/*.yml")])


@pytest.mark.parametrize("file", task_files(), ids=lambda file: str(file.relative_to(PROJECT)))
def test_root_is_taken_only_where_it_is_needed(file):
    """Installing packages needs root; everything else follows a variable or does without."""
    for task in [*all_tasks(load(file)), *[t for t in load(file) if "block" in t]]:
        become = task.get("become")
        if become is True:
            assert file.name == "packages.yml", task["name"]
        if task.get("delegate_to") == "localhost" or "ansible.builtin.fetch" in task:
            assert become is False, f"{task['name']}: the control node never needs root"
        if isinstance(become, str):
            assert become in {"{{ bench_agent_become }}", "{{ bench_run_become }}"}


def variables(value, names):
    """Names of variables that an inventory sets, wherever they stand in it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in {"hosts", "children", "vars"} or isinstance(inner, dict):
                variables(inner, names)
            else:
                names.add(key)
    return names


@pytest.mark.parametrize("name", ["aws", "gcp", "local", "static"])
def test_inventories_set_only_variables_that_exist(name):
    known = {option for role in ROLES for option in options(role, "main")}
    inventory = PROJECT / "inventory" / name
    hosts = load(inventory / "hosts.yml")
    names = variables(hosts, set())
    for file in (inventory / "group_vars").glob("*.yml"):
        names |= set(load(file))
    assert {n for n in names if not n.startswith(("ansible_", "local_"))} <= known
    assert "fleet" in hosts
