"""Goal: what ss and perf tell is read as it is meant."""

import unittest

import calls
import objects

SS = """\
ESTAB 0      0         127.0.0.1:51906     127.77.9.2:9600  bbr wscale:10,10 rto:204 cwnd:12 bytes_sent:700 bytes_acked:700
ESTAB 0      0        127.77.9.2:9600       127.0.0.1:51906 bbr wscale:10,10 rto:204 cwnd:12 bytes_sent:50 bytes_acked:50
ESTAB 0      0         127.0.0.1:51907     127.77.8.2:9600  bbr wscale:10,10 rto:204 cwnd:12 bytes_sent:9000 bytes_acked:1
ESTAB 0      0         127.0.0.1:51908   127.77.9.200:2379  bbr wscale:10,10 rto:204 cwnd:12 bytes_sent:9000 bytes_acked:1
"""

PERF = """\
3557,,syscalls:sys_enter_futex,500000000,100.00,,
20868,,raw_syscalls:sys_enter,500000000,100.00,,
11709,,context-switches,500000000,100.00,,
521.20,msec,task-clock,500000000,100.00,0.1,CPUs utilized
"""


class Reading(unittest.TestCase):
    def test_connections_of_this_network_between_hosts_count_at_both_ends(self):
        found = objects.connections(SS, "127.77.9")
        self.assertEqual(sorted(found.values()), [50, 700])

    def test_counts_of_perf(self):
        self.assertEqual(calls.counted(PERF), {"futex": 3557, "calls": 20868, "switches": 11709, "cpu_ms": 521.2})

    def test_a_table_has_a_line_for_each_count(self):
        line = {"disks": 1000, "made": 990, "made_s": 4.5, "serves_after_s": 0.5, "cpu_s_per_min": [0.1, 0.3, 0.2]}
        line |= {"etcd_cpu_s_per_min": 0.4, "bytes_per_s_per_host": 46121, "resident_mib": [50, 51], "etcd_resident_mib": 40}
        self.assertEqual(objects.table([line])[2], "| 1,000 | 220 | 0.5 | 0.30 | 0.40 | 46,121 | 51 | 40 |")


if __name__ == "__main__":
    unittest.main()
