//! From bytes to text: which encoding a page is in, by its mark, its header, its own word, and at last by its looks.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Where a page names its own encoding, if it does (HTML asks for the first 1,024 bytes; many come later).
const OWN_WORD_BYTES_MAX: usize = 4 * 1024;
/// What is looked at when nobody says.
const LOOKED_AT_BYTES_MAX: usize = 256 * 1024;

/// What a server says of a body.
pub(super) struct Said<'a> {
    /// `charset` of its content type.
    pub(super) charset: Option<&'a str>,
    /// Whether the body may name its own encoding, as HTML and XML do.
    pub(super) is_markup: bool,
    /// The last part of the host's name, such as `cn`.
    pub(super) top_level: Option<&'a str>,
}

/// The text, and the name of the encoding it was in.
pub(super) fn decode(bytes: &[u8], said: &Said<'_>) -> (String, &'static str) {
    let encoding = encoding(bytes, said);
    let (text, encoding, _) = encoding.decode(bytes);
    (text.into_owned(), encoding.name())
}

fn encoding(bytes: &[u8], said: &Said<'_>) -> &'static Encoding {
    // A mark at the beginning outweighs everything (WHATWG Encoding §6.1).
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return encoding;
    }
    let header = said.charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let own = || said.is_markup.then(|| own_word(bytes)).flatten();
    header.or_else(own).unwrap_or_else(|| looks(bytes, said.top_level))
}

/// `<meta charset="gbk">`, `<meta … content="text/html; charset=gbk">`, `<?xml … encoding="gbk"?>`
fn own_word(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes.get(..OWN_WORD_BYTES_MAX).unwrap_or(bytes).to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let declaration = head.trim_start().strip_prefix("<?xml").and_then(|rest| rest.split("?>").next());
    let in_declaration = declaration.and_then(|declaration| label_after(declaration, "encoding"));
    let metas = head.split("<meta").skip(1).filter_map(|rest| rest.split('>').next());
    let label = in_declaration.or_else(|| metas.filter_map(|meta| label_after(meta, "charset")).next())?;
    let encoding = Encoding::for_label(label.as_bytes())?;
    // Who could write that word in ASCII does not write UTF-16 (HTML §13.2.3.2).
    Some(if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

/// The value after `key=`, with or without quotes.
fn label_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rest = text.split_once(key)?.1.trim_start().strip_prefix('=')?.trim_start();
    let rest = rest.trim_start_matches(['"', '\'']);
    let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '/')).unwrap_or(rest.len());
    rest.get(..end).filter(|label| !label.is_empty())
}

fn looks(bytes: &[u8], top_level: Option<&str>) -> &'static Encoding {
    let seen = bytes.get(..LOOKED_AT_BYTES_MAX).unwrap_or(bytes);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(seen, seen.len() == bytes.len());
    let top_level = top_level.filter(|label| label.chars().all(|c| c.is_ascii_lowercase()));
    detector.guess(top_level.map(str::as_bytes), Utf8Detection::Allow)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "<p>北京的秋天是一年中最好的季节，天空很蓝，树叶都变成了金黄色。</p>";
    const TAIWAN: &str = "<p>臺北的秋天是一年中最好的季節，天空很藍，樹葉都變成了金黃色。</p>";

    fn said(charset: Option<&str>) -> Said<'_> {
        Said { charset, is_markup: true, top_level: None }
    }

    fn encoded(label: &str, text: &str) -> Vec<u8> {
        Encoding::for_label(label.as_bytes()).unwrap().encode(text).0.into_owned()
    }

    #[test]
    fn a_page_is_read_however_its_encoding_is_said() {
        let utf16: Vec<u8> = "\u{feff}北京".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let xml = format!("<?xml version='1.0' encoding='GBK'?>{TEXT}");
        let cases: &[(Vec<u8>, Option<&str>, &str)] = &[
            (encoded("gbk", TEXT), Some("gb2312"), "GBK"),
            (encoded("gbk", TEXT), None, "GBK"),
            (encoded("gb18030", "<meta charset=\"GB18030\"><p>\u{20000}北京</p>"), None, "gb18030"),
            (encoded("big5", TAIWAN), Some("Big5"), "Big5"),
            (encoded("big5", TAIWAN), None, "Big5"),
            (encoded("big5", &format!("<meta http-equiv=x content='text/html; charset=big5'>{TAIWAN}")), None, "Big5"),
            (encoded("gbk", &xml), None, "GBK"),
            (TEXT.as_bytes().to_vec(), None, "UTF-8"),
            (TEXT.as_bytes().to_vec(), Some("no-such-charset"), "UTF-8"),
            ([b"\xef\xbb\xbf", TEXT.as_bytes()].concat(), Some("gbk"), "UTF-8"),
            (utf16, Some("gbk"), "UTF-16LE"),
            (encoded("shift_jis", "<meta charset=shift_jis><p>東京の秋</p>"), None, "Shift_JIS"),
            (format!("<meta charset=utf-16>{TEXT}").into_bytes(), None, "UTF-8"),
        ];
        for (bytes, charset, expected) in cases {
            let (text, name) = decode(bytes, &said(*charset));
            assert_eq!(name, *expected, "{charset:?}: {text}");
            assert!(!text.contains('\u{fffd}') && !text.contains('\u{feff}'), "{expected}: {text}");
            let known = ["北京", "臺北", "東京"].iter().any(|known| text.contains(known));
            assert!(known, "{expected}: {text}");
        }
    }
}
