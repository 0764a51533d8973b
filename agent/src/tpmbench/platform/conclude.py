"""Draws conclusions from evidence: what the TEE is, and where the TPM lives."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from tpmbench.platform.model import Platform
from tpmbench.platform.rules import TEE_RULES, TPM_RULES, VMPL_SOURCES, Answer, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpmbench.platform.model import Evidence


def conclude(evidence: Iterable[Evidence]) -> Platform:
    """Concludes what the machine is.

    Every rule that the evidence fulfils leaves some answers open. The answer is the one that all
    of them leave open. Where they leave none, the sources disagree: the answer is then the one
    that at least two independent families of sources have in common, or ``unknown``; the
    disagreement is reported either way.

    Args:
        evidence: What was observed; needs no order and no completeness.

    Returns:
        The conclusion.
    """
    values = {item.source: item.value for item in evidence if item.value is not None}
    tee, tee_clash = _settle("the TEE", _fulfilled(TEE_RULES, values))
    location, tpm_clash = _settle("where the TPM lives", _fulfilled(TPM_RULES, values))
    vmpl, vmpl_clash = _vmpl(values)
    return Platform(
        tee=tee or "unknown",
        tpm_location=location or "unknown",
        vmpl=vmpl,
        disagreements=[clash for clash in (tee_clash, tpm_clash, vmpl_clash) if clash],
    )


def _fulfilled(rules: Iterable[Rule[Answer]], values: dict[str, str]) -> list[Rule[Answer]]:
    found = [
        rule
        for rule in rules
        if all(
            source in values and re.search(pattern, values[source]) for source, pattern in rule.when
        )
    ]
    return [rule for rule in found if rule.decisive] or found


def _settle(question: str, rules: list[Rule[Answer]]) -> tuple[Answer | None, str | None]:
    """Returns the answer that the rules agree on, and the disagreement there is."""
    if not rules:
        return None, None
    left = frozenset.intersection(*(rule.allows for rule in rules))
    if not left:
        return _majority(rules), _clash(question, rules)
    if len(left) > 1:
        left = left & {rule.usual for rule in rules if rule.usual is not None}
    if len(left) != 1:
        return None, None
    (answer,) = left
    enough = any(answer in rule.allows and not rule.weak for rule in rules)
    return (answer if enough else None), None


def _majority(rules: list[Rule[Answer]]) -> Answer | None:
    """Returns what at least two families leave open, and more than leave any other answer open."""
    votes: Counter[Answer] = Counter()
    for family in sorted({rule.family for rule in rules}):
        members = [rule for rule in rules if rule.family == family]
        strong = [rule for rule in members if not rule.weak] or members
        votes.update(frozenset.intersection(*(rule.allows for rule in strong)))
    most = max(votes.values(), default=0)
    best = [answer for answer, count in votes.items() if count == most]
    return best[0] if most > 1 and len(best) == 1 else None


def _clash(question: str, rules: list[Rule[Answer]]) -> str:
    """Returns a sentence that names the sources which do not leave the same answers open."""
    readings: dict[str, list[str]] = {}
    for rule in rules:
        names = readings.setdefault(" or ".join(sorted(rule.allows)), [])
        if rule.when[0][0] not in names:
            names.append(rule.when[0][0])
    said = "; ".join(f"{answers}: {', '.join(names)}" for answers, names in readings.items())
    return f"Sources disagree on {question} ({said})."


def _vmpl(values: dict[str, str]) -> tuple[int | None, str | None]:
    found = {
        source: int(match[1])
        for source, pattern in VMPL_SOURCES
        if (match := re.search(pattern, values.get(source, "")))
    }
    levels = set(found.values())
    if len(levels) == 1:
        return levels.pop(), None
    said = "; ".join(f"{level}: {source}" for source, level in found.items())
    return None, f"Sources disagree on the VMPL ({said})." if levels else None
