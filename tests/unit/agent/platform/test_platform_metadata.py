"""The metadata service, played by a server on loopback; no other address is ever asked."""

from __future__ import annotations

import http.server
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.support import platform_machines as machines
from tpmbench.platform import cloud, collect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.platform_machines import Machine

AZURE_PATH = "/metadata/instance/compute/"
ANSWERS = {
    ("GET", "/computeMetadata/v1/instance/machine-type", "Metadata-Flavor", "Google"): (
        "projects/123456/machineTypes/n2d-standard-4"
    ),
    ("PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60"): "secret",
    ("GET", "/latest/meta-data/instance-type", "X-aws-ec2-metadata-token", "secret"): "m6a.large",
    (
        "GET",
        AZURE_PATH + "vmSize?api-version=2021-12-13&format=text",
        "Metadata",
        "true",
    ): "Standard_DC4as_v5",
    (
        "GET",
        AZURE_PATH + "securityProfile/securityType?api-version=2021-12-13&format=text",
        "Metadata",
        "true",
    ): "ConfidentialVM",
}


@contextmanager
def service(delay_s: float = 0.0) -> Iterator[tuple[tuple[str, int], list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            asked.append(f"{self.command} {self.path}")
            time.sleep(delay_s)
            for (method, path, header, value), body in ANSWERS.items():
                if (self.command, self.path) == (method, path) and self.headers[header] == value:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    with suppress(BrokenPipeError):  # the client has given up
                        self.wfile.write(body.encode())
                    return
            self.send_error(403)

        do_GET = do_PUT = answer  # noqa: N815  # the base class's names

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield ("127.0.0.1", server.server_port), asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(machine: Machine, root, address, metadata="auto") -> dict[str, str | None]:
    evidence = collect(
        machine.tpm,
        root=machine.build(root),
        run=machine.run,
        cpuid=machine.cpuid(),
        metadata=metadata,
        metadata_address=address,
    )
    return {
        item.source.removeprefix("cloud metadata service").lstrip(": "): item.value
        for item in evidence
        if item.source.startswith("cloud metadata")
    }


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (machines.GCE_SNP, {"GCE machine type": "n2d-standard-4"}),
        (machines.AWS_SNP, {"AWS instance type": "m6a.large"}),
        (
            machines.AZURE_SNP,
            {"Azure vmSize": "Standard_DC4as_v5", "Azure securityType": "ConfidentialVM"},
        ),
    ],
    ids=["GCE", "AWS", "Azure"],
)
def test_cloud_that_dmi_names(tmp_path, monkeypatch, machine, expected):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with service() as (address, _):
        assert ask(machine, tmp_path, address) == expected


@pytest.mark.parametrize(
    ("machine", "metadata"),
    [
        (machines.BARE_METAL, "auto"),
        (machines.CONTAINER, "auto"),
        (machines.AZURE_TRUSTED_LAUNCH, "auto"),  # Hyper-V without Azure's tag
        (machines.GCE_SNP, "never"),
    ],
)
def test_nobody_is_asked(tmp_path, machine, metadata):
    with service() as (address, asked):
        assert ask(machine, tmp_path, address, metadata) == {"": None}
    assert asked == []


def test_service_that_is_not_there(tmp_path):
    with service() as (address, _):
        pass
    assert ask(machines.GCE_SNP, tmp_path, address) == {"GCE machine type": None}


def test_service_that_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(cloud, "TIMEOUT_S", 0.1)
    with service(delay_s=0.5) as (address, asked):
        begun = time.monotonic()
        assert ask(machines.AWS_SNP, tmp_path, address) == {"AWS instance type": None}
        assert time.monotonic() - begun < 0.5
    assert asked == ["PUT /latest/api/token"]  # without a token there is nothing to ask for


def test_token_that_is_refused(tmp_path, monkeypatch):
    monkeypatch.delitem(
        ANSWERS, ("GET", "/latest/meta-data/instance-type", "X-aws-ec2-metadata-token", "secret")
    )
    with service() as (address, _):
        assert ask(machines.AWS_SNP, tmp_path, address) == {"AWS instance type": None}
