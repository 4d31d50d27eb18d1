"""Forbids the network. Found by every Python process that the tests start, for conftest.py puts its folder first."""

import ipaddress
import socket
import sys
from typing import Any


def _address(host: object) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """A host given by its number, None for one given by its name."""
    try:
        return ipaddress.ip_address(host.decode() if isinstance(host, bytes) else host)  # type: ignore[arg-type]
    except ValueError:
        return None


def _is_here(host: object) -> bool:
    """Whether this machine is meant: one can listen nowhere else."""
    if host in (None, "", "localhost"):
        return True
    address = _address(host)
    if address is None or address.is_loopback or address.is_unspecified:
        return address is not None
    try:
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _forbid(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if isinstance(address, tuple) and not _is_here(address[0]):
            raise PermissionError(f"the tests do without the network; this wanted {address}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        _forbid_lookup(arguments[0])


def _forbid_lookup(host: object) -> None:
    """A number needs nobody to look it up."""
    if _address(host) is None and not _is_here(host):
        raise PermissionError(f"the tests do without the network; this asked for {host!r}")


sys.addaudithook(_forbid)
