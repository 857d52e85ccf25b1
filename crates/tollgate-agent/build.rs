//! Writes the vocabulary of OpenAI's models as `bpe-openai` has it, packed: a sixteenth of what it is ready for use, which
//! would double the binary (docs/decisions/0016).

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let vocabulary = &bpe_openai::o200k_base().bpe;
    let mut lines = Vec::new();
    for id in 0..u32::try_from(vocabulary.num_tokens()).map_err(io::Error::other)? {
        let token = vocabulary.token_bytes(id);
        lines.push(u8::try_from(token.len()).map_err(io::Error::other)?);
        lines.extend_from_slice(token);
    }
    let folder = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo says no OUT_DIR"))?;
    let level = flate2::Compression::best();
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), level);
    io::Write::write_all(&mut packed, &lines)?;
    fs::write(Path::new(&folder).join("o200k.deflate"), packed.finish()?)
}
