//! Counting as OpenAI's models since `gpt-4o` do: the encoding `o200k_base`. Its vocabulary lies packed in the binary, and is
//! made ready when somebody counts for the first time: a second of work, and some 90 MB from then on.

use std::io::Read;
use std::sync::OnceLock;

use bpe_openai::Tokenizer;
use bpe_openai::byte_pair_encoding::BytePairEncoding;
use flate2::read::DeflateDecoder;

/// One token after the other, each behind its length.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k.deflate"));

/// The hash factor under which no two tokens of this vocabulary collide, as `bpe-openai` found it.
const HASH_FACTOR: u64 = 17_846_336_922_010_275_747;

/// How a text is taken apart before it is encoded. The last character of the second pattern is looked at only; it stands for
/// the `\s+(?!\S)` of OpenAI's own pattern.
const WORDS: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+$"
);
const PATTERNS: [(&str, bool); 3] = [(WORDS, false), (r"\s+\s", true), (r"\s+", false)];

static READY: OnceLock<Option<Tokenizer>> = OnceLock::new();

/// The names of models that count so, as far as they begin.
const MODELS: [&str; 8] = ["gpt-4o", "chatgpt-4o", "gpt-4.1", "gpt-4.5", "gpt-5", "gpt-oss", "o1", "o3"];
/// One that is no beginning of others.
const MODEL_O4: &str = "o4-mini";

/// Whether the model counts so. A gateway puts the provider before the name: `openai/gpt-4o`.
pub(super) fn is_of(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let begins = |known: &str| name.strip_prefix(known).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
    MODELS.into_iter().chain([MODEL_O4]).any(begins)
}

/// The counter, where it is ready.
pub(super) fn ready() -> Option<&'static Tokenizer> {
    READY.get()?.as_ref()
}

/// Makes it ready.
pub(super) fn prepare() -> Option<&'static Tokenizer> {
    READY.get_or_init(unpack).as_ref()
}

fn unpack() -> Option<Tokenizer> {
    let mut lines = Vec::new();
    DeflateDecoder::new(PACKED).read_to_end(&mut lines).ok()?;
    let mut tokens = Vec::new();
    let mut rest = lines.as_slice();
    while let [length, tail @ ..] = rest {
        let (token, tail) = tail.split_at_checked(usize::from(*length))?;
        tokens.push(token.to_vec());
        rest = tail;
    }
    Tokenizer::new_lookahead(BytePairEncoding::from_dictionary(tokens, Some(HASH_FACTOR)), &PATTERNS, false).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_as_the_library_does() {
        let ours = prepare().unwrap();
        let theirs = bpe_openai::o200k_base();
        let texts = [
            "",
            " ",
            "hello  world\n\n\n  x\t\n",
            "工具层决定一次调用能否发生。库存还有 42 个。",
            "It's 1234567 o'clock, isn't it?  ",
            r#"{"path":"README.md","n":[1,2,3]}"#,
            "😀🚀 →…— Ünïcödé ЖЖЖ\u{200b}",
            include_str!("o200k.rs"),
        ];
        for text in texts {
            assert_eq!(ours.encode(text), theirs.encode(text), "{text}");
        }
    }

    #[test]
    fn a_model_is_known_by_its_name() {
        for name in
            ["gpt-4o", "gpt-4o-mini", "openai/gpt-5", "GPT-4.1-nano", "o1", "o3-mini", "o4-mini", "gpt-oss-120b"]
        {
            assert!(is_of(name), "{name}");
        }
        for name in ["gpt-4", "gpt-3.5-turbo", "gpt-4-turbo", "qwen3", "o1000", "olmo", "deepseek-chat", "", "gpt-50x"]
        {
            assert!(!is_of(name), "{name}");
        }
    }
}
