"""Addresses to listen on, in the options of commands."""

from ipaddress import ip_address

from msgspec import Struct

from phalanx.cli.exits import BadInput


class Address(Struct, frozen=True):
    """An address to listen on; port 0 lets the system choose."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


def listen_address(flag: str, text: str) -> Address:
    """The address that an option names. Raises BadInput."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise BadInput(f"{flag}: expected HOST:PORT, found {text}")
    return Address(host=host.strip("[]") or "0.0.0.0", port=int(port))
