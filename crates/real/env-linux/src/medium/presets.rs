//! Media by name, each with the source of its numbers.
//!
//! Promises    what a source prints is taken as printed; what is derived from it says how
//! Not here    capacity, and what these drives do when they are full or old

use super::{Medium, Service};

impl Medium {
    /// The names of all presets.
    pub const PRESETS: [&'static str; 5] = ["hdd10k", "sata-ssd", "nvme-nand", "nvme-read", "optane"];

    /// A medium by name.
    pub fn preset(name: &str) -> Option<Self> {
        match name {
            "hdd10k" => Some(hdd10k()),
            "sata-ssd" => Some(sata_ssd()),
            "nvme-nand" => Some(nvme_nand()),
            "nvme-read" => Some(nvme_read()),
            "optane" => Some(optane()),
            _ => None,
        }
    }
}

const US: u64 = 1_000;
const MB: u64 = 1_000_000;

fn medium(name: &str, source: &str, reads: Service, writes: Service) -> Medium {
    Medium { name: name.into(), source: source.into(), reads, writes, one_arm: false, dilation: 1.0 }
}

fn service<const N: usize>(access_us: [(f64, u64); N], lanes: u32, mb_per_s: u64) -> Service {
    let access = access_us.map(|(share, us)| (share, us * US)).to_vec();
    Service { access, lanes, bytes_per_s: mb_per_s * MB, following_ns: None }
}

/// Access: a seek, evenly from the shortest to as far above the average, plus a rotation, evenly from none to a whole one
/// (the sum of both, by its points). Transfer: bytes of an average track in a revolution, 677,557 B / 6.0 ms.
fn hdd10k() -> Medium {
    // Reads: 0.5..7.5 ms and 0..6 ms; writes: 0.76..8.44 ms and 0..6 ms.
    let reads = [
        (0.0, 500),
        (0.1, 3_400),
        (0.25, 5_080),
        (0.5, 7_000),
        (0.75, 8_920),
        (0.9, 10_600),
        (0.99, 12_580),
        (1.0, 13_500),
    ];
    let writes = [
        (0.0, 760),
        (0.1, 3_796),
        (0.25, 5_560),
        (0.5, 7_600),
        (0.75, 9_640),
        (0.9, 11_404),
        (0.99, 13_480),
        (1.0, 14_440),
    ];
    let follows = |service: Service| Service { following_ns: Some(0), ..service };
    let source = "Seagate Savvio 10K.4 SAS product manual, rev. A, 4.1 and 4.2.1: access 4.0 / 4.6 ms on average, 0.50 / 0.76 ms \
                  from track to track, revolution 6.0 ms, 677,557 bytes a track";
    let medium = medium("hdd10k", source, follows(service(reads, 1, 113)), follows(service(writes, 1, 113)));
    Medium { one_arm: true, ..medium }
}

/// Lanes: requests a second at queue depth 32 times typical latency and transfer (72,000 x 118 us = 8.5; 33,000 x 60 us = 2.0).
fn sata_ssd() -> Medium {
    let source = "Intel SSD DC S4500 product specification: random latency 110 / 52 us typical, 300 / 800 us at 99.9 %, \
                  72,000 / 33,000 requests a second at queue depth 32, 500 / 490 MB/s";
    let reads = [(0.0, 100), (0.5, 110), (0.9, 118), (0.99, 150), (0.999, 300), (1.0, 1_000)];
    let writes = [(0.0, 48), (0.5, 52), (0.9, 56), (0.99, 120), (0.999, 800), (1.0, 2_000)];
    medium("sata-ssd", source, service(reads, 9, 500), service(writes, 2, 490))
}

/// Lanes: as above (460,000 x 79.5 us = 37; 175,000 x 22 us = 3.9). Between the percentiles that were measured, points are set so that
/// the mean is near the measured 77.9 us.
fn nvme_nand() -> Medium {
    let source = "Intel SSD DC P3700: product specification 330566 (460,000 / 175,000 requests a second, 2,800 / 2,000 MB/s, write \
                  latency 20 us typical); reads at queue depth 1 as AnandTech measured them in 2017: p50 76 us, p99 96 us, \
                  p99.999 2,768 us";
    let reads = [(0.0, 70), (0.5, 76), (0.99, 96), (0.999, 110), (0.9999, 200), (0.99999, 2_768), (1.0, 3_000)];
    let writes = [(0.0, 18), (0.5, 20), (0.99, 26), (0.999, 100), (1.0, 2_000)];
    medium("nvme-nand", source, service(reads, 37, 2_800), service(writes, 4, 2_000))
}

/// A drive made to be read. Lanes: as above (279,500 x 86 us = 24; 30,500 x 27 us = 0.8, which is 1).
fn nvme_read() -> Medium {
    let source = "Intel SSD DC P4500 1.0 TB as in the product guide of Lenovo ThinkSystem 4XB7A08539, table 2: random latency 85 / 20 us, \
                  279,500 / 30,500 requests a second, 3.2 / 0.6 GB/s";
    let reads = [(0.0, 78), (0.5, 85), (0.99, 105), (0.999, 150), (1.0, 3_000)];
    let writes = [(0.0, 18), (0.5, 20), (0.99, 26), (0.999, 100), (1.0, 2_000)];
    medium("nvme-read", source, service(reads, 24, 3_200), service(writes, 1, 600))
}

/// Lanes: as above (550,000 x 10.7 us = 5.9; 500,000 x 12 us = 6.0).
fn optane() -> Medium {
    let source = "Intel Optane SSD DC P4800X: specification (below 10 us typical, writes 100 us at 99.999 %, 550,000 / 500,000 \
                  requests a second, 2,400 / 2,000 MB/s); reads at queue depth 1 as AnandTech measured them in 2017: p50 9 us, \
                  p99 10 us, p99.999 37 us";
    let reads = [(0.0, 8), (0.5, 9), (0.99, 10), (0.99999, 37), (1.0, 60)];
    let writes = [(0.0, 9), (0.5, 10), (0.99, 12), (0.99999, 100), (1.0, 120)];
    medium("optane", source, service(reads, 6, 2_400), service(writes, 6, 2_000))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Access, Pending};
    use super::*;

    /// What `outstanding` random 4 KiB requests reach in a second of the model's own time, and their mean.
    fn closed_loop(medium: Medium, access: Access, outstanding: usize) -> (f64, f64) {
        let mut drive = Pending::new(medium, 3);
        let mut ends = vec![Duration::ZERO; outstanding];
        let (mut count, mut sum_us) = (0u64, 0.0);
        loop {
            let next = ends.iter_mut().min().unwrap();
            if *next >= Duration::from_secs(1) {
                return (count as f64, sum_us / count as f64);
            }
            let took = drive.admit(*next, access, count * 7919 * 4096, 4096);
            *next += took;
            (count, sum_us) = (count + 1, sum_us + took.as_nanos() as f64 / 1e3);
        }
    }

    #[test]
    fn presets_are_what_their_sources_print() {
        let at = |name: &str, access, outstanding| {
            let medium = Medium::preset(name).unwrap();
            medium.check().unwrap();
            closed_loop(medium, access, outstanding)
        };
        let near = |(got, _): (f64, f64), printed: f64, off: f64| {
            assert!((got / printed - 1.0).abs() < off, "{got} {printed}")
        };
        near(at("sata-ssd", Access::Read, 32), 72_000.0, 0.10);
        // Two lanes are the nearest whole number, and too few.
        near(at("sata-ssd", Access::Write, 32), 33_000.0, 0.20);
        near(at("nvme-nand", Access::Read, 128), 460_000.0, 0.10);
        near(at("nvme-nand", Access::Write, 128), 175_000.0, 0.15);
        near(at("nvme-read", Access::Read, 128), 279_500.0, 0.10);
        near(at("nvme-read", Access::Write, 128), 30_500.0, 0.20);
        near(at("optane", Access::Read, 16), 550_000.0, 0.10);
        near(at("optane", Access::Write, 16), 500_000.0, 0.10);
        // 4.0 ms of access, 3.0 ms of rotation, and the transfer.
        let (disk_reads, disk_mean_us) = at("hdd10k", Access::Read, 1);
        assert!((disk_mean_us / 7_036.0 - 1.0).abs() < 0.05 && disk_reads < 150.0, "{disk_mean_us} us");
        let (_, disk_mean_us) = at("hdd10k", Access::Write, 1);
        assert!((disk_mean_us / 7_636.0 - 1.0).abs() < 0.05, "{disk_mean_us} us");
    }

    #[test]
    fn a_disk_streams_at_the_rate_of_its_tracks() {
        let mut drive = Pending::new(Medium::preset("hdd10k").unwrap(), 1);
        let mut now = Duration::ZERO;
        for at in 0..100 {
            now += drive.admit(now, Access::Write, at << 20, 1 << 20);
        }
        let mb_per_s = (100u64 << 20) as f64 / 1e6 / now.as_secs_f64();
        assert!((mb_per_s / 113.0 - 1.0).abs() < 0.02, "{mb_per_s}");
    }

    #[test]
    fn every_preset_has_a_source() {
        for name in Medium::PRESETS {
            let medium = Medium::preset(name).unwrap();
            assert_eq!(medium.name, name);
            assert!(medium.source.len() > 40);
        }
        assert_eq!(Medium::preset("floppy"), None);
    }
}
