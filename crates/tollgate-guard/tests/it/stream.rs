//! The filter: any length, any bytes, any split, and never less than a text by itself would lose.

use std::io::{Cursor, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use tollgate_guard::redact::{Redactor, filter};
use tollgate_types::Secret;

fn filtered(redactor: &Redactor, input: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    filter(redactor, Cursor::new(input), &mut output).unwrap();
    output
}

/// Hands over a few bytes at a time.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(buffer.len()).min(self.0.len());
        let (now, later) = self.0.split_at(count);
        buffer.iter_mut().zip(now).for_each(|(slot, byte)| *slot = *byte);
        self.0 = later;
        Ok(count)
    }
}

fn plain() -> Redactor {
    Redactor::new(
        b"install key",
        [Secret::new("zq-injected-secret"), Secret::new("first-long-line-of-it-all\nsecond-long-line-of-it-all")],
    )
}

fn has(output: &[u8], text: &str) -> bool {
    output.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn what_is_no_text_passes_through() {
    let redactor = plain();
    for bytes in [&b"\xff\xfe\x00abc\xc3\n\x80"[..], b"", b"\n", b"no end", b"\r\n\r\n", b"caf\xe9 \xe5\xaf"] {
        assert_eq!(filtered(&redactor, bytes), bytes);
    }
    let output = filtered(&redactor, b"\xff password=hunt\xe4r2-Zq \xfe zq-injected-secret\n");
    assert!(
        output.starts_with(b"\xff password=[redacted:") && !has(&output, "r2-Zq") && !has(&output, "zq-inj"),
        "{}",
        output.escape_ascii()
    );
    assert!(has(&output, " ") && output.contains(&0xfe));
}

#[test]
fn lines_of_json_and_of_text_are_both_read() {
    let input = "start\n{\"pass\\u0077ord\":\"zq-1\"}\r\n{\"a\":1}\npassword: zq-22\n{\"p\u{430}ssword\": \"zq-3\"}";
    let output = String::from_utf8(filtered(&plain(), input.as_bytes())).unwrap();
    assert!(!output.contains("zq-"), "{output}");
    assert!(output.starts_with("start\n") && output.contains("\r\n{\"a\":1}\npassword: "), "{output}");
    let pretty = "{\n  \"credentials\": {\n    \"a\": \"zq-1\"\n  },\n  \"b\": [1, 2]\n}\n";
    let output = String::from_utf8(filtered(&plain(), pretty.as_bytes())).unwrap();
    assert!(!output.contains("zq-") && output.ends_with("}\n"), "{output}");
}

#[test]
fn secrets_at_the_border_of_blocks_go_too() {
    let redactor = plain();
    let key: String = (0..40)
        .map(|line| format!("{}\n", STANDARD.encode(format!("line {line} of the private key, forty-eight bytes!!"))))
        .collect();
    let secrets = [
        "zq-injected-secret".to_owned(),
        STANDARD.encode("..zq-injected-secret.."),
        "password=hunter2-hunter2-hunter2".into(),
        "first-long-line-of-it-all\nsecond-long-line-of-it-all".into(),
        format!("-----BEGIN PRIVATE KEY-----\n{key}-----END PRIVATE KEY-----"),
        format!("\"credentials\": {{\n{}}}", "  \"x\": \"hunter2-hunter2\",\n".repeat(50)),
    ];
    let parts = ["injected", "enEtaW5qZWN0", "hunter2", "long-line", "bGluZSAzOSBvZiB0aGUg", "hunter2"];
    for (secret, part) in secrets.iter().zip(parts) {
        for filler in ["plain words without end ", "line\n", "x"] {
            for back in [0, 1, 7, secret.len() / 2, secret.len() + 3] {
                let head = filler.repeat((1024 * 1024 - back) / filler.len());
                let tail = "\nand more\n".repeat(20_000);
                let input = format!("{head} {secret} {tail}");
                let output = filtered(&redactor, input.as_bytes());
                assert!(!has(&output, part), "{part} after {filler:?}, {back} back");
                assert!(output.starts_with(head.as_bytes()) && output.ends_with(tail.as_bytes()), "{part} {filler:?}");
            }
        }
    }
}

#[test]
fn memory_is_bounded_and_nothing_is_lost() {
    let redactor = plain();
    let line = "2026-11-30 the tool search_files took 12 ms, status=done\n";
    let input = line.repeat(100_000);
    assert_eq!(filtered(&redactor, input.as_bytes()), input.as_bytes());
    let one_line = "a,".repeat(2_000_000);
    assert_eq!(filtered(&redactor, one_line.as_bytes()), one_line.as_bytes());
    let endless = format!("\"password\": [{}", "\"hunter2\", ".repeat(1_500_000));
    let mut output = Vec::new();
    assert!(filter(&redactor, Cursor::new(endless), &mut output).is_err());
    assert!(!has(&output, "hunter2"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn how_the_input_arrives_changes_nothing(text in "(password=|hunter2|zq-injected-secret| |\n|密码|\\{\"token\":\"abcdef12\"\\}\n){0,40}", size in 1_usize..9) {
        let redactor = plain();
        let mut dripped = Vec::new();
        filter(&redactor, Drip(text.as_bytes(), size), &mut dripped).unwrap();
        prop_assert_eq!(&dripped, &filtered(&redactor, text.as_bytes()));
        prop_assert_eq!(filtered(&redactor, &dripped), dripped);
    }
}
