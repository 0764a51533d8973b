"""What the doubles of the clouds' APIs have in common: an HTTPS server on loopback."""

from __future__ import annotations

import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import trustme

if TYPE_CHECKING:
    from pathlib import Path


class HttpsServer(ThreadingHTTPServer):
    """Serves on a free port of 127.0.0.1 with a certificate of its own authority.

    Args:
        handler: what answers.
        double: whose answers they are; the handler finds it here.
        ca_file: where the authority's certificate goes.
    """

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], double: Any, ca_file: Path) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(ca_file)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self._context)
        self.double = double
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"https://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        """Take requests from now on."""
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self.shutdown()
        self.server_close()

    def finish_request(self, request: Any, client_address: Any) -> None:
        with (
            contextlib.suppress(OSError),
            self._context.wrap_socket(request, server_side=True) as secured,
        ):
            self.RequestHandlerClass(secured, client_address, self)


class QuietHandler(BaseHTTPRequestHandler):
    """Answers every verb by the same method, and writes no log."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one write an answer; the second of two would wait for an acknowledgement
    server: HttpsServer

    def serve(self) -> None:
        """Answer one request, whatever its verb."""
        raise AssertionError("a double answers by a method of its own")

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def do_PUT(self) -> None:
        self.serve()

    def do_PATCH(self) -> None:
        self.serve()

    def do_DELETE(self) -> None:
        self.serve()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
