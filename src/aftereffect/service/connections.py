"""How many connections there may be: who waits longest makes room for who comes."""

import resource
from collections import Counter
from typing import Protocol

#: Connections of one peer, which may be a proxy, and of all together; fewer where the system allows few files. More than all
#: readers that may wait (see `pools`): they leave room for those who write.
MAX_OF_PEER, MAX_CONNECTIONS = 512, 2_048
#: Files that are left to the storage and everything else.
_OTHER_FILES = 96


class Connection(Protocol):
    """One of them."""

    def leave(self) -> None:
        """Close it now."""


class Connections:
    """All connections of a service.

    Where there are too many, the one that has waited longest for its peer is closed for the one that comes: half-sent requests
    and idle connections never shut others out. Only where every one is being answered, the newcomer is refused.
    """

    def __init__(self) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = MAX_CONNECTIONS if files < 0 else max(16, min(MAX_CONNECTIONS, files - _OTHER_FILES))
        self._peers: dict[Connection, str] = {}
        self._of_peer: Counter[str] = Counter()
        #: In the order in which they began to wait.
        self._waiting: dict[Connection, str] = {}

    def add(self, connection: Connection, peer: str) -> bool:
        """Whether there is room for one more; it then waits for its first request."""
        if self._of_peer[peer] >= MAX_OF_PEER and not self._close_one(peer):
            return False
        if len(self._peers) >= self._most:
            largest = max(self._of_peer, key=self._of_peer.__getitem__)
            if not (self._close_one(largest) or self._close_one(None)):
                return False
        self._peers[connection] = peer
        self._of_peer[peer] += 1
        self.note_waiting(connection)
        return True

    def remove(self, connection: Connection) -> None:
        """It is closed; said twice, nothing changes."""
        self._waiting.pop(connection, None)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self._of_peer[peer] -= 1
            if not self._of_peer[peer]:
                del self._of_peer[peer]

    def note_waiting(self, connection: Connection) -> None:
        """Nothing is left to be answered: it waits for its peer, from now on."""
        if connection in self._peers:
            self._waiting[connection] = self._peers[connection]

    def note_answering(self, connection: Connection) -> None:
        """A request has come whole; until it is answered the connection stays open."""
        self._waiting.pop(connection, None)

    def _close_one(self, peer: str | None) -> bool:
        """Close the connection that waits longest, of one peer or of all; False if none waits."""
        longest = next((each for each, whose in self._waiting.items() if peer in (None, whose)), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.leave()
        return True
