"""Where the service listens. Apart from the rest, so that the command line can tell defaults without loading it."""

import ipaddress

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8750
#: By what names this machine calls itself.
LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOCAL_NAMES
