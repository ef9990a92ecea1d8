"""Ports for programs that cannot choose one themselves: free a moment ago, below those that the system hands out."""

import random
import socket


def free_port(host="127.0.0.1"):
    for _ in range(200):
        port = random.randrange(12_000, 29_000)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as streams:
            try:
                datagrams.bind((host, port))
                streams.bind((host, port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")
