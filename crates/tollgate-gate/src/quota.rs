//! How often callers may ask: rates by caller, role, tenant, session and tool, counted in this process unless another place
//! is given. What is not allowed at all is not counted here: that is policy's.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use globset::GlobSet;
use governor::clock::Clock as GovernorClock;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};
use tollgate_types::{BoxFuture, Caller, Clock, ErrorObject, QuotaStore, Rate, Text, Turn};

/// Counts of one rate before those that are full again are forgotten.
const COUNTS_MAX: usize = 10_000;

/// What a count is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Per {
    /// Each subject.
    Caller,
    /// Each role.
    Role,
    /// Each tenant.
    Tenant,
    /// Each session; callers without one count by their subject.
    Session,
    /// Each tool.
    Tool,
}

impl Per {
    /// What tells this count from others.
    pub(crate) fn part<'a>(self, caller: &'a Caller, tool: &'a str) -> &'a str {
        match self {
            Self::Caller => &caller.subject,
            Self::Role => &caller.role,
            Self::Tenant => caller.tenant.as_deref().unwrap_or_default(),
            Self::Session => caller.session.as_deref().unwrap_or(&caller.subject),
            Self::Tool => tool,
        }
    }
}

/// Whether something about these tools and roles is about such a call. No roles means all.
pub(crate) fn fits(tools: &GlobSet, roles: &[String], caller: &Caller, tool: &str) -> bool {
    (roles.is_empty() || roles.contains(&caller.role)) && tools.is_match(tool)
}

/// How often some calls may be asked for.
#[derive(Debug, Clone)]
pub struct CallLimit {
    /// The name for people, such as `limit 1`.
    pub name: String,
    /// The tools that it is about.
    pub tools: GlobSet,
    /// The roles that it is about; empty means all.
    pub roles: Vec<String>,
    /// Each combination of these has a count of its own; with none there is one count for all.
    pub per: Vec<Per>,
    /// The rate.
    pub rate: Rate,
}

impl CallLimit {
    /// The name of the count. The parts cannot run into each other: each stands with its length.
    fn key(&self, caller: &Caller, tool: &str) -> String {
        let mut key = self.name.clone();
        for per in &self.per {
            let part = per.part(caller, tool);
            key.push_str(&format!(" {}:{part}", part.len()));
        }
        key
    }
}

/// All limits, and where they are counted.
pub struct Quotas {
    limits: Vec<CallLimit>,
    store: Arc<dyn QuotaStore>,
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Quotas {
    /// Limits that are counted in `store`.
    pub fn new(limits: Vec<CallLimit>, store: Arc<dyn QuotaStore>) -> Self {
        Self { limits, store }
    }

    /// Limits that are counted in this process.
    pub fn in_process(limits: Vec<CallLimit>, clock: Arc<dyn Clock>) -> Self {
        Self::new(limits, Arc::new(ProcessQuotas::new(clock)))
    }

    /// Counts one call under every limit that concerns it, up to the first that is used up.
    ///
    /// # Errors
    /// `rate_limited` with the time to wait, or `unavailable` where it cannot be counted.
    pub(crate) async fn take(&self, caller: &Caller, tool: &str) -> Result<(), ErrorObject> {
        for limit in self.limits.iter().filter(|limit| fits(&limit.tools, &limit.roles, caller, tool)) {
            match self.store.take(limit.rate, &limit.key(caller, tool)).await {
                Ok(Turn::Taken) => {}
                Ok(Turn::Wait(wait)) => return Err(refused(limit, wait)),
                Err(why) => {
                    tracing::error!("calls cannot be counted: {why}");
                    return Err(Text::Uncounted.error(&[]));
                }
            }
        }
        Ok(())
    }
}

fn refused(limit: &CallLimit, wait: Duration) -> ErrorObject {
    let Rate { count, period, burst } = limit.rate;
    // Rounded up: who asks at that moment is let in.
    let wait_ms = u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX);
    let seconds = period.as_secs_f64();
    let mut error = Text::TooMany.error(&[
        ("count", &count),
        ("seconds", &seconds),
        ("burst", &burst),
        ("name", &limit.name),
        ("ms", &wait_ms),
    ]);
    error.retry_after_ms = Some(wait_ms);
    error
}

type Limiter = RateLimiter<String, DashMapStateStore<String>, Monotonic, NoOpMiddleware<Duration>>;

/// Counts in the memory of this process: they begin anew when it does.
pub struct ProcessQuotas {
    clock: Arc<dyn Clock>,
    limiters: RwLock<HashMap<RateKey, Arc<Limiter>>>,
}

type RateKey = (u32, Duration, u32);

/// The house's clock, as governor asks it.
#[derive(Clone)]
struct Monotonic(Arc<dyn Clock>);

impl GovernorClock for Monotonic {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.monotonic()
    }
}

impl ProcessQuotas {
    /// No counts yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, limiters: RwLock::default() }
    }

    /// How many counts are kept.
    pub fn counts(&self) -> usize {
        self.limiters.read().unwrap_or_else(PoisonError::into_inner).values().map(|limiter| limiter.len()).sum()
    }

    fn limiter(&self, rate: Rate) -> Result<Arc<Limiter>, String> {
        let key = (rate.count.get(), rate.period, rate.burst.get());
        if let Some(limiter) = self.limiters.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(limiter));
        }
        let quota = Quota::with_period(rate.period / rate.count.get()).ok_or("a period of zero")?;
        let quota = quota.allow_burst(rate.burst);
        let limiter = RateLimiter::new(quota, DashMapStateStore::default(), Monotonic(Arc::clone(&self.clock)));
        let mut limiters = self.limiters.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(limiters.entry(key).or_insert_with(|| Arc::new(limiter))))
    }
}

impl QuotaStore for ProcessQuotas {
    fn take<'a>(&'a self, rate: Rate, key: &'a str) -> BoxFuture<'a, Result<Turn, String>> {
        let taken = self.limiter(rate).map(|limiter| {
            if limiter.len() > COUNTS_MAX {
                limiter.retain_recent();
            }
            match limiter.check_key(&key.to_owned()) {
                Ok(()) => Turn::Taken,
                Err(not_until) => Turn::Wait(not_until.wait_time_from(self.clock.monotonic())),
            }
        });
        std::future::ready(taken).boxed()
    }
}
