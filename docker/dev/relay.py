"""Carries TCP connections over a Unix socket between the host's loopback and a container's own.

    relay.py --from-unix SOCKET --to-tcp HOST:PORT     in the host's network: socket -> server on the host's loopback
    relay.py --from-tcp HOST:PORT --to-unix SOCKET     in a container: its own loopback -> socket

Bytes only, nothing is read or kept; the standard library only, for it runs before anything else is there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os

CHUNK = 65536


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction to its end, then close only that direction: the other may still have an answer to carry."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()


async def serve(options: argparse.Namespace) -> None:
    """Accept connections for ever and join each with one of its own to the other end."""

    async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if options.to_unix:
                far_reader, far_writer = await asyncio.open_unix_connection(options.to_unix)
            else:
                far_reader, far_writer = await asyncio.open_connection(*address(options.to_tcp))
        except OSError as error:
            print(f"relay: {options.to_unix or options.to_tcp}: {error.strerror or error}", flush=True)
            writer.transport.abort()  # the caller sees a reset, as from a port on which nobody listens
            return
        try:
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        finally:
            far_writer.close()
            writer.close()

    if options.from_unix:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(options.from_unix)  # left by a relay that was killed
        server = await asyncio.start_unix_server(joined, options.from_unix)
    else:
        server = await asyncio.start_server(joined, *address(options.from_tcp))
    print(f"relay: ready, {options.from_unix or options.from_tcp} to {options.to_unix or options.to_tcp}", flush=True)
    async with server:
        await server.serve_forever()


def address(text: str) -> tuple[str, int]:
    """``HOST:PORT`` in its parts; an IPv6 address stands in brackets."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def main() -> None:
    """Read the command line and serve until a signal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    near = parser.add_mutually_exclusive_group(required=True)
    near.add_argument("--from-unix")
    near.add_argument("--from-tcp")
    far = parser.add_mutually_exclusive_group(required=True)
    far.add_argument("--to-unix")
    far.add_argument("--to-tcp")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
