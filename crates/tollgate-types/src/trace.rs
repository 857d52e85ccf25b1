//! A call's place in a trace: W3C Trace Context, read from what the asker sent and written for whom a tool asks. It makes
//! no spans.

use std::fmt;
use std::sync::Arc;

use crate::AttemptId;

/// `tracestate` beyond this is dropped, as the standard allows (§3.3.1.5).
const STATE_CHARS_MAX: usize = 512;
/// The members of one `tracestate` (§3.3.1.1).
const STATE_MEMBERS_MAX: usize = 32;
/// Where the first version's fields end: `00-<32>-<16>-<2>`.
const PARENT_BYTES: usize = 55;

/// The name of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The name of one span in its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

/// A span that others can be children of (W3C Trace Context, level 1).
///
/// ```
/// use tollgate_types::TraceContext;
///
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";
/// let context = TraceContext::read([parent], ["vendor=1"]).unwrap();
/// assert!(context.is_sampled);
/// assert_eq!((context.traceparent().as_str(), context.tracestate()), (parent, Some("vendor=1")));
/// assert_eq!(TraceContext::read(["00-0-0-01"], []), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether whoever began the trace keeps it.
    pub is_sampled: bool,
    /// What other tracing systems say of it, in their own words.
    state: Option<Arc<str>>,
}

impl TraceContext {
    /// Reads the values of the headers `traceparent` and `tracestate`. None when there is not exactly one valid
    /// `traceparent` (§3.2); a `tracestate` that is not valid is left out and costs nothing else (§3.3).
    pub fn read<'a>(
        parents: impl IntoIterator<Item = &'a str>,
        states: impl IntoIterator<Item = &'a str>,
    ) -> Option<Self> {
        let mut parents = parents.into_iter();
        let (Some(parent), None) = (parents.next(), parents.next()) else { return None };
        let mut context = parse(parent.trim_matches([' ', '\t']))?;
        let states: Vec<&str> = states.into_iter().collect();
        context.state = state(&states.join(","));
        Some(context)
    }

    /// The root of a trace that begins with an attempt, and is named after it: an attempt's id without its dashes is the
    /// id of its trace. None when the id is no UUID.
    pub fn root(attempt: &AttemptId) -> Option<Self> {
        let trace = uuid::Uuid::parse_str(attempt.as_str()).ok()?.into_bytes();
        Some(Self { trace: TraceId(trace), span: SpanId(last_half(trace)), is_sampled: true, state: None })
    }

    /// The place of an attempt below this span. None when the attempt's id is no UUID.
    pub fn below(&self, attempt: &AttemptId) -> Option<Self> {
        Some(Self { span: Self::root(attempt)?.span, ..self.clone() })
    }

    /// The `place`th child of this span. The same place is the same span.
    #[must_use]
    pub fn child(&self, place: u8) -> Self {
        let mut span = self.span;
        // The first byte of a UUID's last half is never zero, so that no child is.
        span.0 = (u64::from_be_bytes(span.0) ^ (u64::from(place) + 1)).to_be_bytes();
        Self { span, ..self.clone() }
    }

    /// The value of the header `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-0{}", self.trace, self.span, u8::from(self.is_sampled))
    }

    /// The value of the header `tracestate`, where there is one.
    pub fn tracestate(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Both headers, by the names that they have everywhere.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> + use<'_> {
        let state = self.tracestate().map(|state| ("tracestate", state.to_owned()));
        std::iter::once(("traceparent", self.traceparent())).chain(state)
    }
}

fn last_half(id: [u8; 16]) -> [u8; 8] {
    let [_, _, _, _, _, _, _, _, half @ ..] = id;
    half
}

/// §3.2.2: lower-case hex, no id of zeros. A later version may say more after a dash (§4.3).
fn parse(text: &str) -> Option<TraceContext> {
    let mut parts = text.splitn(5, '-');
    let [version, trace, span, flags] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
    let [version] = hex(version)?;
    let has_more = text.len() > PARENT_BYTES;
    if version == 0xff || (version == 0 && has_more) || parts.next().is_some() != has_more {
        return None;
    }
    let (trace, span, [flags]) = (TraceId(hex(trace)?), SpanId(hex(span)?), hex(flags)?);
    let is_named = trace.0 != [0; 16] && span.0 != [0; 8];
    is_named.then_some(TraceContext { trace, span, is_sampled: flags & 1 == 1, state: None })
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let nibble = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = nibble(*high)? << 4 | nibble(*low)?;
    }
    Some(bytes)
}

/// §3.3.1: a list of `key=value`; empty members are allowed and left out, a key twice is not.
fn state(text: &str) -> Option<Arc<str>> {
    let members: Vec<&str> = text.split(',').map(|m| m.trim_matches([' ', '\t'])).filter(|m| !m.is_empty()).collect();
    let keys: Option<Vec<&str>> = members.iter().map(|member| key_of(member)).collect();
    let mut keys = keys.filter(|keys| (1..=STATE_MEMBERS_MAX).contains(&keys.len()))?;
    keys.sort_unstable();
    let is_unique = keys.windows(2).all(|pair| pair.first() != pair.last());
    let joined = members.join(",");
    (is_unique && joined.len() <= STATE_CHARS_MAX).then(|| joined.into())
}

/// The key of a member that is valid (§3.3.1.3).
fn key_of(member: &str) -> Option<&str> {
    let (key, value) = member.split_once('=')?;
    let is_mark = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
    let is_name = |name: &str, chars_max: usize, may_begin_with_digit: bool| {
        let begins =
            name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || may_begin_with_digit && b.is_ascii_digit());
        begins && name.len() <= chars_max && name.bytes().all(is_mark)
    };
    let is_key = match key.split_once('@') {
        None => is_name(key, 256, false),
        Some((tenant, system)) => is_name(tenant, 241, true) && is_name(system, 14, false),
    };
    let is_char = |byte: u8| matches!(byte, b' '..=b'~') && byte != b',' && byte != b'=';
    let is_value = (1..=256).contains(&value.len()) && value.bytes().all(is_char) && !value.ends_with(' ');
    (is_key && is_value).then_some(key)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0b5902b7";

    fn parent(version: &str, rest: &str) -> String {
        format!("{version}-{TRACE}-{SPAN}-{rest}")
    }

    #[test]
    fn a_parent_is_read_as_the_standard_says_or_not_at_all() {
        let read = |text: &str| TraceContext::read([text], []);
        for (text, is_sampled) in [
            (parent("00", "01"), true),
            (parent("00", "00"), false),
            (parent("00", "03"), true),
            (parent("00", "fe"), false),
            (format!(" {}\t", parent("00", "01")), true),
            // A later version may say more, and what it has in common counts.
            (parent("01", "01"), true),
            (parent("cc", "01-what-comes-later"), true),
        ] {
            assert_eq!(read(&text).map(|context| context.is_sampled), Some(is_sampled), "{text}");
        }
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            parent("ff", "01"),
            parent("00", "01-more"),
            parent("00", "01-"),
            parent("00", "1"),
            parent("00", "0x"),
            parent("0", "01"),
            parent("cc", "01more"),
            parent("00", "01").to_uppercase(),
            parent("00", "01").replace('-', "_"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{}-{SPAN}-01", "中".repeat(16)),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
        let good = parent("00", "01");
        assert_eq!(TraceContext::read([good.as_str(), good.as_str()], []), None, "twice is not once");
        assert_eq!(TraceContext::read([], ["a=1"]), None, "a state without a parent says nothing");
    }

    #[test]
    fn a_state_is_handed_on_whole_or_not_at_all() {
        let good = parent("00", "01");
        let read = |states: &[&str]| {
            let context = TraceContext::read([good.as_str()], states.iter().copied()).unwrap();
            context.tracestate().map(ToOwned::to_owned)
        };
        for (states, seen) in [
            (&["congo=t61rcWkgMzE"][..], Some("congo=t61rcWkgMzE")),
            (&["a=1", "b=2 x"], Some("a=1,b=2 x")),
            (&["a=1, ,\tb=2"], Some("a=1,b=2")),
            (&["fw529a3039@dt=FfAAAAA,0t@s=1"], Some("fw529a3039@dt=FfAAAAA,0t@s=1")),
            (&[""], None),
            (&["a=1,a=2"], None),
            (&["a=1,nothing"], None),
            (&["A=1"], None),
            (&["1a=1"], None),
            (&["a="], None),
            (&["a=b=c"], None),
            (&["a=中"], None),
            (&["a@=1"], None),
        ] {
            assert_eq!(read(states).as_deref(), seen, "{states:?}");
        }
        let many = (0..33).map(|at| format!("k{at}=1")).collect::<Vec<_>>().join(",");
        assert_eq!(read(&[&many]), None);
        assert_eq!(read(&[&format!("a={}", "x".repeat(256))]).map(|state| state.len()), Some(258));
        let three = |key: &str| format!("{key}={}", "x".repeat(200));
        assert_eq!(read(&[&three("a"), &three("b"), &three("c")]), None);
    }

    #[test]
    fn an_attempt_names_its_trace_and_no_two_spans_are_one() {
        let attempt = AttemptId::new("019ad1f2-7f11-7abc-8def-0123456789ab");
        let root = TraceContext::root(&attempt).unwrap();
        assert_eq!(root.traceparent(), "00-019ad1f27f117abc8def0123456789ab-8def0123456789ab-01");
        let mut spans: Vec<SpanId> = (0..=u8::MAX).map(|place| root.child(place).span).collect();
        spans.push(root.span);
        spans.sort_unstable_by_key(|span| span.0);
        spans.dedup();
        assert_eq!(spans.len(), 257);
        let asked = TraceContext::read([parent("00", "00").as_str()], ["a=1"]).unwrap();
        let below = asked.below(&attempt).unwrap();
        assert_eq!(
            below.headers().map(|(_, value)| value).collect::<Vec<_>>(),
            [format!("00-{TRACE}-8def0123456789ab-00"), "a=1".to_owned()]
        );
        assert_eq!(TraceContext::root(&AttemptId::new("no uuid")), None);
    }
}
