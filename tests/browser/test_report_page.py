"""A real browser opens the report."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fixtures import documents as made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium")
CHROMEDRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and CHROMEDRIVER),
        reason="chromium or chromedriver is missing: apt-get install chromium chromium-driver",
    ),
]

PATIENCE = 600
# Nothing but the page itself: no update check, no service of the browser's maker.
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,1000",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    everything = made.counted_at_tpm(made.document("vm-1"))
    rng = random.Random(7)
    everything["scenarios"] += [*made.device_suite(rng), *made.message_suite("p256", rng)]
    everything["other_transports"] = [made.other_transport("device:/dev/tpm0", rng, speed=0.5)]
    made.write(folder / "results", everything)
    made.write(folder / "results", made.document("vm-2", seed=2))
    made.write(folder / "results", made.document("vm-" + "long-" * 20, tee="tdx"))
    made.write(folder / "results", made.local("local-1"))
    imports = sorted((ROOT / "tests" / "fixtures" / "imports").iterdir())
    for arguments in (
        ["import", *imports, "--output", folder / "results" / "imported"],
        ["report", folder / "results", "--output", folder],
    ):
        subprocess.run(
            [sys.executable, "-m", "collector", *arguments],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
    return folder / "index.html"


@pytest.fixture(scope="module")
def browser(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in QUIET:
        options.add_argument(argument)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(CHROMEDRIVER)))
    # A machine with other work may take minutes to lay out the page for printing.
    driver.command_executor.client_config.timeout = PATIENCE
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    driver.get(page.as_uri())
    yield driver
    driver.quit()


def test_no_console_message_and_nothing_fetched(browser: Chrome, page: Path) -> None:
    assert browser.get_log("browser") == []
    import json

    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    fetched = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert page.as_uri() in fetched
    # The browser opens a page of its own before ours.
    own = ("data:", "chrome://")
    assert {url for url in fetched if not url.startswith(own)} == {page.as_uri()}


def test_the_tables_are_there_and_filled(browser: Chrome) -> None:
    for section in (
        *("verdicts", "medians", "commands", "ratios", "distributions", "devices", "transports"),
        *("messages", "imported", "per_host", "hosts", "evidence", "warnings"),
    ):
        tables = browser.find_elements("css selector", f"#{section} table")
        assert tables, section
        for table in tables:
            assert table.is_displayed()
            assert table.find_elements("css selector", "tbody tr"), section
    heads = [cell.text for cell in browser.find_elements("css selector", "#medians thead th")]
    assert "local-1\nsoftware TPM\nP-256" in heads


def test_every_plot_has_a_name_a_role_and_a_size(browser: Chrome) -> None:
    plots = browser.find_elements("css selector", "svg")
    # Two of ratios, one for each of five scenarios, and signing and verifying by size: measured
    # on one curve, imported on two.
    assert len(plots) == 2 + 5 + 2 + 2 * 2
    names = [plot.accessible_name for plot in plots]
    assert all(names)
    assert len(set(names)) == len(names)
    for plot in plots:
        assert plot.aria_role in {"img", "image"}
        assert plot.size["width"] > 300
        assert plot.size["height"] > 100


def test_labels_stay_inside_their_plots(browser: Chrome) -> None:
    outside = browser.execute_script(
        """
        return [...document.querySelectorAll("svg text")].filter(text => {
          const box = text.getBBox(), view = text.ownerSVGElement.viewBox.baseVal;
          return box.x < 0 || box.x + box.width > view.width || box.y + box.height > view.height;
        }).map(text => text.textContent);
        """
    )
    assert outside == []


def test_the_page_itself_does_not_scroll_sideways(browser: Chrome) -> None:
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for width in (1280, 500):
        browser.set_window_size(width, 1000)
        assert browser.execute_script(wide) == 0


def test_the_answer_is_above_the_evidence(browser: Chrome) -> None:
    tops = browser.execute_script(
        """
        return ["h1", ".tiles", "#verdicts", "#medians", "#commands", "#per_host", "#hosts",
                "#evidence"].map(at => document.querySelector(at).getBoundingClientRect().top);
        """
    )
    assert tops == sorted(tops)


def test_it_prints(page: Path, tmp_path: Path) -> None:
    """By the browser itself: chromedriver gives a page ten seconds, however busy the machine."""
    pdf = tmp_path / "report.pdf"
    subprocess.run(
        [
            str(CHROMIUM),
            *QUIET,
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--print-to-pdf={pdf}",
            page.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    printed = pdf.read_bytes()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000
