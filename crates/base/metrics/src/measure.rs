//! One declared number, and the macro that makes a structure of some.

/// What Prometheus calls its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows until whoever counts begins again.
    Counter,
    /// It is as it is now.
    Gauge,
    /// How many took how long.
    Histogram,
}

impl Kind {
    /// As Prometheus writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// What one of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things that are counted; the name says which.
    Count,
    /// Bytes.
    Bytes,
    /// Microseconds; Prometheus has seconds.
    Microseconds,
    /// Nanoseconds; Prometheus has seconds.
    Nanoseconds,
    /// Per cent; Prometheus has a ratio.
    Percent,
    /// Thousandths; Prometheus has a ratio.
    Permille,
}

impl Unit {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Bytes => "bytes",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
            Self::Percent => "per cent",
            Self::Permille => "thousandths",
        }
    }

    /// The end of a field's name and what Prometheus has in its place, and what the value is divided by.
    const fn in_prometheus(self) -> (&'static str, &'static str, f64) {
        match self {
            Self::Count | Self::Bytes => ("", "", 1.0),
            Self::Microseconds => ("_us", "_seconds", 1e6),
            Self::Nanoseconds => ("_ns", "_seconds", 1e9),
            Self::Percent => ("_percent", "_ratio", 100.0),
            Self::Permille => ("_permille", "_ratio", 1000.0),
        }
    }
}

/// Of what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Of a host, which is one of its server's shards.
    Host,
    /// Of a virtual disk at a host.
    Disk,
    /// Of a disk group.
    DiskGroup,
}

impl Scope {
    /// What its names begin with, after `cairn_`.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Disk => "disk",
            Self::DiskGroup => "disk_group",
        }
    }

    /// Its labels. All have the host's name.
    pub const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Host => &["host"],
            Self::Disk => &["host", "disk"],
            Self::DiskGroup => &["host", "disk_group"],
        }
    }
}

/// A declared number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// Its name in the API, with the unit at its end.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// Of what it is.
    pub scope: Scope,
    /// What it says.
    pub help: &'static str,
    /// The head of its column in `cairn counters`, where it has one.
    pub column: Option<&'static str>,
}

impl Measure {
    /// Its name in Prometheus: `cairn_disk_read_bytes_total`.
    pub fn in_prometheus(&self) -> String {
        let (ours, theirs, _) = self.unit.in_prometheus();
        let stem = self.name.strip_suffix(ours).unwrap_or(self.name);
        let end = if self.kind == Kind::Counter { "_total" } else { "" };
        format!("cairn_{}_{stem}{theirs}{end}", self.scope.prefix())
    }

    /// A value as Prometheus has it.
    pub fn scaled(&self, value: u64) -> f64 {
        value as f64 / self.unit.in_prometheus().2
    }
}

/// A structure of declared numbers: each field is a line of documentation, which is what the number says everywhere, then
/// `name: Unit` and, where `cairn counters` has a column of it, `= "its head"`.
macro_rules! measures {
    ($(#[$of:meta])* $kind:ident $scope:ident $name:ident {
        $($(#[doc = $help:literal])+ $field:ident: $unit:ident $(= $column:literal)?,)*
    }) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(default)]
        pub struct $name {
            $($(#[doc = $help])+ pub $field: u64,)*
        }

        impl $name {
            /// What each field is, in order.
            pub const MEASURES: &[$crate::Measure] = &[$($crate::Measure {
                name: stringify!($field),
                kind: $crate::Kind::$kind,
                unit: $crate::Unit::$unit,
                scope: $crate::Scope::$scope,
                help: concat!($($help),+),
                column: { #[allow(unused_mut, unused_assignments, reason = "most have none")] { let mut head = None; $(head = Some($column);)? head } },
            },)*];

            /// Each field with what it is, in order.
            pub fn values(&self) -> impl Iterator<Item = (&'static $crate::Measure, u64)> {
                Self::MEASURES.iter().zip([$(self.$field),*])
            }
        }

        measures!(@sums $kind $name { $($field),* });
    };
    (@sums Counter $name:ident { $($field:ident),* }) => {
        impl $name {
            /// What was added since `earlier`.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($field: self.$field.saturating_sub(earlier.$field),)* }
            }
            /// Both together.
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($field: self.$field.saturating_add(other.$field),)* }
            }
        }
    };
    (@sums Gauge $name:ident { $($field:ident),* }) => {};
}

pub(crate) use measures;
