//! A quota, and its arithmetic in ticks.

use crate::Time;
use std::fmt;
use std::time::Duration;

/// Maximum size of a burst.
pub const BURST_MAX: u32 = 1 << 20;
/// Minimum time per request: 10^7 requests a second for one key.
pub const PRICE_MIN: Duration = Duration::from_nanos(100);
/// Maximum time for regaining a whole burst.
pub const REFILL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Maximum size of a whole burst in ticks, as a power of two. The remaining range of the 32 bits is
/// needed for clocks that go backward and for the sweep.
const WINDOW_BITS: u32 = 24;

/// A rate limit: `burst` requests at once, and `requests` per `period` on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    burst: u32,
    requests: u32,
    period: Duration,
    /// The price of one request is `1 << price_bits` ticks.
    price_bits: u32,
    /// Ticks per nanosecond in units of 2^-64, rounded up so that a time of n prices converts to n
    /// prices in ticks.
    ticks_per_nano: u64,
    /// Nanoseconds per tick in units of 2^-24, rounded up.
    nanos_per_tick: u64,
}

/// The reason why a quota is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum QuotaError {
    /// The burst exceeds [`BURST_MAX`].
    BurstTooLarge,
    /// The rate exceeds one request per [`PRICE_MIN`].
    RateTooLarge,
    /// Regaining the burst takes longer than [`REFILL_MAX`].
    RefillTooLong,
    /// The burst is zero, so no request would ever be allowed.
    ZeroBurst,
    /// The period is zero.
    ZeroPeriod,
    /// The number of requests per period is zero, so no request would be allowed after the first
    /// burst.
    ZeroRequests,
}

impl Quota {
    /// Creates a quota of `burst` requests at once, and `requests` per `period` on average.
    ///
    /// # Errors
    ///
    /// A value is zero, or exceeds the maximum named by the error.
    pub fn new(burst: u32, requests: u32, period: Duration) -> Result<Self, QuotaError> {
        let nanos = period.as_nanos();
        let requests_wide = u128::from(requests);
        match () {
            () if burst == 0 => return Err(QuotaError::ZeroBurst),
            () if requests == 0 => return Err(QuotaError::ZeroRequests),
            () if nanos == 0 => return Err(QuotaError::ZeroPeriod),
            () if burst > BURST_MAX => return Err(QuotaError::BurstTooLarge),
            () if nanos < PRICE_MIN.as_nanos() * requests_wide => return Err(QuotaError::RateTooLarge),
            () if nanos * u128::from(burst) > REFILL_MAX.as_nanos() * requests_wide => {
                return Err(QuotaError::RefillTooLong);
            }
            () => {}
        }
        // Ticks are as short as the window allows, but longer than a nanosecond.
        let window_bits = WINDOW_BITS - u32::BITS.saturating_sub((burst - 1).leading_zeros());
        let price_bits = window_bits.min((nanos / requests_wide).ilog2() - 1);
        let ticks = requests_wide << price_bits;
        let ticks_per_nano = (ticks << 64).div_ceil(nanos);
        let nanos_per_tick = (nanos << 24).div_ceil(ticks);
        Ok(Self {
            burst,
            requests,
            period,
            price_bits,
            ticks_per_nano: u64::try_from(ticks_per_nano).expect("a tick is longer than a nanosecond"),
            nanos_per_tick: u64::try_from(nanos_per_tick).expect("a tick is shorter than REFILL_MAX"),
        })
    }

    /// Creates a quota of `requests` per second, with a burst of the same size.
    ///
    /// # Errors
    ///
    /// Like [`Self::new`].
    pub fn per_second(requests: u32) -> Result<Self, QuotaError> {
        Self::new(requests, requests, Duration::from_secs(1))
    }

    /// Maximum number of requests at once.
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// Number of requests per [`Self::period`].
    pub const fn requests(&self) -> u32 {
        self.requests
    }

    /// Time in which [`Self::requests`] are regained.
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Price of one request in ticks.
    pub(super) const fn price(&self) -> u32 {
        1 << self.price_bits
    }

    /// Maximum distance of a TAT from the current time, in ticks: 1 to 2^24.
    pub(super) const fn window(&self) -> u32 {
        self.burst << self.price_bits
    }

    /// Number of whole prices contained in `ticks`.
    pub(super) const fn tokens(&self, ticks: u32) -> u32 {
        ticks >> self.price_bits
    }

    /// The tick that contains `time`.
    #[inline]
    pub(super) fn ticks(&self, time: Time) -> u64 {
        let wide = u128::from(time.as_nanos()) * u128::from(self.ticks_per_nano);
        (wide >> 64) as u64
    }

    /// Duration of a number of ticks, rounded up, so that waiting for this duration is sufficient.
    #[inline]
    pub(super) fn duration(&self, ticks: u32) -> Duration {
        let wide = u128::from(ticks) * u128::from(self.nanos_per_tick);
        Duration::from_nanos(u64::try_from((wide + 0xff_ffff) >> 24).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {:?}, burst {}", self.requests, self.period, self.burst)
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BurstTooLarge => write!(f, "a burst of more than {BURST_MAX}"),
            Self::RateTooLarge => write!(f, "more than one request in {PRICE_MIN:?}"),
            Self::RefillTooLong => write!(f, "the burst takes more than {REFILL_MAX:?} to refill"),
            Self::ZeroBurst => f.write_str("a burst of zero allows nothing"),
            Self::ZeroPeriod => f.write_str("a period of zero"),
            Self::ZeroRequests => f.write_str("zero requests in a period allow nothing"),
        }
    }
}

impl std::error::Error for QuotaError {}
