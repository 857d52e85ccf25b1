//! The specification's own example, and what becomes of a note that was changed.

use super::*;

const VKEY: &str = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
/// The example of c2sp.org/signed-note.
const NOTE: &str = "This is an example message.\n\n\u{2014} example.com/foo \
                    Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

fn signer() -> Signer {
    Signer::new("tollgate/0011223344556677", &[7; 32]).unwrap()
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        number: 3,
        size: 1234,
        root: [9; 32],
        time: "2026-11-30T09:30:00.123456Z".into(),
        head: [b'a'; 64],
        end: (1001, 98765),
    }
}

#[test]
fn the_example_of_the_specification_is_believed() {
    let key: VerifierKey = VKEY.parse().unwrap();
    assert_eq!(key.to_string(), VKEY);
    assert_eq!(believed(NOTE, &key), Ok("This is an example message.\n"));
    assert_eq!(believed(&NOTE.replace("message", "massage"), &key), Err(Doubt::Forged));
    assert_eq!(believed(NOTE, signer().verifier()), Err(Doubt::Unknown));
    assert_eq!(Checkpoint::open(NOTE, &key), Err(Doubt::Unknown), "it is no checkpoint");
}

#[test]
fn what_is_no_key_is_refused() {
    let cases =
        ["", "a+b", "example.com/foo+530d903b+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k", "a b+00000000+AQ=="];
    for text in cases {
        assert!(text.parse::<VerifierKey>().is_err(), "{text}");
    }
    let text = signer().secret_text().to_owned();
    assert_eq!(Signer::parse(&text).unwrap().verifier(), signer().verifier());
    assert!(Signer::parse(&text.replace("PRIVATE", "PUBLIC")).is_none());
    assert!(Signer::parse(&text.replace("0011", "0012")).is_none(), "the id is that of the name and the key");
}

#[test]
fn a_checkpoint_says_what_was_signed() {
    let (signer, checkpoint) = (signer(), checkpoint());
    let note = checkpoint.sign(&signer);
    assert_eq!(Checkpoint::open(&note, signer.verifier()), Ok(checkpoint));
    assert!(note.starts_with("tollgate/0011223344556677\n1234\nCQkJ"), "{note}");
    let witnessed = note.clone() + NOTE.rsplit_once("\n\n").unwrap().1;
    assert!(Checkpoint::open(&witnessed, signer.verifier()).is_ok(), "others may sign too");
    for (at, _) in note.char_indices() {
        let mut bytes = note.clone().into_bytes();
        bytes[at] ^= 1;
        if let Ok(changed) = String::from_utf8(bytes) {
            assert!(Checkpoint::open(&changed, signer.verifier()).is_err(), "{changed}");
        }
        assert!(Checkpoint::open(note.get(..at).unwrap(), signer.verifier()).is_err(), "{at}");
    }
}

#[test]
fn notes_are_found_as_they_are_and_in_the_lines_of_a_log() {
    let (one, two) = (checkpoint().sign(&signer()), Checkpoint { size: 1235, ..checkpoint() }.sign(&signer()));
    let json = |note: &str| serde_json::json!({ "v": 1, "note": note }).to_string();
    let both = vec![one.clone(), two.clone()];
    let texts = [
        format!("{one}{two}"),
        format!("{one}\n\n{two}\n"),
        format!("{}\n{}\n", json(&one), json(&two)),
        format!("Nov 30 09:30:00 host tollgate[7]: {}\nnot ours\n<110>1 - - - {}", json(&one), json(&two)),
    ];
    for text in texts {
        let found: Vec<String> = notes_in(&text).into_iter().filter(|note| note.starts_with("tollgate/")).collect();
        assert_eq!(found, both, "{text}");
    }
    assert!(notes_in("").is_empty());
}
