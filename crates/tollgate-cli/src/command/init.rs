//! `tollgate init`: a commented configuration to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use crate::args::{Global, InitArgs};
use crate::failure::Failure;
use crate::output;

/// What is written. A test reads it back.
pub(crate) const TEMPLATE: &str = include_str!("../../assets/tollgate.toml");

pub(crate) fn run(global: &Global, args: &InitArgs) -> Result<u8, Failure> {
    let path = global.config.clone().unwrap_or_else(|| "tollgate.toml".into());
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    if args.force {
        options.create(true)
    } else {
        options.create_new(true)
    };
    let written = options.open(&path).and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    match written {
        Ok(()) => {
            output::err(&format!("wrote {}\n", path.display()));
            Ok(0)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Err(Failure::usage(format!("`{}` exists already", path.display())).hint("write over it with --force"))
        }
        Err(error) => Err(Failure::usage(format!("`{}` cannot be written: {error}", path.display()))),
    }
}
