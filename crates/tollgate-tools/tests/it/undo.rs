//! A file as it was before: kept before it is changed, put back only over what the call left.

use std::collections::HashMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde_json::json;
use tollgate_types::{AttemptId, BeforeImage, BeforeImages, Cx, ToolError, limits};

use crate::support::{House, call, code};

/// Keeps images in memory, as long as it is let.
#[derive(Default)]
struct Shelf {
    images: Mutex<HashMap<String, BeforeImage>>,
    is_full: bool,
}

impl BeforeImages for Shelf {
    fn keep(&self, attempt: &AttemptId, image: BeforeImage, _: Timestamp) -> Result<(), String> {
        if self.is_full {
            return Err("the disk is full".into());
        }
        self.images.lock().unwrap().insert(attempt.to_string(), image);
        Ok(())
    }

    fn image(&self, attempt: &AttemptId) -> Result<Option<BeforeImage>, String> {
        Ok(self.images.lock().unwrap().get(attempt.as_str()).cloned())
    }
}

fn cx(house: &House, shelf: &Arc<Shelf>, attempt: &str) -> Cx {
    let images = Some(Arc::<Shelf>::clone(shelf) as Arc<dyn BeforeImages>);
    Cx { attempt: AttemptId::new(attempt), images, ..house.cx.clone() }
}

async fn restore(house: &House, shelf: &Arc<Shelf>, by: &str, first: &str, path: &str) -> Result<String, ToolError> {
    let tool = tollgate_tools::restore_file();
    let arguments = json!({"attempt": first, "path": path});
    call(tool.as_ref(), arguments, &cx(house, shelf, by)).await.map(|output| crate::support::text(&output))
}

#[tokio::test]
async fn bytes_mode_and_absence_come_back() {
    let (house, shelf) = (House::new(), Arc::new(Shelf::default()));
    house.put("a.bin", b"\xff\0old");
    std::fs::set_permissions(house.root.join("a.bin"), PermissionsExt::from_mode(0o750)).unwrap();
    let write = json!({"path": "a.bin", "content": "新", "overwrite": true});
    call(house.tool("write_file").as_ref(), write, &cx(&house, &shelf, "w1")).await.unwrap();
    assert_eq!(restore(&house, &shelf, "u1", "w1", "a.bin").await.unwrap(), "put `a.bin` back (5 bytes)");
    assert_eq!(std::fs::read(house.root.join("a.bin")).unwrap(), b"\xff\0old");
    assert_eq!(std::fs::metadata(house.root.join("a.bin")).unwrap().mode() & 0o777, 0o750);

    let new = json!({"path": "new/b.txt", "content": "b"});
    call(house.tool("write_file").as_ref(), new, &cx(&house, &shelf, "w2")).await.unwrap();
    std::fs::set_permissions(house.root.join("new/b.txt"), PermissionsExt::from_mode(0o640)).unwrap();
    let taken = restore(&house, &shelf, "u2", "w2", "new/b.txt").await.unwrap();
    assert_eq!(taken, "took `new/b.txt` away: it did not exist before");
    assert!(!house.root.join("new/b.txt").exists());
    restore(&house, &shelf, "u3", "u2", "new/b.txt").await.unwrap();
    assert_eq!(house.get("new/b.txt"), "b", "the undo undone");
    assert_eq!(std::fs::metadata(house.root.join("new/b.txt")).unwrap().mode() & 0o777, 0o640);

    house.put("c.txt", "one two");
    let edit = json!({"path": "c.txt", "old_text": "two", "new_text": "2"});
    call(house.tool("edit_file").as_ref(), edit, &cx(&house, &shelf, "w3")).await.unwrap();
    restore(&house, &shelf, "u4", "w3", "c.txt").await.unwrap();
    assert_eq!(house.get("c.txt"), "one two");
}

#[tokio::test]
async fn what_is_not_as_it_was_left_stays() {
    let (house, shelf) = (House::new(), Arc::new(Shelf::default()));
    house.put("a.txt", "old");
    let write = json!({"path": "a.txt", "content": "mine", "overwrite": true});
    call(house.tool("write_file").as_ref(), write, &cx(&house, &shelf, "w1")).await.unwrap();
    house.put("a.txt", "theirs");
    let error = restore(&house, &shelf, "u1", "w1", "a.txt").await.unwrap_err();
    assert_eq!((code(&error).as_str(), error.nothing_happened), ("conflict", true));
    assert_eq!(house.get("a.txt"), "theirs");
    std::fs::remove_file(house.root.join("a.txt")).unwrap();
    assert_eq!(code(&restore(&house, &shelf, "u1", "w1", "a.txt").await.unwrap_err()), "conflict");
    house.put("b.txt", "mine");
    assert_eq!(code(&restore(&house, &shelf, "u1", "w1", "b.txt").await.unwrap_err()), "conflict", "another file");
    assert_eq!(code(&restore(&house, &shelf, "u1", "w9", "b.txt").await.unwrap_err()), "NOT_KEPT");
    assert_eq!(code(&restore(&house, &shelf, "u1", "w1", "tollgate.toml").await.unwrap_err()), "denied");
}

#[tokio::test]
async fn without_room_nothing_is_written_and_what_is_too_large_is_said() {
    let (house, full) = (House::new(), Arc::new(Shelf { is_full: true, ..Shelf::default() }));
    house.put("a.txt", "old");
    let write = json!({"path": "a.txt", "content": "new", "overwrite": true});
    let error = call(house.tool("write_file").as_ref(), write, &cx(&house, &full, "w1")).await.unwrap_err();
    assert_eq!((code(&error).as_str(), house.get("a.txt").as_str()), ("NOT_KEPT", "old"));

    let shelf = Arc::new(Shelf::default());
    let large = usize::try_from(limits::UNDO_IMAGE_BYTES_MAX).unwrap() + 1;
    house.put("large", vec![b'x'; large]);
    let write = json!({"path": "large", "content": "small", "overwrite": true});
    let output = call(house.tool("write_file").as_ref(), write, &cx(&house, &shelf, "w2")).await.unwrap();
    assert!(crate::support::text(&output).ends_with("this cannot be undone"));
    assert!(shelf.images.lock().unwrap().is_empty());
}

#[test]
fn its_definition_says_everything() {
    let definition = tollgate_tools::restore_file().definition();
    assert_eq!(definition.name, tollgate_types::RESTORE_FILE);
    for example in &definition.examples {
        jsonschema::validate(&definition.input_schema, example).unwrap();
    }
}
