#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGTERM loses nothing that had arrived.

Each round: 64 clients send a whole request and say so; SIGTERM follows at a
random moment; every request whose last byte the server's kernel had taken
before the signal gets its whole answer, and the server exits 0.

    drain.py QUERN MODEL.onnx [--rounds 100] [--clients 64]

A request counts as arrived once its bytes have left this side's socket buffer
(SIOCOUTQ is 0: loopback has handed them to the server's socket).
"""
import argparse
import array
import fcntl
import json
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import Server, post_bytes, read_response, repository  # noqa: E402

SIOCOUTQ = 0x5411


def unsent(sock):
    value = array.array("i", [0])
    fcntl.ioctl(sock, SIOCOUTQ, value)
    return value[0]


class Client(threading.Thread):
    def __init__(self, port, request, want, signalled):
        super().__init__(daemon=True)
        self.port, self.request, self.want = port, request, want
        self.signalled = signalled
        self.whole = self.lost = self.late = 0
        self.why = ""

    def run(self):
        rest = b""
        try:
            sock = socket.create_connection(("127.0.0.1", self.port))
            sock.settimeout(60)
        except OSError:
            return
        while True:
            counts = False
            try:
                sock.sendall(self.request)
                while unsent(sock):
                    time.sleep(0.0001)
                counts = not self.signalled.is_set()
                status, headers, body, rest = read_response(sock, rest)
                if status != 200 or body != self.want:
                    raise ConnectionError(f"status {status} {body[:120]!r}")
                self.whole += 1
                if headers.get("connection", "").lower() == "close":
                    return
            except OSError as e:
                if counts:
                    self.lost += 1
                    self.why = str(e)
                else:
                    self.late += 1
                return


def one_round(options, repo, body, want, temp, seed):
    server = Server(options.quern, repo, temp / "log", *options.flag)
    server.wait_ready()
    path = "/v1/models/m:infer"
    if want is None:
        status, want = server.request("POST", path, body)
        if status != 200:
            raise SystemExit(f"{status} {want[:300]!r}")
    signalled = threading.Event()
    clients = [Client(server.port, post_bytes(path, body), want, signalled)
               for _ in range(options.clients)]
    for c in clients:
        c.start()
    time.sleep(0.05 + random.Random(seed).random() * 0.15)
    # set before the signal is sent: what is counted had arrived before it
    signalled.set()
    code = server.stop()
    for c in clients:
        c.join(60)
    return want, code, clients


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quern")
    parser.add_argument("model")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--input", default="Input3")
    parser.add_argument("--shape", default="1x1x28x28")
    parser.add_argument("--flag", action="append", default=[])
    options = parser.parse_args()
    shape = [int(d) for d in options.shape.split("x")]
    n = 1
    for d in shape:
        n *= d
    body = json.dumps({"inputs": [{
        "name": options.input, "datatype": "FP32", "shape": shape,
        "data": [i % 255 for i in range(n)]}]}).encode()
    whole = lost = late = bad_exit = 0
    want = None
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        repo = repository(temp / "models", {"m": options.model})
        for r in range(options.rounds):
            want, code, clients = one_round(options, repo, body, want, temp, r)
            whole += sum(c.whole for c in clients)
            late += sum(c.late for c in clients)
            bad_exit += code != 0
            for c in clients:
                lost += c.lost
                if c.lost and lost < 5:
                    print("lost:", c.why, flush=True)
            if sys.stderr.isatty():
                print(f"\rround {r + 1}/{options.rounds}", end="",
                      file=sys.stderr)
    print(f"{options.rounds} rounds of {options.clients} clients: {whole} whole "
          f"answers, {lost} lost, {late} sent after the signal and refused, "
          f"{bad_exit} exits other than 0")
    return 1 if lost or bad_exit or not whole else 0


if __name__ == "__main__":
    sys.exit(main())
