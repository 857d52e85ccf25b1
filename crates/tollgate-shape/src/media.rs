//! Images, audio, files and links in words, for those who cannot take them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Whether a content block is something that a chat cannot show: an image, audio, a file, a link.
pub fn is_media(block: &Value) -> bool {
    matches!(text(block, "type"), "image" | "audio" | "resource" | "resource_link")
}

/// The text of an embedded resource that is one, behind its address.
pub fn embedded_text(block: &Value) -> Option<String> {
    let resource = block.get("resource").filter(|_| text(block, "type") == "resource")?;
    let inner = resource.get("text")?.as_str()?;
    Some(format!("[{}]\n{inner}", text(resource, "uri")))
}

/// A content block in words: what it is, its type, size and digest, and the handle under which the whole is kept.
///
/// ```
/// use serde_json::json;
///
/// let image = json!({"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="});
/// assert_eq!(
///     tollgate_shape::described(&image, Some("res_1")),
///     "[image: image/png, 8 bytes, sha256 4c4b6a3be1314ab8; kept as \"res_1\"]"
/// );
/// ```
pub fn described(block: &Value, handle: Option<&str>) -> String {
    let kind = text(block, "type");
    let inner = block.get("resource").unwrap_or(block);
    let mut words: Vec<String> = Vec::new();
    let mut say = |word: &str| {
        if !word.is_empty() {
            words.push(word.to_owned());
        }
    };
    for key in ["title", "name", "uri", "mimeType", "description"] {
        say(text(inner, key));
    }
    let encoded = ["data", "blob"].into_iter().find_map(|key| inner.get(key)?.as_str());
    match encoded.map(|encoded| STANDARD.decode(encoded)) {
        Some(Ok(bytes)) => {
            say(&format!("{} bytes", bytes.len()));
            let digest = Sha256::digest(&bytes);
            say(&format!("sha256 {}", digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>()));
        }
        Some(Err(_)) => say("not Base64"),
        None => say(&inner.get("size").and_then(Value::as_u64).map(|size| format!("{size} bytes")).unwrap_or_default()),
    }
    let kept = handle.map(|handle| format!("; kept as \"{handle}\"")).unwrap_or_default();
    let name = match kind {
        "resource_link" => "link",
        "resource" => "file",
        other => other,
    };
    format!("[{name}: {}{kept}]", words.join(", "))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_is_described() {
        let link = json!({"type": "resource_link", "uri": "file:///a.pdf", "name": "a.pdf", "size": 1234});
        assert_eq!(described(&link, None), "[link: a.pdf, file:///a.pdf, 1234 bytes]");
        let blob = json!({"type": "resource", "resource": {"uri": "x://y", "blob": "AAE=", "mimeType": "a/b"}});
        assert!(described(&blob, None).starts_with("[file: x://y, a/b, 2 bytes, sha256 "));
        let broken = json!({"type": "audio", "data": "%", "mimeType": "audio/wav"});
        assert_eq!(described(&broken, Some("res_1")), "[audio: audio/wav, not Base64; kept as \"res_1\"]");
        let file = json!({"type": "resource", "resource": {"uri": "x://y", "text": "words"}});
        assert_eq!(embedded_text(&file).unwrap(), "[x://y]\nwords");
        assert!(is_media(&file) && !is_media(&json!({"type": "text"})) && !is_media(&json!({"type": "odd"})));
    }
}
