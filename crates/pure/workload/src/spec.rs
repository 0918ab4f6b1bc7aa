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

/// A load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Bytes of each request; a multiple of 512.
    pub request_bytes: u32,
    /// Reads among them, in per cent.
    pub read_percent: u8,
    /// Those that go to a place by `addresses`, in per cent; the others follow on what their worker asked for last.
    pub random_percent: u8,
    /// Where those go.
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

impl Spec {
    /// Whether there is such a load.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), SpecError> {
        let sectors = |bytes: u64| bytes.is_multiple_of(512);
        if self.request_bytes == 0 || self.request_bytes > REQUEST_BYTES_MAX || !sectors(self.request_bytes.into()) {
            return Err(SpecError::RequestBytes(self.request_bytes));
        }
        if let Some(percent) = [self.read_percent, self.random_percent].into_iter().find(|p| *p > 100) {
            return Err(SpecError::Percent(percent));
        }
        if !sectors(self.span_begin) {
            return Err(SpecError::SpanBegin(self.span_begin));
        }
        if self.span_bytes < u64::from(self.request_bytes) || self.span_begin.checked_add(self.span_bytes).is_none() {
            let (span_bytes, request_bytes) = (self.span_bytes, self.request_bytes);
            return Err(SpecError::Span { span_bytes, request_bytes });
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

    /// Places of a request in the span; what is left over at its end is never asked for.
    pub(crate) fn places(&self) -> u64 {
        self.span_bytes / u64::from(self.request_bytes)
    }
}
