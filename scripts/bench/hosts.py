"""Cairn clusters for measuring: hosts as one process each with an etcd, or all of them in one process.

Promises  every host listens on loopback and unix sockets only, in a network of the run's own
          what a call refuses is an exception with the words of `cairn`
Assumes   cairnd and cairn in one folder; etcd is installed
"""

import http.client
import itertools
import json
import os
import socket
import subprocess
import time
from pathlib import Path

from processes import Child, die_with_parent

# Time for hosts to start: they write their device files in full first.
UP_PATIENCE_S = 120
CLEAR_PATIENCE_S = 120


_clusters = itertools.count()


class Refused(Exception):
    """A call of `cairn` failed."""


class _ApiConnection(http.client.HTTPConnection):
    """HTTP on a unix socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Cluster:
    """A running cluster. Host numbers begin at 1. Each host has as many disk groups as shards."""

    shards = 1

    def __init__(self, programs, folder, sockets, log_mib=0, repair_delay_s=3600):
        self.programs, self.folder, self.sockets = Path(programs), Path(folder), Path(sockets)
        self.log_mib, self.repair_delay_s = log_mib, repair_delay_s
        for path in (self.folder, self.sockets):
            path.mkdir(parents=True, exist_ok=True)

    def tuning(self):
        """What differs from the defaults of a new disk group, as lines of the configuration."""
        return f'[tuning]\nlog = "{self.log_mib}MiB"\n' if self.log_mib else ""

    def cairn(self, *arguments, host=1):
        """Calls `cairn` at a host and gives its parsed answer."""
        line = [self.programs / "cairn", "--api", f"unix:{self.api_socket(host)}", "--output", "json", *arguments]
        done = subprocess.run(
            [str(word) for word in line],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        if done.returncode:
            raise Refused(f"cairn {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def get(self, path, host=1):
        """A call of the management API without a program: for looking often, as starting one costs more than the answer."""
        return self._call("GET", path, None, host)

    def post(self, path, body, host=1):
        """The same for a call that makes something."""
        return self._call("POST", path, body, host)

    def _call(self, method, path, body, host):
        connection = _ApiConnection(self.api_socket(host))
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            connection.request(method, f"/api/v1/{path}", json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        except OSError as error:
            raise Refused(f"{method} {path} of host {host}: {error}") from error
        finally:
            connection.close()
        if answer.status not in (200, 201):
            raise Refused(f"{method} {path} of host {host}: {answer.status} {text.strip()}")
        return json.loads(text)

    def wait_up(self):
        """Waits until every host sees every other one, and has its disk group."""
        for host in range(1, self.hosts + 1):
            daemon = self.children.get(self.host_name(host)) or self.children["cairnd"]
            daemon.wait_for(f"host {host} sees all others", lambda: self._sees_all(host), UP_PATIENCE_S)

    def _sees_all(self, host):
        for child in self.children.values():
            child.check()
        try:
            if self.cairn("cluster", "status", host=host)["hosts_up"] != self.hosts:
                return False
            return len(open_gauges(self.counters(host))) == self.hosts * self.shards
        except Refused:
            return False

    def create_disk(self, name, mib, host=1, policy="default"):
        """Makes a disk with this policy (the default one: mirror, FTT 1) that this host owns."""
        end = time.monotonic() + UP_PATIENCE_S
        while True:
            try:
                size = ("--size", f"{mib}MiB", "--policy", policy)
                self.cairn("disk", "create", name, *size, "--host", self.host_name(host), host=host)
                break
            except Refused as refused:
                if time.monotonic() > end or "exists" in str(refused):
                    raise
                time.sleep(0.2)
        self.cairn("disk", "attach", name, "--host", self.host_name(host), host=host)

    def uri(self, disk, host=1):
        """Where fio finds a disk."""
        return f"nbd+unix:///{disk}?socket={self.nbd_socket(host)}"

    def vhost_user_uri(self, disk, host=1):
        """Where `cairn bench load` finds a disk as a machine of that host does."""
        return f"vhost-user://{self.vhost_user_dir(host)}/{disk}.sock"

    def clear(self):
        """Destages all write buffers and empties all read caches."""
        self.cairn("--timeout", CLEAR_PATIENCE_S + 30, "cache", "clear", "--wait", CLEAR_PATIENCE_S)

    def counters(self, host=1):
        """Counters of all hosts."""
        return self.cairn("counters", host=host)

    def gauges(self):
        """How each disk group is at this moment, by host."""
        return open_gauges(self.counters())

    def pids(self):
        """All processes of the cluster by name."""
        return {name: child.pid for name, child in self.children.items()}

    def stop(self):
        """Ends all processes."""
        for child in self.children.values():
            child.process.terminate()
        for child in self.children.values():
            child.stop()


class SeveralProcesses(Cluster):
    """Each host a process; they talk over loopback. etcd is a process by itself, so that any host may be killed."""

    def __init__(self, programs, folder, sockets, cache_mib, capacity_mib, hosts=3, shards=1, media="", **more):
        """`media`: lines of each disk group that name what its files are to be as slow as."""
        super().__init__(programs, folder, sockets, **more)
        self.hosts, self.shards, self.media = hosts, shards, media
        self.sizes = cache_mib, capacity_mib
        # 127.77.1.0 to 127.77.250.0, and on from 127.78.1.0 for the second cluster of a run: two runs at once do not meet.
        self.network = f"127.{77 + next(_clusters)}.{os.getpid() % 250 + 1}"
        self.children = {}

    def start(self):
        """Starts etcd and all hosts, and waits until they are up."""
        client, peer = (f"http://{self.network}.200:{port}" for port in (2379, 2380))
        line = ["etcd", "--name=bench", f"--data-dir={self.folder}/etcd", f"--initial-cluster=bench={peer}"]
        line += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        line += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        self.endpoint = client
        self.children["etcd"] = Child("etcd", line, self.folder / "etcd.log")
        for host in range(1, self.hosts + 1):
            self.start_host(host)
        self.wait_up()

    def start_host(self, host):
        """Starts one host, without waiting for it."""
        name = self.host_name(host)
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        (folder / "cairnd.toml").write_text(self._config(host, folder))
        line = [self.programs / "cairnd", "--config", folder / "cairnd.toml"]
        self.children[name] = Child(name, line, folder / "log")

    def _config(self, host, folder):
        cache_mib, capacity_mib = self.sizes
        groups = [
            f'[[disk_group]]\ncache = "{folder}/cache{mark}.img"\ncapacity = ["{folder}/capacity{mark}.img"]\n'
            f'cache_size = "{cache_mib}MiB"\ncapacity_size = "{capacity_mib}MiB"\n{self.media}'
            for mark in ["", *(f"-{number}" for number in range(2, self.shards + 1))]
        ]
        return (
            f'[cluster]\nname = "bench"\nrepair_delay_s = {self.repair_delay_s}\n'
            f'[host]\nname = "{self.host_name(host)}"\ndata_dir = "{folder}/data"\nshards = {self.shards}\n'
            f'[listen]\npeers = "{self.network}.{host}:9600"\napi = ""\nnbd = ""\n'
            f'api_socket = "{self.api_socket(host)}"\nnbd_socket = "{self.nbd_socket(host)}"\n'
            f'vhost_user_dir = "{self.vhost_user_dir(host)}"\n'
            f'[directory]\nkind = "etcd"\nendpoints = ["{self.endpoint}"]\n[log]\nlevel = "warn"\n{self.tuning()}{"".join(groups)}'
        )

    def kill_host(self, host):
        """SIGKILL of a host's daemon: for its peers and guests as if its power were cut."""
        self.children.pop(self.host_name(host)).kill()

    def host_name(self, host):
        return f"h{host}"

    def api_socket(self, host):
        return self.sockets / f"h{host}-api.sock"

    def nbd_socket(self, host):
        return self.sockets / f"h{host}-nbd.sock"

    def vhost_user_dir(self, host):
        """Sockets of machines of that host."""
        return self.sockets / f"h{host}-vhost"


class OneProcess(Cluster):
    """All hosts in one process, with the embedded directory."""

    def __init__(self, programs, folder, sockets, cache_mib, capacity_mib, hosts=3, **more):
        super().__init__(programs, folder, sockets, **more)
        self.hosts = hosts
        self.sizes = cache_mib, capacity_mib
        # Sockets of embedded hosts are in the data directory, and a socket's path has at most 107 bytes: a link makes it short.
        self.data = self.sockets / "one"
        self.data.symlink_to(self.folder)
        self.children = {}

    def start(self):
        """Starts the process and waits until all hosts are up."""
        config = self.folder / "cairnd.toml"
        config.write_text(f'[log]\nlevel = "warn"\n{self.tuning()}')
        cache_mib, capacity_mib = self.sizes
        line = [self.programs / "cairnd", "--config", config, "--cluster-name", "bench-one", "--data-dir", self.data]
        line += ["--embedded-hosts", self.hosts, "--embedded-cache", f"{cache_mib}MiB"]
        line += ["--embedded-capacity", f"{capacity_mib}MiB", "--listen-api", "", "--listen-nbd", "", "--listen-peers", ""]
        self.children["cairnd"] = Child("cairnd", line, self.folder / "log")
        self.wait_up()

    def _sees_all(self, host):
        # One process answers for all of them.
        return host > 1 or super()._sees_all(host)

    def host_name(self, host):
        return f"host-{host}"

    def api_socket(self, host):
        return self.data / "api.sock"

    def nbd_socket(self, host):
        return self.data / f"host-{host}" / "nbd.sock"


def added(before, after):
    """What happened between two answers of Cluster.counters, all disk groups together, in MiB; and how full logs were at begin.

    Reads are those of one copy, by where its blocks came from; writes and what was destaged are those of all copies.
    """
    names = ("read_cache", "read_log", "read_capacity", "write", "destaged")
    sums = []
    for counters in (before, after):
        groups = [g["counters"] for h in counters["hosts"] for g in h["disk_groups"] if g["counters"]]
        sums.append({name: sum(group[f"{name}_bytes"] for group in groups) for name in names})
    told = {f"{name}_mib": (sums[1][name] - sums[0][name]) / (1 << 20) for name in names}
    told["log_fill_percent"] = max((g["log_fill_permille"] / 10 for g in open_gauges(before)), default=None)
    return told


def open_gauges(counters):
    """The gauges of all disk groups that are open."""
    return [g["gauges"] for h in counters["hosts"] for g in h["disk_groups"] if g["gauges"]]
