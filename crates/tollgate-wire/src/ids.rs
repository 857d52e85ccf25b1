//! The ids of calls as a server takes them. What does not fit is replaced by an id that is made from it, so that it is the
//! same in the call, in its result and in each later request.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::history::Message;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// As many as Mistral asks for, and short enough for everybody.
const MADE_CHARS: usize = 9;

/// Which ids a server of Chat Completions takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CallIds {
    /// Whatever they are.
    #[default]
    Any,
    /// `^[a-zA-Z0-9]{9}$`, as Mistral insists.
    Mistral,
}

impl CallIds {
    pub(crate) fn fits(self, id: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Mistral => id.len() == MADE_CHARS && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        }
    }
}

/// The ids of one request.
#[derive(Debug, Default)]
pub(crate) struct WireIds<'a>(HashMap<&'a str, String>);

impl<'a> WireIds<'a> {
    /// The ids of the calls in a conversation, by what fits.
    pub(crate) fn of(messages: &'a [Message], fits: impl Fn(&str) -> bool) -> Self {
        let calls = || {
            messages.iter().flat_map(|message| match message {
                Message::Assistant { calls, .. } => calls.as_slice(),
                Message::System(_) | Message::User(_) | Message::Tool { .. } => &[],
            })
        };
        let mut taken: HashSet<Cow<'_, str>> =
            calls().filter(|call| fits(&call.id)).map(|call| call.id.as_str().into()).collect();
        let mut made_ids = HashMap::new();
        for call in calls().filter(|call| !fits(&call.id)) {
            made_ids.entry(call.id.as_str()).or_insert_with(|| {
                let mut round = 0;
                let mut id = made(&call.id, round);
                while !taken.insert(id.clone().into()) {
                    round += 1;
                    id = made(&call.id, round);
                }
                id
            });
        }
        Self(made_ids)
    }

    /// The id for the wire.
    pub(crate) fn on_wire<'b>(&'b self, id: &'b str) -> &'b str {
        self.0.get(id).map_or(id, String::as_str)
    }
}

fn made(id: &str, round: u32) -> String {
    let mut hash = fnv1a(id.bytes().chain(round.to_le_bytes()));
    let mut made = String::with_capacity(MADE_CHARS);
    for _ in 0..MADE_CHARS {
        let digit = usize::try_from(hash % 62).ok().and_then(|digit| ALPHABET.get(digit));
        made.push(char::from(*digit.unwrap_or(&b'0')));
        hash /= 62;
    }
    made
}

/// FNV-1a, 64 bits (draft-eastlake-fnv): stable over versions and machines.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
