"""What the published study says, as a table, and the rule that decides each of it.

The study is go-tpm-tls-bench's README; figures of the later article by the same author
are named where they differ. A claim is decided per host and curve, then for all hosts.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ref:
    """An arm of a scenario; ``curve`` None means each curve that was measured."""

    scenario: str
    arm: str
    curve: str | None = None


@dataclass(frozen=True, slots=True)
class RatioTest:
    """The ratio of two medians lies in [low, high]; ends that are None are open."""

    numerator: Ref
    denominator: Ref
    low: float | None
    high: float | None
    unit: str = "x"

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The arms it needs."""
        return (self.numerator, self.denominator)


@dataclass(frozen=True, slots=True)
class MedianTest:
    """An arm's median lies in [low_ns, high_ns]."""

    ref: Ref
    low_ns: float
    high_ns: float

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The arms it needs."""
        return (self.ref,)


@dataclass(frozen=True, slots=True)
class RateTest:
    """An arm's rate, samples per second, lies in [low, high]."""

    ref: Ref
    low: float
    high: float

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The arms it needs."""
        return (self.ref,)


@dataclass(frozen=True, slots=True)
class CountTest:
    """An arm made ``signatures`` signatures; None means one for each sample.

    Every known count must say so. With ``resumes``, all connections but the first resumed.
    """

    ref: Ref
    signatures: int | None
    resumes: bool = False

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The arms it needs."""
        return (self.ref,)


@dataclass(frozen=True, slots=True)
class KeyTest:
    """The TPM says that the key cannot leave it."""

    @property
    def refs(self) -> tuple[Ref, ...]:
        """The arms it needs: none."""
        return ()


Test = RatioTest | MedianTest | RateTest | CountTest | KeyTest


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence that a run can confirm or refute.

    Attributes:
        name: Stable name.
        sentence: The claim in our words.
        rule: When it counts as confirmed here.
        published: The figure in the study.
        test: How it is decided.
        swaps: Whether it is about a resource manager that swaps objects, and so cannot be
            decided without one.
    """

    name: str
    sentence: str
    rule: str
    published: str
    test: Test
    swaps: bool = False


_NEW = "handshake-new"
_RESUMED = "handshake-resumed"
_REUSED = "connection-reused"
_RAW = "raw-signing"
_LOADED = "loaded-transport"
_TPM = "tpm-persistent"
_EQUAL = "the 95 % interval of the ratio lies within 0.9 to 1.1"
_TENFOLD = "the 95 % interval of the ratio lies within 5 to 20"

CLAIMS = (
    Claim(
        "signatures-new",
        "Each new connection costs one TPM signature.",
        "every count equals the number of connections",
        "50 for 50",
        CountTest(Ref(_NEW, _TPM), None),
    ),
    Claim(
        "signatures-resumed",
        "With session resumption all connections together cost one TPM signature.",
        "every count is 1, and all connections but the first resumed",
        "1 for 50",
        CountTest(Ref(_RESUMED, _TPM), 1, resumes=True),
    ),
    Claim(
        "signatures-reused",
        "All requests over one connection together cost one TPM signature.",
        "every count is 1",
        "1 for 50",
        CountTest(Ref(_REUSED, _TPM), 1),
    ),
    Claim(
        "tpm-milliseconds",
        "A TPM signature takes single-digit milliseconds.",
        "the 95 % interval of the median lies within 1 to 10 ms",
        "2.16 ms; 1.99 ms on TDX",
        MedianTest(Ref(_RAW, _TPM), 1e6, 1e7),
    ),
    Claim(
        "software-microseconds",
        "A software signature takes tens of microseconds.",
        "the 95 % interval of the median lies within 0.01 to 0.1 ms",
        "0.04 ms",
        MedianTest(Ref(_RAW, "software"), 1e4, 1e5),
    ),
    Claim(
        "signature-dominates",
        "The TPM signature is most of a new connection.",
        "the 95 % interval of raw signing over new connection lies above 50 %",
        "59 %; 61 % on TDX; 66 % in a later run",
        RatioTest(Ref(_RAW, _TPM), Ref(_NEW, _TPM), 0.5, None, unit="%"),
    ),
    Claim(
        "ceiling",
        "One machine reaches a few hundred new connections per second.",
        "100 to 1000 per second, one at a time",
        "258/s; 295/s in a later run",
        RateTest(Ref(_NEW, _TPM), 100, 1000),
    ),
    Claim(
        "resumed-equal",
        "Resumed connections cost the same with a TPM key as with a software key.",
        _EQUAL,
        "1.01x",
        RatioTest(Ref(_RESUMED, _TPM), Ref(_RESUMED, "software"), 0.9, 1.1),
    ),
    Claim(
        "reused-equal",
        "Requests over one connection cost the same with a TPM key as with a software key.",
        _EQUAL,
        "1.0x",
        RatioTest(Ref(_REUSED, _TPM), Ref(_REUSED, "software"), 0.9, 1.1),
    ),
    Claim(
        "transient-tenfold",
        "A transient key costs about ten times a persistent one.",
        _TENFOLD,
        "10x; 15x on TDX",
        RatioTest(Ref(_RAW, "tpm-transient"), Ref(_RAW, _TPM), 5, 20),
        swaps=True,
    ),
    Claim(
        "same-transport-tenfold",
        "An unrelated object on the same transport makes a persistent key about ten times slower.",
        _TENFOLD,
        "10.1x; 9.6x in a later run",
        RatioTest(Ref(_LOADED, "same-transport"), Ref(_LOADED, "nothing-loaded"), 5, 20),
        swaps=True,
    ),
    Claim(
        "other-transport-free",
        "An unrelated object on another transport costs a persistent key nothing.",
        _EQUAL,
        "1.04x; 1.01x in a later run",
        RatioTest(Ref(_LOADED, "other-transport"), Ref(_LOADED, "nothing-loaded"), 0.9, 1.1),
        swaps=True,
    ),
    Claim(
        "p384-dearer",
        "A P-384 signature costs more than a P-256 one in the TPM.",
        "the 95 % interval of P-384 over P-256 lies above 1",
        "1.16x, 1.07x in a later run; 1.65x on TDX",
        RatioTest(Ref(_RAW, _TPM, "p384"), Ref(_RAW, _TPM, "p256"), 1, None),
    ),
    Claim(
        "p384-resumed-equal",
        "Session resumption erases what P-384 costs over P-256.",
        _EQUAL,
        "no figure published",
        RatioTest(Ref(_RESUMED, _TPM, "p384"), Ref(_RESUMED, _TPM, "p256"), 0.9, 1.1),
    ),
    Claim(
        "non-exportable",
        "The TPM itself says that the key cannot be exported.",
        "fixedTPM is set, as read back from the TPM",
        "yes",
        KeyTest(),
    ),
)
