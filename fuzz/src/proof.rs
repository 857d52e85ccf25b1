//! Notes, checkpoints and proofs: nobody who does not hold the key can make one that is believed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tollgate_ledger::{Trust, VerifierKey, prove, verify, verify_with};

/// A ledger of a few records with its checkpoints, and the key that signed them. It was made for this and signs nothing else.
pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixture")
}

/// A copy of the fixture that is written over.
struct House {
    folder: tempfile::TempDir,
    checkpoints: Vec<u8>,
    notes: Vec<String>,
}

fn house() -> &'static House {
    static HOUSE: OnceLock<House> = OnceLock::new();
    HOUSE.get_or_init(|| {
        let folder = crate::folder();
        for file in ["audit/segment-000000000001.jsonl", "audit/checkpoints", "keys/ledger.key"] {
            let to = folder.path().join(file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(fixture().join(file), to).unwrap();
        }
        let checkpoints = fs::read(folder.path().join("audit/checkpoints")).unwrap();
        let lines = checkpoints.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let notes = lines.map(|line| {
            let line: serde_json::Value = serde_json::from_slice(line).unwrap();
            line["note"].as_str().unwrap().to_owned()
        });
        House { notes: notes.collect(), checkpoints, folder }
    })
}

/// The first byte says what the rest is: a verifier key, a checkpoint that was kept elsewhere, or the ledger's own file of
/// checkpoints.
pub fn proof(data: &[u8]) {
    let Some((how, rest)) = data.split_first() else { return };
    let (house, text) = (house(), String::from_utf8_lossy(rest));
    let data_dir = house.folder.path();
    match how % 3 {
        0 => {
            if let Ok(key) = text.parse::<VerifierKey>() {
                assert_eq!(key.to_string(), text.trim(), "a key has one form");
                let _ = verify_with(data_dir, &Trust { key: Some(key), anchor: None });
            }
        }
        1 => {
            // Others may sign too: what counts is the text that was signed.
            let is_ours = |note: &str| house.notes.iter().any(|ours| signed(ours) == signed(note));
            if let Ok(proof) = prove(data_dir, 1, Some(&text)) {
                let since = proof.since.unwrap();
                assert!(is_ours(&since.checkpoint), "a note that was never signed is believed: {}", since.checkpoint);
            }
            let anchored = verify_with(data_dir, &Trust { key: None, anchor: Some(text.to_string()) });
            if let Ok(report) = anchored {
                let count = report.checkpoints.and_then(|covered| covered.anchored).unwrap_or_default();
                assert!(!report.ok || count == 0 || house.notes.iter().any(|note| text.contains(first_line(note))));
            }
        }
        _ => {
            let path = data_dir.join("audit/checkpoints");
            fs::write(&path, rest).unwrap();
            let report = verify(data_dir);
            fs::write(&path, &house.checkpoints).unwrap();
            let Ok(report) = report else { return };
            let is_whole = |line: &[u8]| house.checkpoints.split(|byte| *byte == b'\n').any(|ours| ours == line);
            let lines: Vec<_> = rest.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
            // What a dying signer left at the end is no claim.
            let claims = lines.split_last().map_or(&[][..], |(_, claims)| claims);
            assert!(!report.ok || claims.iter().all(|line| is_whole(line)), "{}", String::from_utf8_lossy(rest));
        }
    }
}

/// What a note's signatures are over.
fn signed(note: &str) -> &str {
    note.split("\n\n").next().unwrap_or(note).trim()
}

fn first_line(note: &str) -> &str {
    note.lines().next().unwrap_or(note)
}
