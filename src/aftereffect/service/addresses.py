"""Where the service listens, and by what names it is called. Apart from the rest: the command line tells defaults from here."""

import ipaddress
import re
from collections.abc import Sequence

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8750
#: By what names this machine calls itself.
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")

#: A name, an address of version 4, or one of version 6 in brackets; then perhaps a port.
_HOST = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,255})|\[(?P<address>[0-9A-Fa-f:.]{2,45})\])(?::(?P<port>[0-9]{1,5}))?")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL_NAMES


def named_host(given: Sequence[str]) -> str | None:
    """The host that the Host headers of a request name, in lower case and without its port.

    None unless there is exactly one header and it is well formed: what is doubled or cannot be read is no name at all, however
    a library would read it.
    """
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    return (found["name"] or found["address"]).lower() if found else None
