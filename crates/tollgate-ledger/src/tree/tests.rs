//! Against what others compute, against the definition word for word, and by properties.

use proptest::prelude::*;

use super::*;
use crate::note::{node, node_text};

/// RFC 6962 §2.1, word for word.
fn mth(leaves: &[Node]) -> Node {
    match leaves {
        [] => Sha256::digest([]).into(),
        [leaf] => *leaf,
        leaves => {
            let mut k = 1;
            while k * 2 < leaves.len() {
                k *= 2;
            }
            parent(&mth(&leaves[..k]), &mth(&leaves[k..]))
        }
    }
}

fn leaves(count: u64) -> Vec<Node> {
    (0..count).map(|number| leaf(&number.to_be_bytes())).collect()
}

fn grown(leaves: &[Node]) -> Frontier {
    let mut frontier = Frontier::default();
    leaves.iter().for_each(|leaf| frontier.push(*leaf));
    frontier
}

fn proof(ranges: Vec<Range<u64>>, leaves: &[Node]) -> Vec<Node> {
    let mut roots = Roots::of(ranges);
    (0..).zip(leaves).for_each(|(index, leaf)| roots.push(index, *leaf));
    roots.finish()
}

#[test]
fn roots_are_those_that_others_compute() {
    // The leaves and roots that certificate transparency's own implementations are tested with.
    let data: [&[u8]; 8] = [b"", b"\0", b"\x10", b"\x20\x21", b"\x30\x31", b"@ABC", b"PQRSTUVW", b"`abcdefghijklmno"];
    let roots = [
        "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0=",
        "+sVCA+fMaWzw38tCySodnbr3CtnmIfS9jZhmLwDjwSU=",
        "rra8/idLcKFPsGel5VeCZNsPqbUa9eC6FZFY8yngbnc=",
        "037kGJdt2VdTwcc4Yrk5j6Kiz5tP8P3+izDNlSCWFLc=",
        "Tju7H3tHjc/nH7YxYxUZo7yhLJrvyhYSv85ME6hiZNQ=",
        "duZ9rbzfHhDht03cYIq9L5jfsW+851J3tSMqEn8gh+8=",
        "3bib5AOAnjJXUNPSY814kpwpQreUKjS3fhIslZSnTIw=",
        "XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg=",
    ];
    let leaves: Vec<Node> = data.iter().map(|data| leaf(data)).collect();
    for (size, root) in roots.iter().enumerate() {
        assert_eq!(node_text(&grown(&leaves[..size]).root()), *root, "{size}");
        assert_eq!(mth(&leaves[..size]), node(root).unwrap(), "{size}");
    }
}

/// `transparency-dev/merkle`'s cases, one a line: proofs that hold, and proofs that were tampered with.
#[test]
fn proofs_that_others_made_are_judged_as_they_say() {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", tag = "kind")]
    enum Case {
        #[serde(rename = "inclusion", rename_all = "camelCase")]
        Inclusion {
            leaf_idx: u64,
            tree_size: u64,
            root: String,
            leaf_hash: String,
            proof: Option<Vec<String>>,
            desc: String,
            want_err: bool,
        },
        #[serde(rename = "consistency", rename_all = "camelCase")]
        Consistency {
            size1: u64,
            size2: u64,
            root1: String,
            root2: String,
            proof: Option<Vec<String>>,
            desc: String,
            want_err: bool,
        },
    }
    let nodes = |texts: Option<Vec<String>>| {
        texts.unwrap_or_default().iter().map(|text| node(text)).collect::<Option<Vec<_>>>()
    };
    // Some roots are a few words: they only have to be told apart.
    let root_of = |text: &str| node(text).unwrap_or_else(|| leaf(text.as_bytes()));
    let cases = include_str!("../../tests/vectors/rfc6962.jsonl");
    let mut count = 0;
    for line in cases.lines() {
        count += 1;
        match serde_json::from_str(line).unwrap() {
            Case::Inclusion { leaf_idx, tree_size, root, leaf_hash, proof, desc, want_err } => {
                let found = nodes(proof).zip(node(&leaf_hash)).zip(node(&root));
                let is_right = found.is_some_and(|((path, leaf), root)| {
                    root_of_inclusion(leaf_idx, tree_size, leaf, &path) == Some(root)
                });
                assert_eq!(is_right, !want_err, "{desc}: {line}");
            }
            Case::Consistency { size1, size2, root1, root2, proof, desc, want_err } => {
                let found = nodes(proof).map(|path| ((path, root_of(&root1)), root_of(&root2)));
                let is_right =
                    found.is_some_and(|((path, root1), root2)| is_consistent(size1, root1, size2, root2, &path));
                assert_eq!(is_right, !want_err, "{desc}: {line}");
            }
        }
    }
    assert!(count > 150, "{count}");
}

#[test]
fn each_record_of_each_small_tree_is_proved_and_nothing_else() {
    let all = leaves(40);
    for size in 1..=40 {
        let leaves = &all[..size as usize];
        let root = mth(leaves);
        for index in 0..size {
            let path = proof(inclusion(index, size), leaves);
            let lead = |index, size, leaf| root_of_inclusion(index, size, leaf, &path);
            assert_eq!(lead(index, size, leaves[index as usize]), Some(root));
            assert_ne!(lead(index, size, leaf(b"another")), Some(root));
            assert_ne!(lead((index + 1) % size, size, leaves[index as usize]), Some(root).filter(|_| size > 1));
            assert_eq!(lead(size, size, leaves[index as usize]), None);
        }
        for old in 1..=size {
            let path = proof(consistency(old, size), leaves);
            let old_root = mth(&leaves[..old as usize]);
            assert!(is_consistent(old, old_root, size, root, &path), "{old} {size}");
            assert!(!is_consistent(old, leaf(b"another"), size, root, &path), "{old} {size}");
            assert!(!is_consistent(old, old_root, size, leaf(b"another"), &path), "{old} {size}");
            assert!(!is_consistent(size + 1, root, size, root, &path));
        }
    }
}

proptest! {
    #[test]
    fn a_tree_that_grows_in_steps_is_the_tree(count in 0_u64..600, steps in proptest::collection::vec(0_u64..600, 0..4)) {
        let leaves = leaves(count);
        let mut frontier = Frontier::default();
        for (at, leaf) in leaves.iter().enumerate() {
            if steps.contains(&(at as u64)) {
                // As it is kept in the file, and read back by another process.
                frontier = Frontier::new(frontier.size(), frontier.peaks().to_vec()).unwrap();
            }
            frontier.push(*leaf);
        }
        prop_assert_eq!(frontier.root(), mth(&leaves));
        prop_assert_eq!(frontier.size(), count);
    }

    #[test]
    fn any_proof_of_a_large_tree_holds(size in 1_u64..3_000, at in any::<prop::sample::Index>(), old in any::<prop::sample::Index>()) {
        let leaves = leaves(size);
        let root = mth(&leaves);
        let (index, old) = (at.index(size as usize) as u64, 1 + old.index(size as usize) as u64);
        let path = proof(inclusion(index, size), &leaves);
        prop_assert_eq!(root_of_inclusion(index, size, leaves[index as usize], &path), Some(root));
        let growth = proof(consistency(old, size), &leaves);
        prop_assert!(is_consistent(old, mth(&leaves[..old as usize]), size, root, &growth));
    }
}
