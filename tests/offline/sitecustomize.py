"""Forbids the network. Found by every Python process that the tests start, for conftest.py puts its folder first."""

import ipaddress
import sys
from typing import Any

_NAMES = {"", "localhost"}


def _is_here(host: object) -> bool:
    """Whether an address is this machine's own: loopback, or the wildcard that servers listen on."""
    if host is None or host in _NAMES:
        return True
    try:
        address = ipaddress.ip_address(host if isinstance(host, str) else bytes(host).decode())  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return False
    return address.is_loopback or address.is_unspecified


def _forbid(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if isinstance(address, tuple) and not _is_here(address[0]):
            raise PermissionError(f"the tests do without the network; this wanted {address}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not _is_here(arguments[0]):
        raise PermissionError(f"the tests do without the network; this asked for {arguments[0]!r}")


sys.addaudithook(_forbid)
