//! One line of the ledger: how it is sealed, and how its seal is checked. Knows nothing of what a record says.

mod json;

use sha2::{Digest, Sha256};

/// The longest line that a writer makes and a reader accepts.
pub(crate) const LINE_BYTES_MAX: usize = 1024 * 1024;

const SEQ: &[u8] = br#"{"v":1,"seq":"#;
const PREV: &[u8] = br#","prev":""#;
const TIME: &[u8] = br#"","time":""#;
const HASH: &[u8] = br#","hash":""#;
const END: &[u8] = br#""}"#;
const ERASED: &[u8] = br#"","erased":{"#;
const HASH_CHARS: usize = 64;

/// A hash as it stands in a line: lower-case hex.
pub(crate) type Hash = [u8; HASH_CHARS];

/// The last record of a chain: all that the next one must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
}

impl Head {
    /// Before the first record.
    pub(crate) const GENESIS: Self = Self { seq: 0, hash: [b'0'; HASH_CHARS] };
}

/// What the seal of one line says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) prev: Hash,
    pub(crate) head: Head,
}

impl Link {
    pub(crate) fn follows(&self, head: &Head) -> bool {
        self.head.seq == head.seq + 1 && self.prev == head.hash
    }
}

/// What is wrong with one line, whatever stands around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It does not end in a hash.
    Unsealed,
    /// Its hash is not that of its bytes.
    Changed,
    /// Its hash is right, but it does not begin as a record of format version 1.
    Foreign,
    /// Its hash is right, but nobody can read it.
    Unreadable,
}

impl Flaw {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Unsealed => "the line is not a whole record",
            Self::Changed => "the record's hash does not fit its content",
            Self::Foreign => "the line is not a record of format version 1",
            Self::Unreadable => "the record is not JSON",
        }
    }
}

/// Appends one line to `out`. `boot` and `fields` are JSON members that begin with a comma.
pub(crate) fn seal(out: &mut Vec<u8>, head: &Head, time: &str, boot: &str, fields: &[u8]) -> Head {
    let start = out.len();
    let seq = head.seq + 1;
    for part in
        [SEQ, seq.to_string().as_bytes(), PREV, &head.hash, TIME, time.as_bytes(), b"\"", boot.as_bytes(), fields]
    {
        out.extend_from_slice(part);
    }
    let hash = hash_of(out.get(start..).unwrap_or_default());
    for part in [HASH, &hash, END, b"\n"] {
        out.extend_from_slice(part);
    }
    Head { seq, hash }
}

/// Checks one line, given without its line break.
pub(crate) fn parse(line: &[u8]) -> Result<Link, Flaw> {
    let (body, hash) = unseal(line).ok_or(Flaw::Unsealed)?;
    // A stub has the hash of what it was; whether it may be one, a record says.
    if !is_stub(body) && hash_of(body) != hash {
        return Err(Flaw::Changed);
    }
    let (seq, prev) = beginning(body).ok_or(Flaw::Foreign)?;
    if !json::is_readable(line) {
        return Err(Flaw::Unreadable);
    }
    Ok(Link { prev, head: Head { seq, hash } })
}

/// The hash that stands at the end of a line, unchecked.
pub(crate) fn hash_said(line: &[u8]) -> Option<Hash> {
    unseal(line).map(|(_, hash)| hash)
}

/// What a line's seal says, without asking whether it is true of the line's content.
pub(crate) fn peek(line: &[u8]) -> Option<Link> {
    let (body, hash) = unseal(line)?;
    let (seq, prev) = beginning(body)?;
    Some(Link { prev, head: Head { seq, hash } })
}

/// Whether a line is what was left of an erased record.
pub(crate) fn is_stub(line: &[u8]) -> bool {
    parts(line).is_some_and(|(_, time, members)| !time.is_empty() && members.starts_with(ERASED))
}

/// A line up to its time, the time, and what follows from the time's closing quotation mark on.
pub(crate) fn parts(line: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let digits = line.strip_prefix(SEQ)?.iter().position(|byte| !byte.is_ascii_digit())?;
    let start = SEQ.len() + digits + PREV.len() + HASH_CHARS + TIME.len();
    let (opening, rest) = line.split_at_checked(start).filter(|(opening, _)| opening.ends_with(TIME))?;
    let (time, members) = rest.split_at_checked(rest.iter().position(|byte| *byte == b'"')?)?;
    Some((opening, time, members))
}

/// The bytes that a hash stands for: what a leaf of the tree is made of.
pub(crate) fn bytes_of(hash: &Hash) -> Option<[u8; 32]> {
    let digit = |char: u8| match char {
        b'0'..=b'9' => Some(char - b'0'),
        b'a'..=b'f' => Some(char - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hash.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// A hash that stands in a text.
pub(crate) fn hash_text(text: &str) -> Option<Hash> {
    text.as_bytes().try_into().ok().filter(|hash| bytes_of(hash).is_some())
}

fn unseal(line: &[u8]) -> Option<(&[u8], Hash)> {
    let (rest, hash) = line.strip_suffix(END)?.split_last_chunk::<HASH_CHARS>()?;
    Some((rest.strip_suffix(HASH)?, *hash))
}

fn beginning(body: &[u8]) -> Option<(u64, Hash)> {
    let rest = body.strip_prefix(SEQ)?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    let (seq, rest) = rest.split_at_checked(digits)?;
    let (prev, rest) = rest.strip_prefix(PREV)?.split_first_chunk::<HASH_CHARS>()?;
    rest.starts_with(TIME).then_some((std::str::from_utf8(seq).ok()?.parse().ok()?, *prev))
}

fn hash_of(bytes: &[u8]) -> Hash {
    let mut hash = [0; HASH_CHARS];
    for (pair, byte) in hash.chunks_exact_mut(2).zip(Sha256::digest(bytes)) {
        if let [high, low] = pair {
            *high = hex_digit(byte >> 4);
            *low = hex_digit(byte & 15);
        }
    }
    hash
}

/// Lower-case hex SHA-256.
pub(crate) fn hex_of(bytes: &[u8]) -> String {
    hash_of(bytes).map(char::from).iter().collect()
}

fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_line_is_what_the_contract_says() {
        let mut out = Vec::new();
        let head =
            seal(&mut out, &Head::GENESIS, "2026-01-02T03:04:05.000000Z", r#","boot":"b""#, br#","event":"halted""#);
        let body = format!(
            r#"{{"v":1,"seq":1,"prev":"{}","time":"2026-01-02T03:04:05.000000Z","boot":"b","event":"halted""#,
            "0".repeat(64)
        );
        let hash = hex_of(body.as_bytes());
        assert_eq!(String::from_utf8(out.clone()).unwrap(), format!("{body},\"hash\":\"{hash}\"}}\n"));
        out.pop();
        assert_eq!(parse(&out), Ok(Link { prev: Head::GENESIS.hash, head }));
        assert_eq!(hex_of(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_hash_is_its_bytes() {
        let hash = hash_text("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad").unwrap();
        assert_eq!(bytes_of(&hash).unwrap()[..4], [0xba, 0x78, 0x16, 0xbf]);
        for text in ["", "BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", &"g".repeat(64)] {
            assert_eq!(hash_text(text), None, "{text}");
        }
    }

    #[test]
    fn each_flaw_is_told_apart() {
        let mut out = Vec::new();
        seal(&mut out, &Head::GENESIS, "t", "", b"");
        out.pop();
        let mut changed = out.clone();
        changed[20] ^= 1;
        assert_eq!(parse(&changed), Err(Flaw::Changed));
        assert_eq!(parse(&out[..out.len() - 1]), Err(Flaw::Unsealed));
        assert_eq!(parse(b""), Err(Flaw::Unsealed));
        let body = br#"{"v":2,"seq":1"#;
        let foreign = [body.as_slice(), HASH, &hash_of(body), END].concat();
        assert_eq!(parse(&foreign), Err(Flaw::Foreign));
    }
}
