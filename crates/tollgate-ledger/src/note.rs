//! Signed notes and checkpoints as C2SP defines them (c2sp.org/signed-note, c2sp.org/tlog-checkpoint), signed with
//! Ed25519. Reading a note says nothing of the ledger; [`Checkpoint`] is what one note claims.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use crate::LedgerError;
use crate::line::{self, Hash};
use crate::segment::{first_seq, segment_name};
use crate::tree::Node;

/// A note, its signatures included.
pub(crate) const NOTE_BYTES_MAX: usize = 8 * 1024;
/// The signatures that a note may bear; the specification asks for 16 at least.
const SIGNATURES_MAX: usize = 32;
/// The signature type of plain Ed25519.
const ED25519_TYPE: u8 = 1;

/// A verifier key: a name, and a public key. In text it is a C2SP vkey, `<name>+<key id>+<key>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    id: [u8; 4],
    public: [u8; 32],
}

impl VerifierKey {
    fn new(name: &str, public: [u8; 32]) -> Self {
        let digest =
            Sha256::new().chain_update(name).chain_update([b'\n', ED25519_TYPE]).chain_update(public).finalize();
        let id = digest.first_chunk().copied().unwrap_or_default();
        Self { name: name.to_owned(), id, public }
    }

    /// The key's name, which is the origin line of its checkpoints.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn verifies(&self, text: &str, signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.public).verify(text.as_bytes(), signature).is_ok()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{:08x}+{}", self.name, u32::from_be_bytes(self.id), key_text(&self.public))
    }
}

impl FromStr for VerifierKey {
    type Err = LedgerError;

    fn from_str(text: &str) -> Result<Self, LedgerError> {
        let read = || {
            let mut parts = text.trim().splitn(3, '+');
            let (name, id, key) = (parts.next()?, parts.next()?, parts.next()?);
            let key = Self::new(name, key_bytes(key)?);
            (is_name(name) && format!("{:08x}", u32::from_be_bytes(key.id)) == id).then_some(key)
        };
        read().ok_or(LedgerError::NotAKey)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || c == '+')
}

/// The bytes of a key as they stand in a vkey: type, then key.
fn key_text(key: &[u8; 32]) -> String {
    STANDARD.encode([&[ED25519_TYPE], key.as_slice()].concat())
}

fn key_bytes(text: &str) -> Option<[u8; 32]> {
    let bytes = STANDARD.decode(text).ok()?;
    bytes.strip_prefix(&[ED25519_TYPE])?.try_into().ok()
}

/// A key that signs notes. In text it is what Go's note package calls a signer key.
pub(crate) struct Signer {
    pair: Ed25519KeyPair,
    verifier: VerifierKey,
    text: String,
}

impl Signer {
    /// The key with this name and these 32 secret bytes.
    pub(crate) fn new(name: &str, seed: &[u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).ok()?;
        let verifier = VerifierKey::new(name, pair.public_key().as_ref().try_into().ok()?);
        let id = u32::from_be_bytes(verifier.id);
        let text = format!("PRIVATE+KEY+{name}+{id:08x}+{}", key_text(seed));
        is_name(name).then_some(Self { pair, verifier, text })
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().strip_prefix("PRIVATE+KEY+")?.splitn(3, '+');
        let (name, _id, key) = (parts.next()?, parts.next()?, parts.next()?);
        Self::new(name, &key_bytes(key)?).filter(|signer| signer.text == text.trim())
    }

    /// The secret, as it stands in its file.
    pub(crate) fn secret_text(&self) -> &str {
        &self.text
    }

    pub(crate) fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    fn sign(&self, text: &str) -> String {
        let signature = self.pair.sign(text.as_bytes());
        let signature = STANDARD.encode([self.verifier.id.as_slice(), signature.as_ref()].concat());
        format!("{text}\n\u{2014} {} {signature}\n", self.verifier.name)
    }
}

/// Why a note is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It is no checkpoint of a ledger.
    Malformed,
    /// Nobody signed it whose key is asked for.
    Unknown,
    /// The signature is not that of the key it names.
    Forged,
}

/// What one signed note says of the ledger: how many records there were at a time, and what they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) number: u64,
    pub(crate) size: u64,
    pub(crate) root: Node,
    pub(crate) time: String,
    /// The hash of the last record.
    pub(crate) head: Hash,
    /// The segment and offset up to which all this was on the disk.
    pub(crate) end: (u64, u64),
}

impl Checkpoint {
    /// The signed note of it.
    pub(crate) fn sign(&self, signer: &Signer) -> String {
        let head: String = self.head.map(char::from).iter().collect();
        signer.sign(&format!(
            "{}\n{}\n{}\nnumber {}\ntime {}\nhead {head}\nend {} {}\n",
            signer.verifier.name,
            self.size,
            STANDARD.encode(self.root),
            self.number,
            self.time,
            segment_name(self.end.0),
            self.end.1,
        ))
    }

    /// What a note says, once its signature by `key` was found to be right.
    pub(crate) fn open(note: &str, key: &VerifierKey) -> Result<Self, Doubt> {
        let text = believed(note, key)?;
        let mut lines = text.lines();
        let mut next = || lines.next().ok_or(Doubt::Malformed);
        if next()? != key.name {
            return Err(Doubt::Unknown);
        }
        let size = number(next()?).ok_or(Doubt::Malformed)?;
        let root = node(next()?).ok_or(Doubt::Malformed)?;
        let mut extension = |name: &str| next()?.strip_prefix(name).ok_or(Doubt::Malformed);
        let place = number(extension("number ")?).ok_or(Doubt::Malformed)?;
        let time = extension("time ")?.to_owned();
        let head = line::hash_text(extension("head ")?).ok_or(Doubt::Malformed)?;
        let (segment, offset) = extension("end ")?.split_once(' ').ok_or(Doubt::Malformed)?;
        let end = first_seq(segment).zip(number(offset)).ok_or(Doubt::Malformed)?;
        Ok(Self { number: place, size, root, time, head, end })
    }
}

/// The text of a note that `key` signed.
fn believed<'a>(note: &'a str, key: &VerifierKey) -> Result<&'a str, Doubt> {
    let is_odd = |c: char| c < '\u{20}' && c != '\n';
    if note.len() > NOTE_BYTES_MAX || note.contains(is_odd) {
        return Err(Doubt::Malformed);
    }
    let (text, signatures) = split(note).ok_or(Doubt::Malformed)?;
    let mut is_signed = false;
    for (count, line) in signatures.split_terminator('\n').enumerate() {
        let signature = line.strip_prefix("\u{2014} ").and_then(|rest| rest.split_once(' '));
        let Some((name, bytes)) = signature.filter(|_| count < SIGNATURES_MAX) else { return Err(Doubt::Malformed) };
        let bytes = STANDARD.decode(bytes).map_err(|_| Doubt::Malformed)?;
        let (id, bytes) = bytes.split_first_chunk::<4>().ok_or(Doubt::Malformed)?;
        if name == key.name && *id == key.id {
            if !key.verifies(text, bytes) {
                return Err(Doubt::Forged);
            }
            is_signed = true;
        }
    }
    if is_signed { Ok(text) } else { Err(Doubt::Unknown) }
}

/// A note's text, with its last line break, and its signatures.
fn split(note: &str) -> Option<(&str, &str)> {
    let at = note.rfind("\n\n")?;
    let (text, signatures) = note.split_at_checked(at + 1)?;
    Some((text, signatures.strip_prefix('\n').filter(|rest| rest.ends_with('\n'))?))
}

/// A decimal number as it is written: no sign, no leading zero.
fn number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// A node as notes and proofs write it: base64.
pub(crate) fn node(text: &str) -> Option<Node> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// The other way round.
pub(crate) fn node_text(node: &Node) -> String {
    STANDARD.encode(node)
}

/// The notes in a text: one JSON object with a member `note` in a line, whatever stands before it (a log's own time), or
/// notes as they are, one after the other.
pub(crate) fn notes_in(text: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Kept {
        note: String,
    }
    let mut notes = Vec::new();
    let mut bare = String::new();
    for line in text.split_inclusive('\n') {
        let json = line.find("{\"v\":").and_then(|at| line.get(at..));
        if let Some(kept) = json.and_then(|json| serde_json::from_str::<Kept>(json.trim_end()).ok()) {
            notes.push(kept.note);
            continue;
        }
        let was_signature = bare.lines().next_back().is_some_and(|last| last.starts_with('\u{2014}'));
        if was_signature && !line.starts_with('\u{2014}') {
            notes.push(std::mem::take(&mut bare));
        }
        if !(bare.is_empty() && line.trim().is_empty()) {
            bare.push_str(line);
        }
    }
    if !bare.is_empty() {
        notes.push(bare);
    }
    notes
}

#[cfg(test)]
mod tests;
