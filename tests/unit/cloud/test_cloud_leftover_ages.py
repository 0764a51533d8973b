"""What counts as left over: by the clocks of two machines, by its own deadline, by who uses it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support import module_utils  # noqa: F401 - the import makes cloud_* importable

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def at(minutes: int) -> str:
    return (NOW + timedelta(minutes=minutes)).isoformat()


def names(items: list[dict[str, Any]], min_age: int, **how: Any) -> list[str]:
    from ansible.module_utils.cloud_leftovers import Selection, of_age

    found = of_age(items, Selection(min_age=min_age, **how), NOW)
    assert all({"made", "ends", "users"}.isdisjoint(item) for item in found)
    return [item["path"] for item in found]


def test_what_a_cloud_ahead_of_this_machine_just_made_is_not_passed_over() -> None:
    """A proof that nothing is left asks for everything of 0 s or more."""
    from ansible.module_utils.cloud_leftovers import Selection, of_age

    for minutes in (1, 90):
        (found,) = of_age([{"path": "vm", "made": at(minutes)}], Selection(), NOW)
        assert found["age"] == 0
    assert names([{"path": "vm", "made": at(1)}], 7200) == []


def test_a_vm_is_left_alone_until_its_own_deadline() -> None:
    vms = [
        {"path": "long", "made": at(-200), "ends": at(280)},
        {"path": "over", "made": at(-200), "ends": at(-80)},
        {"path": "unsaid", "made": at(-200), "ends": ""},
        {"path": "young", "made": at(-10), "ends": at(-5)},
    ]
    assert names(vms, 7200) == ["long", "over", "unsaid"]
    assert names(vms, 7200, own_deadline=True) == ["over", "unsaid"]
    assert names(vms, 0) == ["long", "over", "unsaid", "young"]


def test_what_a_vm_that_stays_uses_stays_too() -> None:
    items = [
        {"path": "young", "kind": "vm", "made": at(-10)},
        {"path": "old", "kind": "vm", "made": at(-900)},
        {"path": "its disk", "kind": "disk", "made": at(-900), "users": ["young"]},
        {"path": "disk", "kind": "disk", "made": at(-900), "users": ["old"]},
        {"path": "loose", "kind": "disk", "made": at(-900), "users": []},
        {"path": "of both", "kind": "rule", "made": at(-900), "users": ["old", "young"]},
        {"path": "stranger's", "kind": "disk", "made": at(-900), "users": ["not listed"]},
    ]
    assert names(items, 7200, removable=True) == ["old", "disk", "loose"]
    assert names(items, 0, removable=True)[-2:] == ["loose", "of both"]
    assert names(items, 0, removable=True, kinds=["disk", "rule"]) == ["loose"]
    assert len(names(items, 0)) == 7  # a proof leaves nothing out


@pytest.mark.parametrize(
    ("known", "edited", "made"),
    [
        ("2026-11-30T10:00:00Z", "2020-01-01T00:00:00Z", "2026-11-30T10:00:00+00:00"),
        ("2026-11-30T15:00:00.123-07:00", None, "2026-11-30T22:00:00.123000+00:00"),
        (None, "2026-11-30T10:00:00", "2026-11-30T10:00:00+00:00"),
        (None, "2026-11-30T12:04:00Z", "2026-11-30T12:04:00+00:00"),
        (None, "2026-11-30T13:00:00Z", "1970-01-01T00:00:00+00:00"),
        (None, "yesterday", "1970-01-01T00:00:00+00:00"),
        (None, "0001-01-01T00:00:00+12:00", "1970-01-01T00:00:00+00:00"),
        ("", "", "1970-01-01T00:00:00+00:00"),
    ],
)
def test_when_something_was_made(known: Any, edited: Any, made: str) -> None:
    from ansible.module_utils.cloud_leftovers import made_at

    assert made_at(known, edited, NOW) == made


@pytest.mark.parametrize(
    ("fleet", "min_age", "says"),
    [
        (None, 0, ""),
        ("bench-2", 7200, ""),
        ("", 0, "fleet is empty"),
        (" ", 0, "fleet is empty"),
        ("*", 0, "not '*'"),
        ("b?nch", 0, "not 'b?nch'"),
        ("x OR labels.team:*", 0, "not 'x OR"),
        ("None", 0, "not 'None'"),
        ("bench", -1, "min_age must be 0 s or more, not -1 s"),
    ],
)
def test_no_name_comes_to_mean_other_fleets(fleet: Any, min_age: int, says: str) -> None:
    from ansible.module_utils.cloud_leftovers import broken

    said = broken({"fleet": fleet, "min_age": min_age})
    assert len(said) == bool(says)
    assert says in " ".join(said)


def test_ranges_have_one_form() -> None:
    from ansible.module_utils.cloud_rules import ranges

    given = ["192.0.2.7", "192.0.2.0/24", "2001:0DB8::/32", "192.0.2.7/24", "here.example/32", ""]
    found, says = ranges(given)
    assert found == ["192.0.2.7/32", "192.0.2.0/24", "2001:db8::/32"]
    assert [text.partition(" is no")[0] for text in says] == given[3:]
