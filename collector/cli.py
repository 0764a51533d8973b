"""The command line: ``python -m collector report``, ``compare``, ``import`` and ``validate``."""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from collector import export, render
from collector.importing import NotImportableError, Result, import_file
from collector.importing import text as imported_text
from collector.load import (
    Broken,
    BrokenDocumentError,
    Imported,
    NoSuchInputError,
    documents,
    find,
    is_sidecar,
    read,
)
from collector.output import UsageError, into, write, write_together
from collector.published import figures as published_figures
from collector.quantities import DECIMAL_MARKS
from collector.summarise import Host, summarise
from collector.text import visible
from collector.view import SAMPLES_KEPT, Failure, Report, build

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPLETE, INCOMPLETE, USAGE = 0, 1, 2


def _failures(path: Path | None) -> list[Failure]:
    """Reads the playbooks' list of hosts that failed."""
    if path is None:
        return []
    form = 'a JSON list of objects with "host", "stage" and "reason", all text'
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--failures {path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"--failures {path}: must hold {form}") from None
    names = ("host", "stage", "reason")
    if not isinstance(given, list) or not all(
        isinstance(one, dict) and all(isinstance(one.get(name), str) for name in names)
        for one in given
    ):
        raise UsageError(f"--failures {path}: must hold {form}")
    return [Failure(one["host"], one["stage"], one["reason"]) for one in given]


def _write_all(folder: Path, report: Report, hosts: Sequence[Host]) -> tuple[list[Path], int]:
    """Writes the report's files, and says which they are and how many of them changed."""
    texts = {
        "index.html": (render.html(report),),
        "report.md": (render.markdown(report),),
        "report.txt": (render.plain(report),),
        "metrics.prom": export.prometheus(hosts, report.failures, len(report.broken)),
    }
    flat = [folder / name for name in ("results.csv", "results.ndjson")]
    with into(folder):
        changed = sum([write(folder / name, pieces) for name, pieces in texts.items()])
        changed += len(write_together(flat, export.flat_lines(hosts)))
    *reading, metrics = (folder / name for name in texts)
    return [*reading, *flat, metrics], changed


def _report(arguments: argparse.Namespace) -> int:
    failures = _failures(arguments.failures)
    paths = find(arguments.results)
    if not paths and not failures:
        named = ", ".join(str(path) for path in arguments.results)
        raise UsageError(f"no result document in {named}. Measure first, or name another folder.")
    # Python's cycle collector would walk all summaries again and again, and there are no cycles.
    gc.disable()
    hosts: list[Host] = []
    broken: list[Broken] = []
    imported: list[Imported] = []
    for loaded in documents(paths):
        if isinstance(loaded, Broken):
            broken.append(loaded)
        elif isinstance(loaded, Imported):
            imported.append(loaded)
        else:
            hosts.append(summarise(loaded, keep_samples=len(paths) <= SAMPLES_KEPT))
    hosts.sort(key=lambda host: host.key)
    report = build(hosts, broken, failures, published_figures(), imported)
    written, changed = _write_all(arguments.output, report, hosts)
    sys.stdout.write(render.summary(report))
    sys.stdout.writelines(f"{visible(str(path))}\n" for path in written)
    sys.stdout.write(f"Files changed: {changed} of {len(written)}.\n")
    return COMPLETE if report.complete else INCOMPLETE


def _validate(arguments: argparse.Namespace) -> int:
    status = COMPLETE
    paths = [
        path
        for given in arguments.files
        for path in (find([given]) if given.is_dir() else [given])
        if not is_sidecar(path.name)
    ]
    if not paths:
        named = ", ".join(str(path) for path in arguments.files)
        raise UsageError(f"no result document in {named}. Name documents, or folders of them.")
    for path in paths:
        try:
            read(path)
        except BrokenDocumentError as error:
            more = f" (and {error.others} more)" if error.others else ""
            sys.stdout.write(visible(f"{path}: broken: {error}{more}") + "\n")
            status = INCOMPLETE
        else:
            sys.stdout.write(visible(f"{path}: valid") + "\n")
    return status


def _import(arguments: argparse.Namespace) -> int:
    mark = DECIMAL_MARKS.get(arguments.decimal_mark)
    written: list[tuple[Result, Path]] = []
    refused: list[tuple[Path, str]] = []
    with into(arguments.output):
        for path in arguments.files:
            try:
                result = import_file(path, arguments.device, mark)
            except NotImportableError as error:
                refused.append((path, str(error)))
                continue
            to = arguments.output / result.name
            write(to, (imported_text(result),))
            written.append((result, to))
    sys.stdout.write(render.import_summary(written))
    for path, why in refused:
        sys.stderr.write(f"collector: {visible(str(path))}: {visible(why)}\n")
    return INCOMPLETE if refused else COMPLETE


def _compare(arguments: argparse.Namespace) -> int:
    # scipy.stats takes a second to import, which no other command should wait for.
    from collector import compare, compare_view, sides  # noqa: PLC0415

    read_sides = [
        sides.read_side(name, find([path]))
        for name, path in (("base", arguments.base), ("new", arguments.new))
    ]
    comparison = compare.compare(*read_sides)
    if not comparison.arms:
        raise UsageError(
            f"nothing to compare: no host of {arguments.base} has an arm in common with the same "
            f"host of {arguments.new}. `validate` says whether their documents are usable."
        )
    shown = compare_view.view(comparison)
    sys.stdout.write(render.comparison(shown))
    if arguments.output is not None:
        with into(arguments.output):
            markdown = arguments.output / "compare.md"
            write(markdown, (render.comparison_markdown(shown),))
            data = arguments.output / "compare.json"
            write(data, (compare_view.as_json(comparison),))
        sys.stdout.writelines(f"{visible(str(path))}\n" for path in (markdown, data))
    failed = comparison.regressed or bool(shown.broken)
    return INCOMPLETE if arguments.fail_on and failed else COMPLETE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m collector",
        description="Reads result documents of tpm-tls-bench and reports on all of them.",
        epilog="Exit status: 0 done; 1 a document was left out or is broken, or a host failed "
        "(the report is written and says so); 2 wrong usage.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="write one report on any number of runs and hosts")
    report.add_argument(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULTS",
        help="result and imported documents, or folders that are searched for them (*.json)",
    )
    report.add_argument(
        "--output", type=Path, default=Path("report"), metavar="DIR", help="default: report/"
    )
    report.add_argument(
        "--failures",
        type=Path,
        metavar="FILE",
        help='hosts that could not be measured: JSON [{"host", "stage", "reason"}]',
    )
    report.set_defaults(run=_report)
    _add_compare(commands)
    _add_import(commands)
    validate = commands.add_parser("validate", help="check documents, one line for each")
    validate.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="documents, or folders of them"
    )
    validate.set_defaults(run=_validate)
    return parser


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    comparer = commands.add_parser(
        "compare", help="say what got faster or slower between two runs of the same hosts"
    )
    for name, about in (("base", "earlier"), ("new", "later")):
        comparer.add_argument(
            name,
            type=Path,
            metavar=name.upper(),
            help=f"the {about} run: a result document, or a folder of them",
        )
    comparer.add_argument(
        "--fail-on",
        choices=["regression"],
        help="exit with 1 when anything got slower, or a document was left out",
    )
    comparer.add_argument(
        "--output", type=Path, metavar="DIR", help="also write compare.md and compare.json there"
    )
    comparer.set_defaults(run=_compare)


def _add_import(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    importer = commands.add_parser(
        "import",
        help="take figures from another benchmark's output: go-tpm-tls-bench, wolfTPM, "
        "BenchmarkDotNet",
    )
    importer.add_argument("files", nargs="+", type=Path, metavar="FILE")
    importer.add_argument(
        "--output",
        type=Path,
        default=Path("imported"),
        metavar="DIR",
        help="folder for the documents, one for each file; default: imported/",
    )
    importer.add_argument(
        "--device", metavar="WORDS", help="what was measured, in your words, for the report"
    )
    importer.add_argument(
        "--decimal-mark",
        choices=sorted(DECIMAL_MARKS),
        help="of BenchmarkDotNet's tables, where the numbers do not tell",
    )
    importer.set_defaults(run=_import)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit status."""
    arguments = _parser().parse_args(argv)
    # A path or a host's text may hold what the terminal's encoding has not.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except (UsageError, NoSuchInputError) as error:
        sys.stderr.write(f"collector: {visible(str(error))}\n")
        return USAGE
    except BrokenPipeError:
        # The reader of the summary went away; the files are written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return COMPLETE
    return status
