//! A load in numbers, checked once.

use std::fmt;

/// Where random requests go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Addresses {
    /// Every place as often as any other.
    Uniform,
    /// The place of rank k in proportion to k^-theta; ranks are scattered over the span. 0 < theta < 10, not 1 exactly: 1.1 is fio's
    /// `zipf:1.1`.
    Zipf {
        /// How steep.
        theta: f64,
    },
    /// A share of the requests goes to a share of the span, at its beginning, the rest elsewhere: 95 and 5 is DISKSPD's general
    /// profile.
    HotArea {
        /// Of the requests, in per cent, 1..=99.
        requests_percent: u8,
        /// Of the span, in per cent, 1..=99.
        area_percent: u8,
    },
}

/// One kind of request in a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// How often it comes, in parts of the sum over all kinds; above 0.
    pub weight: u32,
    /// Bytes of each request; a multiple of 512.
    pub request_bytes: u32,
    /// Reads among them, in per cent.
    pub read_percent: u8,
    /// Those that go to a place by the load's `addresses`, in per cent; the others follow on what their worker asked for last.
    pub random_percent: u8,
}

impl Kind {
    /// The only one of a load, or one among others that come as often.
    pub const fn new(request_bytes: u32, read_percent: u8, random_percent: u8) -> Self {
        Self { weight: 1, request_bytes, read_percent, random_percent }
    }
}

/// A load.
///
/// Where requests begin: each at a multiple of its own size, counted from the begin of the span. With several sizes, `addresses`
/// are places of the largest, so that what is hot is hot for all sizes, and a smaller request goes anywhere within such a place,
/// moved down to a multiple of its size. What follows on begins at the next such multiple after the last request's end, and at
/// the begin of the span where that would end beyond it.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// What is asked for, each kind as often as its weight says; at least one, at most [`KINDS_MAX`].
    pub kinds: Vec<Kind>,
    /// Where random requests go.
    pub addresses: Addresses,
    /// Where the span begins, in bytes.
    pub span_begin: u64,
    /// Its bytes.
    pub span_bytes: u64,
    /// Of all that is drawn.
    pub seed: u64,
}

/// Why there is no such load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecError {
    /// No kind of request, too many, or one that never comes.
    Kinds(usize),
    /// The size of a request.
    RequestBytes(u32),
    /// A percentage above 100, or of a hot area out of 1..=99.
    Percent(u8),
    /// The span holds no request.
    Span {
        /// Its bytes.
        span_bytes: u64,
        /// Those of a request.
        request_bytes: u32,
    },
    /// It does not begin at a sector.
    SpanBegin(u64),
    /// The exponent of a Zipf distribution.
    Theta,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kinds(count) => {
                write!(f, "{count} kinds of requests: take 1 to {KINDS_MAX}, each with a weight above 0")
            }
            Self::RequestBytes(bytes) => {
                write!(f, "a request of {bytes} bytes: take a multiple of 512 up to 32 MiB")
            }
            Self::Percent(percent) => write!(f, "{percent} per cent: take 0 to 100, and 1 to 99 for a hot area"),
            Self::Span { span_bytes, request_bytes } => {
                write!(f, "a span of {span_bytes} bytes holds no request of {request_bytes} bytes")
            }
            Self::SpanBegin(begin) => write!(f, "a span that begins at byte {begin}: take a multiple of 512"),
            Self::Theta => f.write_str("a Zipf exponent lies between 0 and 10, and is not 1 exactly: take 0.99 or 1.1"),
        }
    }
}

impl std::error::Error for SpecError {}

const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// Kinds of requests in one load, at most: one is looked for at each request, from the first on.
pub const KINDS_MAX: usize = 256;

impl Spec {
    /// Whether there is such a load.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), SpecError> {
        let sectors = |bytes: u64| bytes.is_multiple_of(512);
        if !(1..=KINDS_MAX).contains(&self.kinds.len()) || self.kinds.iter().any(|kind| kind.weight == 0) {
            return Err(SpecError::Kinds(self.kinds.len()));
        }
        let sizes = || self.kinds.iter().map(|kind| kind.request_bytes);
        if let Some(wrong) = sizes().find(|n| *n == 0 || *n > REQUEST_BYTES_MAX || !sectors((*n).into())) {
            return Err(SpecError::RequestBytes(wrong));
        }
        let mut percents = self.kinds.iter().flat_map(|kind| [kind.read_percent, kind.random_percent]);
        if let Some(percent) = percents.find(|p| *p > 100) {
            return Err(SpecError::Percent(percent));
        }
        if !sectors(self.span_begin) {
            return Err(SpecError::SpanBegin(self.span_begin));
        }
        let request_bytes = self.request_bytes_max();
        if self.span_bytes < u64::from(request_bytes) || self.span_begin.checked_add(self.span_bytes).is_none() {
            return Err(SpecError::Span { span_bytes: self.span_bytes, request_bytes });
        }
        match self.addresses {
            Addresses::Zipf { theta } if !(theta > 0.0 && theta < 10.0 && theta != 1.0) => Err(SpecError::Theta),
            Addresses::HotArea { requests_percent, area_percent } => {
                let wrong = [requests_percent, area_percent].into_iter().find(|p| !(1..=99).contains(p));
                wrong.map_or(Ok(()), |percent| Err(SpecError::Percent(percent)))
            }
            _ => Ok(()),
        }
    }

    /// Whether any request of it is a write.
    pub fn writes(&self) -> bool {
        self.kinds.iter().any(|kind| kind.read_percent < 100)
    }

    /// Bytes of the largest request; 0 without any kind.
    pub fn request_bytes_max(&self) -> u32 {
        self.kinds.iter().map(|kind| kind.request_bytes).max().unwrap_or(0)
    }

    /// The mean of a number of the kinds, as often as they come; 0 without any kind.
    pub fn mean(&self, of: impl Fn(&Kind) -> f64) -> f64 {
        let parts: f64 = self.kinds.iter().map(|kind| f64::from(kind.weight)).sum();
        if parts == 0.0 {
            0.0
        } else {
            self.kinds.iter().map(|kind| of(kind) * f64::from(kind.weight)).sum::<f64>() / parts
        }
    }

    /// Places of the largest request in the span; what is left over at its end is asked for in sequences of smaller ones only.
    pub(crate) fn places(&self) -> u64 {
        self.span_bytes / u64::from(self.request_bytes_max())
    }
}
