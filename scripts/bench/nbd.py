"""A small NBD client: one connection, many requests under way, answers in any order.

Promises  a connection that breaks, or a server that is silent too long, is Gone; an error number in an answer is an NbdError
Source    the NBD protocol, doc/proto.md: fixed newstyle, NBD_OPT_GO, simple replies
"""

import socket
import struct

READ, WRITE = 0, 1
_OPTION = struct.Struct(">QII")
_REQUEST = struct.Struct(">IHHQQI")
_REPLY = struct.Struct(">IIQ")
_OPTION_MAGIC, _OPT_GO, _REP_ACK, _REP_INFO = 0x49484156454F5054, 7, 1, 3
_REQUEST_MAGIC, _REPLY_MAGIC = 0x25609513, 0x67446698


class Gone(Exception):
    """The connection is of no use any more: connect again, perhaps elsewhere."""


class NbdError(Exception):
    """The server answered a request with an error number."""


class Connection:
    """A connection to an export on a unix socket."""

    def __init__(self, path, export, patience_s):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(patience_s)
        self._received = bytearray()
        # Length of the data that the answer to a cookie carries.
        self._expected = {}
        try:
            self.socket.connect(str(path))
            self._negotiate(export.encode())
        except OSError as error:
            self.socket.close()
            raise Gone(str(error)) from error

    def _negotiate(self, export):
        if self._take(18)[:8] != b"NBDMAGIC":
            raise Gone("no NBD server")
        body = struct.pack(">I", len(export)) + export + b"\0\0"
        self.socket.sendall(struct.pack(">I", 3) + _OPTION.pack(_OPTION_MAGIC, _OPT_GO, len(body)) + body)
        while True:
            _, _, kind, length = struct.unpack(">QIII", self._take(20))
            body = self._take(length)
            if kind == _REP_ACK:
                return
            if kind != _REP_INFO:
                self.socket.close()
                raise Gone(f"export refused: {kind:#x} {body.decode(errors='replace')}")

    def _take(self, count):
        while len(self._received) < count:
            self._receive()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _receive(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise OSError("the server has closed the connection")
        self._received += data

    def send(self, cookie, command, offset, length, data=b""):
        """Sends a request; Gone where that fails."""
        self._expected[cookie] = length if command == READ else 0
        try:
            self.socket.sendall(_REQUEST.pack(_REQUEST_MAGIC, 0, command, cookie, offset, length) + data)
        except OSError as error:
            raise Gone(str(error)) from error

    def answers(self):
        """Waits for bytes once and gives [(cookie, data)] of the answers that are complete."""
        try:
            self._receive()
        except OSError as error:
            raise Gone(str(error)) from error
        found, at = [], 0
        while len(self._received) - at >= _REPLY.size:
            magic, error, cookie = _REPLY.unpack_from(self._received, at)
            if magic != _REPLY_MAGIC:
                raise Gone("an answer out of the protocol")
            if error:
                raise NbdError(f"the server answered error {error}")
            end = at + _REPLY.size + self._expected[cookie]
            if len(self._received) < end:
                break
            found.append((cookie, bytes(self._received[at + _REPLY.size : end])))
            del self._expected[cookie]
            at = end
        del self._received[:at]
        return found

    def close(self):
        self.socket.close()
