"""A steady load of 4 KiB writes through NBD that outlives a host: a process of its own, so that nobody else's work is in its times.

Promises  a request that has no answer when its connection ends is sent again through the next host, as QEMU does with
          reconnect-delay; its time runs on from when it was due
          latency counts from when a request was due, so that a stall is in every request that it held up
          at the end every block is read back and compared: a wrong block is told, and no measurement counts then
Usage     load.py RECORDS DISK SPAN_MIB RATE SECONDS_MAX SOCKET...     ends at SIGTERM

RECORDS gets pairs of doubles (due, answered) by the monotonic clock, in the order of answers, when the load ends.
"""

import array
import random
import select
import signal
import struct
import sys
import time
from pathlib import Path

from nbd import READ, WRITE, Connection, Gone

BLOCK = 4096
# As fio has them under way at QD32.
DEPTH = 32
# Over any stall that the product allows, so that it never hides one.
PATIENCE_S = 20
GIVE_UP_S = 90


def content(block, version):
    """What a block holds after its `version`th write; zeroes before the first."""
    return struct.pack(">QQ", block, version) * (BLOCK // 16) if version else bytes(BLOCK)


class Load:
    """Writes blocks of a disk at random, each at most once at a time, at a fixed rate."""

    def __init__(self, sockets, disk, blocks, rate):
        self.sockets, self.disk, self.rate = sockets, disk, rate
        self.versions = [0] * blocks
        self.random = random.Random(1)
        # cookie: (block, due)
        self.under_way = {}
        self.busy = set()
        self.records = array.array("d")
        self.cookie = 0
        self.stopped = False
        self.connection = self.connect()

    def connect(self):
        """Connects to the first host that takes us."""
        end = time.monotonic() + GIVE_UP_S
        while True:
            for path in self.sockets:
                try:
                    return Connection(path, self.disk, PATIENCE_S)
                except Gone as gone:
                    last = gone
            if time.monotonic() > end:
                raise last
            time.sleep(0.02)

    def begin(self, due):
        """Sends a write that was due at `due`."""
        block = self.random.randrange(len(self.versions))
        while block in self.busy:
            block = self.random.randrange(len(self.versions))
        self.cookie += 1
        self.versions[block] += 1
        self.busy.add(block)
        self.under_way[self.cookie] = block, due
        self.send(self.cookie, block)

    def send(self, cookie, block):
        self.connection.send(cookie, WRITE, block * BLOCK, BLOCK, content(block, self.versions[block]))

    def receive(self):
        """Takes the answers that are there."""
        answers = self.connection.answers()
        now = time.monotonic()
        for cookie, _ in answers:
            block, due = self.under_way.pop(cookie)
            self.busy.remove(block)
            self.records.extend((due, now))

    def again(self):
        """Connects anew and sends what has no answer once more."""
        while True:
            self.connection.close()
            self.connection = self.connect()
            try:
                for cookie, (block, _) in self.under_way.items():
                    self.send(cookie, block)
                return
            except Gone:
                pass

    def run(self, seconds_max):
        """Goes on until it is stopped or the time is over, and until everything is answered."""
        due = time.monotonic()
        end, step = due + seconds_max, 1 / self.rate
        while True:
            now = time.monotonic()
            going = not self.stopped and now < end
            if not going and not self.under_way:
                return
            try:
                while going and due <= now and len(self.under_way) < DEPTH:
                    self.begin(due)
                    due += step
                wait = max(due - time.monotonic(), 0) if going and len(self.under_way) < DEPTH else PATIENCE_S
                # select, as its time is in microseconds: poll rounds up to milliseconds.
                if select.select([self.connection.socket], [], [], wait)[0]:
                    self.receive()
                elif wait == PATIENCE_S:
                    raise Gone("the server is silent")
            except Gone:
                self.again()

    def verify(self):
        """Reads all blocks back; gives those that hold something else."""
        wrong = []
        for first in range(0, len(self.versions), DEPTH):
            blocks = range(first, min(first + DEPTH, len(self.versions)))
            for block in blocks:
                self.connection.send(block, READ, block * BLOCK, BLOCK)
            left = set(blocks)
            while left:
                for block, data in self.connection.answers():
                    left.remove(block)
                    if data != content(block, self.versions[block]):
                        wrong.append(block)
        return wrong


def main(words):
    records, disk, span_mib, rate, seconds_max = words[:5]
    load = Load(words[5:], disk, int(span_mib) * (1 << 20) // BLOCK, float(rate))

    def stop(*_):
        load.stopped = True

    signal.signal(signal.SIGTERM, stop)
    load.run(float(seconds_max))
    wrong = load.verify()
    Path(records).write_bytes(load.records.tobytes())
    if wrong:
        print(f"{len(wrong)} blocks hold something else than was written, the first of them {wrong[0]}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
