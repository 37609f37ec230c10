"""Whose process is at the other end of a connection on this machine: as the kernel says."""

from __future__ import annotations

import socket
import struct

_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
"""Of linux/netlink.h and sock_diag.h: the protocol, its one message, and that it is a question."""


def uid_of(own: socket.socket) -> int | None:
    """Return the user id at the other end of a connection over a Unix socket or a loopback address.

    Of a loopback address it is that of the socket whose ends are ours turned round (sock_diag); None where there is
    none any more, or the kernel does not tell. It says whose rate a question counts to, and no more: a proxy's
    questions, too, come from one account.
    """
    if own.family == socket.AF_UNIX:
        _, uid, _ = struct.unpack("3i", own.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return int(uid)
    try:
        (host, port, *_), (other, its_port, *_) = own.getsockname(), own.getpeername()
        ends = b"".join(socket.inet_pton(own.family, one).ljust(16, b"\0") for one in (other, host))
        about = struct.pack("=BBHI", own.family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
        about += struct.pack("!HH", its_port, port) + ends + struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _SOCK_DIAG) as kernel:
            kernel.send(struct.pack("=IHHII", 16 + len(about), _BY_FAMILY, _REQUEST, 0, 0) + about)
            said = kernel.recv(4096)
        _, kind = struct.unpack_from("=IH", said)
        uid, inode = struct.unpack_from("=II", said, 80)  # behind the head, the ends and three counts
    except (OSError, ValueError, struct.error):
        return None
    return int(uid) if kind == _BY_FAMILY and inode else None
