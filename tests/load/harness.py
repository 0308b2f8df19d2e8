# SPDX-License-Identifier: Apache-2.0
"""A server under test and raw HTTP/1.1 clients; standard library only."""
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """`quern serve` over a folder, on a free port, with its log in a file."""

    def __init__(self, quern, models, log, *flags, env=None):
        self.port = free_port()
        self.log = open(log, "wb")
        self.process = subprocess.Popen(
            [quern, "serve", "--models", str(models), "--host", "127.0.0.1",
             "--port", str(self.port), *flags],
            stdout=self.log, stderr=self.log, env={**os.environ, **(env or {})})
        self.pid = self.process.pid

    def wait_ready(self, seconds=120):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"server ended: {self.process.returncode}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get("/readyz")[0] == 200:
                    return self
            time.sleep(0.05)
        raise RuntimeError("server is not ready")

    def request(self, method, path, body=None, headers=None, timeout=120):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return r.status, r.read()
        finally:
            c.close()

    def get(self, path):
        return self.request("GET", path)

    def status(self):
        return json.loads(self.get("/v1/status")[1])

    def memory_kb(self):
        """RssAnon, RssShmem in KiB."""
        values = {}
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            key, _, rest = line.partition(":")
            if key in ("RssAnon", "RssShmem"):
                values[key] = int(rest.split()[0])
        return values["RssAnon"], values["RssShmem"]

    def stop(self, sig=signal.SIGTERM, seconds=60):
        if self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.log.close()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stop()


def post_bytes(path, body, extra=""):
    """A whole request, ready for sendall()."""
    head = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Length: {len(body)}\r\n{extra}\r\n")
    return head.encode() + body


def read_response(sock, buffered=b""):
    """(status, headers, body, rest) of one response with a Content-Length."""
    data = buffered
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            raise ConnectionError(f"closed after {len(data)} bytes of a head")
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in
               (line.partition(":") for line in lines[1:])}
    length = int(headers.get("content-length", "0"))
    parts, have = [rest], len(rest)
    while have < length:
        part = sock.recv(min(1 << 20, length - have))
        if not part:
            raise ConnectionError(f"closed after {have} of {length} bytes")
        parts.append(part)
        have += len(part)
    body = b"".join(parts)
    return int(lines[0].split()[1]), headers, body[:length], body[length:]


def repository(target, models):
    """models: {id: path of model.onnx} -> a model repository of copies."""
    shutil.rmtree(target, ignore_errors=True)
    for name, path in models.items():
        folder = pathlib.Path(target) / name / "1"
        folder.mkdir(parents=True)
        shutil.copy(path, folder / "model.onnx")
    return target
