//! Text as a person may see it: nothing that a terminal would obey, that is not drawn, or that changes the order of what
//! is drawn. Everything is still there, as an escape. Whether a text is harmless is not said here.

use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;

/// Marks that may sit on one letter; more of them would be drawn over the neighbouring lines.
pub const MARKS_MAX: usize = 4;
/// The same blank so often within a text is written as a number.
const BLANKS_MAX: usize = 16;
/// What is surely seen at a glance, in lines.
const LINES_SEEN: usize = 40;
/// The same in characters.
const CHARS_SEEN: usize = 4_000;

/// Whether a character is not drawn, or steers how others are: controls, Unicode's Default_Ignorable_Code_Point and
/// Bidi_Control (UAX #44), separators of lines, the blank braille pattern, annotations, private use and what is no
/// character.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{2800}' | '\u{3164}' | '\u{E000}'..='\u{F8FF}' | '\u{FDD0}'..='\u{FDEF}'
            | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
            | '\u{FFFE}'..='\u{FFFF}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}' | '\u{F0000}'..='\u{10FFFF}')
}

/// Marks that are drawn on the letter before them.
pub fn is_mark(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36F}' | '\u{483}'..='\u{489}' | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}'
        | '\u{20D0}'..='\u{20FF}' | '\u{FE20}'..='\u{FE2F}')
}

/// Symbols that are drawn as text or as an emoji, by the selector behind them (UTS #51): one there hides nothing.
pub fn has_styles(c: char) -> bool {
    matches!(c, '#' | '*' | '0'..='9' | '©' | '®' | '\u{203C}'..='\u{3299}' | '\u{1F000}'..='\u{1FAFF}')
        && !is_hidden(c)
}

/// Text with everything that is hidden as an escape, but line ends and tabs.
///
/// ```
/// assert_eq!(tollgate_types::visible::text("a\u{202E}txt.exe\n北京"), "a\\u{202e}txt.exe\n北京");
/// ```
pub fn text(text: &str) -> String {
    shown(text, |c| matches!(c, '\n' | '\t'))
}

/// The same on one line: what stands here can not begin another.
pub fn line(text: &str) -> String {
    shown(text, |_| false)
}

fn shown(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let (mut marks, mut before) = (0, None);
    for c in text.chars() {
        marks = if is_mark(c) { marks + 1 } else { 0 };
        let is_style = matches!(c, '\u{FE0E}' | '\u{FE0F}') && before.is_some_and(has_styles);
        before = Some(c);
        if is_kept(c) || is_style || marks <= MARKS_MAX && !is_hidden(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
    }
    shown
}

/// The same as a block that nothing in it can leave: each line behind two spaces.
pub fn block(text: &str) -> String {
    self::text(text).split('\n').map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

/// A value as JSON on many lines for people. A blank that is repeated for long is written as its number: `\u{20*300}`
/// stands for 300 spaces, and no text can say so itself, for its backslashes are doubled.
pub fn pretty(value: &Value) -> String {
    folded(&text(&format!("{value:#}")))
}

fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            out.push('\n');
        }
        let inner = line.trim_start_matches(' ');
        // The indentation is not part of a text.
        out.extend(std::iter::repeat_n(' ', line.len() - inner.len()));
        fold_line(inner, &mut out);
    }
    out
}

fn fold_line(line: &str, out: &mut String) {
    let mut run: Option<(char, usize)> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        let blank = match (c, escaped) {
            ('\\', Some('n')) => Some('\n'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some('t')) => Some('\t'),
            (c, None) if c.is_whitespace() => Some(c),
            _ => None,
        };
        run = match (run, blank) {
            (Some((same, count)), Some(blank)) if same == blank => Some((same, count + 1)),
            (before, blank) => {
                write_blanks(before, out);
                blank.map(|blank| (blank, 1))
            }
        };
        if blank.is_none() {
            out.push(c);
            out.extend(escaped);
        }
    }
    write_blanks(run, out);
}

fn write_blanks(run: Option<(char, usize)>, out: &mut String) {
    let Some((blank, count)) = run else { return };
    if count > BLANKS_MAX {
        out.push_str(&format!("\\u{{{:x}*{count}}}", u32::from(blank)));
        return;
    }
    let one = match blank {
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        other => return out.extend(std::iter::repeat_n(other, count)),
    };
    out.push_str(&one.repeat(count));
}

/// How large a text is, where so much of it does not fit on a screen.
pub fn size(text: &str) -> Option<String> {
    let (lines, chars) = (text.lines().count(), text.chars().count());
    (lines > LINES_SEEN || chars > CHARS_SEEN).then(|| format!("This has {lines} lines and {chars} characters"))
}

/// A value as one line of JSON in which everything hidden is a `\u` escape: the same value to a program, and safe to look
/// at.
///
/// # Errors
/// When the value cannot be JSON.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Escaping))?;
    String::from_utf8(bytes).map_err(serde::ser::Error::custom)
}

struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if !fragment.chars().any(is_hidden) {
            return writer.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if is_hidden(c) {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                writer.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is hidden or obeyed is shown; what is read stays as it is.
    #[test]
    fn every_kind_of_hiding_is_seen() {
        for (hidden, seen) in [
            ("a\x1b[2Kb", "a\\u{1b}[2Kb"),
            ("a\u{9b}2Kb", "a\\u{9b}2Kb"),
            ("a\u{7f}\u{8}b", "a\\u{7f}\\u{8}b"),
            ("a\rb", "a\\u{d}b"),
            ("a\u{202E}txt.exe", "a\\u{202e}txt.exe"),
            ("a\u{2067}b\u{2069}", "a\\u{2067}b\\u{2069}"),
            ("rm\u{200B} -rf", "rm\\u{200b} -rf"),
            ("a\u{E0072}\u{E006D}b", "a\\u{e0072}\\u{e006d}b"),
            ("a\u{FE01}\u{E0101}b", "a\\u{fe01}\\u{e0101}b"),
            ("a\u{AD}\u{3164}\u{2800}\u{34F}b", "a\\u{ad}\\u{3164}\\u{2800}\\u{34f}b"),
            ("⚠\u{FE0F}\u{FE0F}a\u{FE0F}", "⚠\u{FE0F}\\u{fe0f}a\\u{fe0f}"),
            ("a\u{2028}b\u{85}c", "a\\u{2028}b\\u{85}c"),
            ("a\u{F0000}\u{FFF9}", "a\\u{f0000}\\u{fff9}"),
        ] {
            assert_eq!(text(hidden), seen);
            assert_eq!(line(hidden), seen);
        }
        let zalgo = format!("e{}", "\u{301}".repeat(6));
        assert_eq!(text(&zalgo), format!("e{}\\u{{301}}\\u{{301}}", "\u{301}".repeat(4)));
        for plain in ["北京\tok\n", "退款 50 元，订单 A103。", "naïve e\u{301}", "👍 ok", "⚠️ 1️⃣ ❤️", "नमस्ते", "ไม่"]
        {
            assert_eq!(text(plain), plain);
        }
        assert_eq!(line("a\nApprove? pay"), "a\\u{a}Approve? pay");
        assert_eq!(block("a\nb\r\nc"), "  a\n  b\\u{d}\n  c");
    }

    #[test]
    fn json_is_the_same_value_and_safe_to_look_at() {
        let value = json!({"path": "a\u{202E}b\u{E0072}\u{9b}31m", "城市": "北京", "n": [1, null, "\u{1b}[0m\n"]});
        let written = json(&value).unwrap();
        assert!(!written.chars().any(is_hidden), "{written}");
        assert!(written.contains("北京") && written.contains(r"a\u202eb\udb40\udc72\u009b31m"), "{written}");
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
    }

    #[test]
    fn blanks_do_not_push_anything_out_of_sight() {
        let pad = |blank: &str, count: usize| format!("safe{}; rm -rf /", blank.repeat(count));
        for (value, seen) in [
            (pad(" ", 300), r"safe\u{20*300}; rm -rf /"),
            (pad("\n", 5000), r"safe\u{a*5000}; rm -rf /"),
            (pad("\t", 17), r"safe\u{9*17}; rm -rf /"),
            (pad("\u{3000}", 99), r"safe\u{3000*99}; rm -rf /"),
            (pad(" ", 16), &pad(" ", 16)),
            (pad("\n", 2), r"safe\n\n; rm -rf /"),
            (r"safe\u{20*9}".to_owned(), r"safe\\u{20*9}"),
            (r"a\\n\n\\".to_owned(), r"a\\\\n\\n\\\\"),
        ] {
            assert_eq!(pretty(&json!({ "x": value })), format!("{{\n  \"x\": \"{seen}\"\n}}"));
        }
        let deep = json!([[[[[[[[[["x"]]]]]]]]]]);
        assert_eq!(pretty(&deep), format!("{deep:#}"), "the indentation is kept");
        assert_eq!(pretty(&json!("\u{202e}")), r#""\u{202e}""#);
    }
}
