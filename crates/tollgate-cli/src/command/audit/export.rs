//! `tollgate audit export`: records for other programs, into a file that is there whole or not at all.

use std::fs;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use tollgate::ledger::{ExportFormat, LedgerError};

use super::query::{filter, index, wrong};
use crate::args::{ExportArgs, FormatArg, Global};
use crate::failure::Failure;
use crate::output;

pub(super) fn run(global: &Global, args: &ExportArgs) -> Result<u8, Failure> {
    let FormatArg::Export(format) = args.format else {
        return Err(Failure::usage("say what to write: --format jsonl, csv, parquet or ocsf"));
    };
    let filter = filter(&args.filter)?;
    if args.out.is_none() && format == ExportFormat::Parquet && io::stdout().is_terminal() {
        return Err(Failure::usage("a Parquet file is nothing for a terminal").hint("add --out FILE"));
    }
    let mut index = index(global)?;
    let Some(path) = &args.out else {
        // Not locked: the export asks for a writer that any thread could use.
        return match index.export(&filter, format, BufWriter::new(io::stdout())) {
            Err(LedgerError::Unavailable { cause, .. }) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(0),
            Err(error) => Err(wrong(&error)),
            Ok(_) => Ok(0),
        };
    };
    let mut count = 0;
    write_whole(path, |file| {
        count = index.export(&filter, format, BufWriter::new(file)).map_err(|error| wrong(&error))?;
        Ok(())
    })?;
    if !global.quiet {
        output::err(&format!("{count} written to {}\n", path.display()));
    }
    Ok(0)
}

/// Writes a file beside `path` and puts it in its place when it is whole.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut fs::File) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::usage(format!("`{}` cannot be written: {error}", path.display()));
    if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
        let message = format!("`{}` is there and is no regular file", path.display());
        return Err(Failure::usage(message).hint("name another file, or leave it out and use a pipe"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(folder).map_err(cannot)?;
    write(file.as_file_mut())?;
    file.as_file_mut().flush().and_then(|()| file.as_file().sync_all()).map_err(cannot)?;
    file.persist(path).map_err(|error| cannot(error.error))?;
    Ok(())
}
