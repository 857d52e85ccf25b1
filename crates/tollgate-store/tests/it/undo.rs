//! What it takes to undo a call: kept for its time and within its room, taken once.

use std::os::unix::fs::PermissionsExt;

use jiff::SignedDuration;
use serde_json::json;
use tollgate_store::UndoPlan;
use tollgate_types::{AttemptId, BeforeImage, BeforeImages, FileImage, limits};

use crate::{folder, now};

fn image(bytes: Vec<u8>) -> BeforeImage {
    BeforeImage { path: "a.txt".into(), before: Some(FileImage { bytes, mode: 0o640 }), after: Some("00".into()) }
}

fn files(folder: &std::path::Path) -> usize {
    std::fs::read_dir(folder.join("undo")).map_or(0, Iterator::count)
}

#[tokio::test]
async fn a_plan_is_taken_once_and_given_back() {
    let (_folder, store) = folder();
    let (first, by, other) = (AttemptId::new("a1"), AttemptId::new("u1"), AttemptId::new("u2"));
    let plan = UndoPlan { tool: "cancel".into(), arguments: Ok(json!({"id": 1})), undone_by: None };
    store.plan_undo(first.clone(), plan.clone(), now()).await.unwrap();
    assert_eq!(store.undo_plan(first.clone(), now()).await.unwrap(), Some(plan));
    assert_eq!(store.claim_undo(first.clone(), by.clone()).await.unwrap(), by);
    assert_eq!(store.claim_undo(first.clone(), other.clone()).await.unwrap(), by, "once");
    assert_eq!(store.undo_plan(first.clone(), now()).await.unwrap().unwrap().undone_by, Some(by.clone()));
    store.release_undo(by).await.unwrap();
    assert_eq!(store.claim_undo(first.clone(), other.clone()).await.unwrap(), other);
    store.take_over(&[], &[other]).unwrap();
    assert_eq!(store.undo_plan(first.clone(), now()).await.unwrap().unwrap().undone_by, None, "its process died");
    assert_eq!(store.undo_plan(first, now() + SignedDuration::from_hours(7 * 24)).await.unwrap(), None, "too old");
}

#[tokio::test]
async fn a_file_is_kept_by_content_for_its_owner_alone() {
    let (folder, store) = folder();
    for attempt in ["a1", "a2"] {
        store.keep(&AttemptId::new(attempt), image(b"\xff\0old".to_vec()), now()).unwrap();
    }
    let nothing = BeforeImage { path: "new".into(), before: None, after: Some("11".into()) };
    store.keep(&AttemptId::new("a3"), nothing.clone(), now()).unwrap();
    assert_eq!(files(folder.path()), 1);
    let file = std::fs::read_dir(folder.path().join("undo")).unwrap().next().unwrap().unwrap();
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(store.image(&AttemptId::new("a2")).unwrap(), Some(image(b"\xff\0old".to_vec())));
    assert_eq!(store.image(&AttemptId::new("a3")).unwrap(), Some(nothing));
    assert_eq!(store.image(&AttemptId::new("a4")).unwrap(), None);
    std::fs::write(file.path(), "swapped").unwrap();
    assert!(store.image(&AttemptId::new("a1")).unwrap_err().contains("changed on the disk"));
}

#[tokio::test]
async fn what_is_old_goes_and_the_oldest_where_room_is_short() {
    let (folder, store) = folder();
    let size = usize::try_from(limits::UNDO_IMAGE_BYTES_MAX).unwrap();
    let fitting = u8::try_from(limits::UNDO_IMAGES_BYTES_MAX / limits::UNDO_IMAGE_BYTES_MAX).unwrap();
    for n in 0..=fitting {
        let later = now() + SignedDuration::from_secs(i64::from(n));
        store.keep(&AttemptId::new(format!("a{n}")), image(vec![n; size]), later).unwrap();
    }
    assert_eq!(store.image(&AttemptId::new("a0")).unwrap(), None, "the oldest gave way");
    assert!(store.image(&AttemptId::new("a1")).unwrap().is_some());
    assert_eq!(files(folder.path()), usize::from(fitting));
    let week = now() + SignedDuration::from_hours(7 * 24) + SignedDuration::from_mins(1);
    store.keep(&AttemptId::new("late"), image(b"x".to_vec()), week).unwrap();
    assert_eq!(files(folder.path()), 1, "only the new one is left");
}
