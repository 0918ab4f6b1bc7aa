//! Arithmetic of buying and filling a cluster: how long drives last, what it costs, what fits, how to load it.
//!
//! Promises    L1  every result is exact, or rounded where its text says so: fractions of whole numbers, whole cents,
//!                 whole bytes; no floating point before a number is printed   (exact.rs, money.rs)
//!             L2  the figures that published reports print come out again, or the difference has a name
//!                                                                            (tests/golden.rs, tests/errata.rs)
//!             L3  no input panics: it is refused with the value, the rule and what to do   (tests/properties.rs)
//! Assumes     the caller says what it measured or read from a data sheet; nothing is looked up
//! Not here    what a cluster is now (`api`); where components go (`placement`); reading files and flags (`apps/cli`)
//! Source      each function names the report that its formula or number is from
#![forbid(unsafe_code)]

mod capacity;
mod checks;
mod comparison;
mod content;
mod cost;
mod easy_run;
mod endurance;
mod error;
mod exact;
mod hosts;
mod iomark;
mod life;
mod money;
mod optane;
mod units;

pub use capacity::{CACHE_PERCENT, Capacity, Pool, Protection, cache_bytes, mirror_hosts_min};
pub use checks::{mb_per_s, mean_latency_ms, read_share_percent, reduction_of_data};
pub use comparison::{Comparison, latency_change_percent, power_ratio};
pub use content::{Content, ContentReport};
pub use cost::{
    Cost, CostLine, Energy, Item, Measured, PerUnit, Price, PriceList, SupportCost, SupportLine, SupportRate,
};
pub use easy_run::{Cluster, EasyRun, Latency, Media, Profile, easy_run};
pub use endurance::{
    BUFFER_CAPS_GB, DAYS_PER_YEAR, Drive, Rating, SECONDS_PER_DAY, Workload, day_mb_per_s, dwpd, gb_per_day,
    life_mb_per_s, tbw, trapped_gb,
};
pub use error::{SizingError, SizingErrorKind};
pub use exact::Exact;
pub use hosts::{HostsLost, hosts_lost};
pub use iomark::{iomark_list, iomark_measured};
pub use life::{Life, Trapped, days_left, life};
pub use money::Money;
pub use optane::{PaperRow, footnote_10, optane_drives, table_1};
pub use units::Units;
