//! Easy Run on clusters whose answer was worked out by hand from the script's rules.

use cairn_sizing::{Cluster, EasyRun, Latency, Media, Protection, easy_run};

const GB: u64 = 1_000_000_000;

/// Four hosts of two groups of one 375 GB cache and two 2 TB capacity devices, as in the IOmark-VM-HC report.
fn iomark_cluster() -> Cluster {
    Cluster {
        disk_groups: 8,
        cache_bytes: 375 * GB,
        capacity_bytes: 32_000 * GB,
        free_bytes: 32_000 * GB,
        media: Media::AllFlash,
        protection: Protection::mirror(1).unwrap(),
        checksums: true,
        latency: Latency::Max,
    }
}

fn shape(run: &EasyRun) -> (u64, u64, u64, u64, u32) {
    (run.vms, run.disks_per_vm, run.disk_gb, run.data_gb, run.halved)
}

#[test]
fn all_flash() {
    // 8 x 375 = 3,000 GB; x 0.75 / 2 = 1,125; over 128 disks 8.79.
    let run = easy_run(&iomark_cluster()).unwrap();
    assert_eq!(shape(&run), (16, 8, 8, 1024, 0));
    let threads: Vec<_> = run.profiles.iter().map(|p| (p.name, p.threads_per_disk, p.outstanding)).collect();
    let expected = [
        ("4k70r", 4, 512),
        ("8k50r", 4, 512),
        ("4k100r", 4, 512),
        ("4k0r", 4, 512),
        ("256k100r", 1, 128),
        ("256k0r", 1, 128),
    ];
    assert_eq!(threads, expected);
    assert_eq!((run.warm_up_s, run.run_s), (1800, 3600));
}

#[test]
fn each_rule_changes_what_it_says() {
    let base = iomark_cluster();
    let cases = [
        // 1,125 GB x 2 / 1.33 = 1,691.7; over 128 13.2.
        ("RAID-5", Cluster { protection: Protection::RAID5, ..base }, (16, 8, 13, 1664, 0)),
        ("RAID-6", Cluster { protection: Protection::RAID6, ..base }, (16, 8, 11, 1408, 0)),
        ("hybrid", Cluster { media: Media::Hybrid, ..base }, (16, 8, 2, 256, 0)),
        ("latency target", Cluster { latency: Latency::Target, ..base }, (16, 4, 17, 1088, 0)),
        // 600 GB of each 960 GB device.
        ("cap", Cluster { cache_bytes: 960 * GB, ..base }, (16, 8, 14, 1792, 0)),
        ("no cap in hybrid", Cluster { cache_bytes: 960 * GB, media: Media::Hybrid, ..base }, (16, 8, 7, 896, 0)),
        // 7,000 - 3,000 is less than 6,400; 7,000 - 1,500 still; 7,000 - 750 too; 7,000 - 375 is not.
        ("full", Cluster { free_bytes: 7_000 * GB, ..base }, (16, 8, 1, 128, 3)),
        ("a fifth stays free just so", Cluster { free_bytes: 9_400 * GB, ..base }, (16, 8, 8, 1024, 0)),
        ("and not quite", Cluster { free_bytes: 9_399 * GB, ..base }, (16, 8, 4, 512, 1)),
        ("small", Cluster { cache_bytes: GB, ..base }, (16, 8, 1, 128, 0)),
    ];
    for (rule, cluster, expected) in cases {
        assert_eq!(shape(&easy_run(&cluster).unwrap()), expected, "{rule}");
    }
    let unchecked = easy_run(&Cluster { checksums: false, ..base }).unwrap();
    assert!(unchecked.profiles.iter().all(|p| p.threads_per_disk == 4));
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let base = iomark_cluster();
    for cluster in [
        Cluster { disk_groups: 0, ..base },
        Cluster { disk_groups: 10_001, ..base },
        Cluster { cache_bytes: GB - 1, ..base },
        Cluster { free_bytes: 33_000 * GB, ..base },
        Cluster { free_bytes: 6_399 * GB, ..base },
        Cluster { capacity_bytes: 0, free_bytes: 0, ..base },
    ] {
        assert!(easy_run(&cluster).is_err(), "{cluster:?}");
    }
}
