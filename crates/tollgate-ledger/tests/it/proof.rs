//! What is proved to a third party, who has nothing but the key and a program that somebody else wrote.

use std::process::Stdio;

use tollgate_ledger::{LedgerError, VerifierKey, prove, verifier_key};

use super::*;
use crate::checkpoints::{forge, notes, signed};

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The checker that a third party could write, on a proof: whether it holds, and what it said.
#[expect(clippy::disallowed_methods, reason = "the checker is a program of its own")]
pub(crate) fn check(key: &VerifierKey, proof: &Value) -> (bool, String) {
    let mut child = Command::new("python3")
        .arg(repository().join("examples/check_proof.py"))
        .args([&key.to_string(), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(proof.to_string().as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    (done.status.success(), String::from_utf8(done.stdout).unwrap())
}

#[tokio::test]
async fn a_third_party_can_check_each_proof_and_no_forged_one_holds() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 2).await;
    let (key, since) = (verifier_key(folder.path()).unwrap(), notes(folder.path())[1].clone());
    fill(&open(folder.path()).0, 3).await;
    let written = lines(folder.path());
    for seq in [1, 2, 11, 16, 22, 23] {
        let proof = prove(folder.path(), seq, Some(&since)).unwrap();
        assert_eq!(proof.record, written[seq as usize - 1]);
        let (holds, said) = check(&key, &serde_json::to_value(&proof).unwrap());
        assert!(holds, "{said}");
    }
    let proof = serde_json::to_value(prove(folder.path(), 16, Some(&since)).unwrap()).unwrap();
    type Forge = fn(&mut Value);
    let forgeries: [(&str, Forge); 8] = [
        ("another record", |it| it["record"] = it["record"].as_str().unwrap().replace("observed", "halted").into()),
        ("another place", |it| it["index"] = 14.into()),
        ("a shorter path", |it| drop(it["path"].as_array_mut().unwrap().pop())),
        ("another path", |it| it["path"].as_array_mut().unwrap().swap(0, 1)),
        ("another size", |it| it["checkpoint"] = it["checkpoint"].as_str().unwrap().replace("\n23\n", "\n24\n").into()),
        ("another time", |it| it["checkpoint"] = it["checkpoint"].as_str().unwrap().replace("time 2", "time 3").into()),
        ("another past", |it| it["since"]["path"].as_array_mut().unwrap().reverse()),
        ("no signature", |it| {
            let note = it["checkpoint"].as_str().unwrap().rsplit_once("\n\n").unwrap().0.to_owned();
            it["checkpoint"] = format!("{note}\n\n").into();
        }),
    ];
    for (name, forge) in forgeries {
        let mut forged = proof.clone();
        forge(&mut forged);
        assert_ne!(forged, proof, "{name}");
        assert!(!check(&key, &forged).0, "{name}");
    }
    let another = tempfile::tempdir().unwrap();
    signed(another.path(), 1).await;
    assert!(!check(&verifier_key(another.path()).unwrap(), &proof).0, "signed by somebody else");
}

#[tokio::test]
async fn what_cannot_be_proved_is_said() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 1).await;
    for seq in [0, 11] {
        assert!(matches!(prove(folder.path(), seq, None), Err(LedgerError::NotCovered { size: 10, .. })));
    }
    for since in ["", "x\n1\n", &notes(folder.path())[0]] {
        let refused = prove(folder.path(), 1, Some(since)).unwrap_err();
        assert!(matches!(refused, LedgerError::NotACheckpoint { .. }), "{refused}");
    }
    forge(folder.path(), 5);
    assert!(matches!(prove(folder.path(), 1, None), Err(LedgerError::Damaged { .. })));
}

/// The verifier of examples/ comes to the same of the checkpoints.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the verifier is a program of its own")]
async fn the_verifier_in_python_agrees() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 5).await;
    let key = verifier_key(folder.path()).unwrap();
    let run = || {
        let mut command = Command::new("python3");
        command.arg(repository().join("examples/verify_checkpoints.py")).arg(folder.path()).arg(key.to_string());
        let done = command.output().unwrap();
        let said: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        (done.status.code().unwrap(), said)
    };
    let (code, said) = run();
    assert_eq!((code, &said["size"]), (0, &Value::from(50)), "{said}");
    let original = lines(folder.path());
    forge(folder.path(), 37);
    let (code, said) = run();
    assert_eq!((code, &said["fault"]["seq"]), (1, &Value::from(31)), "{said}");
    fs::write(&segments(folder.path())[0], original[..45].join("\n") + "\n").unwrap();
    let (code, said) = run();
    assert_eq!((code, &said["fault"]["seq"]), (1, &Value::from(46)), "{said}");
}
