"""The part of the contract of a storage about access tokens."""

from aftereffect.errors import StorageError
from aftereffect.testing._common import require
from aftereffect.testing._storages import StorageTests


class TokenTests(StorageTests):
    """Access tokens are found by their digest, and stay revoked."""

    def test_tokens_are_stored_and_revoked_once(self) -> None:
        storage = self.connect()
        empty = storage.tokens() == [] and not storage.has_tokens()
        require(empty, "tokens must give nothing, and has_tokens False, if there is no token")
        require(storage.token(b"1" * 32) is None, "token must give None if there is no token")
        first = storage.add_token("ci", "read", "today", b"1" * 32)
        second = self.connect().add_token("ci", "write", "today", b"2" * 32)
        given = ("ci", "read", b"1" * 32, "today", None)
        require(first[1:] == given, "a token must come back as it was given")
        for each in (storage, self.connect()):
            require(each.has_tokens(), "has_tokens must count tokens that another storage added")
            found = [each.token(b"1" * 32), each.token(b"2" * 32), each.token(b"3" * 32)]
            require(found == [first, second, None], "token must find each by its digest alone")
        in_order = self.connect().tokens() == [first, second]
        require(in_order, "tokens must be listed in the order of their creation")
        revoked = storage.revoke_token(first.id, "later")
        require(
            revoked == first._replace(revoked_at="later"),
            "a revoked token must have the time of its revocation",
        )
        same = storage.revoke_token(first.id, "still later") == revoked
        require(same, "a token that is revoked again must keep the time of the first revocation")
        only = self.connect().tokens() == [revoked, second]
        require(
            only,
            "a revoked token must be revoked in other storages too, and no other token with it",
        )
        found = [self.connect().token(token.digest) for token in (first, second)]
        require(found == [revoked, second], "a revoked token must still be found")
        absent = storage.revoke_token(second.id + 100, "later")
        require(absent is None, "revoke_token must give None for an unknown token")
        storage.revoke_token(second.id, "later")
        require(self.connect().has_tokens(), "has_tokens must count revoked tokens too")

    def test_no_two_tokens_have_the_same_digest(self) -> None:
        storage = self.connect()
        storage.add_token("ci", "read", "today", b"1" * 32)
        try:
            storage.add_token("ci", "admin", "today", b"1" * 32)
        except StorageError:
            require(
                storage.tokens()[0].scope == "read",
                "a token that is refused must leave the first as it was",
            )
        else:
            raise AssertionError("a second token with the same digest must raise StorageError")
