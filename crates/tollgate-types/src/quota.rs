//! How often something may happen, and the port behind which it is counted.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::BoxFuture;

/// A rate, as the generic cell rate algorithm knows it (ITU-T I.371): so many in a period on average, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many in a period.
    pub count: NonZeroU32,
    /// The period; not zero.
    pub period: Duration,
    /// How many at once after a pause.
    pub burst: NonZeroU32,
}

/// What a count says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It was counted.
    Taken,
    /// It was not: the rate is used up for so long.
    Wait(Duration),
}

/// Where rates are counted: in one process, or in a place that many share.
pub trait QuotaStore: Send + Sync {
    /// Takes one of the rate that is counted under `key`. Where it cannot be counted, the error says why, and nothing may
    /// happen.
    fn take<'a>(&'a self, rate: Rate, key: &'a str) -> BoxFuture<'a, Result<Turn, String>>;
}
